// The parallel marker.
//
// Each worker runs this pipeline:
//
//                         root tasks, pending cards, descriptors
//                                          |
//   [scan ring] -> filter words -> [pending words] -> select, resolve to the mark byte
//        ^                                                          |
//        |                                        white? store black, push the range
//        +--- prefetch the first lines <--- mark stack <------------+
//                                            (a batch of it, in the order of addresses, if deep)
//
// The cache lines of the first 64 bytes of a range are prefetched when the range goes into the scan
// ring, so that they are there when the range comes out. The pending words come from several
// objects. They are marked together when there are 64, or when nothing is left to scan: the reads
// of their descriptors and mark bytes do not depend on each other, so the cache misses overlap.
//
// The stack holds ranges of objects that are black already (packed, one word each). When it is
// deep, its newest ranges are sorted and scanned as a batch (gc/mark/sorted_batch.h).
//
// A range above 4 KiB is in hand until it is scanned. Where no batches are made, it is split when
// it enters the ring, from which other workers cannot take: 4 KiB go in, and the rest, halved down
// to 32 KiB, stays on the stack, which so gets no more at a time than 4 KiB refer to. Where batches
// are made, it stays in hand, so that the next batch is dense, until the stack has a whole batch,
// and is split when the stack has more than two; and when a worker has no work, half of what is
// left goes to it.
//
// White is a mask of mark byte values, black is one value (alloc/page.h).
//
// Invariants, with the world stopped:
//   [inv.marked-allocated]  black is only ever stored over white, and white slots are allocated.
//   [inv.no-lost-grey]      an object whose byte turned black is on a stack, in a batch, in a ring,
//                           in a segment, being scanned or done, or words of it are pending; or its
//                           cards are pending; or the rescan flag is up.
// Two markers may find the same byte white. Both then store black and push, which is harmless; so a
// relaxed load and store suffice (Note [mark-race] in docs/design/invariants.md).
//
// Pending words belong to their worker as its stack, batch and ring do; other workers cannot take
// them. A worker turns idle only without pending words [inv.termination]: Drain marks them before
// it returns true. A pending word is resolved when it is marked, perhaps after a pause in which the
// program ran. If the program has freed the object and its slot is used again, the new object is
// black already.
//
// Pausing: where a worker checks whether other workers are idle, it also checks whether it has to
// pause. A worker that pauses pushes the range it is scanning back and leaves the job; its pending
// words and the entries of its stack, batch, ring and queue stay there. When all workers have left,
// Continue opens the job again. While marking is paused no grey object is lost [inv.no-lost-grey],
// and DiscardMarks may drop all of them.
//
// Rescanning: with a rescan set (UseRescanSet), a round of BeginRescan and Continue takes each
// pending card and scans the words in it of every black object; a described object is scanned
// whole. For kinds that keep the contents of unreachable objects, every allocated object is
// scanned. Where there is a shadow copy (gc/mark/shadow_copies.h), only words that differ from it
// are scanned.
//
// Stack memory exhausted: with a rescan set, the cards of the range that was not pushed become
// pending. Without it the object stays black, the rescan flag goes up, and when all other work is
// done every black object of the heap is scanned again. The marker never aborts or allocates.
#pragma once

#include "alloc/object.h"
#include "alloc/page_node.h"
#include "gc/mark/kinds.h"
#include "gc/mark/mark_config.h"
#include "gc/mark/mark_loop.h"
#include "gc/mark/marker_count.h"
#include "gc/mark/rescan_set.h"
#include "gc/mark/roots.h"
#include "gc/mark/shadow_copies.h"
#include "gc/mark/worker_pool.h"

namespace gleaner::gc {

inline constexpr uint64_t kNeverPause = ~uint64_t{0};
// A shorter slice is a mutator's (CyclePacer::SliceBytes), which must not wait until a batch is
// sorted.
inline constexpr uint64_t kMinSortingSlice = 2 * kMiB;

class Marker;

// One worker of the marker. During a job only the worker's own thread calls its functions, except
// those of `queue`; outside jobs, the collecting thread or the thread that has the slice. Init
// once, BeginCycle before the first job of a cycle.
class MarkWorker : private MarkLoop<MarkWorker, RealClock> {
 public:
  using MarkLoop::Drain;
  using MarkLoop::Forget;
  using MarkLoop::HasNothing;
  using MarkLoop::queue;
  using MarkLoop::statistics;

  [[nodiscard]] bool Init(Marker* marker, int id, size_t max_stack_entries, int max_workers);
  void BeginCycle();

  // Scans root words. One-past-the-end pointers count; other interior pointers if `interior`.
  void ScanRoots(platform::Range range, bool interior);
  // If the object is white, marks it and pushes its contents.
  void MarkObject(const alloc::ObjectRef& object);
  // Pushes an object's contents without marking it.
  void PushContents(const alloc::ObjectRef& object);
  // Pushes an object's contents except pointers into the object itself.
  void PushContentsButSelf(const alloc::ObjectRef& object);
  // Where the program's procedures push the objects that they find.
  MarkSink* sink() { return &sink_; }
  // The whole job of one worker in parallel marking. Pauses after scanning about `slice_bytes`.
  void Run(uint64_t slice_bytes);

 private:
  template <class, class>
  friend class MarkLoop;

  // Where there are several memory nodes and they are known: orders the other workers by nearness.
  void OrderVictims();
  // While roots or pending cards are scanned, the stack is drained when it is deeper than this.
  static constexpr size_t kDrainRootsAt = 256;

  // A local copy of worker state for the compiler to keep in registers: a store to a mark byte may
  // alias anything in memory.
  class Pipeline;

  // The sink that mark procedures push into.
  struct Sink : MarkSink {
    explicit Sink(MarkWorker* w) : MarkSink{PushFound, PushFoundRange}, worker(w) {}
    MarkWorker* worker;
  };
  static void PushFound(MarkSink* sink, Addr word);
  static void PushFoundRange(MarkSink* sink, Addr begin, Addr end, bool interior);
  // Makes a word pending, or marks its object. `interior`: any displacement counts. pre: the word
  // is inside the reservation.
  void AddWord(Addr word, bool interior) {
    if (GLEANER_UNLIKELY(interior && !interior_)) return MarkInterior(word);
    words_[pending_++] = word;
    if (pending_ == kPendingWords) MarkPending();
  }
  void MarkPending();
  void MarkInterior(Addr word);
  void PushForDescription(Addr base);
  void ScanDescribed(Addr base);

  void LeaveForRescan(PackedRange range);
  void RescanPage(alloc::PageNumber page);
  bool MustRescan(alloc::PageNumber page, const uint8_t* mark) const;
  void RescanRange(alloc::PageNumber page, size_t begin, size_t end);
  template <class F>
  void ForEachRescanned(alloc::PageNumber page, size_t begin, size_t end, const F& f) const;
  bool RescanByShadow(alloc::PageNumber page, size_t unit);
  void ScanChanges(Addr begin, Addr* shadow, size_t bytes, bool small);
  void ScanWords(const Addr* words, size_t count);
  void PushWords(Addr object, size_t object_bytes, Addr begin, Addr end);
  bool RescanNext();
  void RunRootTask(size_t task);

  // What MarkLoop asks for.
  GLEANER_ALWAYS_INLINE void Prefetch(PackedRange range) const;
  bool pads_objects() const { return pad_objects_; }
  bool MustPause() const;
  bool IsPauseWanted() const;
  bool IsPausing() const;
  bool Shares() const;
  bool WakeHelper();
  alloc::NodeMark NodeOf(Addr range) const;
  MarkCrew<RealClock>& crew();
  MarkWorker& other(int i);
  int worker_count() const;

  Marker* marker_ = nullptr;

  // Constant during a cycle. Copies of shared values, to be in the worker's own cache lines.
  Addr base_ = 0;
  size_t heap_bytes_ = 0;
  const alloc::PageInfo* info_ = nullptr;
  uint8_t* marks_ = nullptr;
  // In this cycle, descriptors of uncommitted pages may be unmapped: Resolve asks the frontiers
  // first. Select does not ask; it keeps all words that point between the frontiers as they were at
  // the beginning of the cycle, the range of pages that hole_begin_ and hole_pages_ give.
  bool has_hole_ = false;
  size_t hole_begin_ = 0;
  size_t hole_pages_ = 0;
  uint8_t white_ = 0;
  uint8_t black_ = 0;
  bool interior_ = true;
  bool past_the_end_ = true;
  bool pad_objects_ = false;
  FilterFunction filter_ = nullptr;
  size_t min_select_words_ = 0;      // fewer pending words are all resolved
  SelectFunction select_ = nullptr;  // null if each pointer's displacement has to be checked

  Sink sink_{this};
  uint64_t pause_at_bytes_ = kNeverPause;  // pause when statistics.bytes_scanned reaches this
};

extern template bool MarkLoop<MarkWorker, RealClock>::Drain();

// Call order: Init once. For a stop-parallel collection, with the world stopped: Begin,
// MarkFromRoots, MarkMore any number of times, End. For a minor one: Begin, UseRescanSet,
// BeginRescan, MarkFromRoots, FinishRescanWorldStopped, MarkMore, End. For a concurrent cycle:
// BeginConcurrent, MarkFromRoots and Continue in slices; then with the world stopped
// GoOnWorldStopped, BeginRescan, and on as for a minor one; or DiscardMarks. The caller has the
// collector lock, or the slice of a concurrent cycle (gc/cycle/cycle.h). Only Pause and Resume may
// be called while workers are in the job.
class Marker {
 public:
  // False if the workers' metadata cannot be had.
  [[nodiscard]] bool Init(WorkerPool* pool, int max_workers);
  // From the next cycle on workers scan by the code of this name (gc/mark/scan.h); by the best if
  // the processor has none of that name. pre: no worker is in the job.
  void UseInstructions(const char* name);

  // Decides which values are white and which is black. After that worker 0 may be given objects.
  // `minor`: only young objects are white. Old objects are black from the beginning, and those that
  // may refer to young objects have to be on pending cards. pre: the world is stopped, runs are
  // retired.
  void Begin(const MarkConfig& config, bool minor = false);
  // Called when it is decided which objects live: no object is white any more, and outside cycles
  // black is the live epoch. pre: the world is stopped.
  void End();
  // Begins a concurrent cycle. Until GoOnWorldStopped only the thread that calls MarkFromRoots or
  // Continue marks (unless SetConcurrentWorkers allows more workers). That thread may be a mutator
  // in a critical section; it pauses if a stop is wanted. Mark procedures are not called: the
  // objects that need one become pending. Pending pages in which threads allocate stay pending.
  void BeginConcurrent(const MarkConfig& config, RescanSet* rescan_set, ShadowCopies* shadows);
  // Sets how many workers mark from now on in a concurrent cycle. More than one only for a caller
  // that is no mutator. pre: no worker is in the job.
  void SetConcurrentWorkers(int workers) { concurrent_workers_ = workers; }
  // The world is stopped for the rest of the cycle. pre: no worker is in the job.
  void GoOnWorldStopped() { is_concurrent_ = false; }
  // Marks everything reachable from the root tasks and from the objects given to worker 0. With
  // `slice_bytes`, each worker scans about that much and pauses. False if work is left because of
  // the slice or of Pause; then Continue has to be called.
  bool MarkFromRoots(RootTasks* roots, uint64_t slice_bytes = kNeverPause);
  bool Continue(uint64_t slice_bytes = kNeverPause);
  // Sets the rescan set of this cycle. With null, pending cards are not scanned any more.
  // After Begin; no worker is in the job.
  void UseRescanSet(RescanSet* rescan_set) { rescan_set_ = rescan_set; }
  // The next Continue scans all cards that are pending now. Cards that become pending during that
  // Continue may be left for the next round. pre: no worker is in the job.
  void BeginRescan() {
    next_rescanned_.Restart();
    rescan_end_ = rescan_set_->pages();
  }
  // After MarkFromRoots: rescans until no card is pending and no range is left that a full stack
  // did not take. Pending cards are not scanned any more. pre: the world is stopped.
  void FinishRescanWorldStopped();
  // Makes the workers leave the job within some 10 us of work each, and keeps them out of it until
  // Resume. Any thread.
  void Pause();
  void Resume() { pause_.Store(false, platform::memory_order_seq_cst); }
  // Ends the cycle: black objects become white again. pre: the world is stopped, no worker is
  // in the job.
  void DiscardMarks();
  // Marks from the objects that worker 0 was given since (finalizers). Serial.
  void MarkMore();

  bool IsMarked(const alloc::ObjectRef& object) const { return *object.mark() == black_; }
  bool IsWhite(const alloc::ObjectRef& object) const { return (*object.mark() & white_) != 0; }
  // The program marks or unmarks the object explicitly; its contents are not scanned. No effect
  // outside cycles and while the world runs. In a minor collection an old object stays marked.
  void SetMark(const alloc::ObjectRef& object, bool marked);
  // Whether objects were marked or unmarked explicitly in this cycle: then a black object need not
  // be reachable. Relaxed, as the store: read when marking is over.
  bool marked_explicitly() const {
    return marked_explicitly_.Load(platform::memory_order_relaxed);  // no worker is in the job
  }
  void SetMarkedExplicitly() {
    marked_explicitly_.Store(true, platform::memory_order_relaxed);  // published by the job's end
  }
  // Whether the program has tried to unmark an old object in this minor collection.
  bool kept_explicitly() const {
    return kept_explicitly_.Load(platform::memory_order_relaxed);  // no worker is in the job
  }
  MarkWorker& worker(int i) { return *workers_[i]; }
  MarkStatistics statistics() const;
  // Of the marking from the roots in a stop; nothing where pending cards are scanned. The
  // collecting thread.
  const MarkingTimes& times() const { return times_; }

  uint8_t white() const { return white_; }  // a mask
  uint8_t black() const { return black_; }

 private:
  friend class MarkWorker;

  static void RunJob(void* marker, int worker);
  // If the rescan flag is up, scans every black object. False if it has to pause.
  bool RescanHeap();
  bool IsPausing() const {
    return pause_.Load(platform::memory_order_seq_cst) ||
           slice_over_.Load(platform::memory_order_seq_cst);
  }
  // Called by a worker that has to pause: makes all workers leave the job, since they would wait
  // for this worker for ever.
  void EndSlice();
  bool HasNothing() const;
  bool IsAllClaimed() const;
  bool IsAlone() const { return is_concurrent_ && concurrent_workers_ == 1; }
  int MaxWorkersNow() const { return is_concurrent_ ? concurrent_workers_ : kMaxWorkers; }
  void DrainLeftovers();
  // One value of the mask white_.
  uint8_t AnyWhite() const { return static_cast<uint8_t>(white_ & -white_); }

  // Constant after Init.
  WorkerPool* pool_ = nullptr;
  MarkWorker* workers_[kMaxWorkers] = {};
  int worker_count_ = 0;
  ScanCode scan_code_ = {};  // asked for once: asking the processor is slow under a hypervisor

  // Written by the calling thread while no worker is in the job, read by the workers.
  MarkConfig config_;
  bool has_hole_ = false;  // in this cycle, descriptors of uncommitted pages may be unmapped
  RootTasks* roots_ = nullptr;
  bool is_concurrent_ = false;  // the world runs
  int concurrent_workers_ = 1;
  uint64_t slice_bytes_ = kNeverPause;
  RescanSet* rescan_set_ = nullptr;
  ShadowCopies* shadows_ = nullptr;
  alloc::PageNumber rescan_end_ = 0;  // pages below are rescanned in this round
  uint8_t white_ = 0;                 // a mask; 0 outside cycles
  uint8_t black_ = 1;                 // outside cycles the live epoch

  MarkingTimes times_;  // the collecting thread only, and the next
  int at_start_ = 1;    // workers that begin the next marking
  // Both are set by the collecting thread, or by a worker whose mark procedure calls SetMark. They
  // are read when marking is over; the end of the job publishes them.
  platform::Atomic<bool> marked_explicitly_{false};
  platform::Atomic<bool> kept_explicitly_{false};

  MarkCrew<RealClock> crew_;
  platform::Tickets<size_t> next_rescanned_{0};  // pages to claim in this round
  // Stored before crew_.work_available is raised, as crew_.done is: Note [sleepers].
  platform::Atomic<bool> pause_{false};
  platform::Atomic<bool> slice_over_{false};  // a worker has to pause in this job
  platform::Atomic<bool> overflowed_{false};  // the rescan flag
};

// By displacement into an object: whether a heap word with it counts as a pointer although interior
// pointers in general do not. Written under the collector lock.
extern uint8_t g_valid_displacement[alloc::kPageBytes];

}  // namespace gleaner::gc
