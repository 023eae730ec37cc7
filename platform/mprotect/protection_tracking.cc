#include "platform/mprotect/protection_tracking.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "platform/mprotect/open_signal.h"
#include "platform/os/critical.h"
#include "platform/os/process.h"
#include "platform/threads/fault_signal.h"
#include "platform/threads/stop_world.h"

namespace gleaner::platform {

namespace {

constexpr unsigned kPagesPerRegion = kRegionBytes / kTrackedPageBytes;
constexpr uint64_t kPages = (uint64_t{1} << kPagesPerRegion) - 1;
constexpr unsigned kPendingShift = 16;
constexpr uint64_t kOnePin = uint64_t{1} << 32;
constexpr uint64_t kPins = ((uint64_t{1} << 24) - 1) << 32;
constexpr uint64_t kProtected = uint64_t{1} << 56;
constexpr uint64_t kBusy = uint64_t{1} << 57;
constexpr uint64_t kUnsure = uint64_t{1} << 58;
constexpr uint64_t kKept = uint64_t{1} << 59;
constexpr uint64_t kHeld = kPins | kKept;
static_assert(kPagesPerRegion == 16);

constexpr uint64_t Tracked(uint64_t word) { return word & kPages; }
constexpr uint64_t Pending(uint64_t word) { return word >> kPendingShift & kPages; }
// The words of an opened region, and of one whose change the system refused. Both keep
// [inv.open-is-dirty].
constexpr uint64_t Opened(uint64_t word) {
  return (word & ~(kBusy | kProtected | kUnsure)) | Tracked(word) << kPendingShift;
}
constexpr uint64_t MadeUnsure(uint64_t word) { return Opened(word) | kProtected | kUnsure; }
constexpr bool IsOpen(uint64_t word) { return (word & (kBusy | kProtected)) == 0; }

// A fault on an open region came while another thread opened the region; it comes again only if the
// region is protected again. This many faults at one address without a protection in between are
// not the tracker's: the program has protected the page itself, or the page is not executable.
constexpr uint32_t kMaxStaleFaults = 16;
struct StaleFaults {
  Addr address;
  uint64_t protections;
  uint32_t count;
};
__thread StaleFaults t_stale __attribute__((tls_model("initial-exec"))) = {};

// The open tracker. There is one signal handler, hence one tracker.
constinit Atomic<ProtectionTracking*> g_tracker{nullptr};

// For MakeResident: what overlaps the range is pinned as for a system call.
WritePins::Pinned PinRange(Range range) {
  const auto regions = ProtectionTracking::RegionsForCall(range.begin, range.end);
  if (regions.first != regions.end) {
    const int saved = errno;
    ProtectionTracking::PinForCall(regions);
    errno = saved;
  }
  return {regions.first, regions.end};
}
void UnpinRange(WritePins::Pinned pinned) {
  ProtectionTracking::UnpinAfterCall({pinned.first, pinned.end});
}
constexpr WritePins kWritePins = {PinRange, UnpinRange};

constexpr size_t kUsualMaxMappings = 65530;

// Reads the next part of a file. Returns its bytes, 0 at the end.
size_t ReadChunk(int fd, char* text, size_t capacity) {
  const ssize_t n = read(fd, text, capacity);
  return n > 0 ? static_cast<size_t>(n) : 0;
}

size_t SystemMaxMappings() {
  char text[32] = {};
  const int fd = open("/proc/sys/vm/max_map_count", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return kUsualMaxMappings;
  const size_t n = ReadChunk(fd, text, sizeof text - 1);
  close(fd);
  return n == 0 ? kUsualMaxMappings : strtoull(text, nullptr, 10);
}

size_t MappingCount() {
  const int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t count = 0;
  char text[4096];
  for (size_t n; (n = ReadChunk(fd, text, sizeof text)) != 0;) {
    for (size_t i = 0; i < n; ++i) count += text[i] == '\n';
  }
  close(fd);
  return count;
}

}  // namespace

bool ProtectionTracking::Open(Addr base, size_t bytes, bool executable, size_t max_mappings,
                              Refusal* why) {
  GLEANER_CHECK(base % kRegionBytes == 0, "write tracking of a heap that begins at %#zx",
                static_cast<size_t>(base));
  ProtectionTracking* none = nullptr;
  if (!OwnMemory()) {
    *why = {"a forked child could not be told from its parent (madvise)", errno};
    return false;
  }
  if (!regions_.Reserve(base, bytes, kRegionShift)) {
    *why = {"no address space for its table", ENOMEM};
    return false;
  }
  // Acq_rel: release, so that the handler (acquire) sees the table; acquire, to see the end of the
  // tracker closed last.
  if (!g_tracker.CompareExchange(none, this, memory_order_acq_rel)) {
    regions_.Release();
    *why = {"the handler of SIGSEGV is in use", 0};
    return false;
  }
  executable_ = executable;
  if (max_mappings == 0) {
    const size_t limit = SystemMaxMappings();
    const size_t used = MappingCount();
    max_mappings = used < limit ? (limit - used) / 2 : 0;
  }
  max_runs_ = static_cast<int64_t>(max_mappings / 2);
  runs_.Set(0);
  runs_counted_.Set(0);
  SetWritePins(&kWritePins);
  KeepSignalOpenEverywhere();
  if (InstallFaultHandler(OnFault)) {
    OpenFaultSignal();
    return true;
  }
  *why = {"a handler of SIGSEGV is refused", errno};
  Close();
  return false;
}

void ProtectionTracking::Close() {
  // Acquire here, release below: a tracker that is opened next sees all stores of this one.
  if (g_tracker.Load(memory_order_acquire) != this) return;
  // Whole runs, which splits no mapping: a refused call most likely succeeds at a later attempt.
  constexpr int kMaxAttempts = 1000;
  int attempts = 0;
  while (!UnprotectAll()) {
    GLEANER_CHECK(++attempts < kMaxAttempts, "the heap cannot be made writable: errno %d", errno);
    sched_yield();
  }
  RemoveFaultHandler();
  g_tracker.Store(nullptr, memory_order_release);  // pairs with the exchange in Open
  regions_.Release();
}

bool ProtectionTracking::IsProtected(size_t region) const {
  // Relaxed: a hint, or read where no word changes.
  return region < RegionCount() && (regions_[region].Load(memory_order_relaxed) & kProtected) != 0;
}

// The regions of a block, a power of two: 1 while half of the budget is left, 2 while a quarter is
// left, and so on.
size_t ProtectionTracking::BlockRegions() const {
  const int64_t runs = runs_.Get();
  int64_t left = max_runs_ / 2;
  size_t block = 1;
  for (; block < RegionCount() && runs >= max_runs_ - left; left /= 2) block *= 2;
  return block;
}

void ProtectionTracking::CountRuns() {
  const int64_t counted = runs_counted_.Get();
  const int64_t runs = runs_.Get();
  if (runs - counted < max_runs_ / 8 + 1) return;
  int64_t count = 0;
  bool inside = false;
  const size_t regions = RegionCount();
  for (size_t i = 0; i < regions; ++i) {
    const bool now = IsProtected(i);
    count += now && !inside;
    inside = now;
  }
  runs_.Set(count);
  runs_counted_.Set(count);
}

bool ProtectionTracking::SetWritable(Span span) {
  const int access = PROT_READ | PROT_WRITE | (executable_ ? PROT_EXEC : 0);
  return mprotect(PointerAt<void>(AddressOfRegion(span.first)),
                  (span.end - span.first) << kRegionShift, access) == 0;
}

bool ProtectionTracking::SetReadOnly(Span span) {
  const int access = PROT_READ | (executable_ ? PROT_EXEC : 0);
  return mprotect(PointerAt<void>(AddressOfRegion(span.first)),
                  (span.end - span.first) << kRegionShift, access) == 0;
}

bool ProtectionTracking::TakeProtected(size_t region) {
  Word word = regions_[region].Load(memory_order_acquire);
  // Acquire: pairs with the release of the word's last owner. A failure means that another thread
  // was first.
  return (word & (kBusy | kProtected)) == kProtected &&
         regions_[region].CompareExchange(word, word | kBusy, memory_order_acquire);
}

ProtectionTracking::Span ProtectionTracking::TakeAround(Span taken, size_t first, size_t end) {
  while (taken.first > first && TakeProtected(taken.first - 1)) --taken.first;
  while (taken.end < end && TakeProtected(taken.end)) ++taken.end;
  return taken;
}

ProtectionTracking::Span ProtectionTracking::TakeRun(Span taken) {
  // Waits for busy neighbours: the threads that have them busy do not wait. A neighbour that was
  // busy and is protected by now belongs to the run. Relaxed: TakeProtected acquires the word.
  const auto is_open = [&](size_t region) {
    return IsOpen(regions_[region].Load(memory_order_relaxed));
  };
  for (const size_t count = RegionCount();;) {
    taken = TakeAround(taken, 0, count);
    if ((taken.first == 0 || is_open(taken.first - 1)) &&
        (taken.end == count || is_open(taken.end))) {
      return taken;
    }
    sched_yield();
  }
}

bool ProtectionTracking::OpenTaken(Span taken) {
  const bool opened = SetWritable(taken);
  if (opened) {
    const int split = (taken.first != 0 && IsProtected(taken.first - 1)) +
                      static_cast<int>(IsProtected(taken.end)) - 1;
    runs_.Add(split);
  } else {
    refusals_.Add(1);
  }
  for (size_t i = taken.first; i < taken.end; ++i) {
    const Word word = regions_[i].Load(memory_order_relaxed);  // busy: only this thread writes it
    // Release: pairs with the acquire of the thread that changes the word next.
    regions_[i].Store(opened ? Opened(word) : MadeUnsure(word), memory_order_release);
  }
  return opened;
}

void ProtectionTracking::TryToOpen(size_t region) {
  // The holder of opening_run_ needs all of its run, so other threads take nothing meanwhile.
  // Acquire: pairs with the release at the holder's end.
  if (opening_run_.Load(memory_order_acquire) != 0 || !TakeProtected(region)) {
    sched_yield();
    return;
  }
  const size_t block = BlockRegions();
  const size_t count = RegionCount();
  const size_t first = region & ~(block - 1);
  if (OpenTaken(
          TakeAround({region, region + 1}, first, first + block < count ? first + block : count))) {
    return;
  }
  // A try-lock: acquire here, release at the end. One holder at a time, or two threads could each
  // have half of one run busy.
  uint32_t free = 0;
  if (!opening_run_.CompareExchange(free, 1, memory_order_acquire)) return;
  if (TakeProtected(region)) OpenTaken(TakeRun({region, region + 1}));
  opening_run_.Store(0, memory_order_release);  // unlocks
}

bool ProtectionTracking::Handle(Addr address) {
  if (!regions_.Covers(address)) return false;
  const size_t region = regions_.IndexOf(address);
  const Word word = regions_[region].Load(memory_order_acquire);
  if (IsOpen(word)) {
    // Relaxed: protections_ is raised before the mprotect that caused the fault, so the fault
    // orders it.
    const uint64_t protections = protections_.Load(memory_order_relaxed);
    if (t_stale.address != address || t_stale.protections != protections) {
      t_stale = {address, protections, 0};
    }
    return ++t_stale.count <= kMaxStaleFaults;
  }
  faults_.Add(1);
  // In a forked child before ResetInChild, the threads that have regions busy do not exist.
  if (MemoryIsCopy()) return OpenTaken({region, region + 1});
  TryToOpen(region);  // if the region stays protected, the access faults again
  return true;
}

bool ProtectionTracking::OnFault(Addr address) {
  ProtectionTracking* tracker = g_tracker.Load(memory_order_acquire);  // pairs with Open
  return tracker != nullptr && tracker->Handle(address);
}

ProtectionTracking::Word ProtectionTracking::PagesIn(size_t region, Addr begin, Addr end) const {
  const Addr start = AddressOfRegion(region);
  Word pages = kPages;
  if (begin > start) pages &= kPages << (begin - start) / kTrackedPageBytes;
  if (end < start + kRegionBytes)
    pages &= kPages >> (start + kRegionBytes - end) / kTrackedPageBytes;
  return pages & kPages;
}

void ProtectionTracking::AddPages(size_t region, Word pages, DirtyRanges& dirty) const {
  const Addr start = AddressOfRegion(region);
  for (; pages != 0; pages &= pages - 1) {
    const Addr page = start + static_cast<size_t>(__builtin_ctzll(pages)) * kTrackedPageBytes;
    dirty.Add(page, page + kTrackedPageBytes);
  }
}

bool ProtectionTracking::CloseRun(Span run, Addr begin, Addr end, DirtyRanges& dirty) {
  if (run.first == run.end) return true;
  protections_.FetchAdd(1, memory_order_relaxed);  // ordered by the mprotect and the fault
  const bool closed = SetReadOnly(run);
  if (closed) {
    const int joined =
        (run.first != 0 && IsProtected(run.first - 1)) + static_cast<int>(IsProtected(run.end)) - 1;
    runs_.Add(-joined);
  } else {
    refusals_.Add(1);
  }
  for (size_t i = run.first; i < run.end; ++i) {
    const Word word = regions_[i].Load(memory_order_relaxed);  // busy: only this thread writes it
    const Word pages = PagesIn(i, begin, end);
    const Word next =
        closed ? (Opened(word) & ~(pages << kPendingShift)) | kProtected : MadeUnsure(word);
    // Release: pairs with the acquire of the thread that changes the word next.
    regions_[i].Store(next, memory_order_release);
    AddPages(i, Tracked(word) & pages, dirty);
  }
  return closed;
}

// Fetches the range; with `arm`, the pages of the range become tracked first.
bool ProtectionTracking::Protect(Addr begin, Addr end, bool arm, VisitDirty visit, void* context,
                                 size_t* bytes) {
  bool ok = true;
  DirtyRanges dirty(visit, context);
  const size_t last = regions_.IndexOf(end - 1);
  Span run = {regions_.IndexOf(begin), regions_.IndexOf(begin)};  // busy, to be protected
  for (size_t i = run.first; i <= last; ++i) {
    const Word pages = PagesIn(i, begin, end);
    for (;;) {
      Word word = regions_[i].Load(memory_order_acquire);  // pairs with its last owner
      if (!arm && (Tracked(word) & pages) == 0) break;
      if ((word & kBusy) != 0) {
        ok &= CloseRun(run, begin, end, dirty);  // no thread waits with regions busy
        run = {i, i};
        if (!arm) {
          AddPages(i, Tracked(word) & pages, dirty);
          break;
        }
        sched_yield();
        continue;
      }
      const Word armed = arm ? word | pages : word;
      if ((word & (kProtected | kUnsure)) == kProtected) {
        // The pages that become tracked are read-only already.
        const Word found = Pending(word) & Tracked(word) & pages;
        if (armed == word && found == 0) break;
        // Acq_rel: the word passes from owner to owner. The exchange comes before the scan of the
        // pages; a write after the exchange faults and makes its page pending again.
        if (!regions_[i].CompareExchange(word, armed & ~(pages << kPendingShift),
                                         memory_order_acq_rel)) {
          continue;
        }
        ok &= CloseRun(run, begin, end, dirty);
        run = {i + 1, i + 1};
        AddPages(i, found, dirty);
        break;
      }
      // Acq_rel, both exchanges: the word passes from owner to owner.
      if ((word & kHeld) != 0) {
        if (!regions_[i].CompareExchange(word, Opened(armed), memory_order_acq_rel)) continue;
        ok &= CloseRun(run, begin, end, dirty);
        run = {i + 1, i + 1};
        AddPages(i, Tracked(armed) & pages, dirty);
        break;
      }
      if (!regions_[i].CompareExchange(word, armed | kBusy, memory_order_acq_rel)) continue;
      if (run.end != i) {
        ok &= CloseRun(run, begin, end, dirty);
        run.first = i;
      }
      run.end = i + 1;
      break;
    }
  }
  ok &= CloseRun(run, begin, end, dirty);
  *bytes = dirty.Finish();
  CountRuns();
  return ok;
}

bool ProtectionTracking::Arm(Addr begin, Addr end) {
  KeepFaultHandler();
  size_t bytes;
  return Protect(
      begin, end, true, [](void*, Addr, Addr) {}, nullptr, &bytes);
}

size_t ProtectionTracking::FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context) {
  size_t bytes;
  Protect(begin, end, false, visit, context, &bytes);
  return bytes;
}

void ProtectionTracking::Disarm(Addr begin, Addr end) {
  const size_t last = regions_.IndexOf(end - 1);
  for (size_t i = regions_.IndexOf(begin); i <= last; ++i) {
    const Word pages = PagesIn(i, begin, end);
    for (;;) {
      Word word = regions_[i].Load(memory_order_acquire);  // pairs with its last owner
      if ((word & kBusy) != 0) {
        sched_yield();
        continue;
      }
      // Acq_rel: the word passes from owner to owner.
      if (regions_[i].CompareExchange(word, word & ~(pages | pages << kPendingShift),
                                      memory_order_acq_rel)) {
        break;
      }
    }
  }
  // Makes the runs of untracked regions writable, whole runs at a time rather than blocks.
  Span run = {0, 0};
  const auto open_run = [&] {
    if (run.first == run.end) return;
    const bool opened = SetWritable(run);
    if (!opened) refusals_.Add(1);  // a write opens it later
    for (size_t j = run.first; j < run.end; ++j) {
      const Word word = regions_[j].Load(memory_order_relaxed);  // busy: only this thread writes it
      // Release: pairs with the acquire of the thread that changes the word next.
      regions_[j].Store(opened ? Opened(word) : MadeUnsure(word), memory_order_release);
    }
  };
  for (size_t i = regions_.IndexOf(begin); i <= last; ++i) {
    // Relaxed: a hint; TakeProtected decides about a word that changes meanwhile.
    if (Tracked(regions_[i].Load(memory_order_relaxed)) != 0 || !TakeProtected(i)) continue;
    if (run.end != i) {
      open_run();
      run.first = i;
    }
    run.end = i + 1;
  }
  open_run();
}

ProtectionTracking::Pinned ProtectionTracking::RegionsOf(Addr begin, Addr end) const {
  const Addr covered_end = regions_.covered_end();
  if (begin < regions_.base()) begin = regions_.base();
  if (end > covered_end) end = covered_end;
  if (begin >= end) return {};
  return {regions_.IndexOf(begin), regions_.IndexOf(end - 1) + 1};
}

void ProtectionTracking::Hold(Pinned regions, bool keep) {
  for (size_t i = regions.first; i < regions.end; ++i) {
    for (;;) {
      CriticalSection unstoppable;  // while this thread may have the region busy
      if (MemoryIsCopy()) OpenTaken({i, i + 1});
      Word word = regions_[i].Load(memory_order_acquire);
      if ((word & kBusy) != 0) {
        sched_yield();
        continue;
      }
      if ((word & kProtected) == 0) {
        const Word held = keep ? word | kKept : word + kOnePin;
        // Acq_rel: the word passes from owner to owner.
        if (held == word || regions_[i].CompareExchange(word, held, memory_order_acq_rel)) break;
        continue;
      }
      // All signals are blocked, as in the fault handler: a signal handler that interrupts this
      // thread and writes into the heap would wait for this thread.
      sigset_t all;
      sigset_t mask;
      sigfillset(&all);
      SigmaskKeepingSuspend(SIG_SETMASK, &all, &mask);
      TryToOpen(i);
      RestoreSigmask(&mask);
    }
  }
}

ProtectionTracking::Pinned ProtectionTracking::Pin(Addr begin, Addr end) {
  const Pinned regions = RegionsOf(begin, end);
  Hold(regions, false);
  return regions;
}

void ProtectionTracking::Unpin(Pinned pinned) {
  for (size_t i = pinned.first; i < pinned.end; ++i) {
    for (;;) {
      Word word = regions_[i].Load(memory_order_acquire);  // pairs with its last owner
      if ((word & kBusy) != 0) {
        sched_yield();
        continue;
      }
      // A signal handler that interrupted the call may have forked: the child has no pins.
      if ((word & kPins) == 0) break;
      // Acq_rel: the word passes from owner to owner.
      if (regions_[i].CompareExchange(word, word - kOnePin, memory_order_acq_rel)) break;
    }
  }
}

ProtectionTracking::Pinned ProtectionTracking::RegionsForCall(Addr begin, Addr end) {
  const ProtectionTracking* tracker = g_tracker.Load(memory_order_acquire);  // pairs with Open
  return tracker != nullptr ? tracker->RegionsOf(begin, end) : Pinned{};
}

void ProtectionTracking::PinForCall(Pinned regions) {
  ProtectionTracking* tracker = g_tracker.Load(memory_order_acquire);  // pairs with Open
  if (tracker != nullptr) tracker->Hold(regions, false);
}

void ProtectionTracking::KeepOpen(Addr begin, Addr end) {
  ProtectionTracking* tracker = g_tracker.Load(memory_order_acquire);  // pairs with Open
  if (tracker != nullptr) tracker->Hold(tracker->RegionsOf(begin, end), true);
}

void ProtectionTracking::UnpinAfterCall(Pinned pinned) {
  ProtectionTracking* tracker = g_tracker.Load(memory_order_acquire);  // pairs with Open
  if (tracker != nullptr) tracker->Unpin(pinned);
}

// pre: no other thread uses the tracker, so all accesses are relaxed. A word may be busy for a
// thread that does not exist any more.
bool ProtectionTracking::UnprotectAll() {
  bool ok = true;
  const size_t count = RegionCount();
  for (size_t i = 0; i < count;) {
    Span run = {i, i};
    const auto may_be_read_only = [&](size_t region) {
      // Relaxed, as all accesses here: no other thread.
      return (regions_[region].Load(memory_order_relaxed) & (kProtected | kBusy)) != 0;
    };
    while (run.end < count && may_be_read_only(run.end)) ++run.end;
    const bool refused = run.end != run.first && !SetWritable(run);
    ok &= !refused;
    if (run.end < count) ++run.end;  // this region needs no change
    for (; i < run.end; ++i) {
      const Word word = regions_[i].Load(memory_order_relaxed) & kKept;  // no other thread
      // A write opens regions that could not be made writable.
      regions_[i].Store(refused ? MadeUnsure(word) : word, memory_order_relaxed);  // no other
    }
  }
  runs_.Set(0);
  runs_counted_.Set(0);
  return ok;
}

void ProtectionTracking::ResetInChild() {
  GLEANER_CHECK(OwnMemory(), "the mark of a copy of memory is lost");
  opening_run_.Store(0, memory_order_relaxed);  // no other thread
  (void)UnprotectAll();                         // a write opens refused regions
}

}  // namespace gleaner::platform
