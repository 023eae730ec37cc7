// Threads, pauses and the identity of the loaded libgc; see gc_run.h.
#include "gc_run.h"

#define GC_THREADS
#include <dlfcn.h>
#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "gc.h"
#include "gleaner.h"

namespace bench {

bool g_measure_gaps = false;

namespace {

// Of a thread that runs a measured body.
struct Gaps {
  LatencyHistogram histogram;
  uint64_t last_ns;
};
thread_local Gaps* t_gaps = nullptr;

// Of the threads of RunThreads, which one thread calls at a time.
pthread_barrier_t g_barrier;

// Written by the thread that collects, under the collector's lock.
std::atomic<uint64_t> g_pause_began_ns{0};
std::atomic<uint64_t> g_pause_count{0};
std::atomic<uint64_t> g_pause_sum_ns{0};
std::atomic<uint64_t> g_pause_max_ns{0};

extern "C" void OnCollectionEvent(GC_EventType event) {
  if (event == GC_EVENT_PRE_STOP_WORLD) {
    g_pause_began_ns = NowNs();
  } else if (event == GC_EVENT_POST_START_WORLD) {
    const uint64_t ns = NowNs() - g_pause_began_ns;
    ++g_pause_count;
    g_pause_sum_ns += ns;
    g_pause_max_ns = std::max<uint64_t>(g_pause_max_ns, ns);
  }
}

void ResetPauses() {
  g_pause_count = 0;
  g_pause_sum_ns = 0;
  g_pause_max_ns = 0;
}

Measurement Summarise(uint64_t began_ns, uint64_t ended_ns, uint64_t collections) {
  Measurement measurement;
  measurement.seconds = static_cast<double>(ended_ns - began_ns) * 1e-9;
  measurement.collections = collections;
  measurement.pauses = g_pause_count;
  if (measurement.pauses != 0) {
    measurement.pause_mean_ms =
        static_cast<double>(g_pause_sum_ns) * 1e-6 / static_cast<double>(measurement.pauses);
  }
  measurement.pause_max_ms = static_cast<double>(g_pause_max_ns) * 1e-6;
  return measurement;
}

struct Worker {
  const std::function<void(int)>* body;
  int index;
  uint64_t began_ns;
  uint64_t ended_ns;
  Gaps gaps;
};

void* WorkerMain(void* argument) {
  auto* worker = static_cast<Worker*>(argument);
  pthread_barrier_wait(&g_barrier);
  worker->began_ns = worker->gaps.last_ns = NowNs();
  if (g_measure_gaps) t_gaps = &worker->gaps;
  (*worker->body)(worker->index);
  t_gaps = nullptr;
  worker->ended_ns = NowNs();
  return nullptr;
}

void* ReturnAtOnce(void*) { return nullptr; }

// The share of pages that another thread had touched first; -1 on libgc.
double RemoteShare() {
  auto* get_stats =
      reinterpret_cast<decltype(&gleaner_get_stats)>(dlsym(RTLD_DEFAULT, "gleaner_get_stats"));
  gleaner_stats stats = {};
  if (get_stats == nullptr || get_stats(&stats, sizeof stats) < sizeof stats) return -1;
  return stats.pages_taken == 0
             ? 0
             : static_cast<double>(stats.remote_pages) / static_cast<double>(stats.pages_taken);
}

std::string LoadedLibrary() {
  Dl_info info;
  void* symbol = dlsym(RTLD_DEFAULT, "GC_malloc");
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return "?";
  char* resolved = realpath(info.dli_fname, nullptr);
  const std::string path = resolved != nullptr ? resolved : info.dli_fname;
  std::free(resolved);
  return path;
}

}  // namespace

void RecordGap() {
  if (t_gaps == nullptr) return;
  const uint64_t now = NowNs();
  t_gaps->histogram.Record(now - t_gaps->last_ns);
  t_gaps->last_ns = now;
}

void ForgetProgress() {
  if (t_gaps != nullptr) t_gaps->last_ns = NowNs();
}

void WaitForAll() {
  pthread_barrier_wait(&g_barrier);
  ForgetProgress();
}

void InitGc(const Options& options) {
  g_measure_gaps = options.gaps();
  GC_INIT();
  GC_set_on_collection_event(OnCollectionEvent);
  if (!options.wake_markers()) return;
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, ReturnAtOnce, nullptr);
  if (error != 0) Fail("pthread_create: %s", std::strerror(error));
  pthread_join(thread, nullptr);
}

Measurement RunThreads(int threads, const std::function<void(int)>& body) {
  pthread_barrier_init(&g_barrier, nullptr, static_cast<unsigned>(threads));
  std::vector<Worker> workers(static_cast<size_t>(threads));
  std::vector<pthread_t> handles(static_cast<size_t>(threads));
  for (int i = 0; i < threads; ++i) workers[i] = Worker{&body, i, 0, 0, {}};
  for (int i = 1; i < threads; ++i) {
    const int error = pthread_create(&handles[i], nullptr, WorkerMain, &workers[i]);
    if (error != 0) Fail("pthread_create of thread %d: %s", i, std::strerror(error));
  }
  ResetPauses();
  const uint64_t collections_before = GC_get_gc_no();
  WorkerMain(&workers[0]);
  for (int i = 1; i < threads; ++i) pthread_join(handles[i], nullptr);
  const uint64_t collections = GC_get_gc_no() - collections_before;
  pthread_barrier_destroy(&g_barrier);
  uint64_t began = workers[0].began_ns;
  uint64_t ended = workers[0].ended_ns;
  for (const Worker& worker : workers) {
    began = std::min(began, worker.began_ns);
    ended = std::max(ended, worker.ended_ns);
  }
  Measurement measurement = Summarise(began, ended, collections);
  for (const Worker& worker : workers) measurement.gaps.Add(worker.gaps.histogram);
  return measurement;
}

void AddGcResult(const Measurement& measurement, ResultLine* result) {
  result->Real("seconds", measurement.seconds);
  result->Count("collections", measurement.collections);
  result->Count("pauses", measurement.pauses);
  result->Real("pause_mean_ms", measurement.pause_mean_ms);
  result->Real("pause_max_ms", measurement.pause_max_ms);
  if (g_measure_gaps) measurement.gaps.AddTo(result, "gap");
  result->Count("incremental", GC_is_incremental_mode() != 0);
  result->Real("heap_mb", static_cast<double>(GC_get_heap_size()) * 1e-6);
  if (const double share = RemoteShare(); share >= 0) result->Real("remote_share", share);
  result->Text("lib", LoadedLibrary());
}

void PrintRun(const Options& options, const Measurement& measurement, double operations,
              uint64_t checksum, ResultLine* result) {
  result->Count("threads", static_cast<uint64_t>(options.threads()));
  result->Real("ops_per_second", operations / measurement.seconds);
  result->Hex("checksum", checksum);
  AddGcResult(measurement, result);
  result->Print();
}

__attribute__((noinline)) void ClearDeadStack() {
  volatile char dead[32 * 1024];
  for (volatile char& byte : dead) byte = 0;
}

}  // namespace bench
