// When to collect: the program may allocate as much as the law says (gc/policy/allowance_law.h).
//
// What a minor collection keeps beyond the live bytes of the last full one is taken from the
// allowance, down to a quarter of it: dead old objects do not make the heap larger.
//
// The allowance is never less than
//   - min_allowance_bytes;
//   - the resident memory of wholly free pages, less an eighth. Using that memory costs nothing;
//     libgc, too, does not collect while its heap is not full. Threads overshoot by less than the
//     eighth. If objects do not fit into the free pages, the heap grows, and there are more free
//     pages the next time; so this rule ends as soon as the heap grows. Free memory beyond several
//     times the live bytes, and beyond what the law gives, is surplus: it does not count here, and
//     returns to the system if it lasts.
//
// A heap size that the program asked for (GC_expand_hp) is used up before a collection, as in
// libgc: up to that size the heap grows without regard to its share. The allowance is what fits
// into that size if no page is partly used, so that a collection comes when no pages are left. With
// PacerConfig::early that is too late: then free memory in partly used pages counts half, and an
// eighth stays free. In that case the allowance is also at most what fits, computed the same way,
// into the largest heap that the program allows.
//
// Near a soft limit of the process's memory, which the program sets or its control group, the
// allowance is at most what fits below the limit, with free memory in partly used pages counting
// half; and the heap is collected before it grows beyond the limit. But in either case as much is
// allocated first as makes stop-parallel collections take half of the time: the limit is let go.
//
// A finalizable object stands for something that only its finalizer releases: each one registered
// since the last full collection weighs as much as Tunables say, as far as full collections release
// such objects at all. Minor collections release none that are old. A full collection is due when
// the weight is no less than min_allowance_bytes, a twelfth of these has been allocated since the
// last full one, and both together reach what libgc collects after: of the bytes that live, two
// thirds of the scanned ones and a twelfth of the others, scaled by the divisor; or the law's
// allowance, if that is less.
//
// What the finalizer releases may be memory outside the heap. By how much that grows while objects
// are registered is what each of them stands for. It is learnt, since a malloc may keep what
// finalizers give back: then the process does not grow, whatever is garbage. A full collection is
// due for it when the bytes that it would release, times the time since the last full one, reach
// kOutsideWeight times the time that it takes, times the footprint without them: the law
// (gc/policy/allowance_law.h), with less regard to memory, since the growth may have another cause.
// So what was learnt is halved if nothing has grown before a collection that was due for it, or
// after several such, if that has been wrong before.
//
// Objects allocated during a concurrent cycle stay until the next cycle, dead or alive. They count
// as allocated since the last collection, not as live; so the allowance is what is allocated from
// the beginning of one cycle to the beginning of the next.
//
// Call order: Configure before the first collection; StartCycle in each stop; Amend after a
// concurrent sweep. Mutators call OnAllocated at each poll.
#pragma once

#include "gc/policy/allowance_law.h"
#include "platform/os/atomic.h"

namespace gleaner::gc {

struct PacerConfig {
  size_t min_allowance_bytes = 0;
  size_t free_space_divisor = 3;
  // If not 0: collect whenever this many bytes are allocated, whatever is live (for tests).
  size_t stress_bytes = 0;
  size_t initial_heap_bytes = 0;
  // Collect before no page is left: for concurrent cycles and minor collections. In the automatic
  // mode, where one of these comes next.
  bool early = false;
  size_t max_heap_bytes = 0;   // the heap's limit; 0: none
  uint64_t process_bytes = 0;  // anonymous resident bytes of the process outside the heap
  // Processor time that the first access to memory takes for each byte.
  double touch_ns_per_byte = 0;
  // The anonymous resident bytes that the whole process should keep below; 0: no limit.
  uint64_t soft_limit_bytes = 0;
  uint64_t longest_stop_ns = UINT64_MAX;  // of a collection that is not due
};

// What a collection found.
struct PacerInput {
  uint64_t live_scanned_bytes = 0;
  uint64_t live_pointer_free_bytes = 0;
  uint64_t free_resident_bytes = 0;  // in pages without any object
  uint64_t resident_bytes = 0;       // of the whole heap
  size_t threads = 1;
  // Bytes allocated during the concurrent cycle, which the collection found as live; else 0.
  uint64_t in_cycle_bytes = 0;
  // After a minor collection: bytes found live beyond those of the last full one. Some of them are
  // old objects that have died.
  uint64_t kept_bytes = 0;
  bool is_minor = false;
  uint64_t finalizable = 0;  // objects that have a finalizer and live
  uint64_t finalized = 0;    // objects whose finalizers are to run now
  // How much of a processor's time a stop-parallel collection of what lives is expected to take.
  uint64_t full_stop_ns = 0;
  // What the law is to learn from, but for footprint_bytes, which the pacer knows.
  AllowanceLaw::Period period;

  void TakeLiveFrom(const PacerInput& other) {
    live_scanned_bytes = other.live_scanned_bytes;
    live_pointer_free_bytes = other.live_pointer_free_bytes;
  }
};

class Pacer {
 public:
  // Before the first collection, and whenever the configuration changes. Guarded by the collector
  // lock, as the next two.
  void Configure(const PacerConfig& config);
  // The program asks for a heap of at least `bytes`.
  void ExpandHeapTo(size_t bytes);
  // The largest heap size that the program has asked for; any thread.
  size_t wanted_bytes() const { return wanted_bytes_.Get(); }
  // After a collection, with the world stopped.
  void StartCycle(const PacerInput& found);

  // A concurrent sweep is over: its totals replace the estimates of the last StartCycle. Guarded by
  // the collector lock.
  void Amend(uint64_t live_scanned_bytes, uint64_t live_pointer_free_bytes,
             uint64_t free_resident_bytes);
  // Until the next StartCycle, PacerConfig::early holds. Guarded by the collector lock.
  void CollectEarly() {
    if (config_.early) return;
    config_.early = true;
    SetAllowance();
  }
  const PacerInput& found() const { return found_; }
  // How many processors the program keeps busy, at least 1.
  double processors_busy() const { return law_.ProcessorsBusy(); }

  // Until the next StartCycle threads report four times as often, and at least every `bytes`
  // allocated. Guarded by the collector lock.
  void ReportAfter(size_t bytes) {
    if (max_report_bytes_ == bytes) return;
    max_report_bytes_ = bytes;
    SetAllowance();
  }

  // Whether free memory should return to the system: the last kSurplusCycles collections all found
  // a surplus, or the process is above the soft limit.
  bool ShouldReturnFreeMemory() const {
    return surplus_cycles_ >= kSurplusCycles ||
           (config_.soft_limit_bytes != 0 &&
            config_.process_bytes + found_.resident_bytes > config_.soft_limit_bytes);
  }
  // Whether the allowance might not fit below the soft limit. Then memory is worth more than a
  // short stop: a concurrent cycle keeps what is allocated meanwhile, a minor collection the old
  // objects that have died.
  bool IsNearLimit() const { return is_near_limit_; }
  // Whether the process is above the soft limit and stays there: collections would take more than
  // half of the time.
  bool MissesLimit() const { return misses_limit_; }
  uint64_t soft_limit_bytes() const { return config_.soft_limit_bytes; }

  // A thread reports net allocation. `resident_bytes`: the heap's size now. True if a collection is
  // due. Any thread.
  bool OnAllocated(ptrdiff_t bytes, size_t resident_bytes) {
    const ptrdiff_t allocated = allocated_.Add(bytes);
    return IsDue(allocated) || (allocated >= share_.Get() && resident_bytes > grown_beyond_.Get());
  }
  // Counts net allocation; a collection that is due comes with the next report. Any thread.
  void CountAllocated(ptrdiff_t bytes) { allocated_.Add(bytes); }
  // There are `threads` mutators now. If they are more than at the last collection, each reports
  // sooner. Any thread.
  void OnThreads(size_t threads);
  // The size up to which a heap of `resident_bytes` may grow before ShouldCollectToGrow is asked
  // again.
  size_t MayGrowTo(size_t resident_bytes) const {
    size_t step = resident_bytes / 16;
    if (step < kMinGrowthStep) step = kMinGrowthStep;
    const size_t limit = heap_bytes_at_limit_.Get();
    if (limit > resident_bytes + kMinGrowthStep && limit < resident_bytes + step) {
      step = limit - resident_bytes;
    }
    return NotBelowWanted(resident_bytes + step);
  }
  // The larger of `bytes` and the size that the program asked for, as far as the soft limit allows
  // it.
  size_t NotBelowWanted(size_t bytes) const {
    const size_t limit = heap_bytes_at_limit_.Get();
    const size_t wanted = wanted_bytes() < limit ? wanted_bytes() : limit;
    return bytes < wanted ? wanted : bytes;
  }
  // Whether a heap of `resident_bytes` would pass the soft limit. Any thread.
  bool PassesLimit(size_t resident_bytes) const {
    return resident_bytes > heap_bytes_at_limit_.Get();
  }
  // Whether the heap should be collected before it grows to `resident_bytes`.
  bool ShouldCollectToGrow(size_t resident_bytes) const {
    const ptrdiff_t allocated = allocated_.Get();
    return allocated >= share_.Get() ||
           (PassesLimit(resident_bytes) && allocated >= let_go_at_.Get());
  }
  // Whether the heap is collected rather than that it takes `bytes` of memory: if a stop is
  // expected to take less than an eighth of the time of the first access to so much, it costs
  // little whatever it finds. Not if the request is all that has been allocated since the last
  // collection, and not if the stop would be longer than PacerConfig allows. Any thread.
  bool PaysToCollectFor(size_t bytes) const {
    return bytes >= pays_from_.Get() && allocated() > static_cast<ptrdiff_t>(bytes);
  }
  // Any thread.
  double touch_ns_per_byte() const { return touch_ns_per_byte_.Get(); }
  // `finalizable` objects have a finalizer now, each of which weighs as much as `weight` bytes.
  // `ran_ns`: since the last collection. True if a full collection is due; WantsFull says so until
  // there is one. It is not due for the weight alone before the program has run kRest times as long
  // as it takes. Guarded by the collector lock.
  template <class RanNs>
  bool WeighFinalizable(size_t finalizable, size_t weight, RanNs ran_ns) {
    if (finalizable <= finalizable_ || WantsFull()) return WantsFull();
    const double bytes = finalized_part_ * static_cast<double>(finalizable - finalizable_) *
                         static_cast<double>(weight);
    if (bytes < static_cast<double>(config_.min_allowance_bytes)) return false;
    const auto since_full = static_cast<double>(allocated_before_ + allocated());
    if (since_full * kMinReleaseShare < static_cast<double>(config_.min_allowance_bytes)) {
      return false;
    }
    const auto enough = static_cast<double>(release_bytes_);
    if (since_full < enough &&
        (since_full + bytes < enough || ran_ns() < kRest * found_.full_stop_ns)) {
      return false;
    }
    WantFull(finalizable);
    return true;
  }
  // How much of what may be registered while the full collection that is due for finalizable
  // objects goes on has been: it is to be over when as many have been added as made it due. 0 if
  // none is due. Guarded by the collector lock.
  double PartOverdue(size_t finalizable) const {
    if (!WantsFull() || finalizable <= due_at_) return 0;
    return static_cast<double>(finalizable - due_at_) /
           static_cast<double>(due_at_ > finalizable_ ? due_at_ - finalizable_ : 1);
  }
  // Whether WeighProcessBytes should be called, for there are `finalizable` objects now. Guarded by
  // the collector lock, as is WeighProcessBytes.
  bool IsLookDue(size_t finalizable) {
    if (finalizable < next_look_ || WantsFull()) return false;
    const size_t added = finalizable > finalizable_ ? finalizable - finalizable_ : 0;
    next_look_ = finalizable + 1 + added / kLooks;
    return true;
  }
  // The process has `process_bytes` outside the heap now. `ran_ns` as above. True if a full
  // collection is due, as above.
  bool WeighProcessBytes(size_t finalizable, uint64_t process_bytes, uint64_t ran_ns);
  // Any thread.
  bool WantsFull() const { return wants_full_.Get(); }
  // Reported net bytes since the last collection, or since the beginning of its concurrent cycle.
  ptrdiff_t allocated() const { return allocated_.Get(); }
  // Reported net bytes since the last stop. Guarded by the collector lock.
  ptrdiff_t AllocatedSinceStop() const {
    return allocated() - static_cast<ptrdiff_t>(found_.in_cycle_bytes);
  }
  ptrdiff_t allowance() const { return allowance_.Get(); }

  // For readers of another process.
  const platform::Hint<size_t>& wanted_bytes_place() const { return wanted_bytes_; }
  const platform::Count<ptrdiff_t>& allocated_place() const { return allocated_; }
  const platform::Hint<ptrdiff_t>& allowance_place() const { return allowance_; }

 private:
  static constexpr size_t kMaxReportBytes = 1 * kMiB;
  static constexpr int kSurplusCycles = 6;
  static constexpr uint64_t kRest = 4;
  // Nothing is due for finalizable objects before 1/kMinReleaseShare of min_allowance_bytes has
  // been allocated: a program that has just begun expects its first few hundred objects to stay.
  static constexpr double kMinReleaseShare = 12;
  static constexpr size_t kMinGrowthStep = 128 * kKiB;
  // Less growth outside the heap says nothing, and is not worth a collection.
  static constexpr uint64_t kMinOutsideBytes = 16 * kMiB;
  static constexpr double kOutsideWeight = 8;
  static constexpr size_t kLooks = 16;  // the number of objects is known to 1/kLooks at each look
  static constexpr int kMaxTrust = 64;
  bool IsDue(ptrdiff_t allocated) const { return allocated >= allowance_.Get() || WantsFull(); }
  void WantFull(size_t finalizable) {
    due_at_ = finalizable;
    wants_full_.Set(true);
  }
  void LearnReleased();
  void LearnOutside();
  void DiscountAllocatedInCycle();
  void CountSurplus();
  void SetAllowance();
  void SetWorth();
  uint64_t LiveBytes() const { return found_.live_scanned_bytes + found_.live_pointer_free_bytes; }
  uint64_t FootprintBytes() const { return LiveBytes() + config_.process_bytes; }
  uint64_t MaxUsefulFreeBytes() const;
  uint64_t BytesByLaw() const {
    return law_.Bytes(FootprintBytes(), LiveBytes(), found_.in_cycle_bytes,
                      config_.free_space_divisor);
  }
  uint64_t BytesThatFit(uint64_t heap_bytes, bool early) const;
  uint64_t HeapBytesInLimit() const;
  // What the soft limit makes of the allowance.
  struct SoftLimit {
    uint64_t heap_bytes;     // the heap's size at the limit
    uint64_t let_go_at;      // an allowance of so much lets the limit go
    uint64_t fitting_bytes;  // the allowance that fits below it
    bool IsLetGo() const { return fitting_bytes < let_go_at; }
    uint64_t MaxAllowance() const { return IsLetGo() ? let_go_at : fitting_bytes; }
  };
  uint64_t AllowanceByLaw() const;
  uint64_t AllowanceByFreeMemory() const;
  uint64_t AllowanceByAskedHeap() const;
  uint64_t MaxAllowanceByHeap() const;
  SoftLimit FindSoftLimit() const;
  bool MayPass(const SoftLimit& limit, uint64_t allowance) const;
  size_t ReportBytes(uint64_t share) const;

  // Guarded by the collector lock.
  PacerConfig config_;
  PacerInput found_;
  AllowanceLaw law_;
  size_t max_report_bytes_ = kMaxReportBytes;
  int surplus_cycles_ = 0;         // successive collections that found a surplus
  int surplus_cycles_before_ = 0;  // surplus_cycles_ before the last StartCycle

  size_t finalizable_ = 0;          // objects that had a finalizer after the last full collection
  size_t due_at_ = 0;               // how many had one when a full collection became due for them
  double finalizable_added_ = 64;   // of those before, as sums: registered since the one before,
  double finalized_ = 64;           // and released
  double finalized_part_ = 1;       // of what is registered, what full collections release
  ptrdiff_t allocated_before_ = 0;  // between the last full collection and the last minor one
  uint64_t release_bytes_ = 0;

  uint64_t ran_before_ns_ = 0;  // between the last full collection and the last minor one
  size_t next_look_ = 0;        // how many objects have a finalizer at the next look
  // Outside the heap, the least since the last full collection, and how many objects had a
  // finalizer when it last was so.
  uint64_t outside_bytes_ = UINT64_MAX;
  size_t outside_at_ = 0;
  double outside_weight_ = 0;       // of an object
  bool outside_has_grown_ = false;  // since the last full collection
  bool outside_is_due_ = false;     // the next full collection is
  // How many collections after which nothing has grown halve the weight. Twice as many whenever
  // that has been wrong.
  int outside_trust_ = 1;
  int outside_quiet_ = 0;  // how many there have been
  bool outside_has_gone_down_ = false;

  bool is_near_limit_ = false;
  bool misses_limit_ = false;

  // Read by any thread. Any thread adds to allocated_; the collecting thread resets it with the
  // world stopped. The other fields are written under the collector lock.
  platform::Hint<size_t> wanted_bytes_{0};  // grows only
  platform::Count<ptrdiff_t> allocated_{0};
  platform::Hint<bool> wants_full_{false};
  platform::Hint<ptrdiff_t> allowance_{PTRDIFF_MAX};
  // More resident bytes than this mean that the heap has grown since the last collection, by more
  // than the few pages that threads take at a time.
  platform::Hint<size_t> grown_beyond_{SIZE_MAX};
  platform::Hint<ptrdiff_t> share_{PTRDIFF_MAX};  // the allowance without regard to free memory
  // The heap's size at the soft limit, and the allowance at which the limit is let go.
  platform::Hint<size_t> heap_bytes_at_limit_{SIZE_MAX};
  platform::Hint<ptrdiff_t> let_go_at_{PTRDIFF_MAX};
  platform::Hint<size_t> pays_from_{SIZE_MAX};  // the least request for PaysToCollectFor
  platform::Hint<double> touch_ns_per_byte_{0};
};

}  // namespace gleaner::gc
