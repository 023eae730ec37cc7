#include "runtime/observe/tracing.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "alloc/metadata/meta.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "gc/collector.h"
#include "observe/trace_file.h"
#include "platform/os/cancellation.h"
#include "platform/os/process.h"
#include "platform/os/stalls.h"
#include "platform/threads/stop_world.h"
#include "runtime/collect/tracking.h"
#include "runtime/observe/heap_sample.h"
#include "runtime/observe/writer_lock.h"
#include "runtime/process/options.h"
#include "runtime/process/output_path.h"
#include "runtime/process/printing.h"

namespace gleaner::runtime {

namespace {

constexpr uint64_t kDrainEveryNs = 100'000'000;
constexpr uint64_t kLevelsEveryNs = 10'000'000;
constexpr uint64_t kSampleEveryNs = 1'000'000'000;
constexpr size_t kMaxPath = 4096;

// Of the thread that drains. Nobody waits for it but the process's last drain.
constinit WriterLock g_draining;

// Guarded by g_draining.
constinit platform::TraceFile g_file;
// No event of this process is older.
constinit uint64_t g_began_ns = 0;

// The process that g_file belongs to; 0: it is to be opened. Written under g_draining.
constinit platform::Hint<uint64_t> g_process{0};

// When rings were last drained, and levels last emitted.
constinit platform::Hint<uint64_t> g_drained_ns{0};
constinit platform::Hint<uint64_t> g_levels_ns{0};
// When the heap was last sampled. Guarded by g_draining.
constinit uint64_t g_sampled_ns = 0;

// The process of which a thread has come to ContinueTracing last.
constinit platform::Hint<uint64_t> g_continued{0};

char g_path[kMaxPath];  // constant after StartTracing: absolute

// The wall-clock time of g_began_ns.
uint64_t WallClockNs() {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1000000000u + static_cast<uint64_t>(now.tv_nsec) -
         (platform::NowNs() - g_began_ns);
}

// The description of the process: lines of key=value.
size_t Describe(char* text, size_t capacity) {
  static char command[2048];  // guarded by g_draining: a thread may have a small stack
  platform::ReadCommandLine(command, sizeof command);
  char host[256] = "";
  (void)gethostname(host, sizeof host - 1);
  const char* const rank = ProcessRank();
  static const char* const kModes[] = {"auto", "stop", "concurrent", "generational"};
  static const char* const kPolicies[] = {"lps", "al", "ps"};
  const int n = snprintf(
      text, capacity,
      "version=%s\nprocess=%d\nparent=%d\nrank=%s\nhost=%s\nbegan_ns=%llu\nbegan_wall_ns=%llu\n"
      "markers=%d\nmode=%s\npolicy=%s\nk=%g\npage_bytes=%zu\ncommand=%s\n",
      GLEANER_VERSION, getpid(), getppid(), rank != nullptr ? rank : "", host, AsNumber(g_began_ns),
      AsNumber(WallClockNs()), gc::g_collector.pool().size(), kModes[g_options.mode],
      kPolicies[g_options.policy], g_options.k, alloc::kPageBytes, command);
  return n < 0 ? 0 : static_cast<size_t>(n) < capacity ? static_cast<size_t>(n) : capacity - 1;
}

// A trace that cannot go on ends; the program does not.
void GiveUp(int error) {
  platform::StopTrace();
  Complain("cannot write the trace %s: %s; it ends here", g_file.path(), strerrordesc_np(error));
  g_file.Close();
}

bool Append(void*, const uint64_t* words, size_t count) {
  const int error = g_file.Append(words, count * sizeof *words);
  if (error != 0) GiveUp(error);
  return error == 0;
}

// Opens the first file of g_path, g_path.PROCESS, g_path.PROCESS.1 and so on that is not in use.
bool OpenFirstFree(bool is_child) {
  using Opened = platform::TraceFile::Opened;
  constexpr int kMaxNames = 100;
  static char name[kMaxPath + 32];  // guarded by g_draining: a thread may have a small stack
  for (int i = is_child ? 1 : 0; i <= kMaxNames; ++i) {
    if (!NameAttempt(g_path, i, name, sizeof name)) break;
    switch (g_file.Open(name)) {
      case Opened::kYes:
        return true;
      case Opened::kRefused:
        Complain("cannot write the trace %s: %s; there is none", name, strerrordesc_np(errno));
        return false;
      case Opened::kForeign:
        Complain("the trace %s: the file exists and is no trace; there is none", name);
        return false;
      case Opened::kInUse:
        break;
    }
  }
  Complain("the trace %s: all its names are in use; there is none", g_path);
  return false;
}

// Opens the file and writes its head.
bool OpenFile(bool is_child) {
  if (!OpenFirstFree(is_child)) return false;
  static char text[kMaxPath];
  platform::TraceFileHead head = platform::TraceFile::OwnHead();
  g_process.Set(head.process);
  const size_t bytes = Describe(text, sizeof text - 8);
  head.text_bytes = AlignUp(bytes, 8);
  memset(text + bytes, '\n', head.text_bytes - bytes);
  int error = g_file.Append(&head, sizeof head);
  if (error == 0) error = g_file.Append(text, head.text_bytes);
  if (error != 0) GiveUp(error);
  return error == 0;
}

// The process is a child, by fork or by a plain clone: its trace is a file of its own.
bool OpenChildsFile() {
  g_file.Leave();
  if (OpenFile(true)) return true;
  platform::StopTrace();
  return false;
}

uint64_t Self() { return static_cast<uint64_t>(getpid()); }

// pre: the caller holds g_draining, and the memory is this process's.
void DrainLocked(bool all) {
  // The trace may have ended since the caller asked; the lock makes that visible.
  if (!platform::HasTrace()) return;
  const platform::TraceScope span(platform::TraceEvent::kDrain);
  const uint64_t process = g_process.Get();
  if (process != Self()) {
    // A child by a plain clone has its parent's events in its rings.
    if (process != 0) {
      g_began_ns = platform::NowNs();
      platform::ResetTraceAfterFork();
    }
    if (!OpenChildsFile()) return;
  }
  (void)platform::DrainTrace(all, Append, nullptr);
}

void EmitLevels() {
  size_t free_pages = 0;
  for (const alloc::Space space : {alloc::Space::kScanned, alloc::Space::kPointerFree}) {
    free_pages += alloc::ThreadHeaps::ResidentFreePages(space);
  }
  platform::EmitTrace(platform::TraceEvent::kHeap, platform::NowNs(),
                      {alloc::ResidentBytes(), free_pages * alloc::kPageBytes, alloc::MetaBytes(),
                       platform::TracedLimit(alloc::GrowthLimit())});
  platform::EmitTrace(platform::TraceEvent::kUnswept, platform::NowNs(),
                      {gc::g_collector.UnsweptPages() * alloc::kPageBytes});
}

// Writes what is left. Threads may go on meanwhile; what they emit from now on is lost.
void EndTracing() {
  if (!platform::HasTrace() || platform::MemoryIsAnothers()) return;
  const platform::HandlersWait no_handlers;
  const platform::UncancellableSection section;
  // A child of fork that has not used the heap makes no file.
  if (g_process.Get() != Self() && g_continued.Get() != Self()) return;
  constexpr int kMaxMoments = 1000;  // the holder may have ended with the process's last thread
  if (!g_draining.AcquireWithin(kMaxMoments)) return;
  DrainLocked(true);
  if (platform::HasTrace()) {
    EmitLevels();
    EmitHeapSample();
    EmitNodeMemory();
    DrainLocked(true);
  }
  if (platform::HasTrace()) (void)platform::WriteEndsOfThreads(Append, nullptr);
  if (platform::HasTrace()) {
    platform::StopTrace();
    constexpr size_t kWords = 4;
    const uint64_t end[kWords] = {platform::TraceHeader(platform::TraceEvent::kEnd, kWords, 0),
                                  platform::NowNs(), platform::DroppedTraceEvents(),
                                  platform::UntracedThreads()};
    if (Append(nullptr, end, kWords)) g_file.Close();
  }
  g_draining.Release();
}

// Two threads may both find that it is time.
bool IsTime(const platform::Hint<uint64_t>& last, uint64_t period) {
  return platform::CoarseNowNs() - last.Get() >= period;
}
void SetToNow(platform::Hint<uint64_t>* last) { last->Set(platform::CoarseNowNs()); }

void EmitStall(platform::StallCause cause, uint64_t begin_ns, uint64_t ns) {
  if (!platform::IsTracing()) return;
  platform::EmitTrace(platform::TraceEvent::kStall, begin_ns, {ns, static_cast<uint64_t>(cause)});
}

}  // namespace

void StartTracing() {
  // Also without a trace: a probe may be enabled at any time.
  platform::g_stall_listener.Set(EmitStall);
  g_began_ns = platform::NowNs();
  if (g_options.trace == nullptr) return;
  if (!ExpandOutputPath("trace", g_options.trace, g_path, sizeof g_path)) return;
  if (!OpenFile(false)) return;
  if (atexit(EndTracing) != 0) Complain("no memory: the trace %s lacks its end", g_path);
  if (!platform::StartTrace()) Complain("no memory: the trace %s is empty", g_path);
}

void ContinueTracing() {
  if (!platform::IsTracing()) return;
  if (IsTime(g_levels_ns, kLevelsEveryNs)) {
    SetToNow(&g_levels_ns);
    EmitLevels();
  }
  if (!platform::HasTrace()) return;
  platform::ContinueTraceOfThread();
  const bool all = IsTime(g_drained_ns, kDrainEveryNs);
  if (!all && !platform::IsTraceFilling()) {
    g_continued.Set(Self());
    return;
  }
  // A child of vfork has its parent's rings.
  if (platform::MemoryIsAnothers()) return;
  const int saved_errno = errno;
  {
    // In this order: a handler that jumps away must not leave the thread uncancellable.
    const platform::HandlersWait no_handlers;
    const platform::UncancellableSection section;  // malloc is no point of cancellation
    if (g_draining.TryAcquire()) {
      DrainLocked(all);
      if (all) SetToNow(&g_drained_ns);
      // With rings that have just been emptied, so that there is room.
      if (all && platform::CoarseNowNs() - g_sampled_ns >= kSampleEveryNs) {
        g_sampled_ns = platform::CoarseNowNs();
        EmitHeapSample();
      }
      g_draining.Release();
    }
  }
  errno = saved_errno;
}

void ResetTracingAfterFork() {
  g_draining.ResetAfterFork();
  g_drained_ns.Set(0);
  g_levels_ns.Set(0);
  g_sampled_ns = 0;
  ForgetTracedModes();
  // The child may have noticed before its handlers ran that it is one.
  if (!platform::HasTrace() || g_process.Get() == Self()) return;
  g_began_ns = platform::NowNs();
  platform::ResetTraceAfterFork();
  g_file.Leave();
  g_process.Set(0);
}

}  // namespace gleaner::runtime
