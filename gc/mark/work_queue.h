// The work that a marker offers to other markers: a bounded deque of segments of ranges.
//
// The work-stealing deque of Chase and Lev with the memory orders of Le, Pop, Cohen and Zappa
// Nardelli ("Correct and efficient work-stealing for weak memory models", PPoPP 2013), its fences
// folded into seq_cst accesses so that the thread sanitizer can follow them. A segment is copied in
// and out by value. A thief that loses the race for a segment may have read a slot that the owner
// was rewriting; it discards its copy.
#pragma once

#include "gc/mark/mark_clock.h"
#include "gc/mark/range_stack.h"

namespace gleaner::gc {

struct Segment {
  static constexpr size_t kCapacity = 64;
  size_t count = 0;
  uint64_t ranges[kCapacity];
};

template <class Clock>
class WorkQueueOf {
  template <class T>
  using Atomic = typename Clock::template Atomic<T>;

 public:
  static constexpr size_t kSlots = 64;

  // Owner only. False when the queue is full.
  bool Push(const Segment& segment) {
    // Relaxed: only the owner writes bottom_.
    const int64_t bottom = bottom_.Load(platform::memory_order_relaxed);
    // Acquire: pairs with the thief's exchange, before which the thief has read its slot.
    const int64_t top = top_.Load(platform::memory_order_acquire);
    if (bottom - top >= static_cast<int64_t>(kSlots)) return false;
    Slot& slot = slots_[bottom % kSlots];
    // Relaxed: published by the store of bottom_ below.
    slot.count.Store(segment.count, platform::memory_order_relaxed);
    for (size_t i = 0; i < segment.count; ++i) {
      slot.ranges[i].Store(segment.ranges[i], platform::memory_order_relaxed);  // by bottom_
    }
    bottom_.Store(bottom + 1, platform::memory_order_seq_cst);
    return true;
  }

  // Owner only: takes back the segment pushed last.
  bool Pop(Segment* out) {
    // Relaxed: only the owner writes bottom_.
    const int64_t bottom = bottom_.Load(platform::memory_order_relaxed) - 1;
    bottom_.Store(bottom, platform::memory_order_seq_cst);
    int64_t top = top_.Load(platform::memory_order_seq_cst);
    if (top > bottom) {
      bottom_.Store(bottom + 1, platform::memory_order_relaxed);  // its value before the call
      return false;
    }
    Copy(slots_[bottom % kSlots], out);
    if (top == bottom) {
      // The last segment: the exchange decides between the owner and the thieves.
      const bool won = top_.CompareExchange(top, top + 1, platform::memory_order_seq_cst);
      // Relaxed: publishes no slot; the queue is empty either way.
      bottom_.Store(bottom + 1, platform::memory_order_relaxed);
      return won;
    }
    return true;
  }

  // Any thread: takes the segment pushed first.
  bool Steal(Segment* out) {
    int64_t top = top_.Load(platform::memory_order_seq_cst);
    const int64_t bottom = bottom_.Load(platform::memory_order_seq_cst);
    if (top >= bottom) return false;
    Copy(slots_[top % kSlots], out);
    return top_.CompareExchange(top, top + 1, platform::memory_order_seq_cst);
  }

  // Owner only: segments that nobody has taken yet; thieves may take some meanwhile.
  size_t size() const {
    // Relaxed: only the owner writes bottom_. Acquire: as in Push.
    const int64_t bottom = bottom_.Load(platform::memory_order_relaxed);
    const int64_t top = top_.Load(platform::memory_order_acquire);
    return bottom > top ? static_cast<size_t>(bottom - top) : 0;
  }
  // A hint for other threads; exact for an idle owner.
  bool LooksEmpty() const {
    return top_.Load(platform::memory_order_seq_cst) >=
           bottom_.Load(platform::memory_order_seq_cst);
  }

 private:
  struct Slot {
    Atomic<size_t> count;
    Atomic<uint64_t> ranges[Segment::kCapacity];
  };

  static void Copy(const Slot& slot, Segment* out) {
    // Relaxed: ordered by the accesses to top_ and bottom_ before and after; torn only for a thief
    // that loses the race, for which the entries are atomics.
    size_t count = slot.count.Load(platform::memory_order_relaxed);
    if (count > Segment::kCapacity) count = Segment::kCapacity;
    out->count = count;
    for (size_t i = 0; i < count; ++i) {
      out->ranges[i] = slot.ranges[i].Load(platform::memory_order_relaxed);  // as for count
    }
  }

  alignas(kCacheLineBytes) Atomic<int64_t> top_{0};
  alignas(kCacheLineBytes) Atomic<int64_t> bottom_{0};
  alignas(kCacheLineBytes) Slot slots_[kSlots];
};

using WorkQueue = WorkQueueOf<RealClock>;

}  // namespace gleaner::gc
