// Write tracking by mprotect and SIGSEGV.
//
// Memory is protected in regions of 64 KiB: all of a region is read-only, or all is writable. The
// first write to a protected region faults; the handler makes an aligned block of regions writable
// ("opens" it) and their pages dirty. Every change of protection inside a mapping splits the
// mapping, and the number of mappings of a process is limited (vm.max_map_count). So the block is
// 64 KiB while the tracker has few mappings, and doubles as the budget is used up. If the system
// refuses nevertheless, one thread at a time opens the whole contiguous protected run around the
// fault, which splits nothing and so cannot be refused for that reason. A region that cannot be
// protected stays open and dirty.
//
// One word describes a region:
//
//   63    60 59     58       57     56          55    32 31         16 15          0
//   | unused | kept | unsure | busy | protected |  pins  |   pending   |   tracked   |
//
//   tracked    pages that are armed, one bit each
//   pending    pages to report at the next fetch
//   pins       system calls under way that write into the region; not protected while not 0
//   protected  read-only
//   busy       one thread is changing the protection; no other thread changes the word
//   unsure     with protected: the system refused a change; parts may be writable
//   kept       the system may write into the region at any time; not protected any more
//
//   [inv.open-is-dirty]  not busy, and unsure or not protected  =>  pending contains tracked.
//
// A thread that opens takes busy, calls mprotect(writable), then stores pending = tracked and
// neither busy nor protected. A thread that fetches takes busy, calls mprotect(read-only), then
// stores protected, with the pages that it is about to report not pending. A write without a fault
// came before the fetch's mprotect returned (the kernel interrupts all processors that may still
// write), so the scan of the reported page sees it. A later write faults, and its page is pending
// afterwards. A fetch that finds a region busy does not wait: it reports the tracked pages and
// leaves the word alone. If the other thread is opening the region, these pages are pending
// afterwards; if it is fetching other pages, the pages of this fetch stay pending.
//
// The handler runs with all signals blocked; Pin opens regions with all signals blocked and in a
// critical section. So no thread is stopped or interrupted by the program's handlers while it has a
// region busy. Arm, FetchAndRearm and Disarm are called with the program's signals blocked, or from
// threads that run none of its handlers. An access whose fault finds the region busy is tried
// again.
//
// Faults end even if no mappings are left. A thread that is refused a block tries to take
// opening_run_. One thread has it; the others have nothing busy, and begin nothing until it is
// free. Threads that began before, and fetches, never wait with a region busy, so they end. So the
// holder gets all of the run: each neighbour of the run is writable, in its word and in fact, or
// lies outside of the heap and is inaccessible. The ends of the run are then ends of mappings, or
// lie in a mapping that is writable already (unsure regions), where mprotect changes nothing:
// nothing is split, and the system has no reason to refuse. Only a fetch can spoil the attempt: if
// it makes a neighbour read-only between the holder's look and the holder's mprotect, the system
// joins the neighbour to the run. Then the fault is tried again, and that fetch has passed the
// neighbour. So a thread can be delayed only by an endless sequence of fetches, each at that
// instant.
//
// A child of vfork shares memory, protection and words with its parent, whose other threads run on:
// the child acts as one more thread. A forked child has copies, and only its own thread: it takes
// regions that it finds busy (MemoryIsCopy), until ResetInChild.
#pragma once

#include "platform/common/dirty_ranges.h"
#include "platform/common/refusal.h"
#include "platform/mprotect/side_table.h"

namespace gleaner::platform {

inline constexpr unsigned kRegionShift = 16;
inline constexpr size_t kRegionBytes = size_t{1} << kRegionShift;

class ProtectionTracking {
 public:
  struct Pinned {  // regions [first, end)
    size_t first = 0, end = 0;
  };

  constexpr ProtectionTracking() = default;

  // Starts tracking: installs the handler of SIGSEGV, and unblocks SIGSEGV for the calling thread.
  // False on failure, with the reason in `why`. pre: base is a multiple of kRegionBytes.
  [[nodiscard]] bool Open(Addr base, size_t bytes, bool executable, size_t max_mappings,
                          Refusal* why);
  void Close();
  [[nodiscard]] bool CoverUpTo(Addr end) { return regions_.CoverUpTo(end); }
  bool Arm(Addr begin, Addr end);
  size_t FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context);
  void Disarm(Addr begin, Addr end);
  Pinned Pin(Addr begin, Addr end);
  void Unpin(Pinned pinned);
  void ResetInChild();

  // The static functions work on the open tracker, if there is one. Async-signal-safe.
  //
  // The regions that overlap [begin, end), which may be any memory.
  static Pinned RegionsForCall(Addr begin, Addr end);
  static void PinForCall(Pinned regions);
  static void UnpinAfterCall(Pinned pinned);
  // Notes that the system may write into [begin, end) at any time from now on: the regions stay
  // writable and dirty for ever.
  static void KeepOpen(Addr begin, Addr end);

  uint64_t faults() const { return faults_.Get(); }
  uint64_t refusals() const { return refusals_.Get(); }

 private:
  using Word = uint64_t;
  struct Span {  // regions [first, end)
    size_t first, end;
  };

  static bool OnFault(Addr address);
  bool Handle(Addr address);
  Pinned RegionsOf(Addr begin, Addr end) const;
  // Pins the regions, or with `keep` marks them kept.
  void Hold(Pinned regions, bool keep);
  // Opens the region and the protected regions of its block next to it. May leave the region as it
  // is if other threads work there; never waits for them with a region busy.
  void TryToOpen(size_t region);
  // Opens the busy regions that the caller has taken. False if the system refuses.
  bool OpenTaken(Span taken);
  // Makes a region busy if it is protected and not busy. False if it is not, or another thread was
  // first.
  bool TakeProtected(size_t region);
  // Extends `taken` by the protected neighbours within [first, end), and takes them.
  Span TakeAround(Span taken, size_t first, size_t end);
  // Extends `taken` to its whole protected run. For the holder of opening_run_.
  Span TakeRun(Span taken);
  bool SetWritable(Span span);
  bool SetReadOnly(Span span);
  // Protects a busy run of open regions. Pages of [begin, end) are not pending afterwards; those
  // that are tracked are added to `dirty`. False if the system refuses.
  bool CloseRun(Span run, Addr begin, Addr end, DirtyRanges& dirty);
  bool Protect(Addr begin, Addr end, bool arm, VisitDirty visit, void* context, size_t* bytes);
  // Makes all regions writable. False if the system refuses some; a write opens those.
  bool UnprotectAll();
  Word PagesIn(size_t region, Addr begin, Addr end) const;
  void AddPages(size_t region, Word pages, DirtyRanges& dirty) const;
  Addr AddressOfRegion(size_t region) const { return regions_.base() + (region << kRegionShift); }
  bool IsProtected(size_t region) const;
  size_t RegionCount() const { return regions_.IndexOf(regions_.covered_end()); }
  size_t BlockRegions() const;
  void CountRuns();

  SideTable<Atomic<Word>> regions_;
  bool executable_ = false;
  // The maximum number of protected runs; each run costs two mappings.
  int64_t max_runs_ = 0;
  // An estimate of the number of protected runs, which only sizes blocks: off by the runs that open
  // while CountRuns corrects it. And what CountRuns has found last.
  Count<int64_t> runs_{0};
  Hint<int64_t> runs_counted_{0};
  Atomic<uint32_t> opening_run_{0};  // 1: a thread opens a whole run
  Atomic<uint64_t> protections_{0};  // calls of mprotect that took access away
  Count<uint64_t> faults_{0};
  Count<uint64_t> refusals_{0};
};

}  // namespace gleaner::platform
