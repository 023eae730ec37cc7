// The parallel marker.
//
// Each worker runs this pipeline; prefetches are issued on entering a ring, so that the line is
// there when the entry comes out at the other end:
//
//   root tasks, mark stack                                       candidate ring
//        |                                                             |
//   [scan ring] -> filter words -> resolve to (mark byte, range) -> [prefetch mark byte]
//        ^                                                             |
//        |                                     white? store black, push the range
//        +--- prefetch first line <--- mark stack <--------------------+
//
// The stack holds ranges of objects already black (packed, one word each). A range above 32 KiB is
// split and the rest pushed first, so that others can take it; above 1 MiB it is halved.
//
// White is a mask of values, black is one (alloc/page.h).
//
// Invariants, with the world stopped:
//   [inv.marked-allocated]  black is only ever stored over white, and white slots are allocated.
//   [inv.no-lost-grey]      an object whose byte turned black is on a stack, in a ring, in a
//                           segment, being scanned or done; or its cards are pending; or the
//                           rescan flag is up.
// Two markers may find the same byte white; both then store black and both push: harmless, so a
// plain load and store do (Note [mark-race] in docs/memory_ordering.md).
//
// Pausing: where a worker looks whether others are hungry, it also looks whether it is to pause.
// Then it pushes the range in hand back and leaves the job; what is on its stack, in its rings and
// its queue waits there. When all have left, Continue opens the job anew. While marking is paused
// nothing is lost [inv.no-lost-grey], and Abandon may give it all up.
//
// Scanning again: with a table of pending cards (UsePending), a round of BeginRescan and
// Continue takes each pending card and scans the words in it of every black object, the whole
// object if it is described; of kinds that keep the contents of unreachable objects, of every
// object. Where there is a twin (gc/shadow_copies.h), only words that differ from it.
//
// Stack memory exhausted, with such a table: the cards of the range that was not pushed become
// pending. Without: the object stays black, the rescan flag goes up, and when all else is
// done every black object of the heap is scanned again. Never aborts, never allocates.
#pragma once

#include "alloc/object.h"
#include "gc/kinds.h"
#include "gc/range_stack.h"
#include "gc/rescan_set.h"
#include "gc/roots.h"
#include "gc/scan.h"
#include "gc/shadow_copies.h"
#include "gc/termination.h"
#include "gc/work_queue.h"
#include "gc/worker_pool.h"

namespace gleaner::gc {

// The thesis's variants; constant during a cycle.
struct MarkConfig {
  bool all_interior_pointers = true;
  bool past_the_end = true;  // one-past-the-end pointers count in roots
  bool pad_objects = false;  // and in the heap, too
  bool balance = true;       // work stealing
  bool split = true;         // splitting of large ranges
  TerminationMethod termination = TerminationMethod::kStates;
};

struct alignas(kCacheLineBytes) MarkStatistics {
  uint64_t objects = 0;  // marked
  uint64_t bytes_scanned = 0;
  uint64_t steals = 0;
  uint64_t overflows = 0;

  void Add(const MarkStatistics& other) {
    objects += other.objects;
    bytes_scanned += other.bytes_scanned;
    steals += other.steals;
    overflows += other.overflows;
  }
};

inline constexpr uint64_t kNeverPause = ~uint64_t{0};

class Marker;

class MarkWorker {
 public:
  [[nodiscard]] bool Init(Marker* marker, int id, size_t max_stack_entries);
  void BeginCycle();

  // Scans root words: one past the end counts, and other interior pointers if `interior`.
  void ScanRoots(platform::Range range, bool interior);
  // Marks the object, if white, and pushes it.
  void MarkObject(const alloc::ObjectRef& object);
  // Pushes an object's contents without marking it.
  void PushContents(const alloc::ObjectRef& object);
  // The same without the pointers into the object itself.
  void PushContentsButSelf(const alloc::ObjectRef& object);
  // For procedures of the program's that name objects.
  MarkSink* sink() { return &sink_; }
  // Works until stack and rings are empty, or the worker is to pause: then false. Others may be
  // offered some of the work.
  bool Drain();
  // The whole job of one worker in parallel marking. It pauses after scanning about so many bytes.
  void Run(uint64_t slice_bytes);
  // With no worker in the job: whether nothing waits here, and forgetting what does.
  bool HasNothing() const;
  void Forget();

  MarkStatistics statistics;

 private:
  struct Candidate {
    uint8_t* mark;
    Addr word;  // the pointer that was found; resolved in full only if the byte is white
  };
  static constexpr size_t kCandidateRing = 32;
  static constexpr size_t kScanRing = 16;
  static_assert((kCandidateRing & (kCandidateRing - 1)) == 0);
  static_assert((kScanRing & (kScanRing - 1)) == 0);

  // Roots are scanned on until the stack is this deep.
  static constexpr size_t kDrainRootsAt = 256;

  // The part of the worker's state that the pipeline keeps in registers: a local copy of it, since
  // every store to a mark byte may alias everything that lies in memory. Save writes it back.
  class Pipeline;

  // What mark procedures push through.
  struct Sink : MarkSink {
    explicit Sink(MarkWorker* w) : MarkSink{PushFound, PushFoundRange}, worker(w) {}
    MarkWorker* worker;
  };
  static void PushFound(MarkSink* sink, Addr word);
  static void PushFoundRange(MarkSink* sink, Addr begin, Addr end, bool interior);
  void PushForDescription(Addr base);
  void ScanDescribed(Addr base);

  PackedRange Split(PackedRange range);
  void PushSpan(Addr begin, size_t bytes);
  void PushOrNote(PackedRange range) {
    if (GLEANER_UNLIKELY(!stack_.Push(range))) NoteOverflow(range);
  }
  void NoteOverflow(PackedRange range);
  void RescanPage(alloc::PageNumber page);
  bool MustRescan(alloc::PageNumber page, const uint8_t* mark) const;
  void RescanRange(alloc::PageNumber page, size_t begin, size_t end);
  template <class F>
  void ForEachRescanned(alloc::PageNumber page, size_t begin, size_t end, const F& f) const;
  bool RescanByShadow(alloc::PageNumber page, size_t unit);
  void ScanChanges(Addr begin, Addr* twin, size_t bytes, bool small);
  void ScanWords(const Addr* words, size_t count);
  void PushWords(Addr object, size_t object_bytes, Addr begin, Addr end);
  bool RescanNext();
  void ShareWork();
  bool FindWork();
  bool MustPause() const;
  void TakeSegment(const Segment& segment);
  void RunRootTask(size_t task);

  Marker* marker_ = nullptr;
  int id_ = 0;

  // Constant during a cycle, here to be in the worker's own cache lines.
  Addr base_ = 0;
  size_t heap_bytes_ = 0;
  const alloc::PageInfo* info_ = nullptr;
  uint8_t* marks_ = nullptr;
  // Whether pages that are not committed have no descriptors, in this cycle: then the frontiers
  // tell. Select asks nothing: it keeps words between the frontiers as of the beginning of the
  // cycle.
  bool has_hole_ = false;
  size_t hole_begin_ = 0;
  size_t hole_pages_ = 0;
  uint8_t white_ = 0;
  uint8_t black_ = 0;
  bool interior_ = true;
  bool past_the_end_ = true;
  bool pad_objects_ = false;
  bool split_ = true;
  FilterFunction filter_ = nullptr;
  SelectFunction fastest_select_ = nullptr;
  SelectFunction select_ = nullptr;  // null where every displacement has to be looked at

  Sink sink_{this};
  RangeStack stack_;
  size_t candidate_head_ = 0;  // next to come out
  size_t candidate_tail_ = 0;
  size_t scan_head_ = 0;
  size_t scan_tail_ = 0;
  uint64_t pause_at_bytes_ = kNeverPause;  // of statistics.bytes_scanned
  Candidate candidates_[kCandidateRing];
  PackedRange scan_ring_[kScanRing];
  Addr buffer_[kScanWords + kFilterSlack];

 public:
  WorkQueue queue;  // of segments, for all workers
};

class Marker {
 public:
  // False if the workers' metadata cannot be had.
  [[nodiscard]] bool Init(WorkerPool* pool, int max_workers);

  // pre, for both: the world is stopped, runs are hidden. After Begin it is decided what is white
  // and what is black, and worker 0 may be given objects; MarkFromRoots marks everything reachable
  // from those and from the root tasks.
  // `minor`: only young objects are white; old ones are black from the beginning, and those that
  // may refer to young ones have to be pending.
  void Begin(const MarkConfig& config, bool minor = false);
  // It is decided what lives: nothing is white any more, and outside cycles black is the live
  // epoch. With the world stopped.
  void End();
  // The same for a cycle that marks concurrently: the world need not be stopped, and until
  // GoOnWorldStopped only the thread that calls MarkFromRoots or Continue works (but see
  // SetConcurrentWorkers); it may be a mutator in a critical section, and pauses if a stop is
  // wanted. Mark procedures are not called: what they would have to look at becomes pending, and
  // the pages in which threads allocate stay so.
  void BeginConcurrent(const MarkConfig& config, RescanSet* pending, ShadowCopies* twins);
  // In a concurrent cycle, from here on: how many workers mark. More than one only for a
  // caller that is no mutator. pre: no worker is in the job.
  void SetConcurrentWorkers(int workers) { concurrent_workers_ = workers; }
  // The world is stopped for the rest of the cycle. pre: no worker is in the job.
  void GoOnWorldStopped() { is_concurrent_ = false; }
  // With a slice, each worker scans about so many bytes and pauses. False if there is work left, be
  // it for that or for Pause: it is done by Continue.
  bool MarkFromRoots(RootTasks* roots, uint64_t slice_bytes = kNeverPause);
  bool Continue(uint64_t slice_bytes = kNeverPause);
  // In this cycle. After Begin, with no worker in the job; null for none: what is pending then is
  // not scanned any more.
  void UsePending(RescanSet* pending) { pending_ = pending; }
  // The next Continue scans what is pending, but for what becomes so meanwhile. pre: no worker is
  // in the job.
  void BeginRescan() {
    next_pending_.Store(0, platform::memory_order_relaxed);  // published with the helpers' wake-up
    pending_end_ = pending_->pages();
  }
  // Makes the workers leave the job soon, within some 10 us of work each, and keeps them from it
  // until Resume. Any thread.
  void Pause();
  void Resume() { pause_.Store(false, platform::memory_order_seq_cst); }
  // Gives the cycle up. What was turned black is white again. pre: the world is stopped, no worker
  // is in the job.
  void Abandon();
  // Marks from what worker 0 was given since by MarkObject or PushContents (finalizers). Serial.
  void MarkMore();

  bool IsMarked(const alloc::ObjectRef& object) const { return *object.mark() == black_; }
  bool IsWhite(const alloc::ObjectRef& object) const { return (*object.mark() & white_) != 0; }
  // The program's word for it: the object counts as marked, or does not, and its contents are not
  // looked at. No effect outside cycles, and while the world runs; in a minor collection an old
  // object stays marked.
  void SetMark(const alloc::ObjectRef& object, bool marked);
  // Whether the program had such a word in this cycle, so that what is black need not be reachable.
  bool marked_by_hand() const {
    return marked_by_hand_.Load(platform::memory_order_relaxed);  // see there
  }
  void NoteMarkedByHand() { marked_by_hand_.Store(true, platform::memory_order_relaxed); }  // same
  // In a minor collection an old object should have been unmarked.
  bool kept_by_hand() const {
    return kept_by_hand_.Load(platform::memory_order_relaxed);  // as marked_by_hand
  }
  MarkWorker& worker(int i) { return *workers_[i]; }
  MarkStatistics statistics() const;

  uint8_t white() const { return white_; }  // a mask
  uint8_t black() const { return black_; }

 private:
  friend class MarkWorker;

  static void RunJob(void* marker, int worker);
  // False if it has to pause.
  bool RescanHeap();
  bool IsPausing() const {
    return pause_.Load(platform::memory_order_seq_cst) ||
           slice_over_.Load(platform::memory_order_seq_cst);
  }
  // For a worker that has used up its slice: it leaves the job, which cannot end without it.
  void EndSlice();
  void WakeSleepers();
  bool HasNothing() const;
  bool IsAllClaimed() const;
  bool IsAlone() const { return is_concurrent_ && concurrent_workers_ == 1; }
  bool MayWake() const { return !is_concurrent_ || pool_->last_workers() < concurrent_workers_; }
  void DrainLeftovers();
  // One value of the mask.
  uint8_t AnyWhite() const { return static_cast<uint8_t>(white_ & -white_); }

  // Constant after Init.
  WorkerPool* pool_ = nullptr;
  MarkWorker* workers_[kMaxWorkers] = {};
  int worker_count_ = 0;

  // Written by the collecting thread while no worker runs, read by the workers.
  MarkConfig config_;
  bool has_hole_ = false;  // the table of descriptors, in this cycle
  RootTasks* roots_ = nullptr;
  bool is_concurrent_ = false;  // the program runs
  int concurrent_workers_ = 1;
  uint64_t slice_bytes_ = kNeverPause;
  RescanSet* pending_ = nullptr;
  ShadowCopies* shadows_ = nullptr;
  alloc::PageNumber pending_end_ = 0;  // pages below are rescanned in this round
  // See End.
  uint8_t white_ = 0;
  uint8_t black_ = 1;

  // Helpers found work in the last cycle. Collecting thread only.
  bool helped_ = false;
  // Set by the collecting thread, or by a worker whose mark procedure says so; read when marking is
  // over, which the workers' end publishes.
  platform::Atomic<bool> marked_by_hand_{false};
  platform::Atomic<bool> kept_by_hand_{false};  // likewise

  Termination termination_;
  // Idle workers asleep on `work_available_`, and segments published while some were.
  platform::Atomic<uint32_t> sleepers_{0};
  platform::Atomic<uint32_t> work_available_{0};
  platform::Atomic<uint32_t> idle_{0};  // idle workers, asleep or not: a hint for sharing
  platform::Atomic<bool> done_{false};
  platform::Atomic<size_t> next_pending_{0};  // page, of this round
  // Note [sleepers] holds for these as for done_.
  platform::Atomic<bool> pause_{false};
  platform::Atomic<bool> slice_over_{false};  // in this job
  platform::Atomic<bool> overflowed_{false};
};

// Whether a pointer with that displacement into an object counts when it comes from the heap and
// interior pointers in general do not. Written under the collector lock.
extern uint8_t g_valid_displacement[alloc::kPageBytes];

}  // namespace gleaner::gc
