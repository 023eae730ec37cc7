// Write tracking: which OS pages of the heap the program has written since they were last looked
// at.
//
// One of several mechanisms does it, each in a file of its own; docs/write_tracking.md compares
// them, gives the argument why each loses no write, and says what none of them can see.
//
//   kUserfaultfd  userfaultfd write-protection in asynchronous mode, fetched by PAGEMAP_SCAN
//   kSoftDirty    the kernel's soft-dirty bits; fetched only while nobody writes
//   kProtection   mprotect and SIGSEGV; system calls need Pin
//   kCards        the program announces its stores by MarkDirty
//   kNone         every page counts as written
//
// A page is untracked, clean or dirty:
//
//               Arm                     write                  FetchAndRearm, reported
//   untracked --------> clean <-------------------> dirty  (dirty --------------> clean)
//        ^                |           |
//        +---- Disarm ----+-----------+
//
// [inv.no-lost-write] A write to an armed page that is not ordered before the report of a fetch is
// reported by a later fetch. Pages may be reported without having been written; never the other way
// round. Whatever a mechanism cannot do (the system refuses, the program has closed a descriptor)
// turns pages dirty, not clean.
//
// A range to fetch is re-armed first and reported second, so a visitor that scans what it is given
// sees every write that no later fetch will report.
//
// Threads. Open and Close: nobody else uses the tracker. CoverUpTo: one caller at a time. Arm,
// FetchAndRearm, Disarm: any number of threads of the collector at once, on disjoint ranges, while
// mutators run and may be anywhere in a write. MarkDirty, Pin, Unpin: any thread, any time; Pin and
// Unpin not in signal handlers. A round is a set of Arm or FetchAndRearm calls; its last step is
// FinishRound, by one thread, after the calls have returned.
//
// All ranges are multiples of kTrackedPageBytes inside the part of the reservation that CoverUpTo
// was called for, and neighbours of a range within the same 64 KiB are readable and writable too
// (a heap commits memory in larger steps). Nobody changes the protection of armed memory; it may be
// discarded and reused while armed.
#pragma once

#include "platform/card_tracking.h"
#include "platform/dirty_ranges.h"
#include "platform/protection_tracking.h"
#include "platform/refusal.h"
#include "platform/soft_dirty_tracking.h"
#include "platform/userfaultfd_tracking.h"

namespace gleaner::platform {

enum class TrackingKind : uint8_t { kNone, kUserfaultfd, kSoftDirty, kProtection, kCards };
inline constexpr size_t kTrackingKinds = 5;

struct TrackingTraits {
  const char* name;
  size_t unit_bytes;  // what is reported is a multiple of it, in place and size
  // System calls that write into armed memory succeed and are seen. If not: kProtection makes them
  // fail with EFAULT unless the buffer is pinned; kCards does not see them.
  bool sees_system_calls;
  bool sees_plain_stores;  // without MarkDirty
  bool unarmed_is_dirty;   // a fetch reports pages that were not armed and have been written
  // FetchAndRearm and FinishRound lose writes that happen meanwhile: only with the world stopped,
  // and a round covers all that is armed.
  bool fetch_needs_stopped_world;
  bool last_fetch_is_shared;  // several threads may FetchLast at once
  // Rough costs on a 2.x GHz server, for pacing; measured by bench/micro/write_tracking_bench.cc.
  uint32_t first_write_ns;       // the program's, for the first write to a clean unit
  uint32_t arm_page_ns;          // the collector's, for each page armed
  uint32_t fetch_dirty_page_ns;  // for each page found dirty, scattered
  uint32_t fetch_clean_page_ns;  // for each page looked at
};
const TrackingTraits& TraitsOf(TrackingKind kind);

// What is tried where nobody asks for a certain mechanism. Not soft-dirty bits:
// docs/write_tracking.md, "Choice".
inline constexpr TrackingKind kBestFirst[] = {TrackingKind::kUserfaultfd,
                                              TrackingKind::kProtection};

struct TrackingConfig {
  // The reservation; a multiple of kRegionBytes. kProtection: the page below is inaccessible, so
  // that the system does not join what is read-only there to read-only memory of somebody else.
  Addr base = 0;
  size_t bytes = 0;
  bool executable = false;  // armed memory may hold code
  size_t max_mappings = 0;  // kProtection: mappings it may add; 0: half of what the system allows
};

struct TrackingCounts {
  uint64_t faults = 0;         // kProtection: signals that opened something
  uint64_t refusals = 0;       // kProtection: changes of protection that the system refused
  uint64_t registrations = 0;  // kUserfaultfd: descriptors opened; more than one: some were lost
};

class WriteTracking {
 public:
  constexpr WriteTracking() = default;
  WriteTracking(const WriteTracking&) = delete;
  WriteTracking& operator=(const WriteTracking&) = delete;

  // Whether the mechanism works here, found out by tracking a write to a few pages. If not, `why`
  // (unless null) says why not. Takes some 100 us. For kProtection no other tracker may be open:
  // there is one signal handler.
  static bool Works(TrackingKind kind, Refusal* why = nullptr);
  // The first of kBestFirst that works, or kNone.
  static TrackingKind BestKind();

  // Tracks writes by that mechanism. False if it is refused; the tracker stays closed, and
  // refusal() says why. Does not check that the mechanism works. One tracker of kProtection at a
  // time; the calling thread has SIGSEGV open afterwards.
  [[nodiscard]] bool Open(TrackingKind kind, const TrackingConfig& config);
  // Disarms everything.
  void Close();
  bool is_open() const { return open_; }
  TrackingKind kind() const { return kind_; }
  const TrackingTraits& traits() const { return TraitsOf(kind_); }
  TrackingCounts counts() const;
  // What the last Open, Arm or FinishRound that failed was refused. Read when no thread is in one.
  Refusal refusal() const;
  // pre: kCards. The words of the program's barrier.
  uint8_t* card_table() const { return cards_.table(); }
  size_t card_mask() const { return cards_.mask(); }

  // Memory of [base, end) is committed; called before anybody writes there. False if there is no
  // memory for the tables.
  [[nodiscard]] bool CoverUpTo(Addr end);

  // Pages of the range are clean from here on, but for what is written meanwhile. False if the
  // system refuses: they count as dirty then, and tracking does no good.
  bool Arm(Addr begin, Addr end);
  // Calls visit(context, begin, end) for the dirty parts of an armed range, in address order,
  // neighbours joined; each is armed again before it is visited. Returns the bytes visited.
  size_t FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context);
  // The same for pages that are going to be disarmed: they may stay unarmed, which is cheaper. If
  // the traits say so, several threads at once, for ranges that do not overlap.
  size_t FetchLast(Addr begin, Addr end, VisitDirty visit, void* context);
  // Ends a round. False if the system refuses: as Arm.
  bool FinishRound();
  // The pages are untracked, writable and cost nothing.
  void Disarm(Addr begin, Addr end);

  // A pointer at `address` was stored, or is about to be overwritten again: called after the store.
  // Any address; those outside of the heap are ignored. Only kCards does anything.
  void MarkDirty(Addr address) {
    if (kind_ == TrackingKind::kCards) cards_.MarkDirty(address);
  }

  // Around a system call that writes into [begin, end), any memory: the pages are writable and
  // count as dirty until Unpin of what Pin returned. Costs a comparison if it is not the heap's.
  using Pinned = ProtectionTracking::Pinned;
  Pinned Pin(Addr begin, Addr end) {
    return kind_ == TrackingKind::kProtection ? protection_.Pin(begin, end) : Pinned{};
  }
  void Unpin(Pinned pinned) { protection_.Unpin(pinned); }

  // In a forked child, before it has other threads: nothing is armed there any more. The parent
  // goes on undisturbed.
  void ResetInChild();

 private:
  TrackingKind kind_ = TrackingKind::kNone;
  bool open_ = false;
  Refusal refusal_;  // of what is not a mechanism's own
  UserfaultfdTracking userfaultfd_;
  SoftDirtyTracking soft_dirty_;
  ProtectionTracking protection_;
  CardTracking cards_;
};

}  // namespace gleaner::platform
