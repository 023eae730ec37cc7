#include "runtime/observe/snapshot.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "observe/snapshot_file.h"
#include "platform/os/cancellation.h"
#include "platform/os/process.h"
#include "platform/threads/request_signal.h"
#include "runtime/collect/collect.h"
#include "runtime/observe/snapshot_content.h"
#include "runtime/observe/writer_lock.h"
#include "runtime/process/options.h"
#include "runtime/process/output_path.h"
#include "runtime/process/variables.h"
#include "runtime/threads/mutator.h"

namespace gleaner::runtime {

using platform::memory_order_relaxed;
using platform::SnapshotFile;

namespace {

constexpr size_t kMaxPath = 4096;

// Of the thread that takes a snapshot.
constinit WriterLock g_taking;

// The thread that has asked for a snapshot by the collection that it makes next; null: none. Used
// by that thread while it has g_taking; others compare it with themselves. Relaxed: a thread sees
// what it has stored itself.
constinit platform::Atomic<const Thread*> g_asking{nullptr};

// What follows is guarded by g_taking.
constinit SnapshotFile g_file;
constinit SnapshotContent g_content;
constinit int g_error = 0;
constinit bool g_is_written = false;
// Of the process in g_named: whether its files have its number in their names, and how many it has
// written.
constinit uint64_t g_named = 0;
constinit bool g_has_number = false;
constinit int g_written = 0;

char g_path[kMaxPath];  // constant after StartSnapshots: absolute, %p replaced; empty: no option
constinit uint64_t g_first_process = 0;  // constant after StartSnapshots
// The process of which a thread has come to ContinueSnapshots last.
constinit platform::Hint<uint64_t> g_continued{0};

uint64_t Self() { return static_cast<uint64_t>(getpid()); }

// Relaxed: only the thread's own stores matter.
bool IsAsking(const Thread* thread) { return g_asking.Load(memory_order_relaxed) == thread; }

SnapshotFile::Head OwnHead() {
  SnapshotFile::Head head;
  head.magic = gc::kSnapshotMagic;
  head.process = Self();
  head.process_start = platform::ProcessStart(head.process);
  uint64_t sum = gc::Checksum(gc::kChecksumStart, head.magic);
  sum = gc::Checksum(sum, head.process);
  head.checksum = gc::Checksum(sum, head.process_start);
  return head;
}

bool Write(void*, const void* data, size_t bytes) {
  g_error = g_file.Append(data, bytes);
  return g_error == 0;
}

// Collects, and writes the snapshot in the stop. pre: the caller has g_taking; the file is open;
// finalizers wait.
int WriteToOpenFile(const SnapshotFile::Head& head, const char* reason) {
  g_error = g_file.Append(&head, sizeof head);
  if (g_error != 0) return g_error;
  if (!g_content.Init(Write, head.checksum)) return ENOMEM;
  g_content.WriteHead(reason);
  g_is_written = false;
  g_asking.Store(Threads::Current(), memory_order_relaxed);  // read by this thread
  const bool collected = Collect(gc::Cause::kInspection);
  g_asking.Store(nullptr, memory_order_relaxed);
  g_content.Release();
  if (g_error != 0) return g_error;
  return collected && g_is_written ? 0 : EAGAIN;
}

// Why the calling thread cannot collect; 0: it can.
int WhyNoCollection() {
  if (GC_dont_gc != 0) return ECANCELED;
  if (!AttachToHeap()) return ENOMEM;
  const Thread* self = Threads::Current();
  if (self->under_lock != 0 || platform::IsInSection() || IsAsking(self)) return EBUSY;
  return 0;
}

// Begins a snapshot. False if other threads have been taking some for a minute.
bool TryBegin() {
  constexpr int kMaxMoments = 60'000;
  // A child whose fork handlers have not run. What its parent had under way is none of its own.
  if (g_taking.holder() != 0 && g_taking.holder() != getpid()) ResetSnapshotsAfterFork();
  return g_taking.AcquireWithin(kMaxMoments);
}

struct Named {
  SnapshotFile::Opened opened;
  int error;  // 0: it is open
};

Named Open(const char* name, const SnapshotFile::Head& head, bool own) {
  const SnapshotFile::Opened opened = g_file.Open(name, head, own);
  const int error = opened == SnapshotFile::Opened::kYes       ? 0
                    : opened == SnapshotFile::Opened::kForeign ? EEXIST
                    : opened == SnapshotFile::Opened::kInUse   ? EBUSY
                                                               : errno;
  return {opened, error};
}

// Opens one of the names that belong to the option: PATH, or PATH.PROCESS for a forked child and if
// another process writes PATH; and for each next snapshot a number behind that, from 2 on.
Named OpenNextName(const SnapshotFile::Head& head, char* name, size_t capacity) {
  constexpr int kMaxTries = 1000;
  if (g_named != head.process) {
    g_named = head.process;
    g_has_number = head.process != g_first_process;
    g_written = 0;
  }
  Named named{SnapshotFile::Opened::kInUse, EBUSY};
  for (int i = 0; i < kMaxTries && named.opened == SnapshotFile::Opened::kInUse; ++i) {
    char process[24] = "";
    char count[16] = "";
    if (g_has_number) snprintf(process, sizeof process, ".%d", getpid());
    if (g_written != 0) snprintf(count, sizeof count, ".%d", g_written + 1);
    snprintf(name, capacity, "%s%s%s", g_path, process, count);
    named = Open(name, head, false);
    if (named.opened == SnapshotFile::Opened::kInUse && !g_has_number) {
      g_has_number = true;
    } else {
      ++g_written;
    }
  }
  return named;
}

// What has to be so while a snapshot is taken, in this order: a handler that jumps away must leave
// the thread cancellable. Finalizers run afterwards, when no snapshot is under
// way.
class Preparations {
 public:
  explicit Preparations(Thread* self) : self_(self), before_(self->running_finalizers) {
    self->running_finalizers = true;
  }
  ~Preparations() { self_->running_finalizers = before_; }
  Preparations(const Preparations&) = delete;
  Preparations& operator=(const Preparations&) = delete;

 private:
  const platform::HandlersWait no_handlers_;
  const platform::UncancellableSection section_;
  Thread* const self_;
  const bool before_;
};

void RunFinalizers() {
  const int saved_errno = errno;
  const Thread* self = Threads::Current();
  if (GC_finalize_on_demand == 0 && self != nullptr && !self->running_finalizers) {
    InvokeFinalizers();
  }
  errno = saved_errno;
}

// Complains if a snapshot that the options ask for is not written.
void ComplainOf(const char* name, const Named& named, int error) {
  switch (named.opened) {
    case SnapshotFile::Opened::kYes:
      if (error == 0) return;
      return Complain("cannot write the snapshot %s: %s; it is empty", name,
                      strerrordesc_np(error));
    case SnapshotFile::Opened::kRefused:
      return Complain("cannot write the snapshot %s: %s; there is none", name,
                      strerrordesc_np(error));
    case SnapshotFile::Opened::kForeign:
      return Complain("the snapshot %s: the file exists and is no snapshot; there is none", name);
    case SnapshotFile::Opened::kInUse:
      return Complain("the snapshot %s: all its names are in use; there is none", g_path);
  }
}

// Takes a snapshot; of those that the options ask for, where `path` is null. Returns 0 or the
// number of the error, which the caller learns of, or the user by a message.
int Take(const char* path, const char* reason) {
  static char next_name[kMaxPath + 64];  // guarded by g_taking
  const int saved_errno = errno;
  int error = WhyNoCollection();
  const char* why = error == ECANCELED ? "collections are disabled" : strerrordesc_np(error);
  if (error == 0) {
    const Preparations prepared(Threads::Current());
    if (TryBegin()) {
      const SnapshotFile::Head head = OwnHead();
      const Named named = path != nullptr ? Open(path, head, true)
                                          : OpenNextName(head, next_name, sizeof next_name);
      error = named.error;
      if (named.opened == SnapshotFile::Opened::kYes) {
        error = WriteToOpenFile(head, reason);
        if (const int closing = g_file.Close(error == 0); error == 0) error = closing;
      }
      if (path == nullptr) ComplainOf(next_name, named, error);
      g_taking.Release();
      why = nullptr;
    } else {
      error = EBUSY;
      why = "other threads have been taking some for too long";
    }
  }
  if (path == nullptr && why != nullptr) Complain("no snapshot %s: %s", g_path, why);
  errno = saved_errno;
  return error;
}

// The process ends: finalizers that this collection finds due are not run.
void TakeLast() {
  if (g_path[0] == 0 || platform::MemoryIsAnothers()) return;
  // A child of fork that has not used the heap makes no file.
  if (Self() != g_first_process && g_continued.Get() != Self()) return;
  (void)Take(nullptr, "exit");
}

}  // namespace

void StartSnapshots() {
  if (g_options.snapshot == nullptr) {
    if (g_options.snapshot_signal != nullptr) {
      Complain("GLEANER_SNAPSHOT_SIGNAL has no effect without GLEANER_SNAPSHOT");
    }
    return;
  }
  if (!ExpandOutputPath("snapshot", g_options.snapshot, g_path, sizeof g_path)) {
    g_path[0] = 0;
    return;
  }
  g_first_process = Self();
  if (atexit(TakeLast) != 0) Complain("no memory: there is no snapshot %s at the end", g_path);
  if (g_options.snapshot_signal == nullptr) return;
  const int number = platform::SignalNumber(g_options.snapshot_signal);
  if (number == 0) {
    Complain("GLEANER_SNAPSHOT_SIGNAL=%s is no signal that can be handled",
             g_options.snapshot_signal);
  } else if (const int error = platform::InstallRequestHandler(number); error != 0) {
    Complain("GLEANER_SNAPSHOT_SIGNAL=%s: %s", g_options.snapshot_signal,
             error == EBUSY ? "the signal has a handler" : strerrordesc_np(error));
  }
}

void ContinueSnapshots() {
  if (GLEANER_LIKELY(g_path[0] == 0)) return;
  if (g_continued.Get() != Self()) g_continued.Set(Self());
  const Thread* self = Threads::Current();
  if (!platform::IsRequested() || self == nullptr || self->under_lock != 0 ||
      platform::IsInSection() || IsAsking(self) || platform::MemoryIsAnothers() ||
      !platform::TakeRequest()) {
    return;
  }
  (void)Take(nullptr, "signal");
  RunFinalizers();
}

int TakeSnapshot(const char* path) {
  if (path == nullptr || path[0] == 0) return EINVAL;
  const int error = Take(path, "call");
  if (error == 0) RunFinalizers();
  return error;
}

void WriteSnapshotWorldStopped(const gc::Marker& marker, const gc::RootTasks& roots,
                               const gc::MarkConfig& config) {
  const Thread* self = Threads::Current();
  if (self == nullptr || !IsAsking(self)) return;
  g_content.WriteWorldStopped(marker, roots, config);
  g_is_written = !g_content.failed();
}

void ResetSnapshotsAfterFork() {
  if (g_taking.holder() != 0) {
    g_file.LeaveAfterFork();
    g_content.Release();
  }
  g_asking.Store(nullptr, memory_order_relaxed);  // the process has one thread
  g_taking.ResetAfterFork();
}

}  // namespace gleaner::runtime
