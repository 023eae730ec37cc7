// What a marker offers to others: a bounded deque of segments of ranges.
//
// The work-stealing deque of Chase and Lev with the memory orders of Le, Pop, Cohen and Zappa
// Nardelli ("Correct and efficient work-stealing for weak memory models", PPoPP 2013), its fences
// folded into seq_cst accesses so that the thread sanitizer can follow them. A segment is copied in
// and out by value; a thief that loses the race for one may have read a slot that the owner was
// rewriting, and throws away what it read.
#pragma once

#include "gc/range_stack.h"
#include "platform/atomic.h"

namespace gleaner::gc {

// Entries are atomic words: a thief that loses the race may read a slot the owner is rewriting, and
// throws away what it read.
struct Segment {
  static constexpr size_t kCapacity = 64;
  size_t count = 0;
  uint64_t ranges[kCapacity];
};

class WorkQueue {
 public:
  static constexpr int64_t kSlots = 64;

  // Owner only. False when the queue is full.
  bool Push(const Segment& segment) {
    // Relaxed: only the owner writes bottom_.
    const int64_t bottom = bottom_.Load(platform::memory_order_relaxed);
    // Acquire: pairs with the thief's exchange; what it read from the slot it has read.
    const int64_t top = top_.Load(platform::memory_order_acquire);
    if (bottom - top >= kSlots) return false;
    Slot& slot = slots_[bottom % kSlots];
    // Relaxed: published by the store of bottom_ below.
    slot.count.Store(segment.count, platform::memory_order_relaxed);
    for (size_t i = 0; i < segment.count; ++i) {
      slot.ranges[i].Store(segment.ranges[i], platform::memory_order_relaxed);  // likewise
    }
    bottom_.Store(bottom + 1, platform::memory_order_seq_cst);
    return true;
  }

  // Owner only: takes back the segment pushed last.
  bool Pop(Segment* out) {
    const int64_t bottom = bottom_.Load(platform::memory_order_relaxed) - 1;  // owner's own
    bottom_.Store(bottom, platform::memory_order_seq_cst);
    int64_t top = top_.Load(platform::memory_order_seq_cst);
    if (top > bottom) {
      bottom_.Store(bottom + 1, platform::memory_order_relaxed);  // as it was
      return false;
    }
    Copy(slots_[bottom % kSlots], out);
    if (top == bottom) {
      // The last one: decide with the thieves.
      const bool won = top_.CompareExchange(top, top + 1, platform::memory_order_seq_cst);
      bottom_.Store(bottom + 1, platform::memory_order_relaxed);  // empty either way
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

  // A hint for others, exact for an idle owner.
  bool LooksEmpty() const {
    return top_.Load(platform::memory_order_seq_cst) >=
           bottom_.Load(platform::memory_order_seq_cst);
  }

 private:
  struct Slot {
    platform::Atomic<size_t> count;
    platform::Atomic<uint64_t> ranges[Segment::kCapacity];
  };

  static void Copy(const Slot& slot, Segment* out) {
    // Relaxed: ordered by the accesses to top_ and bottom_ around it; torn only for a loser.
    size_t count = slot.count.Load(platform::memory_order_relaxed);
    if (count > Segment::kCapacity) count = Segment::kCapacity;
    out->count = count;
    for (size_t i = 0; i < count; ++i) {
      out->ranges[i] = slot.ranges[i].Load(platform::memory_order_relaxed);  // likewise
    }
  }

  alignas(kCacheLineBytes) platform::Atomic<int64_t> top_{0};
  alignas(kCacheLineBytes) platform::Atomic<int64_t> bottom_{0};
  alignas(kCacheLineBytes) Slot slots_[kSlots];
};

}  // namespace gleaner::gc
