#include "gc/cycle/cycle.h"

#include <cerrno>

#include "alloc/object.h"
#include "platform/faults/delays.h"
#include "platform/threads/stop_world.h"

namespace gleaner::gc {

using alloc::g_space;
using alloc::PageNumber;
using alloc::Space;
using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;

bool Cycle::Enable(platform::TrackingKind kind) {
  if (!writes_.AcceptsForCycles(kind)) return false;
  if (tables_ == Tables::kUntried) {
    const bool have = roots_.Init() && words_.Init() && shadows_.Init();
    tables_ = have ? Tables::kReserved : Tables::kRefused;
  }
  if (tables_ == Tables::kRefused) {
    return writes_.Refuse({"no address space for the collector's tables", ENOMEM});
  }
  return writes_.OpenForCycles(kind);
}

void Cycle::Start(const MarkConfig& config, uint64_t allocated_bytes, bool has_driver,
                  uint64_t pause_target_ns) {
  config_ = config;
  quota_ = (pause_target_ns != 0 ? pause_target_ns : kUsualPauseTargetNs) / kNsPerCard;
  has_driver_ = has_driver;
  expected_bytes_.Set(last_scanned_bytes_ + allocated_bytes);
  armed_end_ = 0;
  writes_.DisarmBelow(0);
  writes_.BeginPeriod();
  writes_.Forget();
  frontier_ = EndCommitted(Space::kScanned);
  throttle_.Reset();  // the urgency may still be that of a cycle whose arming failed
  discards_marks_ = false;
  scanned_.Set(0);
  SetState(CycleState::kArming);
}

Cycle::Next Cycle::Advance(Addr stack_pointer) {
  if (discards_marks_) return Next::kStop;
  // Acquire: pairs with the end of the slice, which publishes drained_ and the marker's state.
  if (slice_.Load(memory_order_acquire) != 0) return Next::kNothing;
  const platform::StepEvent event(state());
  switch (state()) {
    case CycleState::kArming:
      return Arm();
    case CycleState::kRoots:
      return Handshake(stack_pointer);
    case CycleState::kMarking:
      if (drained_) return Round();
      slice_.Store(1, memory_order_relaxed);  // guarded by the lock
      return Next::kMark;
    case CycleState::kReady:
      return Next::kStop;
    case CycleState::kIdle:
    case CycleState::kAbandoned:
      break;
  }
  return Next::kNothing;
}

// Arms a piece of the scanned space. After the last piece, changes the allocation colour to black.
Cycle::Next Cycle::Arm() {
  const PageNumber end = HeapWrites::PieceEnd(armed_end_, frontier_, HeapWrites::kArmPages);
  if (!writes_.Arm(armed_end_, end)) {
    writes_.LoseTracker();
    SetState(CycleState::kIdle);
    return Next::kNothing;
  }
  armed_end_ = end;
  if (end < frontier_) return Next::kAgain;
  writes_.FinishRound();
  // [inv.armed-before-black] From here on there may be black objects.
  shadows_.Reset(frontier_);
  marker_->BeginConcurrent(config_, &writes_.rescan_set(), &shadows_);
  platform::MaybeDelay();
  // Relaxed: a thread that does not see it yet allocates white, until its handshake at the latest.
  alloc::g_allocation_colour.Store(marker_->black(), memory_order_relaxed);
  words_.Clear();
  position_ = {};
  handshakes_->begin_handshakes();
  SetState(CycleState::kRoots);
  return Next::kAgain;
}

Cycle::Next Cycle::Handshake(Addr stack_pointer) {
  platform::MaybeDelay();  // between two threads
  if (handshakes_->handshake(stack_pointer, &roots_, &words_)) return Next::kAgain;
  if (handshakes_->copy_roots(&position_, &words_)) return Next::kAgain;
  roots_.Clear();
  words_.AddTo(&roots_);
  roots_.AddUncollectablePages();
  begun_ = drained_ = false;
  rounds_ = 0;
  is_last_round_ = false;
  last_pending_cards_ = 0;
  fetched_ = 0;
  SetState(CycleState::kMarking);
  return Next::kAgain;
}

void Cycle::Mark(uint64_t slice_bytes) {
  drained_ = begun_ ? marker_->Continue(slice_bytes) : marker_->MarkFromRoots(&roots_, slice_bytes);
  begun_ = true;
  scanned_.Set(marker_->statistics().bytes_scanned);
  // Publishes drained_ and the marker's state to the load in Advance.
  slice_.Store(0, memory_order_seq_cst);
  FutexWakeAll(&slice_);
}

void Cycle::AwaitSlice() {
  // Acquire: pairs with the end of the slice, which publishes drained_ and the marker's state.
  if (slice_.Load(memory_order_acquire) == 0) return;
  marker_->Pause();
  while (slice_.Load(memory_order_seq_cst) != 0) platform::FutexWait(&slice_, 1);
  marker_->Resume();
}

// Pending cards; a wholly pending unit with a shadow copy counts as one, since comparing it is
// cheap. pre: no thread has a slice.
size_t Cycle::PendingCards() const {
  size_t cards = 0;
  writes_.rescan_set().ForEachUnit([this, &cards](PageNumber page, size_t unit, size_t count) {
    cards += count == RescanSet::kCardsPerOsPage && shadows_.Has(page, unit) ? 1 : count;
  });
  return cards;
}

// [inv.round] No thread has a slice, and the last slice left no work: every object that a marker
// made black has been scanned. This holds for all pieces of the fetch, since no slice comes between
// them.
Cycle::Next Cycle::Round() {
  if (is_last_round_) {
    SetState(CycleState::kReady);
    return Next::kStop;
  }
  if (fetched_ < armed_end_) {
    const PageNumber end = HeapWrites::PieceEnd(fetched_, armed_end_, HeapWrites::kFetchPages);
    writes_.Fetch(fetched_, end);
    fetched_ = end;
    if (end < armed_end_) return Next::kAgain;
    writes_.FinishRound();
    // Pages committed since the arming become pending as a whole, and are tracked from now on.
    const PageNumber frontier = EndCommitted(Space::kScanned);
    if (armed_end_ < frontier && writes_.Arm(armed_end_, frontier)) {
      writes_.FinishRound();
      const Addr begin = g_space.AddressOfPage(armed_end_);
      writes_.rescan_set().Set(begin, g_space.AddressOfPage(frontier) - begin);
      armed_end_ = fetched_ = frontier;
    }
  }
  const size_t pending_cards = PendingCards();
  const bool shrinks = rounds_ == 0 || pending_cards < last_pending_cards_;
  if (rounds_++ == 0) scanned_once_bytes_ = marker_->statistics().bytes_scanned;
  // The last round, too, is scanned concurrently; the stop scans what is written after its fetch.
  is_last_round_ = pending_cards <= quota_ || !shrinks || rounds_ > kMaxRounds;
  // Throttled mutators write little, so that the next round is short; all workers mark it.
  if (!is_last_round_) Raise(Urgency::kClosing);
  last_pending_cards_ = pending_cards;
  fetched_ = 0;
  drained_ = false;
  marker_->BeginRescan();
  return Next::kAgain;
}

void Cycle::DiscardMarks() {
  if (state() < CycleState::kRoots) {
    if (state() == CycleState::kArming) SetState(CycleState::kIdle);
    return;
  }
  AwaitSlice();
  discards_marks_ = true;
}

uint64_t Cycle::WorkLeft() const {
  const uint64_t scanned =
      state() == CycleState::kMarking ? marker_->statistics().bytes_scanned : 0;
  const uint64_t all = expected_bytes_.Get();
  const uint64_t left = scanned < all ? all - scanned : 0;
  return (left > all / 16 ? left : all / 16) + last_pending_cards_ * RescanSet::kCardBytes;
}

void Cycle::Raise(Urgency urgency) {
  if (has_driver_ && IsUnderWay() && state() != CycleState::kReady) throttle_.Raise(urgency);
}

double Cycle::Progress() const {
  if (state() == CycleState::kReady) return 1;
  const uint64_t expected = expected_bytes_.Get();
  return static_cast<double>(scanned_.Get()) / static_cast<double>(expected + 1);
}

uint64_t Cycle::EndMarking() {
  last_scanned_bytes_ =
      scanned_once_bytes_ != 0 ? scanned_once_bytes_ : marker_->statistics().bytes_scanned;
  scanned_once_bytes_ = 0;
  return last_scanned_bytes_;
}

bool Cycle::GoOnWorldStopped(bool discard) {
  writes_.ForgetWorldStopped();
  if (state() == CycleState::kIdle) {
    writes_.BeginPeriod();
    return false;
  }
  const bool marked = state() != CycleState::kArming;
  const PageNumber frontier = EndCommitted(Space::kScanned);
  throttle_.End();
  const bool discards = discard || discards_marks_ || state() == CycleState::kAbandoned ||
                        !marked || !writes_.rescan_set().Cover(frontier);
  SetState(CycleState::kIdle);
  writes_.DisarmBelow(armed_end_);
  discards_marks_ = false;
  if (!marked) return false;
  if (discards) {
    scanned_once_bytes_ = 0;
    marker_->DiscardMarks();
    alloc::FreeDeferredWorldStopped();
    alloc::g_allocation_colour.Store(alloc::g_idle_allocation_colour,
                                     memory_order_relaxed);  // the world is stopped
    writes_.rescan_set().Clear();
    return false;
  }
  writes_.FetchLastWorldStopped(armed_end_);
  if (armed_end_ < frontier) {
    const Addr begin = g_space.AddressOfPage(armed_end_);
    writes_.rescan_set().Set(begin, g_space.AddressOfPage(frontier) - begin);
  }
  marker_->GoOnWorldStopped();
  marker_->BeginRescan();
  return true;
}

void Cycle::ResetAfterFork() {
  throttle_.Reset();
  slice_.Store(0, memory_order_relaxed);  // the only thread; PrepareFork has awaited the slice
  if (state() == CycleState::kArming) SetState(CycleState::kIdle);
  if (IsUnderWay()) SetState(CycleState::kAbandoned);
}

}  // namespace gleaner::gc
