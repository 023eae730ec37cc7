#include "gc/cycle/cycle.h"

#include <cerrno>

#include "alloc/object.h"
#include "platform/faults/delays.h"
#include "platform/threads/stop_world.h"

namespace gleaner::gc {

using alloc::g_space;
using alloc::PageNumber;
using alloc::PageState;
using alloc::Space;
using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;
using platform::memory_order_seq_cst;

namespace {

PageNumber PagesIn(size_t bytes) { return static_cast<PageNumber>(bytes >> alloc::kPageShift); }

constexpr platform::Refusal kNoMemoryForTables = {"no memory for tables", ENOMEM};

void SetPending(void* rescan_set, Addr from, Addr to) {
  static_cast<RescanSet*>(rescan_set)->Set(from, to - from);
}

// The end of the next piece of [from, end), which has at most `most` pages.
PageNumber PieceEnd(PageNumber from, PageNumber end, PageNumber max) {
  return end - from > max ? from + max : end;
}

}  // namespace

bool Cycle::Enable(platform::TrackingKind kind) {
  if (!CanUse(IsTracking() ? tracker_.kind() : kind)) {
    refusal_ = {"the world must be stopped to ask what was written", 0};
    return false;
  }
  if (!Open(kind)) return false;
  enabled_.Store(true, memory_order_release);  // publishes the opened tracker to enabled()
  return true;
}

bool Cycle::EnableMemory(platform::TrackingKind kind) {
  if (!Open(kind)) return false;
  if (memory_.max() != 0 || memory_.Reserve(g_space.page_count())) return true;
  refusal_ = {"no address space for the table of pages", ENOMEM};
  return false;
}

bool Cycle::Open(platform::TrackingKind kind) {
  if (IsTracking()) return true;
  GLEANER_CHECK(!opened_, "writes are to be tracked by %s, and %s is lost and not closed",
                platform::TraitsOf(kind).name, tracker_.traits().name);
  if (tables_ == Tables::kUntried) {
    const bool have = roots_.Init() && words_.Init() && rescan_set_.Init() && shadows_.Init();
    tables_ = have ? Tables::kReserved : Tables::kRefused;
  }
  if (tables_ == Tables::kRefused) {
    refusal_ = {"no address space for the collector's tables", ENOMEM};
    return false;
  }
  opened_ = tracker_.Open(kind, {g_space.base, g_space.bytes, g_space.executable});
  if (!opened_) refusal_ = tracker_.refusal();
  return opened_;
}

void Cycle::LoseTracker(const platform::Refusal& refusal) {
  lost_ = true;
  refusal_ = refusal;
  remembers_ = false;
  enabled_.Store(false, memory_order_relaxed);  // publishes nothing
}

void Cycle::CloseTracker() {
  tracker_.Close();
  remembers_ = false;
  enabled_.Store(false, memory_order_relaxed);  // publishes nothing
  to_disarm_ = 0;
  opened_ = lost_ = false;
}

// Commits tables for pages up to `end`.
bool Cycle::Cover(PageNumber end) {
  return tracker_.CoverUpTo(g_space.AddressOfPage(end)) && rescan_set_.Cover(end);
}

void Cycle::Start(const MarkConfig& config, uint64_t allocated_bytes, bool has_driver,
                  uint64_t pause_target_ns) {
  config_ = config;
  quota_ = (pause_target_ns != 0 ? pause_target_ns : kUsualPauseTargetNs) / kNsPerCard;
  has_driver_ = has_driver;
  expected_bytes_.Set(last_scanned_bytes_ + allocated_bytes);
  armed_end_ = to_disarm_ = 0;
  written_bytes_.Set(0);
  remembers_ = false;  // arming drops the record of writes
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

// Arms the pages of [begin, end) that have objects, except current pages of threads. If the tracker
// reports unarmed pages as dirty, that suffices: objects on the other pages are allocated during
// the cycle, and the program writes those pages anyway. With other trackers arms all pages.
bool Cycle::ArmObjects(PageNumber begin, PageNumber end) {
  const auto arm = [this](PageNumber from, PageNumber to) {
    return from == to || tracker_.Arm(g_space.AddressOfPage(from), g_space.AddressOfPage(to));
  };
  if (!tracker_.traits().unarmed_is_dirty) return arm(begin, end);
  PageNumber from = begin;
  PageNumber to = begin;  // end of the last page found that has to be armed
  for (PageNumber page = begin; page < end; ++page) {
    const alloc::PageState state = g_space.info[page].LoadState();
    const bool has_objects = state == alloc::PageState::kLarge ||
                             state == alloc::PageState::kTail ||
                             (state == alloc::PageState::kSmall &&
                              g_space.meta[page].listing() != alloc::Listing::kCurrent);  // a hint
    if (!has_objects) continue;
    if (page - to >= kMinGapPages) {
      if (!arm(from, to)) return false;
      from = page;
    }
    to = page + 1;
  }
  return arm(from, to);
}

// Arms a piece of the scanned space. After the last piece, changes the allocation colour to black.
Cycle::Next Cycle::Arm() {
  const PageNumber end = PieceEnd(armed_end_, frontier_, PagesIn(kArmBytes));
  const bool covered = Cover(end);
  if (!covered || !ArmObjects(armed_end_, end)) {
    LoseTracker(covered ? tracker_.refusal() : kNoMemoryForTables);
    SetState(CycleState::kIdle);
    return Next::kNothing;
  }
  armed_end_ = end;
  if (end < frontier_) return Next::kAgain;
  tracker_.FinishRound();
  // [inv.armed-before-black] From here on there may be black objects.
  shadows_.Reset(frontier_);
  marker_->BeginConcurrent(config_, &rescan_set_, &shadows_);
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

void Cycle::Fetch(PageNumber begin, PageNumber end) {
  const size_t bytes = tracker_.FetchAndRearm(g_space.AddressOfPage(begin),
                                              g_space.AddressOfPage(end), SetPending, &rescan_set_);
  written_bytes_.Add(bytes);
}

// Pending cards; a wholly pending unit with a shadow copy counts as one, since comparing it is
// cheap. pre: no thread has a slice.
size_t Cycle::PendingCards() const {
  size_t cards = 0;
  rescan_set_.ForEachUnit([this, &cards](PageNumber page, size_t unit, size_t count) {
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
    const PageNumber end = PieceEnd(fetched_, armed_end_, PagesIn(kFetchBytes));
    Fetch(fetched_, end);
    fetched_ = end;
    if (end < armed_end_) return Next::kAgain;
    tracker_.FinishRound();
    // Pages committed since the arming become pending as a whole, and are tracked from now on.
    const PageNumber frontier = EndCommitted(Space::kScanned);
    if (armed_end_ < frontier && Cover(frontier) && ArmObjects(armed_end_, frontier)) {
      tracker_.FinishRound();
      const Addr begin = g_space.AddressOfPage(armed_end_);
      rescan_set_.Set(begin, g_space.AddressOfPage(frontier) - begin);
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

double Cycle::FaultNs(uint64_t bytes) const {
  if (!IsTracking()) return 0;
  return static_cast<double>(bytes) / static_cast<double>(tracker_.traits().opened_bytes) *
         first_write_ns_;
}

uint64_t Cycle::EndMarking() {
  last_scanned_bytes_ =
      scanned_once_bytes_ != 0 ? scanned_once_bytes_ : marker_->statistics().bytes_scanned;
  scanned_once_bytes_ = 0;
  return last_scanned_bytes_;
}

// Workers run this in parallel: pieces do not overlap, and any thread may call RescanSet::Set.
void Cycle::FetchPieces(void* cycle, int) {
  auto* self = static_cast<Cycle*>(cycle);
  const PageNumber pages = PagesIn(kFetchBytes);
  const PageNumber end = self->armed_end_;
  const uint32_t pieces = end / pages + (end % pages != 0);
  for (;;) {
    // The helpers' wake-up publishes the pieces, the end of the job the cards that were set.
    const uint32_t piece = self->next_piece_.Take();
    if (piece >= pieces) return;
    const PageNumber begin = piece * pages;
    const size_t bytes = self->tracker_.FetchLast(
        g_space.AddressOfPage(begin), g_space.AddressOfPage(PieceEnd(begin, end, pages)),
        SetPending, &self->rescan_set_);
    self->written_bytes_.Add(bytes);
  }
}

void Cycle::FetchLastWorldStopped() {
  next_piece_.Restart();
  pool_->Begin(FetchPieces, this);
  if (tracker_.traits().last_fetch_is_shared && armed_end_ >= PagesIn(kMinSharedFetchBytes)) {
    pool_->WakeAll();
  }
  FetchPieces(this, 0);
  pool_->Finish();
  tracker_.FinishRound();
}

bool Cycle::GoOnWorldStopped(bool discard) {
  remembers_ = false;
  if (memory_.committed() != 0) memset(memory_.data(), kNothingOld, memory_.committed());
  if (state() == CycleState::kIdle) {
    written_bytes_.Set(0);
    return false;
  }
  const bool marked = state() != CycleState::kArming;
  const PageNumber frontier = EndCommitted(Space::kScanned);
  throttle_.End();
  const bool discards = discard || discards_marks_ || state() == CycleState::kAbandoned ||
                        !marked || !rescan_set_.Cover(frontier);
  SetState(CycleState::kIdle);
  to_disarm_ = armed_end_;
  discards_marks_ = false;
  if (!marked) return false;
  if (discards) {
    scanned_once_bytes_ = 0;
    marker_->DiscardMarks();
    alloc::FreeDeferredWorldStopped();
    alloc::g_allocation_colour.Store(alloc::g_idle_allocation_colour,
                                     memory_order_relaxed);  // the world is stopped
    rescan_set_.Clear();
    return false;
  }
  FetchLastWorldStopped();
  if (armed_end_ < frontier) {
    const Addr begin = g_space.AddressOfPage(armed_end_);
    rescan_set_.Set(begin, g_space.AddressOfPage(frontier) - begin);
  }
  marker_->GoOnWorldStopped();
  marker_->BeginRescan();
  return true;
}

void Cycle::RescanLastWorldStopped() {
  // Scans the ranges that a full stack did not take, until there are none.
  for (uint64_t seen = 0; marker_->statistics().overflows != seen;) {
    seen = marker_->statistics().overflows;
    marker_->BeginRescan();
    marker_->Continue();
  }
  marker_->UseRescanSet(nullptr);
  alloc::FreeDeferredWorldStopped();
}

bool Cycle::DisarmSome() {
  if (to_disarm_ == 0) return false;
  const PageNumber max = PagesIn(kArmBytes);
  const PageNumber begin = to_disarm_ > max ? to_disarm_ - max : 0;
  tracker_.Disarm(g_space.AddressOfPage(begin), g_space.AddressOfPage(to_disarm_));
  to_disarm_ = begin;
  return begin != 0;
}

// --- Generational mode ---

bool Cycle::BeginMinorWorldStopped(const MarkConfig& config) {
  const PageNumber end = EndCommitted(Space::kScanned);
  remembers_ = false;
  if (!rescan_set_.Cover(end)) return false;
  written_bytes_.Set(0);
  for (PageNumber page = 0; page < end;) {
    const auto memory = page < memory_.committed() ? Memory{memory_[page]} : kNothingOld;
    PageNumber next = page + 1;
    if (memory == kTracked) {
      // Adjacent pages in one call: a look at memory_ costs less than a call.
      while (next < end && next < memory_.committed() && memory_[next] == kTracked) ++next;
      Fetch(page, next);
    } else {
      // An old object may have grown in place, into a page that had no objects.
      const PageState state = g_space.info[page].state;
      if (memory == kCountsAsWritten || state == PageState::kLarge || state == PageState::kTail) {
        rescan_set_.Set(g_space.AddressOfPage(page), alloc::kPageBytes);
      }
    }
    page = next;
  }
  tracker_.FinishRound();
  marker_->Begin(config, true);
  marker_->UseRescanSet(&rescan_set_);
  marker_->BeginRescan();
  return true;
}

void Cycle::RememberWorldStopped(bool swept) {
  const PageNumber end = EndCommitted(Space::kScanned);
  const auto memory_of = [swept](PageNumber page) {
    const alloc::PageInfo& info = g_space.info[page];
    const PageState state = info.state;
    if (state != PageState::kSmall && state != PageState::kLarge && state != PageState::kTail) {
      return kNothingOld;
    }
    // A mark procedure may find pointers outside the object, where writes are not tracked.
    if (info.contents == alloc::Contents::kDescribed && MayCallProcedure(info.kind)) {
      return kCountsAsWritten;
    }
    if (state != PageState::kSmall) return kTracked;
    // The thread goes on allocating in its current page: tracking would cost a fault for nothing.
    const bool current = g_space.meta[page].listing() == alloc::Listing::kCurrent;
    return swept && current ? kCountsAsWritten : kTracked;
  };
  const auto arm = [this](PageNumber from, PageNumber to) {
    return from == to || tracker_.Arm(g_space.AddressOfPage(from), g_space.AddressOfPage(to));
  };
  if (!Cover(end) || !memory_.EnsureCommitted(end)) return LoseTracker(kNoMemoryForTables);
  bool armed = true;
  PageNumber from = 0;
  PageNumber to = 0;  // end of the last page found that has to be armed
  for (PageNumber page = 0; page < end && armed; ++page) {
    const bool is_armed = memory_[page] == kTracked;
    memory_[page] = memory_of(page);
    if (memory_[page] != kTracked || is_armed) continue;
    if (page - to >= kMinGapPages) {
      armed = arm(from, to);
      from = page;
    }
    to = page + 1;
  }
  if (!armed || !arm(from, to) || !tracker_.FinishRound()) {
    return LoseTracker(tracker_.refusal());
  }
  to_disarm_ = 0;
  remembers_ = true;
}

void Cycle::ResetAfterFork() {
  to_disarm_ = 0;
  tracker_.ResetInChild();
  remembers_ = false;
  throttle_.Reset();
  slice_.Store(0, memory_order_relaxed);  // the only thread; PrepareFork has awaited the slice
  if (state() == CycleState::kArming) SetState(CycleState::kIdle);
  if (IsUnderWay()) SetState(CycleState::kAbandoned);
}

}  // namespace gleaner::gc
