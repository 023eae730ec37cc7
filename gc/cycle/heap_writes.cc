#include "gc/cycle/heap_writes.h"

#include <cerrno>

#include "gc/mark/kinds.h"

namespace gleaner::gc {

using alloc::g_space;
using alloc::PageNumber;
using alloc::PageState;
using alloc::Space;
using platform::memory_order_relaxed;
using platform::memory_order_release;

namespace {

// A gap of fewer pages that need not be armed is armed with its neighbours: each arming call
// interrupts all processors that run the program.
constexpr PageNumber kMinGapPages = 16;

// Arms pages that are added in the order of their numbers, in long ranges.
class Arming {
 public:
  explicit Arming(platform::WriteTracking* tracker, PageNumber begin)
      : tracker_(*tracker), begin_(begin), end_(begin) {}
  // False, as for Finish, if the system refuses.
  [[nodiscard]] bool Add(PageNumber page) {
    if (page - end_ >= kMinGapPages) {
      if (!Finish()) return false;
      begin_ = page;
    }
    end_ = page + 1;
    return true;
  }
  [[nodiscard]] bool Finish() {
    return begin_ == end_ ||
           tracker_.Arm(g_space.AddressOfPage(begin_), g_space.AddressOfPage(end_));
  }

 private:
  platform::WriteTracking& tracker_;
  PageNumber begin_;
  PageNumber end_;  // of the last page added
};

// Whether the page has objects, and is no current page of a thread.
bool HasOldObjects(PageNumber page) {
  const PageState state = g_space.info[page].LoadState();
  return state == PageState::kLarge || state == PageState::kTail ||
         (state == PageState::kSmall &&
          g_space.meta[page].listing() != alloc::Listing::kCurrent);  // a hint
}

void SetPending(void* rescan_set, Addr from, Addr to) {
  static_cast<RescanSet*>(rescan_set)->Set(from, to - from);
}

}  // namespace

bool HeapWrites::OpenForCycles(platform::TrackingKind kind) {
  if (!Open(kind)) return false;
  serves_cycles_.Store(true, memory_order_release);  // publishes the tracker to ServesCycles()
  return true;
}

bool HeapWrites::OpenForMinors(platform::TrackingKind kind) {
  if (!Open(kind)) return false;
  if (memory_.max() != 0 || memory_.Reserve(g_space.page_count())) return true;
  return Refuse({"no address space for the table of pages", ENOMEM});
}

bool HeapWrites::Open(platform::TrackingKind kind) {
  if (IsTracking()) return true;
  GLEANER_CHECK(!opened_, "writes are to be tracked by %s, and %s is lost and not closed",
                platform::TraitsOf(kind).name, tracker_.traits().name);
  if (tables_ == Tables::kUntried) {
    tables_ = rescan_set_.Init() ? Tables::kReserved : Tables::kRefused;
  }
  if (tables_ == Tables::kRefused) {
    return Refuse({"no address space for the collector's tables", ENOMEM});
  }
  opened_ = tracker_.Open(kind, {g_space.base, g_space.bytes, g_space.executable});
  return opened_ || Refuse(tracker_.refusal());
}

void HeapWrites::LoseTracker() {
  lost_ = true;
  Forget();
  serves_cycles_.Store(false, memory_order_relaxed);  // publishes nothing
}

void HeapWrites::CloseTracker() {
  tracker_.Close();
  Forget();
  serves_cycles_.Store(false, memory_order_relaxed);  // publishes nothing
  to_disarm_ = 0;
  opened_ = lost_ = false;
}

void HeapWrites::ResetAfterFork() {
  to_disarm_ = 0;
  tracker_.ResetInChild();
  Forget();
}

double HeapWrites::FaultNs(uint64_t bytes) const {
  if (!IsTracking()) return 0;
  return static_cast<double>(bytes) / static_cast<double>(tracker_.traits().opened_bytes) *
         first_write_ns_;
}

bool HeapWrites::Cover(PageNumber end) {
  return (tracker_.CoverUpTo(g_space.AddressOfPage(end)) && rescan_set_.Cover(end)) ||
         Refuse({"no memory for tables", ENOMEM});
}

bool HeapWrites::Arm(PageNumber begin, PageNumber end) {
  if (!Cover(end)) return false;
  Arming arming(&tracker_, begin);
  const bool arms_all = !tracker_.traits().unarmed_is_dirty;
  bool armed = true;
  for (PageNumber page = begin; page < end && armed; ++page) {
    if (arms_all || HasOldObjects(page)) armed = arming.Add(page);
  }
  return (armed && arming.Finish()) || Refuse(tracker_.refusal());
}

void HeapWrites::Fetch(PageNumber begin, PageNumber end) {
  const size_t bytes = tracker_.FetchAndRearm(g_space.AddressOfPage(begin),
                                              g_space.AddressOfPage(end), SetPending, &rescan_set_);
  written_bytes_.Add(bytes);
}

// Workers run this in parallel: pieces do not overlap, and any thread may call RescanSet::Set.
void HeapWrites::FetchPieces(void* writes, int) {
  auto* self = static_cast<HeapWrites*>(writes);
  const PageNumber end = self->fetch_end_;
  const uint32_t pieces = end / kFetchPages + (end % kFetchPages != 0);
  for (;;) {
    // The helpers' wake-up publishes the pieces, the end of the job the cards that were set.
    const uint32_t piece = self->next_piece_.Take();
    if (piece >= pieces) return;
    const PageNumber begin = piece * kFetchPages;
    const size_t bytes = self->tracker_.FetchLast(
        g_space.AddressOfPage(begin), g_space.AddressOfPage(PieceEnd(begin, end, kFetchPages)),
        SetPending, &self->rescan_set_);
    self->written_bytes_.Add(bytes);
  }
}

void HeapWrites::FetchLastWorldStopped(PageNumber end) {
  fetch_end_ = end;
  next_piece_.Restart();
  pool_->Begin(FetchPieces, this);
  if (tracker_.traits().last_fetch_is_shared && end >= kMinSharedFetchPages) pool_->WakeAll();
  FetchPieces(this, 0);
  pool_->Finish();
  tracker_.FinishRound();
}

bool HeapWrites::DisarmSome() {
  if (to_disarm_ == 0) return false;
  const PageNumber begin = to_disarm_ > kArmPages ? to_disarm_ - kArmPages : 0;
  tracker_.Disarm(g_space.AddressOfPage(begin), g_space.AddressOfPage(to_disarm_));
  to_disarm_ = begin;
  return begin != 0;
}

void HeapWrites::RememberWorldStopped(bool swept) {
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
  if (!Cover(end)) return LoseTracker();
  if (!memory_.EnsureCommitted(end)) {
    Refuse({"no memory for tables", ENOMEM});
    return LoseTracker();
  }
  Arming arming(&tracker_, 0);
  bool armed = true;
  for (PageNumber page = 0; page < end && armed; ++page) {
    const bool is_armed = memory_[page] == kTracked;
    memory_[page] = memory_of(page);
    if (memory_[page] == kTracked && !is_armed) armed = arming.Add(page);
  }
  if (!armed || !arming.Finish() || !tracker_.FinishRound()) {
    Refuse(tracker_.refusal());
    return LoseTracker();
  }
  to_disarm_ = 0;
  remembers_ = true;
}

bool HeapWrites::RecallWorldStopped() {
  const PageNumber end = EndCommitted(Space::kScanned);
  Forget();
  if (!rescan_set_.Cover(end)) return false;
  BeginPeriod();
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
  return true;
}

}  // namespace gleaner::gc
