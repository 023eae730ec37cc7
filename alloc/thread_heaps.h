#pragma once

#include "alloc/thread_heap.h"

namespace gleaner::alloc {

// All thread heaps. Heaps are never destroyed: a thread that ends abandons its heap, with its
// pages, and the next thread that starts adopts it; until then other threads may take pages out of
// it.
class ThreadHeaps {
 public:
  [[nodiscard]] static bool Init(Policy policy, double k);

  // A heap for a thread that starts. Null if metadata memory is refused.
  static ThreadHeap* Acquire();
  // The thread that owned the heap ends; also for threads that vanished in a fork.
  static void Abandon(ThreadHeap* heap);

  static size_t count();
  // Heaps that have a thread; at least 1.
  static size_t active();
  static ThreadHeap& at(size_t index);
  // The heap that gets a page the sweep found empty.
  static ThreadHeap& HomeOfFree(PageNumber page);

  // A free page of any other thread; kNoPage if there is none.
  static PageNumber Steal(Space space, const ThreadHeap* thief);
  // A partial page of an abandoned heap.
  static PageNumber StealPartial(Kind kind, size_t size_class);
  // Whether `pages` more from the system would break the bound of the policy in force.
  static bool ShouldShare(Space space, PageNumber pages);
  // Gives all free pages of all threads back to the page space, where neighbours coalesce.
  static void FlushFreePages(Space space);
  // Pages without objects, wherever they are. A snapshot.
  static size_t ResidentFreePages(Space space);
  // For when the heap must grow though a good part of it is free, because that does not fit what is
  // asked for. Gives at least `bytes` of it back to the system, so that as much may be had in its
  // place. False if less than one part in `least_share` of the heap is free.
  static bool ReleaseToMakeRoom(size_t bytes, size_t least_share);
  // The same for a large object that fits none of the holes that others have left on its space.
  static bool ReleaseFreePagesElsewhere(Space space, size_t bytes);

  static Policy policy();
  static double k();

  static void LockForFork();
  static void UnlockAfterFork();
  // With the heaps' own locks held, too, the child finds all lists in order. After LockForFork.
  static void LockListsForFork();
  static void UnlockListsAfterFork();
  // In the child: releases the locks, abandons every heap but `survivor` (may be null) and puts the
  // page lists right.
  static void ResetAfterFork(ThreadHeap* survivor);

  // Aborts unless each page is on the list that it should be on, once. pre: no thread is in the
  // allocator, and a concurrent sweep is at no step.
  static void CheckForTesting();

 private:
  static size_t Trade(Space space, size_t bytes);
};

}  // namespace gleaner::alloc
