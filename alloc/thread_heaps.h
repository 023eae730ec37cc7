#pragma once

#include "alloc/thread_heap.h"

namespace gleaner::alloc {

// Whether pages may count less free slots than they have [inv.free-slots]: from a fork in which
// threads have vanished until a sweep in a stop. Changes with a single thread, or the world
// stopped.
extern bool g_free_counts_lack;

// All thread heaps. Heaps are never destroyed: a thread that ends abandons its heap, with the
// heap's pages, and the next thread that starts adopts the heap; until then other threads may take
// pages out of it.
// Init comes first. All functions but those for fork and for tests are thread-safe; they take the
// heaps' own locks (kOwner), and Acquire also the lock of the list (kHeaps).
class ThreadHeaps {
 public:
  [[nodiscard]] static bool Init(Policy policy, double k);

  // Returns a heap for a thread that starts: an abandoned one of the node it runs on, or a new one,
  // or, if metadata memory is refused, any abandoned one. Null if there is none.
  static ThreadHeap* Acquire();
  // The thread that owned the heap ends; also for threads that vanished in a fork.
  static void Abandon(ThreadHeap* heap);

  static size_t count();
  // The first heap that may have a thread. Those below are lists of free pages: the shared one of
  // PS, and one for each memory node where there are several.
  static size_t first_of_threads();
  // Heaps that have a thread; at least 1.
  static size_t active();
  static ThreadHeap& at(size_t index);
  // For readers of another process: where the count is, and the first of as many addresses.
  static const platform::Atomic<size_t>& count_place();
  static ThreadHeap* const& first_place();
  // The heap that gets a page which the sweep has found empty.
  static ThreadHeap& HomeOfFree(PageNumber page);

  // As ThreadHeap::Settle of the page's owner, for a page of which an eighth is free. Any thread.
  static void Settle(PageNumber page);

  // Takes a free page from another heap, those of the nearest node first, and moves some more to
  // the thief's. kNoPage if there is none.
  static PageNumber Steal(Space space, const ThreadHeap* thief);
  // Takes a partial page from an abandoned heap, of the nearest node; from one of another node
  // only if `of_any_node`, or the policy has no reason to keep off it. kNoPage if there is none.
  static PageNumber StealPartial(Kind kind, size_t size_class, const ThreadHeap* thief,
                                 bool of_any_node);
  // Takes a free page from the list of a node. kNoPage if there is none, or no such list.
  static PageNumber TakeOfNode(Space space, NodeMark node);
  // Puts a free page on the list of its node. False if there is no such list.
  static bool GiveToNode(PageNumber page);
  // Whether `pages` more from the system would break the bound of LPS while free pages exist. False
  // under other policies.
  static bool ShouldShare(Space space, PageCount pages);
  // Gives all free pages of all heaps back to the page space, where neighbours coalesce.
  static void FlushFreePages(Space space);
  // Resident pages without objects, in the page space and on the heaps' lists. A snapshot.
  static size_t ResidentFreePages(Space space);
  // Makes room when the heap must grow although much of it is free, since the free memory does not
  // fit the request. Gives about `bytes` of free memory back to the system, so that the heap can
  // take as much elsewhere, and returns how much. Nothing if less than one part in `min_share` of
  // the heap is free.
  static size_t ReleaseToMakeRoom(size_t bytes, size_t min_share);

  static Policy policy();
  static double k();

  static void LockForFork();
  static void UnlockAfterFork();
  // Takes the heaps' own locks, too: then the child finds all lists in order. After LockForFork.
  static void LockListsForFork();
  static void UnlockListsAfterFork();
  // In the child of a fork: releases the locks, abandons every heap but `survivor` (may be null)
  // and rebuilds the page lists.
  static void ResetAfterFork(ThreadHeap* survivor);

  // Aborts unless each page is on its list, once. pre: no thread is in the allocator or in a step
  // of a concurrent sweep.
  static void CheckForTesting();

 private:
  static void SettleAfterFork(PageNumber page, const ThreadHeap* survivor);
  static size_t Trade(Space space, size_t bytes);
  // Under the lock of the list of heaps. Null if metadata memory is refused.
  static ThreadHeap* Make();
  static bool MakeListsOfNodes();
  // An abandoned heap of the node, or of any with kNoNode; null if there is none. Under the lock of
  // the list of heaps.
  static ThreadHeap* Adopt(NodeMark node);
  static bool WantsPartialOfAnyNode(Space space);
};

}  // namespace gleaner::alloc
