#include "runtime/observe/profiling.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "alloc/thread_heap.h"
#include "gc/collector.h"
#include "gc/finish/heap_samples.h"
#include "observe/profile_file.h"
#include "platform/loader/loaded_objects.h"
#include "platform/os/cancellation.h"
#include "platform/os/clock.h"
#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "platform/threads/stop_world.h"
#include "platform/unwind/unwind.h"
#include "runtime/observe/writer_lock.h"
#include "runtime/process/options.h"
#include "runtime/process/output_path.h"
#include "runtime/process/printing.h"
#include "runtime/process/runtime_state.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

using gc::g_heap_samples;
using gc::SampleSite;
using platform::ProfileFile;
using platform::StackTable;

namespace {

constexpr size_t kMaxPath = 4096;
constexpr uint64_t kDefaultMean = 512 * kKiB;

// Constant after StartProfiling, but for a child that begins its file.
char g_path[kMaxPath];
// Of the process that has begun g_path. Constant after StartProfiling.
constinit int g_first_process = 0;
// The library's own code, which is left out of stacks. Empty if the library is part of the program.
constinit platform::Range g_own_code = {};
// This process has sampled something since it was forked.
constinit platform::Hint<bool> g_has_sampled{false};

constinit WriterLock g_writing;
constinit ProfileFile g_file;  // guarded by g_writing

// The samples of one moment, in memory of its own.
class Sites {
 public:
  Sites() = default;
  Sites(const Sites&) = delete;
  Sites& operator=(const Sites&) = delete;
  ~Sites() { Drop(); }

  // False without memory.
  bool Copy() {
    for (size_t capacity = 64;; capacity = found_.sites + found_.sites / 8) {
      if (!MakeRoom(capacity)) return false;
      found_ = g_heap_samples.Copy(sites_, capacity);
      if (found_.sites <= capacity) return true;
    }
  }
  const SampleSite* begin() const { return sites_; }
  const SampleSite* end() const { return sites_ + found_.sites; }
  uint64_t lost() const { return found_.lost; }

 private:
  bool MakeRoom(size_t sites) {
    Drop();
    bytes_ = AlignUp(sites * sizeof(SampleSite), platform::OsPageBytes());
    sites_ = static_cast<SampleSite*>(platform::Reserve(bytes_, platform::OsPageBytes()));
    return sites_ != nullptr && platform::Commit(sites_, bytes_);
  }
  void Drop() {
    if (sites_ != nullptr) platform::Release(sites_, bytes_);
    sites_ = nullptr;
  }

  SampleSite* sites_ = nullptr;
  gc::HeapSamples::Found found_;
  size_t bytes_ = 0;
};

void PrintCounts(uint64_t live, uint64_t live_bytes, uint64_t all, uint64_t all_bytes) {
  g_file.Print("%llu: %llu [%llu: %llu] @", AsNumber(live), AsNumber(live_bytes), AsNumber(all),
               AsNumber(all_bytes));
}

// The first frame is in the calling instruction; a reader takes the others for return addresses.
void PrintStack(platform::StackId stack) {
  if (stack == platform::kNoStack) return;
  const Addr* frames = StackTable::FramesOf(stack);
  for (size_t i = 0; i < StackTable::CountOf(stack); ++i) {
    g_file.Print(" 0x%llx", AsNumber(i == 0 ? frames[i] : frames[i] + 1));
  }
}

// pre: g_file is open, by this path; g_writing held. Returns 0 or the number of the error.
int WriteSites(const char* path, const Sites& sites) {
  SampleSite sum = {};
  uint64_t live_bytes = 0;
  for (const SampleSite& site : sites) {
    sum.live += site.live;
    sum.all += site.all;
    live_bytes += site.live * site.bytes;
    sum.bytes += site.all * site.bytes;
  }
  g_file.Print("%s ", ProfileFile::kMagic);
  PrintCounts(sum.live, live_bytes, sum.all, sum.bytes);
  g_file.Print(" heap_v2/%zu\n", alloc::g_sample_mean_bytes);
  g_file.PrintProcess();
  static char command[2048];  // guarded by g_writing: a thread may have a small stack
  platform::ReadCommandLine(command, sizeof command);
  g_file.Print("# gleaner=%s\n# collections=%llu\n# lost=%llu\n# command=%s\n", GLEANER_VERSION,
               AsNumber(gc::g_collector.collections()), AsNumber(sites.lost()), command);
  for (const SampleSite& site : sites) {
    PrintCounts(site.live, site.live * site.bytes, site.all, site.all * site.bytes);
    PrintStack(site.stack);
    g_file.Append("\n", 1);
  }
  g_file.Print("\nMAPPED_LIBRARIES:\n");
  if (const int error = g_file.AppendFile("/proc/self/maps"); error != 0 && sum.all != 0) {
    Complain("the heap profile %s has no names for its addresses: /proc/self/maps: %s", path,
             strerrordesc_np(error));
  }
  g_file.Print("# end\n");
  return g_file.Close();
}

struct Written {
  ProfileFile::Opened opened;
  int error;  // why the file was refused, or could not be written; else 0
  bool IsDone() const { return opened == ProfileFile::Opened::kYes && error == 0; }
};

// Writes the samples of this moment. `own` as in ProfileFile. pre: g_writing held.
Written Write(const char* path, bool own) {
  Sites sites;
  // Before the file is emptied, so that an older profile is left where this one fails.
  if (!sites.Copy()) return {ProfileFile::Opened::kRefused, ENOMEM};
  const ProfileFile::Opened opened = g_file.Open(path, own);
  if (opened == ProfileFile::Opened::kYes) return {opened, WriteSites(path, sites)};
  return {opened, opened == ProfileFile::Opened::kRefused ? errno : 0};
}

// The process is a child, by a plain clone, whose fork handlers have not run.
bool IsUnpreparedCopy() { return platform::MemoryIsCopy() && !g_unprepared_child; }

// Whether locks can be waited for. The thread itself may have one, if a handler has interrupted it
// and does not return; and in a child, a thread that is gone.
bool MayLock() {
  return !platform::IsInSection() && !g_unprepared_child && !platform::MemoryIsCopy();
}

// Complains that the file cannot be written.
void ComplainOf(const char* path, const Written& written) {
  const char* reason =
      written.opened == ProfileFile::Opened::kForeign ? "the file exists and is no heap profile"
      : written.opened == ProfileFile::Opened::kInUse ? "another process writes it"
                                                      : strerrordesc_np(written.error);
  Complain("cannot write the heap profile %s: %s", path, reason);
}

// Finds the name under which this process writes: g_path, or g_path.PROCESS, g_path.PROCESS.1 and
// so on while others write them; and begins the file. False after a message if there is none.
bool BeginFile(bool is_child) {
  constexpr int kMaxNames = 100;
  static char name[kMaxPath];  // guarded by g_writing: a thread may have a small stack
  for (int i = is_child ? 1 : 0; i <= kMaxNames; ++i) {
    if (!NameAttempt(g_path, i, name, sizeof name)) break;
    const Written written = Write(name, false);
    if (written.opened == ProfileFile::Opened::kInUse) continue;
    if (written.IsDone()) {
      memcpy(g_path, name, strlen(name) + 1);
      return true;
    }
    ComplainOf(name, written);
    return false;
  }
  Complain("the heap profile %s: all its names are in use, or too long; there is none", g_path);
  return false;
}

// At the program's end.
void WriteLastProfile() {
  if (platform::MemoryIsAnothers()) return;
  const bool is_child = getpid() != g_first_process;
  // A child that has not used the heap makes no file.
  if (is_child && !g_has_sampled.Get()) return;
  if (IsUnpreparedCopy()) return;
  if (!MayLock()) {
    return Complain(
        "cannot write the heap profile %s: a signal handler inside the allocator has forked this "
        "process or ends it",
        g_path);
  }
  const platform::HandlersWait no_handlers;
  const platform::UncancellableSection section;
  constexpr int kMaxMoments = 5000;  // the holder may have ended with the process's last thread
  if (!g_writing.AcquireWithin(kMaxMoments)) {
    return Complain("cannot write the heap profile %s: another thread writes one", g_path);
  }
  if (is_child) {
    (void)BeginFile(true);
  } else if (const Written written = Write(g_path, true); !written.IsDone()) {
    ComplainOf(g_path, written);
  }
  g_writing.Release();
}

// Begins the file that is written at the end. False after a message if there is none.
bool PrepareLastProfile() {
  if (!ExpandOutputPath("heap profile", g_options.profile, g_path, sizeof g_path)) return false;
  if (!BeginFile(false)) return false;
  if (atexit(WriteLastProfile) == 0) return true;
  Complain("no memory for an exit handler: the heap profile %s stays empty", g_path);
  return false;
}

}  // namespace

void OnSampled(Addr object, size_t bytes) {
  const int saved_errno = errno;
  platform::StackId stack = platform::kNoStack;
  if (bytes != 0) {
    Addr frames[platform::kMaxFrames];
    const Thread* self = Threads::Current();
    const size_t count = platform::CaptureStack(self != nullptr ? self->stack : platform::Range{},
                                                g_own_code, frames, platform::kMaxFrames);
    stack = StackTable::Intern(frames, count);
    g_has_sampled.Set(true);
  }
  g_heap_samples.Record(object, bytes, stack);
  errno = saved_errno;
}

void StartProfiling() {
  uint64_t mean = g_options.profile_bytes;
  if (mean == 0 && g_options.profile != nullptr) mean = kDefaultMean;
  if (mean == 0) return;
  if (!StackTable::Init()) {
    Complain("no memory for the tables of the heap profile: there is none");
    return;
  }
  platform::InitUnwinder();
  g_own_code = platform::IsOwnObject() ? platform::ThisObject() : platform::Range{};
  alloc::g_sample_seed = g_options.profile_seed != 0
                             ? g_options.profile_seed
                             : Mix64(platform::NowNs()) ^ static_cast<uint64_t>(getpid());
  alloc::g_sample_mean_bytes = mean;
  g_first_process = getpid();
  if (g_options.profile == nullptr || PrepareLastProfile()) return;
  // The program writes profiles itself only if it has asked for samples without a file.
  if (g_options.profile_bytes == 0) alloc::g_sample_mean_bytes = 0;
}

int WriteHeapProfile(const char* path) {
  if (alloc::g_sample_mean_bytes == 0) return ENOTSUP;
  if (platform::MemoryIsAnothers() || !MayLock()) return EBUSY;
  const int saved_errno = errno;
  Written written{};
  {
    // In this order: a handler that jumps away must not leave the thread uncancellable.
    const platform::HandlersWait no_handlers;
    const platform::UncancellableSection section;
    if (!g_writing.TryAcquire()) return EBUSY;
    written = Write(path, true);
    g_writing.Release();
  }
  errno = saved_errno;
  switch (written.opened) {
    case ProfileFile::Opened::kInUse:
      return EBUSY;
    case ProfileFile::Opened::kForeign:
      return EEXIST;
    case ProfileFile::Opened::kYes:
    case ProfileFile::Opened::kRefused:
      break;
  }
  return written.error;
}

void ResetProfileFileAfterFork() {
  if (g_writing.holder() != 0) g_file.LeaveAfterFork();
  g_writing.ResetAfterFork();
  g_has_sampled.Set(false);
}

void ResetProfilingAfterFork() {
  if (alloc::g_sample_mean_bytes == 0) return;
  ResetProfileFileAfterFork();
  // Children of one parent would all sample alike. With a seed they are to.
  alloc::Sampler* sampler = alloc::t_heap->sampler;
  if (sampler != nullptr && g_options.profile_seed == 0) {
    sampler->Reseed(static_cast<uint64_t>(getpid()));
  }
}

}  // namespace gleaner::runtime
