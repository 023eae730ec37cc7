// Which allocated objects the heap profile samples (docs/reference/heap.md).
//
// The bytes that a thread allocates, object after object of one kind and size class, are a line on
// which points lie at random: the distance from one to the next is exponential with the mean
// g_sample_mean_bytes. An object is sampled if a point lies in it, so with the probability
// 1 - exp(-bytes / mean), whatever else is sampled [inv.sample]. Each row has a line of its own;
// together they are one Poisson process over all bytes, since the sum of independent ones is one.
//
// The fast path of allocation knows nothing of this: the window that it may hand out (ThreadHeap)
// ends before the object in which the next point lies, and that object comes out of the slow path.
//
// A window that is given back unused, as when its thread ends, has no points. Its row draws anew:
// the exponential distribution has no memory, so the distance from the last object that was handed
// out is as random as it was at the last point. A row that kept its distance would sample the next
// object too often.
#pragma once

#include "alloc/page.h"
#include "alloc/size_class.h"

namespace gleaner::alloc {

// The mean distance of samples in bytes; 0: nothing is sampled; 1: each object is. Constant once
// the first thread has a heap.
extern size_t g_sample_mean_bytes;
// From which the samplers of all threads are seeded. Constant from then on, too.
extern uint64_t g_sample_seed;

// The distance from one point to the next for 64 random bits; at least 1.
uint64_t SampleDistance(uint64_t random_bits, size_t mean_bytes);

// Of one thread heap; used by its owner, in critical sections, and by who gives the heap's runs
// back.
class Sampler {
 public:
  explicit Sampler(uint64_t seed) : random_(seed) {}

  // The next `window` bytes of the row are to be handed out in objects of `slot_bytes`: returns how
  // many of them may be, without the object that is to be sampled. If that is the next one, all of
  // it, and the object is due.
  size_t Cut(Kind kind, size_t size_class, size_t slot_bytes, size_t window);
  // Whether the object that the row hands out now is due. No longer after this call.
  bool TakeDue() {
    const bool due = due_;
    due_ = false;
    return due;
  }
  // Whether a large object just allocated is sampled.
  bool IsLargeSampled(size_t bytes);
  // Windows of the kind are given back unused.
  void DrawAnew(size_t kind) {
    due_ = false;
    for (uint64_t& left : left_[kind]) left = 0;
  }
  // In a forked child: another sequence than its parent's.
  void Reseed(uint64_t seed) { random_ = Mix64(random_ ^ seed); }

 private:
  uint64_t Draw();

  uint64_t random_;
  bool due_ = false;
  // Bytes from the end of the row's window to the next point, the point's byte included. 0: to be
  // drawn.
  uint64_t left_[kMaxKinds][kClassCount] = {};
  uint64_t left_large_ = 0;
};

}  // namespace gleaner::alloc
