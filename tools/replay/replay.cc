#include "tools/replay/replay.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "platform/os/atomic.h"
#include "platform/os/clock.h"
#include "tools/common/text.h"
#include "tools/replay/replay_heap.h"
#include "tools/replay/replay_plan.h"
#include "tools/system/memory_figures.h"
#include "tools/system/whole_file.h"

namespace {

namespace platform = gleaner::platform;
namespace tools = gleaner::tools;
using gleaner::kMiB;
using gleaner::record::FileState;
using platform::Atomic;
using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;

constexpr int kFailed = 1;
constexpr int kDamaged = 2;
// A thread reports its progress after this many operations, or fewer if samples are closer.
constexpr uint64_t kReportEvery = 64;
// Operations between two samples if no CSV file was asked for: sampling then takes less than a
// hundredth of the time.
constexpr uint64_t kOperationsPerSample = 65536;
constexpr size_t kTouchStep = 4096;
constexpr size_t kStackBytes = 256 * gleaner::kKiB;

struct Slot {
  // The turn of the operation that may be done next. The previous operation stores it with release
  // and the next one loads it with acquire. So that one sees `p` and `size`, and has them for
  // itself until it passes the turn on.
  Atomic<uint32_t> turn;
  void* p;
  uint64_t size;
};

struct Sample {
  uint64_t operation;
  int64_t live_bytes;
  int64_t live_blocks;
  tools::MemoryNow memory;
  uint64_t heap_addresses;
};

double Mb(double bytes) { return bytes / 1e6; }

// One replay. Call order: Go once, then the const functions; all on one thread.
class Run {
 public:
  Run(const ReplayPlan& plan, ReplayHeap* heap, const ReplayOptions& options)
      : plan_(plan), heap_(heap), touch_(options.touch) {
    const uint64_t total = plan.operation_count();
    points_ = options.csv.empty() ? std::min<uint64_t>(64, total / kOperationsPerSample)
                                  : std::min<uint64_t>(options.points, total);
    report_every_ =
        points_ == 0 ? kReportEvery : std::clamp<uint64_t>(total / points_ / 4, 1, kReportEvery);
  }

  // Replays the plan and waits for all threads. False if the system refuses memory; aborts if a
  // thread cannot be created.
  bool Go();
  void PrintResult() const;
  bool WriteCsv(const char* path) const;
  uint64_t refused() const { return refused_.Load(memory_order_relaxed); }  // all threads ended

 private:
  // A thread's operations since its last report.
  struct Progress {
    uint64_t operations = 0;
    int64_t bytes = 0;
    int64_t blocks = 0;
  };
  struct Start {
    Run* run;
    uint32_t thread;
  };

  static void* ThreadMain(void* start);
  void Work(uint32_t thread);
  void Do(const Operation& operation, Progress* progress);
  void Allocate(const Operation& operation, Slot* slot, Progress* progress);
  void Spawn(uint32_t thread);
  void Report(Progress* progress);
  void TakeSample(uint64_t operation);
  void TouchBytes(void* p, uint64_t begin, uint64_t end) const;

  const ReplayPlan& plan_;
  ReplayHeap* const heap_;
  const Touch touch_;
  uint64_t points_;
  uint64_t report_every_;
  gleaner::alloc::ReservedArray<Slot> slots_;
  gleaner::alloc::ReservedArray<Start> starts_;
  gleaner::alloc::ReservedArray<Sample> samples_;
  tools::MemoryNow before_;
  tools::MemoryPeaks peaks_before_;
  tools::MemoryPeaks peaks_;
  uint64_t ns_ = 0;

  // Any thread. Relaxed: counts, read as samples or when all threads have ended.
  Atomic<uint64_t> done_{0};
  Atomic<int64_t> live_bytes_{0};
  Atomic<int64_t> live_blocks_{0};
  Atomic<uint64_t> refused_{0};
  Atomic<uint64_t> sample_ns_{0};
  // Threads that have not ended. A thread that ends lowers it with release; Go, which waits for 0,
  // loads it with acquire.
  Atomic<uint32_t> running_{0};
  // Index of the next sample. Written by the holder of sampling_; others read it as a hint.
  Atomic<uint64_t> next_point_{0};
  Atomic<uint32_t> sampling_{0};  // 1: held; a lock that no thread waits for
};

void Run::TouchBytes(void* p, uint64_t begin, uint64_t end) const {
  if (touch_ == Touch::kNone || begin >= end) return;
  auto* bytes = static_cast<volatile char*>(p);
  bytes[begin] = 1;
  if (touch_ == Touch::kFirst) return;
  for (uint64_t at = gleaner::AlignUp(begin + 1, kTouchStep); at < end; at += kTouchStep) {
    bytes[at] = 1;
  }
}

void Run::Allocate(const Operation& operation, Slot* slot, Progress* progress) {
  const uint64_t size = operation.size;
  const size_t alignment =
      operation.alignment_log2 == 0 ? 0 : size_t{1} << operation.alignment_log2;
  slot->p = static_cast<OperationKind>(operation.kind) == OperationKind::kZeroed
                ? heap_->AllocateZeroed(size)
                : heap_->Allocate(size, alignment);
  if (slot->p == nullptr) {
    refused_.FetchAdd(1, memory_order_relaxed);  // a count
    return;
  }
  slot->size = size;
  TouchBytes(slot->p, 0, size);
  progress->bytes += static_cast<int64_t>(size);
  ++progress->blocks;
}

void Run::Do(const Operation& operation, Progress* progress) {
  const auto kind = static_cast<OperationKind>(operation.kind);
  if (kind == OperationKind::kSpawn) {
    Spawn(operation.block);
    return;
  }
  Slot& slot = slots_[operation.block];
  // Acquire: pairs with the release by the block's previous operation, below.
  for (uint32_t spins = 0; slot.turn.Load(memory_order_acquire) != operation.turn; ++spins) {
    if (spins < 64) {
      platform::CpuRelax();
    } else {
      sched_yield();
    }
  }
  switch (kind) {
    case OperationKind::kAllocate:
    case OperationKind::kZeroed:
      Allocate(operation, &slot, progress);
      break;
    case OperationKind::kFree:
      if (slot.p == nullptr) break;  // its allocation was refused
      heap_->Free(slot.p);
      slot.p = nullptr;
      progress->bytes -= static_cast<int64_t>(slot.size);
      --progress->blocks;
      break;
    case OperationKind::kResize: {
      if (slot.p == nullptr) {
        Allocate(operation, &slot, progress);
        break;
      }
      void* resized = heap_->Resize(slot.p, slot.size, operation.size);
      if (resized == nullptr) {
        refused_.FetchAdd(1, memory_order_relaxed);  // a count
        break;
      }
      TouchBytes(resized, slot.size, operation.size);
      progress->bytes += static_cast<int64_t>(operation.size) - static_cast<int64_t>(slot.size);
      slot.p = resized;
      slot.size = operation.size;
      break;
    }
    case OperationKind::kSpawn:
      break;
  }
  slot.turn.Store(operation.turn + 1, memory_order_release);  // pairs with the next Do
}

void Run::Work(uint32_t thread) {
  Progress progress;
  const Operation* end = plan_.end(thread);
  for (const Operation* operation = plan_.begin(thread); operation != end; ++operation) {
    Do(*operation, &progress);
    if (++progress.operations == report_every_) Report(&progress);
  }
  Report(&progress);
}

void Run::Report(Progress* progress) {
  // Relaxed: counts.
  live_bytes_.FetchAdd(progress->bytes, memory_order_relaxed);
  live_blocks_.FetchAdd(progress->blocks, memory_order_relaxed);
  const uint64_t done =
      done_.FetchAdd(progress->operations, memory_order_relaxed) + progress->operations;
  *progress = {};
  if (points_ == 0) return;
  // Relaxed: a hint; TakeSample looks again under sampling_.
  const uint64_t point = next_point_.Load(memory_order_relaxed);
  if (point < points_ && done >= (point + 1) * plan_.operation_count() / points_) TakeSample(done);
}

void Run::TakeSample(uint64_t operation) {
  // Acquire: pairs with the release below; the holder alone writes samples_ and next_point_.
  if (sampling_.Exchange(1, memory_order_acquire) != 0) return;
  const uint64_t begin = platform::NowNs();
  uint64_t point = next_point_.Load(memory_order_relaxed);  // written under sampling_, held here
  if (point < points_ && operation >= (point + 1) * plan_.operation_count() / points_) {
    // Relaxed: counts that other threads may be changing.
    samples_[point] = {operation, live_bytes_.Load(memory_order_relaxed),
                       live_blocks_.Load(memory_order_relaxed), tools::ReadMemoryNow(),
                       heap_->AddressSpace()};
    next_point_.Store(point + 1, memory_order_relaxed);  // published by the release below
  }
  sample_ns_.FetchAdd(platform::NowNs() - begin, memory_order_relaxed);  // a count
  sampling_.Store(0, memory_order_release);  // pairs with the exchange above
}

void* Run::ThreadMain(void* start) {
  const Start& mine = *static_cast<Start*>(start);
  mine.run->Work(mine.thread);
  mine.run->running_.FetchSub(1, memory_order_release);  // pairs with the acquire in Go
  return nullptr;
}

void Run::Spawn(uint32_t thread) {
  starts_[thread] = {this, thread};
  // Relaxed: the caller has not ended, so that the count is not 0 and Go waits on.
  running_.FetchAdd(1, memory_order_relaxed);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_t id;
  const int error = pthread_create(&id, &attributes, ThreadMain, &starts_[thread]);
  pthread_attr_destroy(&attributes);
  if (error == 0) return;
  // Other threads wait for this thread's operations, so the replay cannot go on.
  gleaner::Fatal("replay: thread %u cannot be created: %s", thread, strerror(error));
}

bool Run::Go() {
  const size_t threads = plan_.thread_count();
  if (!slots_.Reserve(plan_.block_count()) || !slots_.EnsureCommitted(plan_.block_count()) ||
      !starts_.Reserve(threads) || !starts_.EnsureCommitted(threads) ||
      !samples_.Reserve(points_ + 1) || !samples_.EnsureCommitted(points_ + 1)) {
    return false;
  }
  // Makes the memory resident now, not by page faults during the run.
  memset(static_cast<void*>(slots_.data()), 0, plan_.block_count() * sizeof(Slot));
  memset(static_cast<void*>(samples_.data()), 0, (points_ + 1) * sizeof(Sample));

  tools::ResetPeakResident();
  before_ = tools::ReadMemoryNow();
  peaks_before_ = tools::ReadMemoryPeaks();
  const uint64_t begin = platform::NowNs();
  running_.Store(1, memory_order_relaxed);  // there is no other thread yet
  Work(0);
  running_.FetchSub(1, memory_order_relaxed);  // read by this thread only
  // Acquire: pairs with the release in ThreadMain.
  while (running_.Load(memory_order_acquire) != 0) sched_yield();
  ns_ = platform::NowNs() - begin;
  // Relaxed: all other threads have ended.
  if (threads == 1) ns_ -= std::min(ns_, sample_ns_.Load(memory_order_relaxed));
  peaks_ = tools::ReadMemoryPeaks();
  return true;
}

void Run::PrintResult() const {
  const uint64_t resident =
      peaks_.resident_bytes - std::min(peaks_.resident_bytes, before_.resident_bytes);
  uint64_t addresses = heap_->PeakAddressSpace();
  if (addresses == 0) {
    // Making the plan may have had a higher peak than the replay; then the peak of the samples is
    // used.
    uint64_t peak = tools::ReadMemoryNow().address_space_bytes;
    if (peaks_.address_space_bytes > peaks_before_.address_space_bytes) {
      peak = peaks_.address_space_bytes;
    }
    const uint64_t taken = next_point_.Load(memory_order_relaxed);  // all threads have ended
    for (uint64_t i = 0; i < taken; ++i) {
      peak = std::max(peak, samples_[i].memory.address_space_bytes);
    }
    addresses = peak - std::min(peak, before_.address_space_bytes);
  }
  const double seconds = static_cast<double>(ns_) / 1e9;
  const double live = static_cast<double>(plan_.peak_live_bytes());
  const auto operations = static_cast<double>(plan_.operation_count());
  printf("time                %.6f s\n", seconds);
  printf("rate                %.3f M operations/s\n",
         seconds > 0 ? operations / seconds / 1e6 : 0.0);
  printf("peak requested      %.3f MB\n", Mb(live));
  printf("peak resident       %.3f MB\n", Mb(static_cast<double>(resident)));
  printf("peak address space  %.3f MB\n", Mb(static_cast<double>(addresses)));
  printf("resident/requested  %.3f\n", live > 0 ? static_cast<double>(resident) / live : 0.0);
  printf("page faults         %llu minor, %llu major\n",
         static_cast<unsigned long long>(peaks_.minor_faults - peaks_before_.minor_faults),
         static_cast<unsigned long long>(peaks_.major_faults - peaks_before_.major_faults));
  if (refused() != 0) {
    printf("refused             %llu operations\n", static_cast<unsigned long long>(refused()));
  }
}

bool Run::WriteCsv(const char* path) const {
  tools::WholeFile whole;
  if (!whole.Open(path)) return false;
  FILE* file = whole.stream();
  fputs("operation,trace_ms,requested_bytes,blocks,resident_bytes,address_space_bytes\n", file);
  const uint64_t taken = next_point_.Load(memory_order_relaxed);  // all threads have ended
  for (uint64_t i = 0; i < taken; ++i) {
    const Sample& sample = samples_[i];
    const auto above = [](uint64_t value, uint64_t before) {
      return static_cast<unsigned long long>(value - std::min(value, before));
    };
    const uint64_t addresses = sample.heap_addresses;
    fprintf(file, "%llu,%llu,%lld,%lld,%llu,%llu\n",
            static_cast<unsigned long long>(sample.operation),
            static_cast<unsigned long long>(plan_.TimeOf(sample.operation)),
            static_cast<long long>(sample.live_bytes), static_cast<long long>(sample.live_blocks),
            above(sample.memory.resident_bytes, before_.resident_bytes),
            addresses != 0 ? static_cast<unsigned long long>(addresses)
                           : above(sample.memory.address_space_bytes, before_.address_space_bytes));
  }
  return whole.Commit();
}

const char* Describe(FileState state) {
  switch (state) {
    case FileState::kRecording:
      return "the program was killed, called _exit or exec, or is still running";
    case FileState::kEnded:
      return "the program ended";
    case FileState::kLimit:
      return "the recording stopped at the limit of the file's size";
    case FileState::kRefused:
      return "the recording stopped because the system refused space in the file";
  }
  return "";
}

void PrintTrace(const gleaner::record::TraceReader& trace, const ReplayPlan& plan) {
  printf("program             %s\n", trace.command().c_str());
  printf("recording           process %llu%s; %s\n",
         static_cast<unsigned long long>(trace.process()),
         trace.is_forked_child() ? ", forked from a recorded one" : "", Describe(trace.state()));
  printf("events              %llu\n", static_cast<unsigned long long>(trace.event_count()));
  printf("threads             %u\n", trace.thread_end());
  printf("operations          %llu\n", static_cast<unsigned long long>(plan.operation_count()));
  if (plan.unknown_frees() != 0) {
    printf("unknown blocks      %llu were freed or resized\n",
           static_cast<unsigned long long>(plan.unknown_frees()));
  }
  if (plan.lost_frees() != 0) {
    printf("lost ends           of %llu blocks\n",
           static_cast<unsigned long long>(plan.lost_frees()));
  }
}

}  // namespace

int Replay(const ReplayOptions& options) {
  const char* path = options.trace.c_str();
  const auto complain = [](const char* what, const char* why) {
    fflush(stdout);
    tools::Tell("replay", std::string(what) + ": " + why);
    return kFailed;
  };
  size_t bytes;
  int error;
  const uint8_t* data = tools::ReadWholeFile(path, &bytes, &error);
  if (error != 0) return complain(path, error == EINVAL ? "not a regular file" : strerror(error));
  ReplayPlan plan;
  bool damaged;
  {
    gleaner::record::TraceReader trace;
    const bool usable = trace.Open(data, bytes);
    damaged = !trace.damage().empty();
    if (damaged) {
      tools::Tell("replay", std::string(path) + ": damaged at byte " +
                                std::to_string(trace.damage_offset()) + ": " + trace.damage() +
                                (usable ? "; what precedes it is used" : ""));
    }
    if (!usable) return kFailed;
    if (!plan.Make(trace, options.one_thread)) return complain(path, "no memory for the plan");
    PrintTrace(trace, plan);
  }
  platform::Release(const_cast<uint8_t*>(data), gleaner::AlignUp(bytes, platform::OsPageBytes()));

  const uint64_t available = tools::AvailableMemory();
  if (options.touch == Touch::kPages && plan.peak_live_bytes() > available) {
    const std::string why = std::to_string(plan.peak_live_bytes() / kMiB) +
                            " MiB are live at a time, more than this machine has free; " +
                            "--touch none replays without using them";
    return complain(path, why.c_str());
  }
  const std::unique_ptr<ReplayHeap> heap =
      MakeReplayHeap(options.allocator, plan.peak_live_bytes());
  if (heap == nullptr) return complain(options.allocator.c_str(), "no memory for the heap");
  printf("allocator           %s\n", options.allocator.c_str());
  fflush(stdout);
  Run run(plan, heap.get(), options);
  if (!run.Go()) return complain(path, "no memory for the replay");
  run.PrintResult();
  if (!options.csv.empty() && !run.WriteCsv(options.csv.c_str())) {
    return complain(options.csv.c_str(), strerror(errno));
  }
  if (run.refused() != 0) return kFailed;
  return damaged ? kDamaged : 0;
}
