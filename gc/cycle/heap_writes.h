// What the program writes into the scanned space: arming its pages with a tracker, and making the
// cards that the tracker reports pending.
//
// Used by concurrent cycles (gc/cycle/cycle.h), and by minor collections, for which writes are
// remembered from one collection to the next (docs/design/collection.md). While a cycle is under
// way nothing is remembered: arming for the cycle drops the record of writes.
//
// All under the collector lock, except where a function says otherwise; the rescan set as
// gc/mark/rescan_set.h says.
#pragma once

#include "gc/mark/rescan_set.h"
#include "gc/mark/worker_pool.h"
#include "platform/tracking/write_tracking.h"

namespace gleaner::gc {

class HeapWrites {
 public:
  void Init(WorkerPool* pool) { pool_ = pool; }

  // --- The tracker. ---
  // Whether cycles can use the mechanism: they fetch while the program runs.
  static bool CanServeCycles(platform::TrackingKind kind) {
    return kind != platform::TrackingKind::kNone &&
           !platform::TraitsOf(kind).fetch_needs_stopped_world;
  }
  // Whether cycles can use the tracker that is open, or else `kind`. If not, refusal() says so.
  [[nodiscard]] bool AcceptsForCycles(platform::TrackingKind kind) {
    return CanServeCycles(IsTracking() ? tracker_.kind() : kind) ||
           Refuse({"the world must be stopped to ask what was written", 0});
  }
  // Writes may be tracked in cycles from now on. False if the system refuses to track writes by
  // `kind`, or refuses the address space for the tables; refusal() says which. If a tracker is open
  // already, that tracker is used and `kind` is ignored. pre: AcceptsForCycles(kind); if the kind
  // does not see plain stores, the program announces all of them. For Cycle::Enable, which has
  // tables of its own.
  [[nodiscard]] bool OpenForCycles(platform::TrackingKind kind);
  // Any thread. Acquire: pairs with the release in OpenForCycles, so that the opened tracker is
  // visible.
  bool ServesCycles() const { return serves_cycles_.Load(platform::memory_order_acquire); }
  // Writes may be tracked from one collection to the next. Result as for OpenForCycles. `kind`: any
  // but kNone.
  [[nodiscard]] bool OpenForMinors(platform::TrackingKind kind);
  bool ServesMinors() const { return IsTracking() && memory_.max() != 0; }
  // pre: IsTracking().
  const platform::WriteTracking& tracker() const { return tracker_; }
  bool IsTracking() const { return opened_ && !lost_; }
  // The system has refused an operation of the tracker, and refusal() says which. No write is
  // tracked any more.
  bool HasLostTracker() const { return lost_; }
  const platform::Refusal& refusal() const { return refusal_; }
  // Sets refusal(), unless the tracker is lost: then refusal() says why it is. False.
  bool Refuse(const platform::Refusal& refusal) {
    if (!lost_) refusal_ = refusal;
    return false;
  }
  // Loses the tracker if a filter of system calls bars it (platform/os/filters.h).
  void LoseTrackerIfBarred() {
    if (!IsTracking() || !tracker_.IsBarred()) return;
    Refuse(tracker_.refusal());
    LoseTracker();
  }
  void RespectFilters(bool respect) { tracker_.RespectFilters(respect); }
  // Another tracker may be opened afterwards. pre: no cycle is under way, and no page is pinned.
  void CloseTracker();
  void ResetAfterFork();

  // --- What it costs. ---
  // What first writes that make `bytes` dirty take the program.
  double FaultNs(uint64_t bytes) const;
  // Bytes that the program has written to for the first time in the last collection's period, as
  // far as the collection fetched them: it was a minor one, or marked concurrently; else 0.
  uint64_t written_bytes() const {
    return written_bytes_.Get();  // the fetches are over
  }
  // What the program is expected to write to for the first time from one collection to the next, of
  // `bytes` that are tracked: as large a part as before the last minor collection, or of the last
  // sample; all, before the first of these.
  double ExpectedBytes(uint64_t bytes) const {
    return written_part_ < 0 ? static_cast<double>(bytes)
                             : written_part_ * static_cast<double>(bytes);
  }
  bool KnowsWritten() const { return written_part_ >= 0; }
  // Whether pages rest whose faults take longer than scanning them (PageMemory): not where one
  // fault opens more than a page, or where bits are cleared that all pages have. pre: IsTracking().
  bool CanRest() const {
    const platform::TrackingTraits& traits = tracker_.traits();
    return traits.opened_bytes <= alloc::kPageBytes && !traits.fetch_needs_stopped_world;
  }
  // A minor collection is over, in whose period `bytes` were tracked.
  void LearnWritten(uint64_t bytes) {
    const auto written = static_cast<double>(written_bytes() + resting_bytes_);
    const double part = written / static_cast<double>(bytes + 1);
    written_part_ = part < 1 ? part : 1;
  }
  // Finds out how much that is, by tracking some of the pages, evenly, until the next collection of
  // the whole heap: as many as make the program lose at most `max_ns`. Nothing is remembered.
  void SampleWorldStopped(double max_ns);
  // Whether a sample has been counted; once.
  bool TakeCounted() {
    const bool counted = has_counted_;
    has_counted_ = false;
    return counted;
  }
  // What the last sample has cost the program, in nanoseconds; once.
  double TakeSampleNs() {
    const double ns = sample_ns_;
    sample_ns_ = 0;
    return ns;
  }
  // Nanoseconds that these writes have taken.
  uint64_t fault_ns() const { return static_cast<uint64_t>(FaultNs(written_bytes())); }

  // --- For a cycle. ---
  // Pages to arm, or to disarm, in one step: 80 us. Pages to fetch from in one step: 25 us, and 0.1
  // us a dirty page.
  static constexpr alloc::PageNumber kArmPages = 32 * kMiB / alloc::kPageBytes;
  static constexpr alloc::PageNumber kFetchPages = 64 * kMiB / alloc::kPageBytes;
  // The end of the next piece of [from, end), which has at most `max` pages.
  static alloc::PageNumber PieceEnd(alloc::PageNumber from, alloc::PageNumber end,
                                    alloc::PageNumber max) {
    return end - from > max ? from + max : end;
  }
  RescanSet& rescan_set() { return rescan_set_; }
  const RescanSet& rescan_set() const { return rescan_set_; }
  // What is written counts from now on: for a cycle that begins to arm, a minor collection that
  // begins to fetch, or until the next of these after a stop-parallel collection.
  void BeginPeriod() {
    written_bytes_.Set(0);  // no worker fetches
  }
  // Arms the pages of [begin, end) that have objects, except current pages of threads. If the
  // tracker reports unarmed pages as dirty, that suffices: objects on the other pages are allocated
  // during the cycle, and the program writes those pages anyway. With other trackers arms all
  // pages. False if the system refuses something; refusal() says what.
  bool Arm(alloc::PageNumber begin, alloc::PageNumber end);
  // The system has refused an operation that the tracker cannot go on without.
  void LoseTracker();
  // Reported cards become pending; writes that are not reported are visible from now on
  // [inv.fetch]. Counts the bytes reported.
  void Fetch(alloc::PageNumber begin, alloc::PageNumber end);
  // Called when all pages are armed, or fetched from. False if the system refuses.
  bool FinishRound() { return tracker_.FinishRound(); }
  // With the world stopped: fetches from all pages below `end` for the last time, in pieces that
  // workers claim. All workers take part if the tracker allows it.
  void FetchLastWorldStopped(alloc::PageNumber end);
  // Pages below `end` may be armed, and need not be.
  void DisarmBelow(alloc::PageNumber end);
  // Disarms a piece of these pages. False when none is left.
  bool DisarmSome();

  // --- For minor collections. ---
  // Whether it is known which old objects have been written since the last collection.
  bool Remembers() const { return remembers_; }
  // Called after an event other than a tracked write that may let an old object refer to a young
  // one.
  void Forget() { remembers_ = false; }
  // A full collection begins: no page counts as armed any more. Pages that are armed are disarmed
  // after it, unless writes are remembered again.
  void ForgetWorldStopped();
  // Tracks writes to old objects from now on. Remembers() afterwards, unless the system refuses.
  // `swept`: the sweep is over.
  void RememberWorldStopped(bool swept);
  // What has been written since then becomes pending. False if this collection has to be a full
  // one. `scan_ns`: what scanning a page takes. pre: Remembers().
  bool RecallWorldStopped(double scan_ns);

 private:
  // A last fetch from fewer pages (0.2 ms) wakes no helpers.
  static constexpr alloc::PageNumber kMinSharedFetchPages = 512 * kMiB / alloc::kPageBytes;

  // State of a page of the scanned space at the end of a collection.
  enum Memory : uint8_t {
    kNothingOld = 0,   // the page has no old objects, unless one has grown into it since
    kTracked,          // the page is armed
    kCountsAsWritten,  // the page may have old objects and is not armed
    kInSample,         // the page is armed, and nothing is remembered
  };
  // A page that the program writes between all collections costs it a fault each time, where it
  // would be cheaper to scan the page. Whether it does so is known only while the page is armed.
  // So a page whose faults have taken as long as scanning it r times is not armed, and counts as
  // written, for the next r collections. If it is written meanwhile, the faults are saved; if not,
  // scanning it has cost as much as the faults did. So this costs at most twice what knowing would.
  //
  // A page stays armed when its objects die, and is a fault's cost for nothing when it is allocated
  // in again. So a page that is armed and need not be is disarmed after the stop.
  struct PageMemory {
    Memory memory;
    bool is_armed;  // for a minor collection or a sample, and not disarmed since
    uint8_t rests;  // collections for which the page is not armed
  };
  bool Open(platform::TrackingKind kind);
  // Commits the table of pages. False, and the tracker is lost, if there is no memory for it.
  bool CoverMemory(alloc::PageNumber end);
  static Memory MemoryOf(alloc::PageNumber page, bool swept);
  // Ends the sample, if there is one.
  void CountSample();
  // No page is armed.
  void ForgetArmed();
  // Commits tables for pages up to `end`.
  bool Cover(alloc::PageNumber end);
  static void FetchPieces(void* writes, int worker);
  // A VisitDirty of this object: the range becomes pending, and its pages rest.
  static void SetPendingAndRest(void* writes, Addr from, Addr to);

  WorkerPool* pool_ = nullptr;
  platform::WriteTracking tracker_;
  enum class Tables : uint8_t { kUntried, kReserved, kRefused };
  Tables tables_ = Tables::kUntried;             // reserving the tables is tried once
  bool opened_ = false;                          // tracker_ is open
  bool lost_ = false;                            // the system has refused to go on with tracker_
  platform::Atomic<bool> serves_cycles_{false};  // written under the lock
  bool remembers_ = false;
  platform::Refusal refusal_;  // the last refusal
  RescanSet rescan_set_;
  // For each page; pages beyond the committed part are {kNothingOld, false, 0}.
  alloc::ReservedArray<PageMemory> memory_;
  double rests_per_byte_ = 0;             // that is written
  alloc::PageNumber sample_begin_ = 0;    // the first page of the last sample, if it had objects
  bool has_counted_ = false;              // TakeCounted
  bool is_sampling_ = false;              // there may be pages that are kInSample
  double written_part_ = -1;              // ExpectedBytes; less than 0: not known
  double sample_ns_ = 0;                  // TakeSampleNs
  alloc::PageNumber to_disarm_ = 0;       // pages below may be armed, and need not be
  alloc::PageNumber armed_by_cycle_ = 0;  // pages below may be armed by the last cycle
  uint64_t resting_bytes_ = 0;            // of pages that rest since the last collection
  platform::Count<uint64_t> written_bytes_{0};  // fetched in this period
  // Of the last fetch: its end, and the pieces that FetchPieces claims.
  alloc::PageNumber fetch_end_ = 0;
  platform::Tickets<uint32_t> next_piece_{0};
};

}  // namespace gleaner::gc
