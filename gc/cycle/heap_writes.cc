#include "gc/cycle/heap_writes.h"

#include <cerrno>

#include "gc/mark/kinds.h"
#include "platform/costs/machine_costs.h"

namespace gleaner::gc {

using alloc::g_space;
using alloc::PageNumber;
using alloc::PageState;
using alloc::Space;
using platform::memory_order_relaxed;
using platform::memory_order_release;

namespace {

// Arms pages that are added in the order of their numbers, in long ranges: each call of the system
// takes as long as some pages' faults. So a gap of pages that need not be armed is armed with its
// neighbours, unless first writes to all of it would take longer than a call.
class Arming {
 public:
  Arming(platform::WriteTracking* tracker, PageNumber begin, double page_fault_ns)
      : tracker_(*tracker),
        max_gap_(page_fault_ns * kMaxGap > platform::g_machine_costs.arm_ns()
                     ? static_cast<PageNumber>(platform::g_machine_costs.arm_ns() / page_fault_ns)
                     : kMaxGap),
        begin_(begin),
        end_(begin) {}
  // False, as for Finish, if the system refuses.
  [[nodiscard]] bool Add(PageNumber page) {
    if (page - end_ > max_gap_) {
      if (!Finish()) return false;
      begin_ = page;
    }
    end_ = page + 1;
    return true;
  }
  [[nodiscard]] bool Finish() {
    const PageNumber begin = begin_;
    begin_ = end_;
    return begin == end_ || tracker_.Arm(g_space.AddressOfPage(begin), g_space.AddressOfPage(end_));
  }

 private:
  static constexpr PageNumber kMaxGap = 16;

  platform::WriteTracking& tracker_;
  PageNumber max_gap_;
  PageNumber begin_;
  PageNumber end_;  // of the last page added
};

struct PageRun {
  PageNumber begin = 0;
  PageNumber end = 0;
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
  is_sampling_ = false;
  Forget();
  serves_cycles_.Store(false, memory_order_relaxed);  // publishes nothing
}

void HeapWrites::CloseTracker() {
  tracker_.Close();
  Forget();
  serves_cycles_.Store(false, memory_order_relaxed);  // publishes nothing
  ForgetArmed();
  opened_ = lost_ = false;
}

void HeapWrites::ForgetArmed() {
  to_disarm_ = armed_by_cycle_ = 0;
  is_sampling_ = false;
  for (size_t page = 0; page < memory_.committed(); ++page) {
    memory_[page].memory = kNothingOld;
    memory_[page].is_armed = false;
  }
}

void HeapWrites::ResetAfterFork() {
  ForgetArmed();
  tracker_.ResetInChild();
  Forget();
}

double HeapWrites::FaultNs(uint64_t bytes) const {
  if (!IsTracking()) return 0;
  return static_cast<double>(bytes) / static_cast<double>(tracker_.traits().opened_bytes) *
         platform::g_machine_costs.first_write_ns();
}

bool HeapWrites::Cover(PageNumber end) {
  return (tracker_.CoverUpTo(g_space.AddressOfPage(end)) && rescan_set_.Cover(end)) ||
         Refuse({"no memory for tables", ENOMEM});
}

bool HeapWrites::Arm(PageNumber begin, PageNumber end) {
  if (!Cover(end)) return false;
  CountSample();  // all pages are armed anew
  Arming arming(&tracker_, begin, FaultNs(alloc::kPageBytes));
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

void HeapWrites::DisarmBelow(PageNumber end) {
  armed_by_cycle_ = end;
  if (end == 0 || end > to_disarm_) to_disarm_ = end;
}

bool HeapWrites::DisarmSome() {
  if (to_disarm_ == 0 || !IsTracking()) return false;
  const PageNumber begin = to_disarm_ > kArmPages ? to_disarm_ - kArmPages : 0;
  PageRun run;
  const auto disarm = [this, &run] {
    if (run.begin != run.end) {
      tracker_.Disarm(g_space.AddressOfPage(run.begin), g_space.AddressOfPage(run.end));
    }
  };
  for (PageNumber page = begin; page < to_disarm_; ++page) {
    bool is_armed = page < armed_by_cycle_;
    if (page < memory_.committed()) {
      PageMemory& memory = memory_[page];
      if (memory.memory == kTracked || memory.memory == kInSample) continue;
      is_armed |= memory.is_armed;
      memory.is_armed = false;
    }
    if (!is_armed) continue;
    if (page != run.end) {
      disarm();
      run.begin = page;
    }
    run.end = page + 1;
  }
  disarm();
  to_disarm_ = begin;
  if (begin == 0) armed_by_cycle_ = 0;
  return begin != 0;
}

HeapWrites::Memory HeapWrites::MemoryOf(PageNumber page, bool swept) {
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
}

bool HeapWrites::CoverMemory(PageNumber end) {
  if (Cover(end) && (memory_.EnsureCommitted(end) || Refuse({"no memory for tables", ENOMEM}))) {
    return true;
  }
  LoseTracker();
  return false;
}

void HeapWrites::SampleWorldStopped(double max_ns) {
  const PageNumber end = EndCommitted(Space::kScanned);
  // Where arming is for the whole process, all pages would fault.
  if (max_ns <= 0 || tracker_.traits().fetch_needs_stopped_world || !CoverMemory(end)) return;
  // Writes cluster, so a sample has runs of pages, of which 64 tell the part that is written to a
  // sixteenth. The first page is another one each time.
  constexpr PageNumber kRun = 4;
  constexpr PageNumber kMaxRuns = 64;
  const double all_ns = FaultNs(uint64_t{end} * alloc::kPageBytes);
  const double max_part = max_ns < all_ns ? max_ns / all_ns : 1;
  const double runs = max_part * end / kRun < kMaxRuns ? max_part * end / kRun : kMaxRuns;
  if (runs < 1) return;
  const auto stride = static_cast<PageNumber>(end / runs) + kRun;
  sample_begin_ = (sample_begin_ + kRun) % stride;
  Arming arming(&tracker_, 0, FaultNs(alloc::kPageBytes));
  bool armed = true;
  for (PageNumber page = sample_begin_; page < end && armed; ++page) {
    if ((page - sample_begin_) % stride >= kRun || MemoryOf(page, true) != kTracked) continue;
    memory_[page].memory = kInSample;
    memory_[page].is_armed = true;
    armed = arming.Add(page);
  }
  is_sampling_ = true;
  if (armed && arming.Finish()) return;
  Refuse(tracker_.refusal());
  LoseTracker();
}

void HeapWrites::CountSample() {
  if (!is_sampling_ || !IsTracking()) return;
  is_sampling_ = false;
  uint64_t sampled = 0;
  uint64_t written = 0;
  for (size_t i = 0; i < memory_.committed(); ++i) {
    if (memory_[i].memory != kInSample) continue;
    const auto page = static_cast<PageNumber>(i);
    sampled += alloc::kPageBytes;
    written += tracker_.FetchLast(
        g_space.AddressOfPage(page), g_space.AddressOfPage(page + 1), [](void*, Addr, Addr) {},
        nullptr);
    memory_[i].memory = kNothingOld;
    if (to_disarm_ <= page) to_disarm_ = page + 1;
  }
  if (sampled == 0) return;
  has_counted_ = true;
  written_part_ = static_cast<double>(written) / static_cast<double>(sampled);
  sample_ns_ += FaultNs(written);
}

void HeapWrites::ForgetWorldStopped() {
  CountSample();
  Forget();
  for (size_t page = 0; page < memory_.committed(); ++page) {
    if (memory_[page].is_armed && to_disarm_ <= page)
      to_disarm_ = static_cast<PageNumber>(page + 1);
    memory_[page].memory = kNothingOld;
  }
}

void HeapWrites::RememberWorldStopped(bool swept) {
  const PageNumber end = EndCommitted(Space::kScanned);
  if (!CoverMemory(end)) return;
  resting_bytes_ = 0;
  Arming arming(&tracker_, 0, FaultNs(alloc::kPageBytes));
  bool armed = true;
  for (PageNumber page = 0; page < end && armed; ++page) {
    PageMemory& memory = memory_[page];
    const bool was_tracked = memory.memory == kTracked;
    memory.memory = MemoryOf(page, swept);
    if (memory.memory == kTracked && memory.rests != 0) {
      --memory.rests;
      memory.memory = kCountsAsWritten;
      resting_bytes_ += alloc::kPageBytes;
    }
    if (memory.memory == kTracked) {
      if (!was_tracked) armed = arming.Add(page);
      memory.is_armed = true;
    } else if (memory.is_armed && page >= to_disarm_) {
      to_disarm_ = page + 1;  // after the stop
    }
  }
  if (!armed || !arming.Finish() || !tracker_.FinishRound()) {
    Refuse(tracker_.refusal());
    return LoseTracker();
  }
  remembers_ = true;
}

void HeapWrites::SetPendingAndRest(void* writes, Addr from, Addr to) {
  auto* self = static_cast<HeapWrites*>(writes);
  SetPending(&self->rescan_set_, from, to);
  while (from < to) {
    const PageNumber page = g_space.PageOf(from);
    const Addr page_end = g_space.AddressOfPage(page + 1);
    const Addr end = page_end < to ? page_end : to;
    const double rests =
        self->memory_[page].rests + self->rests_per_byte_ * static_cast<double>(end - from);
    self->memory_[page].rests = rests < UINT8_MAX ? static_cast<uint8_t>(rests) : UINT8_MAX;
    from = end;
  }
}

bool HeapWrites::RecallWorldStopped(double scan_ns) {
  const PageNumber end = EndCommitted(Space::kScanned);
  Forget();
  if (!rescan_set_.Cover(end)) return false;
  BeginPeriod();
  rests_per_byte_ = CanRest() && scan_ns > 0 ? FaultNs(1) / scan_ns : 0;
  for (PageNumber page = 0; page < end;) {
    const auto memory = page < memory_.committed() ? memory_[page].memory : kNothingOld;
    PageNumber next = page + 1;
    if (memory == kTracked) {
      // Adjacent pages in one call: a look at memory_ costs less than a call.
      while (next < end && next < memory_.committed() && memory_[next].memory == kTracked) {
        ++next;
      }
      written_bytes_.Add(tracker_.FetchAndRearm(
          g_space.AddressOfPage(page), g_space.AddressOfPage(next), SetPendingAndRest, this));
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
