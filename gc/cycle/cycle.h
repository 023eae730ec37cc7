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
// stop GoOnWorldStopped, Marker::MarkFromRoots, Marker::FinishRescanWorldStopped; then
// HeapWrites::DisarmSome until it returns false. When Advance returns kMark, the caller releases
// the lock and calls Mark.
//
// Who drives: a thread calls Advance under the collector lock, and each call is a short step. The
// thread is the driver, or else a mutator at a poll. Marking is done without the lock: Advance
// opens a slice, and Mark does it. Another thread that needs the marker takes the lock and calls
// AwaitSlice. A mutator enters a critical section before it releases the lock to mark, so no
// mutator is stopped with a slice. The driver is not stopped, so the thread that stops the world
// calls AwaitSlice first.
//
// Who may touch what: state_, words_, armed_end_ and what HeapWrites holds under the lock; drained_
// and the marker by the thread that has the slice, else under the lock.
#pragma once

#include "gc/cycle/handshakes.h"
#include "gc/cycle/heap_writes.h"
#include "gc/cycle/throttle.h"
#include "gc/mark/marker.h"
#include "gc/mark/shadow_copies.h"
#include "observe/events.h"

namespace gleaner::gc {

enum class CycleState : uint8_t { kIdle, kArming, kRoots, kMarking, kReady, kAbandoned };
constexpr const char* NameOf(CycleState state) {
  constexpr const char* kNames[] = {"idle", "arming", "roots", "marking", "ready", "abandoned"};
  return kNames[static_cast<int>(state)];
}

class Cycle {
 public:
  constexpr explicit Cycle(HeapWrites* writes) : writes_(*writes) {}
  void Init(const Handshakes* handshakes, Marker* marker) {
    handshakes_ = handshakes;
    marker_ = marker;
  }

  // --- Any thread: hints without the lock. ---
  CycleState state() const { return state_.Get(); }
  // For readers of another process.
  const platform::Hint<CycleState>& state_place() const { return state_; }
  bool IsUnderWay() const {
    return state() != CycleState::kIdle && state() != CycleState::kAbandoned;
  }

  // --- Guarded by the collector lock. ---
  // Cycles may be started from now on, while HeapWrites::ServesCycles. Result and pre: as for
  // HeapWrites::OpenForCycles.
  [[nodiscard]] bool Enable(platform::TrackingKind kind);
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

  // --- With the world stopped, runs retired, and no slice. ---
  // Whether the marks of the cycle count in this stop. True: the marker is ready for MarkFromRoots
  // with the current roots, and all cards that may have changed are pending. False: there is no
  // cycle, or its marks are discarded (`discard`, DiscardMarks or a fork), and all objects are
  // white.
  bool GoOnWorldStopped(bool discard);
  // The settings of the cycle under way.
  const MarkConfig& config() const { return config_; }

  // Called once after the marking of a full collection. Returns the bytes that it scanned, without
  // those scanned again in rounds and without objects allocated during the cycle.
  uint64_t EndMarking();
  uint64_t last_scanned_bytes() const { return last_scanned_bytes_; }

  // In a forked child.
  void ResetAfterFork();

 private:
  // Maximum of rounds. Another round is made while more cards are pending than the quota and fewer
  // than before the last round: a program may write faster than the markers scan.
  static constexpr int kMaxRounds = 12;
  static constexpr uint64_t kUsualPauseTargetNs = 2'000'000;
  static constexpr uint64_t kNsPerCard = 1000;  // to rescan a card in the final stop

  Next Arm();
  Next Handshake(Addr stack_pointer);
  Next Round();
  size_t PendingCards() const;
  void SetState(CycleState state) {
    platform::MaybeDelay();
    state_.Set(state);
    platform::OnCycleState(state);
    platform::MaybeDelay();
  }

  const Handshakes* handshakes_ = nullptr;
  Marker* marker_ = nullptr;
  HeapWrites& writes_;
  // Guarded by the collector lock, except where a field says otherwise.
  platform::Hint<CycleState> state_{CycleState::kIdle};  // written under the lock
  enum class Tables : uint8_t { kUntried, kReserved, kRefused };
  Tables tables_ = Tables::kUntried;  // reserving the tables is tried once
  ShadowCopies shadows_;
  MarkConfig config_;

  // Pages below are armed. Writes to pages beyond are not tracked: those pages count as written.
  alloc::PageNumber armed_end_ = 0;
  alloc::PageNumber frontier_ = 0;  // kArming ends when pages up to here are armed
  alloc::PageNumber fetched_ = 0;   // the next page to fetch in this round
  bool discards_marks_ = false;     // the cycle's marks must not decide what lives
  size_t quota_ = 0;                // a round with no more pending cards is the last
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
