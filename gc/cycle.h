// A cycle that marks concurrently, up to its final stop: docs/concurrent_cycle.md, steps 1 to
// 5, and what the stop does of it.
//
//   kIdle       no cycle, or one that sweeps (gc/sweeper.h)
//   kArming     writes to the scanned space are going to be tracked, piece by piece
//   kRoots      new objects are black; handshakes with one thread after the other, then other roots
//   kMarking    slices of marking; when all is drained a fetch, and a round of scanning again
//   kReady      the final stop is next
//   kAbandoned  black objects are to be white again, in the next stop
//
//   kIdle -> kArming -> kRoots -> kMarking -> kReady -> kIdle   Start, Advance, the stop
//   kArming -> kIdle                  the system refuses to track: the tracker is lost
//   kRoots, kMarking -> kIdle         the stop comes early, and marks what is left
//   kRoots, kMarking, kReady -> kAbandoned   Abandon, or a fork, in the child
//   kAbandoned -> kIdle               the stop
//
// Who drives. Steps are short, and made under the collector lock by whoever calls Advance: threads
// that allocate, at a poll. Marking alone is done without the lock: Advance opens a slice, Mark
// works it off, and whoever needs the marker meanwhile calls AwaitSlice under the lock. A mutator
// that marks is in a critical section from before it lets go of the lock, so that with the world
// stopped there is no slice. A thread that is no mutator may drive, too; then the stop comes after
// AwaitSlice.
//
// Who may touch what: state_, the tracker, the words and armed_end_ under the lock; drained_ and
// the marker by who has the slice, else under the lock; pending as gc/rescan_set.h says.
#pragma once

#include "gc/marker.h"
#include "gc/rescan_set.h"
#include "gc/world.h"
#include "platform/write_tracking.h"

namespace gleaner::gc {

enum class CycleState : uint8_t { kIdle, kArming, kRoots, kMarking, kReady, kAbandoned };

class Cycle {
 public:
  void Init(const World* world, Marker* marker, WorkerPool* pool) {
    pool_ = pool;
    world_ = world;
    marker_ = marker;
  }

  // --- Any thread: hints without the lock. ---
  // Acquire: who sees it without the lock sees the tracker that was opened.
  bool enabled() const { return enabled_.Load(platform::memory_order_acquire); }
  CycleState state() const { return state_.Load(platform::memory_order_relaxed); }
  bool IsUnderWay() const {
    return state() != CycleState::kIdle && state() != CycleState::kAbandoned;
  }

  // --- Guarded by the collector lock. ---
  // Whether such a mechanism serves cycles: they fetch while the program runs.
  static bool CanUse(platform::TrackingKind kind) {
    return kind != platform::TrackingKind::kNone &&
           !platform::TraitsOf(kind).fetch_needs_stopped_world;
  }
  // Cycles may be started from here on. False if the system refuses to track writes in this way, or
  // the address space for the tables, and refusal() says what. Writes are tracked in one way: if
  // they are already, the kind does not count. pre: if the kind does not see plain stores, the
  // program announces all of them.
  [[nodiscard]] bool Enable(platform::TrackingKind kind);
  // How writes are tracked, if IsTracking().
  const platform::WriteTracking& tracker() const { return tracker_; }
  bool IsTracking() const { return opened_ && !lost_; }
  // The system has refused to go on, and refusal() says what; nothing is tracked.
  bool HasLostTracker() const { return lost_; }
  const platform::Refusal& refusal() const { return refusal_; }
  // pre: HasLostTracker(), kIdle, and nobody pins. Another one may be enabled in its place.
  void CloseLostTracker();

  // --- Generational mode (docs/generational.md). Guarded by the collector lock. ---
  // Writes may be tracked from one collection to the next, though no cycle be started. As Enable;
  // any kind but kNone.
  [[nodiscard]] bool EnableMemory(platform::TrackingKind kind);
  bool CanRemember() const { return IsTracking() && memory_.max() != 0; }
  // Whether it is known which old objects have been written since the last collection.
  bool Remembers() const { return remembers_; }
  // For whatever else may let an old object refer to a young one.
  void Forget() { remembers_ = false; }

  // pre: kIdle, and no sweep goes on. `allocated_bytes`: since the last collection. `has_driver`:
  // steps are made by a thread that is no mutator. `pause_target_ns`: of the final stop, 0 for the
  // usual.
  void Start(const MarkConfig& config, uint64_t allocated_bytes, bool has_driver = false,
             uint64_t pause_target_ns = 0);

  enum class Next : uint8_t {
    kAgain,    // call again, now or later
    kMark,     // a slice is open: Mark is next, by the caller, without the lock
    kStop,     // it is time for the final stop
    kNothing,  // another thread has a slice, or there is no cycle
  };
  // Makes a step of at most some 300 us. `stack_pointer`: the caller's, if it is a mutator; its
  // registers lie above.
  Next Advance(Addr stack_pointer);
  // pre: Advance said kMark, to this thread. About so many bytes are scanned.
  void Mark(uint64_t slice_bytes);
  // Returns when nobody has a slice. pre: not in a critical section.
  void AwaitSlice();
  // What is marked now must not decide who lives. Awaits the slice.
  void Abandon();

  // What is left to scan, estimated, in bytes.
  uint64_t WorkLeft() const;
  // How urgent the end of the cycle is to threads that allocate; any thread, as a hint.
  //   kNone      the marking keeps up
  //   kPressing  it does not: they let it have a good part of the processors
  //   kClosing   what they write has to be scanned again at once: they had better wait
  enum class Urgency : uint32_t { kNone, kPressing, kClosing };
  Urgency urgency() const {
    return static_cast<Urgency>(urgency_.Load(platform::memory_order_relaxed));  // a hint
  }
  // No less urgent than that, from here on. Guarded by the lock; only where there is a driver.
  void Raise(Urgency urgency);
  // Returns when the urgency changes, or `most_ns` are over. The caller counts as blocked
  // meanwhile. Any mutator, not in a critical section.
  void Throttle(Addr stack_pointer, uint64_t most_ns);
  // Who holds back goes on. Guarded by the lock.
  void EndThrottle();
  // The part of the marking that is done, estimated; any thread, as a hint.
  double Progress() const;

  // After the cycle pages are tracked no longer, piece by piece: false when all is done. What is
  // left when the next cycle starts stays armed.
  bool DisarmSome();

  // --- With the world stopped, runs hidden, and no slice. ---
  // Whether what the cycle has marked counts in this stop: after that the marker is ready for the
  // roots as they are now, and everything that may have changed is pending. False: there is no
  // cycle, or it has to be given up (`give_up` says so, too), and all is white.
  bool GoOnWorldStopped(bool give_up);
  // After MarkFromRoots; only if GoOnWorldStopped said so. Ends the cycle.
  void MarkPendingWorldStopped();
  // A minor collection instead: takes down what has been written, for the marker, which is ready
  // for the roots after that. False if the next collection has to be a full one. pre: Remembers(),
  // no cycle is under way; the world is stopped. MarkPendingWorldStopped comes after MarkFromRoots.
  bool BeginMinorWorldStopped(const MarkConfig& config);
  // After the sweep, or before it if `swept` is false: from here on writes to old objects are
  // tracked. Then Remembers(), unless the system refuses. The world is stopped.
  void RememberWorldStopped(bool swept);
  // What the program's first writes to tracked pages have cost it between the last two minor
  // collections.
  uint64_t fault_ns() const { return fault_ns_; }
  // The settings that the cycle under way has begun with.
  const MarkConfig& config() const { return config_; }

  // After the marking of any collection: bytes that it has scanned, but for what it scanned again
  // in rounds. Not counting what was born meanwhile.
  uint64_t NoteScanned();
  uint64_t last_scanned_bytes() const { return last_scanned_bytes_; }

  // In a forked child.
  void ResetAfterFork();

 private:
  static constexpr size_t kArmBytes = 32 * kMiB;    // at once: 80 us
  static constexpr size_t kFetchBytes = 64 * kMiB;  // at once: 25 us, and 0.1 us a dirty page
  static constexpr size_t kMinSharedFetchBytes = 512 * kMiB;  // 0.2 ms: for less no one is woken
  // Fewer pages without objects than this are armed with the others: each call interrupts all
  // processors that run the program.
  static constexpr alloc::PageNumber kMinGapPages = 16;
  // Another round is made if more is pending than the quota, and less than before the last one: a
  // program may write faster than can be scanned.
  static constexpr int kMaxRounds = 12;
  static constexpr uint64_t kUsualPauseTargetNs = 2'000'000;
  static constexpr uint64_t kNsPerCard = 1000;  // of pending memory, in the final stop

  // What is known of a page of the scanned space at the end of a collection.
  enum Memory : uint8_t {
    kNothingOld = 0,   // it has no old objects, unless one has grown into it since
    kTracked,          // it is armed
    kCountsAsWritten,  // it may have old objects, and is not
  };
  bool Open(platform::TrackingKind kind);
  void LoseTracker(const platform::Refusal& refusal);
  bool Cover(alloc::PageNumber end);
  bool ArmObjects(alloc::PageNumber begin, alloc::PageNumber end);
  Next Arm();
  Next Handshake(Addr stack_pointer);
  Next Round();
  size_t DirtyCards() const;
  // All that is armed, by all workers if they may, in pieces that they claim.
  void FetchLastWorldStopped();
  static void FetchPieces(void* cycle, int worker);
  // What is reported becomes pending; what is not is visible from here on [inv.fetch]. Returns the
  // bytes that were dirty.
  size_t Fetch(alloc::PageNumber begin, alloc::PageNumber end);
  void SetState(CycleState state) {
    platform::MaybeDelay();
    state_.Store(state, platform::memory_order_relaxed);  // guarded by the lock; others want a hint
    platform::MaybeDelay();
  }

  const World* world_ = nullptr;
  Marker* marker_ = nullptr;
  WorkerPool* pool_ = nullptr;
  platform::Atomic<bool> enabled_{false};                  // written under the lock
  platform::Atomic<CycleState> state_{CycleState::kIdle};  // likewise
  platform::WriteTracking tracker_;
  enum class Tables : uint8_t { kUntried, kReserved, kRefused };
  Tables tables_ = Tables::kUntried;  // tried once
  bool opened_ = false;               // the tracker
  bool lost_ = false;                 // the system has refused to go on with it
  platform::Refusal refusal_;         // the last one
  RescanSet pending_;
  ShadowCopies shadows_;
  bool remembers_ = false;
  // By page; those beyond the committed part are kNothingOld.
  alloc::ReservedArray<uint8_t> memory_;
  uint64_t fault_ns_ = 0;
  MarkConfig config_;

  // Pages below are armed; writes to those beyond are not tracked, so that they count as written.
  alloc::PageNumber armed_end_ = 0;
  platform::Atomic<uint32_t> next_piece_{0};  // of FetchPieces
  alloc::PageNumber frontier_ = 0;            // what arming aims at
  alloc::PageNumber fetched_ = 0;             // of a round: the next page to fetch
  alloc::PageNumber to_disarm_ = 0;           // pages below are armed, after the cycle
  bool abandon_ = false;                      // the cycle must not decide
  size_t quota_ = 0;                          // if no more cards are pending, it is the last round
  RootTasks roots_;
  RootBuffer words_;
  RootPosition position_;
  int rounds_ = 0;
  bool is_last_round_ = false;       // what it found is scanned, then the world stops
  uint64_t scanned_once_bytes_ = 0;  // when the first round began
  size_t last_pending_ = 0;          // cards, when the last round began
  uint64_t last_scanned_bytes_ = 0;
  // To scan in this cycle: as much as in the last, and what is new. Written under the lock; read as
  // a hint, as the next.
  platform::Atomic<uint64_t> expected_bytes_{0};
  platform::Atomic<uint64_t> scanned_{0};  // until the last slice

  bool has_driver_ = false;
  platform::Atomic<uint32_t> urgency_{0};  // mutators that hold back sleep on it
  bool begun_ = false;                     // MarkFromRoots was called
  bool drained_ = false;                   // the last slice left nothing; published by slice_
  platform::Atomic<uint32_t> slice_{0};    // 1 while a thread has it
};

}  // namespace gleaner::gc
