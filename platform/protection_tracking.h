// Write tracking by mprotect and SIGSEGV.
//
// Memory is protected in regions of 64 KiB: all of a region is read-only, or all is writable. The
// first write to a protected region faults; the handler makes an aligned block of regions
// writable ("opens" it) and their pages dirty. Every change of protection inside a mapping splits
// it, and a process may only have so many (vm.max_map_count): the block is 64 KiB as long as we
// have few, and doubles as the budget is used up. If the system refuses all the same, the
// whole contiguous protected run around the fault is opened, by one thread at a time, which splits
// nothing and so cannot be refused for that reason; and what cannot be protected stays open and
// dirty.
//
// One word describes a region:
//
//   63    60 59     58       57     56          55    32 31         16 15          0
//   | unused | kept | unsure | busy | protected |  pins  |   pending   |   tracked   |
//
//   tracked    pages that are armed, one bit each
//   pending    pages to report at the next fetch
//   pins       system calls under way that write into the region; it is not protected meanwhile
//   protected  read-only
//   busy       one thread is changing the protection; nobody else changes the word
//   unsure     with protected: the system refused a change, and some of it may be writable
//   kept       the system may write into it at any time; it is not protected any more
//
//   [inv.open-is-dirty]  not busy, and unsure or not protected  =>  pending contains tracked.
//
// Who opens: takes busy, mprotect(writable), then stores pending = tracked and neither busy nor
// protected. Who fetches: takes busy, mprotect(read-only), then stores protected without the pages
// it is about to report. A write that needs no fault came before the second mprotect returned (the
// kernel interrupts all processors that may still write), so the scan of the reported page sees it;
// a later one faults, and its page is pending after that. A fetch that finds a region busy does
// not wait: it reports the tracked pages and leaves the word alone. If the other one is opening,
// they are pending afterwards; if it is fetching other pages, those of this fetch stay pending.
//
// The handler blocks all signals, and Pin does while it opens, in a critical section: no thread is
// stopped or interrupted by the program while it has a region busy. Arm, FetchAndRearm and Disarm
// are called with the program's signals blocked, or from threads that run none of its handlers. A
// fault that finds its region busy is simply tried again.
//
// Faults end even if no mappings are left. Whoever is refused a block tries for opening_run_; one
// has it, and the others, which have nothing busy, begin nothing until it is free. Those that began
// before, and fetches, end without waiting with a region in hand. So the holder gets all of the
// run: both of its neighbours are writable, in word and in fact, or there are none, and what lies
// there is inaccessible. Its ends are then ends of mappings, or lie in a mapping that is writable
// already (unsure regions), where mprotect changes nothing: nothing is split, and the system has
// no reason to refuse. Only a fetch that makes a neighbour read-only after the holder looked, and
// before its mprotect, can join it to the run and spoil the attempt; the fault is tried again, and
// once the fetch has passed that neighbour it cannot do so any more. A thread can hence be held up
// only by fetches that follow one another without end, each at that instant.
//
// A child of vfork shares memory, protection and words with its parent, whose other threads run on:
// it is one more thread here. A forked child has copies, and of the threads only its own: what it
// finds busy it takes (MemoryIsCopy), until ResetInChild.
#pragma once

#include "platform/dirty_ranges.h"
#include "platform/refusal.h"
#include "platform/side_table.h"

namespace gleaner::platform {

inline constexpr unsigned kRegionShift = 16;
inline constexpr size_t kRegionBytes = size_t{1} << kRegionShift;

class ProtectionTracking {
 public:
  struct Pinned {  // regions [first, end)
    size_t first = 0, end = 0;
  };

  constexpr ProtectionTracking() = default;

  // pre: base is a multiple of the region. Installs the handler of SIGSEGV, and opens that signal
  // for the calling thread. False after `why` has been written.
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

  // What follows is of the tracker that is open, if there is one. Also in signal handlers.
  //
  // The regions that hold a part of [begin, end), which may be any memory.
  static Pinned RegionsForCall(Addr begin, Addr end);
  static void PinForCall(Pinned regions);
  static void UnpinAfterCall(Pinned pinned);
  // The system may write into [begin, end) at any time from now on: the regions stay writable, and
  // dirty, for good.
  static void KeepOpen(Addr begin, Addr end);

  uint64_t faults() const { return faults_.Load(memory_order_relaxed); }      // figures
  uint64_t refusals() const { return refusals_.Load(memory_order_relaxed); }  // likewise

 private:
  using Word = uint64_t;
  struct Span {  // regions [first, end)
    size_t first, end;
  };

  static bool OnFault(Addr address);
  bool Handle(Addr address);
  Pinned RegionsOf(Addr begin, Addr end) const;
  // Pins the regions, or keeps them open.
  void Hold(Pinned regions, bool keep);
  // Opens the region and the protected ones around it that belong to its block. May leave it as it
  // is if others are at work there; never waits for them with a region busy.
  void TryToOpen(size_t region);
  // Opens what the caller has taken. False if the system refuses.
  bool OpenTaken(Span taken);
  // Makes a region busy if it is protected and not busy. False if it is not so.
  bool TakeProtected(size_t region);
  // Extends what is taken to protected neighbours within [first, end).
  Span TakeAround(Span taken, size_t first, size_t end);
  // Extends it to all of the protected run that it is in. For the holder of opening_run_.
  Span TakeRun(Span taken);
  bool SetWritable(Span span);
  bool SetReadOnly(Span span);
  // Makes a run that is busy and open protected, without the pages of [begin, end) pending; the
  // pages of that range are added to `dirty`. False if the system refuses.
  bool CloseRun(Span run, Addr begin, Addr end, DirtyRanges& dirty);
  bool Protect(Addr begin, Addr end, bool arm, VisitDirty visit, void* context, size_t* bytes);
  // False if the system refuses; then a write opens what it could not.
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
  // How many protected runs there may be; each costs two mappings.
  int64_t max_runs_ = 0;
  // About how many there are. Relaxed, and wrong by races: it only sizes blocks. CountRuns puts it
  // right.
  Atomic<int64_t> runs_{0};
  Atomic<int64_t> runs_counted_{0};
  Atomic<uint32_t> opening_run_{0};  // 1: a thread opens a whole run
  Atomic<uint64_t> protections_{0};  // calls of mprotect that took access away
  Atomic<uint64_t> faults_{0};
  Atomic<uint64_t> refusals_{0};
};

}  // namespace gleaner::platform
