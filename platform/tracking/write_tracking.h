// Write tracking: which pages of the heap the program has written since the last fetch.
//
// There are several mechanisms, each in a file of its own; docs/design/write_tracking.md compares
// them, argues why each loses no write, and says which writes none of them sees.
//
//   kUserfaultfd  userfaultfd write-protection in asynchronous mode, fetched by PAGEMAP_SCAN
//   kSoftDirty    the kernel's soft-dirty bits; fetched only with the world stopped
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
// reported by a later fetch. Pages may be reported without having been written. A failure of a
// mechanism (the system refuses, the program has closed a descriptor) turns pages dirty, not clean.
//
// A fetch re-arms a range first and reports it second, so a visitor that scans the range sees every
// write that no later fetch will report.
//
// Threads. Open and Close: no other thread uses the tracker. CoverUpTo: one caller at a time. Arm,
// FetchAndRearm, Disarm: any number of threads of the collector at once, on disjoint ranges, while
// mutators run and may be anywhere in a write. MarkDirty, Pin, Unpin: any thread, any time; Pin and
// Unpin not in signal handlers. A round is a set of Arm or FetchAndRearm calls; its last step is
// FinishRound, by one thread, after the calls have returned.
//
// All ranges are multiples of kTrackedPageBytes inside the part of the reservation that CoverUpTo
// was called for, and neighbours of a range within the same 64 KiB are readable and writable too
// (a heap commits memory in larger steps). No code outside the tracker changes the protection of
// armed memory; armed memory may be discarded and reused.
#pragma once

#include "platform/common/dirty_ranges.h"
#include "platform/common/refusal.h"
#include "platform/mprotect/protection_tracking.h"
#include "platform/tracking/card_tracking.h"
#include "platform/tracking/soft_dirty_tracking.h"
#include "platform/tracking/userfaultfd_tracking.h"

namespace gleaner::platform {

enum class TrackingKind : uint8_t { kNone, kUserfaultfd, kSoftDirty, kProtection, kCards };
inline constexpr size_t kTrackingKinds = 5;

struct TrackingTraits {
  const char* name;
  size_t unit_bytes;  // reported ranges begin and end at multiples of this
  // System calls that write into armed memory succeed and are seen. Otherwise kProtection makes
  // them fail with EFAULT unless the buffer is pinned, and kCards does not see them.
  bool sees_system_calls;
  bool sees_plain_stores;  // without MarkDirty
  bool unarmed_is_dirty;   // a fetch also reports pages that were written and not armed
  // FetchAndRearm and FinishRound lose writes that happen meanwhile: they need a stopped world, and
  // a round covers all armed memory.
  bool fetch_needs_stopped_world;
  bool last_fetch_is_shared;  // several threads may FetchLast at once
  size_t opened_bytes;        // what the first write to clean memory makes dirty, at least
};
const TrackingTraits& TraitsOf(TrackingKind kind);

// The mechanisms tried if none is requested, in this order. docs/design/write_tracking.md,
// "Choice", says why soft-dirty bits are not among them.
inline constexpr TrackingKind kBestFirst[] = {TrackingKind::kUserfaultfd,
                                              TrackingKind::kProtection};

// Those that no correct program can notice.
inline constexpr TrackingKind kUnnoticed[] = {TrackingKind::kUserfaultfd, TrackingKind::kSoftDirty};

// The reason of a tracker that a filter bars. One object, so that it can be told by its address.
extern const Refusal kFilterRefusal;

struct TrackingConfig {
  // The begin of the reservation, a multiple of kRegionBytes. For kProtection the page below is
  // inaccessible, so that the system does not join read-only memory of the heap to other read-only
  // memory.
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

// What a mechanism costs, in nanoseconds; a property of the machine.
struct TrackingCosts {
  uint32_t first_write_ns = 0;  // the program's first write to clean memory; 0 where it is no fault
  uint32_t arm_ns = 0;          // a call of Arm for a few pages
};

class WriteTracking {
 public:
  constexpr WriteTracking() = default;
  WriteTracking(const WriteTracking&) = delete;
  WriteTracking& operator=(const WriteTracking&) = delete;

  // Whether the mechanism works on this system; tries it on a few pages. If not, `why` (unless
  // null) gets the reason. Takes some 100 us. For kProtection no other tracker may be open, since
  // there is one signal handler. `costs` (unless null) gets what it costs: the medians of a few
  // calls of Arm and writes to small pages, which take 0.4 ms more at most, unless a single one
  // takes longer. A first write takes 0.7 us in one virtual machine, 40 in another. All 0 if the
  // mechanism does not work, or where a first write is no fault.
  static bool Works(TrackingKind kind, Refusal* why = nullptr, TrackingCosts* costs = nullptr);
  // The first of kBestFirst that works, or kNone.
  static TrackingKind BestKind();

  // Starts tracking by the mechanism. False if the system refuses; the tracker stays closed, and
  // refusal() says why. Does not check that the mechanism works. One tracker of kProtection at a
  // time, which leaves SIGSEGV unblocked in the calling thread.
  [[nodiscard]] bool Open(TrackingKind kind, const TrackingConfig& config);
  // Disarms everything.
  void Close();
  bool is_open() const { return open_; }
  TrackingKind kind() const { return kind_; }
  const TrackingTraits& traits() const { return TraitsOf(kind_); }
  TrackingCounts counts() const;
  // The reason of the last failure of Open, Arm or FinishRound. pre: no thread is in one of them.
  Refusal refusal() const;
  // For the program's write barrier. pre: kCards.
  uint8_t* card_table() const { return cards_.table(); }
  size_t card_mask() const { return cards_.mask(); }

  // Prepares the tables for [base, end), which is committed; called before any thread writes there.
  // False if there is no memory for the tables.
  [[nodiscard]] bool CoverUpTo(Addr end);

  // Makes the pages of the range clean, except pages written during the call. False if the system
  // refuses: then the pages count as dirty, and tracking is of no use.
  bool Arm(Addr begin, Addr end);
  // Calls visit(context, begin, end) for the dirty parts of an armed range, in address order,
  // neighbours joined; each part is armed again before it is visited. Returns the bytes visited.
  size_t FetchAndRearm(Addr begin, Addr end, VisitDirty visit, void* context);
  // As FetchAndRearm, for pages that are going to be disarmed: they may stay unarmed, which is
  // cheaper. Several threads at once, on disjoint ranges, if traits().last_fetch_is_shared.
  size_t FetchLast(Addr begin, Addr end, VisitDirty visit, void* context);
  // Ends a round. False if the system refuses: then all pages count as dirty.
  bool FinishRound();
  // Makes the pages untracked: they are writable and cost nothing.
  void Disarm(Addr begin, Addr end);

  // Announces that a pointer was stored at `address`; called after the store. Addresses outside the
  // heap are ignored. Has an effect for kCards only.
  void MarkDirty(Addr address) {
    if (kind_ == TrackingKind::kCards) cards_.MarkDirty(address);
  }

  // Bracket a system call that writes into [begin, end), any memory: the pages stay writable and
  // count as dirty until Unpin of Pin's result. Outside the heap Pin costs a comparison.
  using Pinned = ProtectionTracking::Pinned;
  Pinned Pin(Addr begin, Addr end) {
    return kind_ == TrackingKind::kProtection ? protection_.Pin(begin, end) : Pinned{};
  }
  void Unpin(Pinned pinned) { protection_.Unpin(pinned); }

  // In a forked child, before it has other threads: no page is armed there afterwards. The parent
  // is not affected.
  void ResetInChild();

  // If true, every operation from Open on counts as refused and makes no system call once the
  // program has installed a filter (platform/os/filters.h). At first, and if the program has asked
  // for what needs the tracker, false.
  void RespectFilters(bool respect) { respects_filters_ = respect; }
  // Whether a filter bars the tracker: then refusal() says so.
  bool IsBarred() const;

 private:
  TrackingKind kind_ = TrackingKind::kNone;
  bool open_ = false;
  bool respects_filters_ = false;
  Refusal refusal_;  // the last failure, except userfaultfd's own and that of a filter
  UserfaultfdTracking userfaultfd_;
  SoftDirtyTracking soft_dirty_;
  ProtectionTracking protection_;
  CardTracking cards_;
};

}  // namespace gleaner::platform
