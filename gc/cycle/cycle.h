// A cycle that marks concurrently, up to and including its final stop:
// docs/design/concurrent_cycle.md, steps 1 to 6.
//
//   kIdle       no cycle, or a cycle that sweeps (gc/finish/sweeper.h)
//   kArming     the pages of the scanned space are armed, piece by piece
//   kRoots      new objects are black; a handshake with each thread in turn, then the other roots
//   kMarking    slices of marking; when all is drained, a fetch and a round of rescanning
//   kReady      the final stop is next
//   kAbandoned  a fork has ended the cycle; the next stop turns black objects white again
//
//   kIdle -> kArming -> kRoots -> kMarking -> kReady -> kIdle   Start, Advance, the stop
//   kArming -> kIdle                  the system refuses to track (the tracker is lost), or
//                                     DiscardMarks
//   kRoots, kMarking -> kIdle         the stop comes early, and marks what is left
//   kRoots, kMarking, kReady -> kAbandoned   a fork, in the child
//   kArming, kRoots, kMarking, kReady, kAbandoned -> kIdle   a stop that discards the marks
//
// From kRoots on, DiscardMarks leaves the state as it is, and Advance asks for the stop.
//
// Call order: Init; Enable; then for each cycle Start, Advance until it returns kStop, and in the
// stop GoOnWorldStopped, Marker::MarkFromRoots, RescanLastWorldStopped; then DisarmSome until it
// returns false. When Advance returns kMark, the caller releases the lock and calls Mark.
//
// Who drives: a thread calls Advance under the collector lock, and each call is a short step. The
// thread is the driver, or else a mutator at a poll. Marking is done without the lock: Advance
// opens a slice, and Mark does it. Another thread that needs the marker takes the lock and calls
// AwaitSlice. A mutator enters a critical section before it releases the lock to mark, so no
// mutator is stopped with a slice. The driver is not stopped, so the thread that stops the world
// calls AwaitSlice first.
//
// Who may touch what: state_, the tracker, words_ and armed_end_ under the lock; drained_ and the
// marker by the thread that has the slice, else under the lock; the rescan set as
// gc/mark/rescan_set.h says.
#pragma once

#include "gc/cycle/handshakes.h"
#include "gc/cycle/throttle.h"
#include "gc/mark/marker.h"
#include "gc/mark/rescan_set.h"
#include "gc/mark/shadow_copies.h"
#include "observe/events.h"
#include "platform/tracking/write_tracking.h"

namespace gleaner::gc {

enum class CycleState : uint8_t { kIdle, kArming, kRoots, kMarking, kReady, kAbandoned };
constexpr const char* NameOf(CycleState state) {
  constexpr const char* kNames[] = {"idle", "arming", "roots", "marking", "ready", "abandoned"};
  return kNames[static_cast<int>(state)];
}

class Cycle {
 public:
  void Init(const Handshakes* handshakes, Marker* marker, WorkerPool* pool) {
    pool_ = pool;
    handshakes_ = handshakes;
    marker_ = marker;
  }

  // --- Any thread: hints without the lock. ---
  // Acquire: pairs with the release in Enable, so that the opened tracker is visible.
  bool enabled() const { return enabled_.Load(platform::memory_order_acquire); }
  CycleState state() const { return state_.Get(); }
  // For readers of another process.
  const platform::Hint<CycleState>& state_place() const { return state_; }
  bool IsUnderWay() const {
    return state() != CycleState::kIdle && state() != CycleState::kAbandoned;
  }

  // --- Guarded by the collector lock. ---
  // Whether cycles can use the mechanism: they fetch while the program runs.
  static bool CanUse(platform::TrackingKind kind) {
    return kind != platform::TrackingKind::kNone &&
           !platform::TraitsOf(kind).fetch_needs_stopped_world;
  }
  // Cycles may be started from now on. False if the system refuses to track writes by `kind`, or
  // refuses the address space for the tables; refusal() says which. If a tracker is open already,
  // that tracker is used and `kind` is ignored. pre: if the kind does not see plain stores, the
  // program announces all of them.
  [[nodiscard]] bool Enable(platform::TrackingKind kind);
  // pre: IsTracking().
  const platform::WriteTracking& tracker() const { return tracker_; }
  bool IsTracking() const { return opened_ && !lost_; }
  // The system has refused an operation of the tracker, and refusal() says which. No write is
  // tracked any more.
  bool HasLostTracker() const { return lost_; }
  const platform::Refusal& refusal() const { return refusal_; }
  // Loses the tracker if a filter of system calls bars it (platform/os/filters.h).
  void LoseTrackerIfBarred() {
    if (IsTracking() && tracker_.IsBarred()) LoseTracker(tracker_.refusal());
  }
  void RespectFilters(bool respect) { tracker_.RespectFilters(respect); }
  // Another tracker may be enabled afterwards. pre: kIdle, and no page is pinned.
  void CloseTracker();

  // --- Generational mode (docs/design/collection.md). Guarded by the collector lock. ---
  // Writes may be tracked from one collection to the next without a cycle under way. Result as for
  // Enable. `kind`: any but kNone.
  [[nodiscard]] bool EnableMemory(platform::TrackingKind kind);
  bool CanRemember() const { return IsTracking() && memory_.max() != 0; }
  // Whether it is known which old objects have been written since the last collection.
  bool Remembers() const { return remembers_; }
  // Called after an event other than a tracked write that may let an old object refer to a young
  // one.
  void Forget() { remembers_ = false; }

  // Begins a cycle. pre: kIdle, and no sweep is under way. `allocated_bytes`: since the last
  // collection. `has_driver`: a thread that is no mutator calls Advance. `pause_target_ns`: for the
  // final stop; 0 for the default.
  void Start(const MarkConfig& config, uint64_t allocated_bytes, bool has_driver = false,
             uint64_t pause_target_ns = 0);

  enum class Next : uint8_t {
    kAgain,    // call again, now or later
    kMark,     // a slice is open: the caller releases the lock and calls Mark
    kStop,     // it is time for the final stop
    kNothing,  // another thread has a slice, or there is no cycle
  };
  // Makes one step of at most some 300 us. `stack_pointer`: the caller's, if it is a mutator; its
  // registers are spilled above.
  Next Advance(Addr stack_pointer);
  // Scans about `slice_bytes`. Without the lock. pre: Advance has returned kMark to this thread.
  void Mark(uint64_t slice_bytes);
  // Returns when no thread has a slice. pre: not in a critical section.
  void AwaitSlice();
  // The marks of the cycle under way must not decide which objects live. Awaits the slice.
  void DiscardMarks();

  // Estimated bytes that are left to scan.
  uint64_t WorkLeft() const;
  // Makes the urgency at least `urgency`. No effect without a driver. Guarded by the lock.
  void Raise(Urgency urgency);
  Throttle& throttle() { return throttle_; }
  // The estimated part of the marking that is done, 1 for all; any thread, as a hint.
  double Progress() const;

  // Called after the cycle: disarms a piece of the armed pages. False when none is left. Pages that
  // are still armed when the next cycle starts stay armed.
  bool DisarmSome();

  // --- With the world stopped, runs retired, and no slice. ---
  // Whether the marks of the cycle count in this stop. True: the marker is ready for MarkFromRoots
  // with the current roots, and all cards that may have changed are pending. False: there is no
  // cycle, or its marks are discarded (`discard`, DiscardMarks or a fork), and all objects are
  // white.
  bool GoOnWorldStopped(bool discard);
  // After MarkFromRoots; only if GoOnWorldStopped or BeginMinorWorldStopped returned true. Rescans
  // until no card is pending, and ends the cycle.
  void RescanLastWorldStopped();
  // Begins a minor collection: what has been written since the last collection becomes pending, and
  // the marker is ready for MarkFromRoots. False if this collection has to be a full one. pre:
  // Remembers(), no cycle is under way. RescanLastWorldStopped comes after MarkFromRoots.
  bool BeginMinorWorldStopped(const MarkConfig& config);
  // Tracks writes to old objects from now on. Remembers() afterwards, unless the system refuses.
  // `swept`: the sweep is over. The world is stopped.
  void RememberWorldStopped(bool swept);
  // What a first write to armed memory takes the program: WriteTracking::Works has measured it. 0
  // before.
  void SetFirstWriteNs(uint32_t ns) { first_write_ns_ = ns; }
  uint32_t first_write_ns() const { return first_write_ns_; }
  // What first writes that make `bytes` dirty take the program.
  double FaultNs(uint64_t bytes) const;
  // Bytes that the program has written to for the first time in the last collection's period, as
  // far as the collection fetched them: it was a minor one, or marked concurrently; else 0.
  uint64_t written_bytes() const {
    return written_bytes_.Get();  // the fetches are over
  }
  // Nanoseconds that these writes have taken.
  uint64_t fault_ns() const { return static_cast<uint64_t>(FaultNs(written_bytes())); }
  // The settings of the cycle under way.
  const MarkConfig& config() const { return config_; }

  // Called once after the marking of a full collection. Returns the bytes that it scanned, without
  // those scanned again in rounds and without objects allocated during the cycle.
  uint64_t EndMarking();
  uint64_t last_scanned_bytes() const { return last_scanned_bytes_; }

  // In a forked child.
  void ResetAfterFork();

 private:
  static constexpr size_t kArmBytes = 32 * kMiB;    // armed in one step: 80 us
  static constexpr size_t kFetchBytes = 64 * kMiB;  // in one step: 25 us, and 0.1 us a dirty page
  // A last fetch of fewer bytes (0.2 ms) wakes no helpers.
  static constexpr size_t kMinSharedFetchBytes = 512 * kMiB;
  // A gap of fewer pages without objects is armed with its neighbours: each arming call interrupts
  // all processors that run the program.
  static constexpr alloc::PageNumber kMinGapPages = 16;
  // Maximum of rounds. Another round is made while more cards are pending than the quota and fewer
  // than before the last round: a program may write faster than the markers scan.
  static constexpr int kMaxRounds = 12;
  static constexpr uint64_t kUsualPauseTargetNs = 2'000'000;
  static constexpr uint64_t kNsPerCard = 1000;  // to rescan a card in the final stop

  // State of a page of the scanned space at the end of a collection.
  enum Memory : uint8_t {
    kNothingOld = 0,   // the page has no old objects, unless one has grown into it since
    kTracked,          // the page is armed
    kCountsAsWritten,  // the page may have old objects and is not armed
  };
  bool Open(platform::TrackingKind kind);
  void LoseTracker(const platform::Refusal& refusal);
  bool Cover(alloc::PageNumber end);
  bool ArmObjects(alloc::PageNumber begin, alloc::PageNumber end);
  Next Arm();
  Next Handshake(Addr stack_pointer);
  Next Round();
  size_t PendingCards() const;
  // Fetches from all armed pages, in pieces that workers claim. All workers take part if the
  // tracker allows it.
  void FetchLastWorldStopped();
  static void FetchPieces(void* cycle, int worker);
  // Reported cards become pending; writes that are not reported are visible from now on
  // [inv.fetch]. Counts the bytes reported.
  void Fetch(alloc::PageNumber begin, alloc::PageNumber end);
  void SetState(CycleState state) {
    platform::MaybeDelay();
    state_.Set(state);
    platform::OnCycleState(state);
    platform::MaybeDelay();
  }

  const Handshakes* handshakes_ = nullptr;
  Marker* marker_ = nullptr;
  WorkerPool* pool_ = nullptr;
  // Guarded by the collector lock, except where a field says otherwise.
  platform::Atomic<bool> enabled_{false};                // written under the lock
  platform::Hint<CycleState> state_{CycleState::kIdle};  // written under the lock
  platform::WriteTracking tracker_;
  enum class Tables : uint8_t { kUntried, kReserved, kRefused };
  Tables tables_ = Tables::kUntried;  // reserving the tables is tried once
  bool opened_ = false;               // tracker_ is open
  bool lost_ = false;                 // the system has refused to go on with tracker_
  uint32_t first_write_ns_ = 0;
  platform::Refusal refusal_;  // the last refusal
  RescanSet rescan_set_;
  ShadowCopies shadows_;
  bool remembers_ = false;
  // A Memory for each page; pages beyond the committed part are kNothingOld.
  alloc::ReservedArray<uint8_t> memory_;
  MarkConfig config_;

  // Pages below are armed. Writes to pages beyond are not tracked: those pages count as written.
  alloc::PageNumber armed_end_ = 0;
  platform::Count<uint64_t> written_bytes_{0};  // fetched since the cycle began, or by a minor one
  platform::Tickets<uint32_t> next_piece_{0};   // pieces that FetchPieces claims
  alloc::PageNumber frontier_ = 0;              // kArming ends when pages up to here are armed
  alloc::PageNumber fetched_ = 0;               // the next page to fetch in this round
  alloc::PageNumber to_disarm_ = 0;             // after the cycle: pages below may be armed
  bool discards_marks_ = false;                 // the cycle's marks must not decide what lives
  size_t quota_ = 0;                            // a round with no more pending cards is the last
  RootTasks roots_;
  RootBuffer words_;
  RootPosition position_;
  int rounds_ = 0;
  bool is_last_round_ = false;       // when this round is scanned, the state becomes kReady
  uint64_t scanned_once_bytes_ = 0;  // bytes scanned before the first round
  size_t last_pending_cards_ = 0;    // pending cards when the last round began
  uint64_t last_scanned_bytes_ = 0;
  // Bytes to scan in this cycle: as many as in the last, and those allocated since. Written under
  // the lock.
  platform::Hint<uint64_t> expected_bytes_{0};
  // Bytes scanned in this cycle before the slice under way. Written by the thread that has the
  // slice.
  platform::Hint<uint64_t> scanned_{0};

  bool has_driver_ = false;
  Throttle throttle_;
  bool begun_ = false;                   // MarkFromRoots was called
  bool drained_ = false;                 // the last slice left no work; published by slice_
  platform::Atomic<uint32_t> slice_{0};  // 1 while a thread has a slice
};

}  // namespace gleaner::gc
