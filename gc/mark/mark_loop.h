// What a worker of the marker does with its work: in which order it scans, what it splits, what it
// offers to others and from whom it takes.
//
// This is the part of the marker that knows neither memory nor threads. MarkWorker
// (gc/mark/marker.h) runs it on the heap and on RealClock; a simulated worker (tools/predict/) runs
// it on a heap snapshot and in virtual time. So what a simulation shows of the schedule is what the
// marker does.
//
// A class `Worker` that derives from MarkLoop<Worker, Clock> has:
//   Pipeline                 constructed from Worker*; Filter, Resolve<false>, Mark,
//                            MarkObjectsBefore as in gc/mark/mark_pipeline.h
//   void MarkPending()       marks the objects of all pending words, sets pending_ to 0, and calls
//                            ChooseOrder
//   void ScanDescribed(Addr) scans an object that is not scanned word by word
//   void LeaveForRescan(PackedRange)  the stack has no room for the range
//   void Prefetch(PackedRange)  the range is scanned soon
//   bool pads_objects()      as in MarkConfig
//   bool MustPause(), IsPauseWanted()  docs: gc/mark/marker.h, "Pausing"
//   bool IsPausing()         a worker of this job has to pause
//   bool Shares()            whether it may offer work in this job
//   bool WakeHelper()        wakes one more worker; false if none may be woken
//   alloc::NodeMark NodeOf(Addr)  the memory node of a range; asked where is_by_node_
//   MarkCrew<Clock>& crew(), Worker& other(int i), int worker_count()
//
// Everything but `queue` and offered_node_ belongs to the worker alone.
#pragma once

#include "alloc/page_node.h"
#include "gc/mark/range_stack.h"
#include "gc/mark/scan.h"
#include "gc/mark/sorted_batch.h"
#include "gc/mark/termination.h"
#include "gc/mark/work_queue.h"

namespace gleaner::gc {

// A longer range is scanned in steps of this size.
inline constexpr size_t kScanBytes = kScanWords * kWordBytes;
// A longer range is halved, again and again, so that others find shares of equal size. Scanning
// this much takes about as long as waking a helper if all words are pointers.
inline constexpr size_t kSplitBytes = 32 * kKiB;
// Large objects are pushed as ranges of this size.
inline constexpr size_t kSpanBytes = 8 * kMiB;

// After scanning this much a worker checks whether other workers are idle and whether to pause.
inline constexpr uint64_t kShareEveryBytes = 8 * kKiB;
// Waking a helper costs as much as scanning this much (some 50 us). Only a worker that has scanned
// more, and still has work, wakes a helper.
inline constexpr uint64_t kHelpAfterBytes = 256 * kKiB;
// The same for a worker that reads roots: it has marked as many objects since it woke the last one,
// and there are as many bytes of roots that nobody reads yet, which take as long as a wake-up even
// if they hold no pointer.
inline constexpr uint64_t kHelpAfterObjects = 4 * kKiB;
inline constexpr uint64_t kHelpWithRootBytes = 1 * kMiB;
// Turns of searching for work before an idle worker yields its processor, and before it sleeps.
inline constexpr int kYieldTurns = 8;
inline constexpr int kSpinTurns = 200;

struct alignas(kCacheLineBytes) MarkStatistics {
  uint64_t objects = 0;  // marked
  uint64_t bytes_scanned = 0;
  uint64_t steals = 0;
  uint64_t overflows = 0;
  uint64_t batches = 0;  // scanned in the order of addresses
  uint64_t busy_ns = 0;  // in jobs, not searching for work
  uint64_t idle = 0;     // searching for work, or asleep; in the clock's unit

  void Add(const MarkStatistics& other) {
    objects += other.objects;
    bytes_scanned += other.bytes_scanned;
    steals += other.steals;
    overflows += other.overflows;
    batches += other.batches;
    busy_ns += other.busy_ns;
    idle += other.idle;
  }
};

// What the workers of a job share.
template <class Clock>
class MarkCrew {
  template <class T>
  using Atomic = typename Clock::template Atomic<T>;

 public:
  // Before the workers of a job start.
  void BeginJob(TerminationMethod method, int workers) {
    done.Store(false, platform::memory_order_seq_cst);
    idle.Store(0, platform::memory_order_relaxed);  // published with the helpers' wake-up
    sleepers.Store(0, platform::memory_order_seq_cst);
    termination.Reset(method, workers);
  }
  void WakeSleepers() {
    work_available.FetchAdd(1, platform::memory_order_seq_cst);
    Clock::Wake(&work_available, INT32_MAX);
  }

  TerminationOf<Clock> termination;
  Atomic<uint32_t> sleepers{0};        // idle workers that sleep on work_available
  Atomic<uint32_t> work_available{0};  // raised to wake sleepers: Note [sleepers]
  Atomic<uint32_t> idle{0};            // idle workers, asleep or not: a hint for sharing
  Atomic<bool> done{false};            // marking is over
};

template <class Worker, class Clock>
class MarkLoop {
 public:
  MarkStatistics statistics;

 protected:
  // The pending words are marked when there are this many.
  static constexpr size_t kPendingWords = 64;
  static constexpr size_t kScanRing = 16;
  static_assert(kPendingWords % kFilterSlack == 0);  // so select stays within the pending words
  static_assert((kScanRing & (kScanRing - 1)) == 0);

  // What feeds the ring.
  enum class Order : bool {
    kStack,  // the newest range of the stack
    kBatch,  // the batch: there is one, or the stack was deep when it was last looked at
  };
  static constexpr size_t kNoBatches = SIZE_MAX;

  // False if there is no memory.
  [[nodiscard]] bool InitLoop(int id, size_t max_stack_entries, size_t heap_bytes,
                              int max_workers) {
    id_ = id;
    if (!stack_.Init(max_stack_entries)) return false;
    batch_.Init(heap_bytes, max_workers);
    return true;
  }
  // The heap has `heap_bytes` to scan, in the `address_bytes` from `base` on. min_batch: as in
  // MarkConfig.
  void BeginLoop(Addr base, size_t address_bytes, size_t heap_bytes, size_t min_batch,
                 bool splits) {
    statistics = {};
    order_ = Order::kStack;
    split_ = splits;
    help_at_objects_ = kHelpAfterObjects;
    batch_.BeginCycle(base, address_bytes, heap_bytes, min_batch);
    AllowBatches(true);
  }
  // Whether batches may be made in the next job, if the heap and the memory allow it.
  void AllowBatches(bool allowed) { deep_at_ = allowed ? batch_.min() : kNoBatches; }

  // Gives the memory back. pre: nothing is left.
  void Release() {
    stack_.Release();
    batch_.Release();
  }

  // After a root task, while there are kHelpWithRootBytes to claim: wakes a helper for them, also
  // where the objects have nothing to scan.
  void HelpWithRoots() {
    if (statistics.objects < help_at_objects_ || !self().Shares()) return;
    help_at_objects_ = statistics.objects + kHelpAfterObjects;
    self().WakeHelper();
  }
  // Works until stack, batch and ring are empty and no word is pending (true), or the worker has to
  // pause (false). Offers some of the work to idle workers.
  bool Drain();
  // Waits until the worker has work (true), or marking is over or paused (false). `balances`:
  // whether workers take work from each other in this job.
  bool FindWork(bool balances);

  // Whether stack, batch, ring and queue are empty and no word is pending. No worker is in the job.
  bool HasNothing() const {
    return stack_.empty() && batch_.empty() && pending_ == 0 && scan_head_ == scan_tail_ &&
           queue.LooksEmpty();
  }
  // Empties stack, batch, ring and queue, and drops the pending words. No worker is in the job.
  void Forget() {
    stack_.Rewind();
    batch_.Clear();
    pending_ = 0;
    scan_head_ = scan_tail_;
    for (Segment segment; queue.Pop(&segment);) {
    }
  }

  // Pushes memory of any length. Each span begins at a multiple of kSpanBytes from `begin`.
  void PushSpan(Addr begin, size_t bytes) {
    while (bytes > kSpanBytes) {
      const size_t whole = AlignDown(bytes - 1, kSpanBytes);
      PushOrLeave({begin + whole, bytes - whole});
      bytes = whole;
    }
    PushOrLeave({begin, bytes});
  }
  void PushOrLeave(PackedRange range) {
    if (GLEANER_UNLIKELY(!stack_.Push(range))) self().LeaveForRescan(range);
  }

  // Called when pending words have been marked, which pushes ranges.
  void ChooseOrder() {
    if (GLEANER_UNLIKELY(stack_.size() >= deep_at_)) order_ = Order::kBatch;
  }

  int id_ = 0;
  bool split_ = true;
  RangeStack stack_;
  SortedBatch batch_;
  size_t deep_at_ = kNoBatches;  // the stack is deep from this size on
  Order order_ = Order::kStack;
  size_t pending_ = 0;  // number of pending words; from kPendingWords on, MarkPending is called
  // First the pending words, fewer than kPendingWords. Behind them a filter has room for the words
  // of one call.
  Addr words_[kPendingWords + kScanWords + kFilterSlack];

  // Where there are several memory nodes and they are known, the worker sets these for itself.
  bool is_by_node_ = false;
  alloc::NodeMark node_ = alloc::kNoNode;
  // The workers by their distance, the worker itself among them.
  uint16_t victims_[Clock::kMaxWorkers];

 private:
  Worker& self() { return static_cast<Worker&>(*this); }
  // Whether the worker makes batches in this job, once its stack is deep.
  bool MakesBatches() const { return deep_at_ != kNoBatches; }

  GLEANER_ALWAYS_INLINE void PutIntoRing(size_t place, PackedRange range);
  size_t FillRing(size_t head, size_t tail, bool has_range_in_hand);
  PackedRange Split(PackedRange range, size_t first_bytes);
  PackedRange ShareWork(PackedRange in_hand);
  // Whether the stack has more than two batches hold. Its newest ranges then come before the batch.
  bool IsFull() const { return stack_.size() > 2 * batch_.max(); }
  void TakeSegment(const Segment& segment) {
    for (size_t i = 0; i < segment.count; ++i) {
      PushOrLeave(PackedRange::FromBits(segment.ranges[i]));
    }
  }
  // Takes a segment that another worker offers. Where there are several nodes: one that lies on
  // this worker's node, else one of the nearest worker.
  bool StealSegment(Segment* segment);
  bool StealFrom(Worker& victim, Segment* segment);

  uint64_t help_at_objects_ = kHelpAfterObjects;  // HelpWithRoots wakes from there on
  size_t scan_head_ = 0;                          // number of the next entry to take out
  size_t scan_tail_ = 0;                          // number of the next entry to put in
  PackedRange scan_ring_[kScanRing];

 public:
  WorkQueueOf<Clock> queue;  // segments of work that any worker may take

 private:
  // The node of what was pushed to the queue last, by its first range. A hint for thieves.
  typename Clock::template Atomic<alloc::NodeMark> offered_node_{alloc::kNoNode};
};

template <class Worker, class Clock>
void MarkLoop<Worker, Clock>::PutIntoRing(size_t place, PackedRange range) {
  self().Prefetch(range);
  scan_ring_[place % kScanRing] = range;
}

// Puts ranges of the batch into the ring, until the stack is no longer deep. Returns the ring's
// tail. A long range in hand is scanned before the next batch, which is the denser for it.
template <class Worker, class Clock>
GLEANER_NOINLINE size_t MarkLoop<Worker, Clock>::FillRing(size_t head, size_t tail,
                                                          bool has_range_in_hand) {
  while (tail - head < kScanRing) {
    if (batch_.empty()) {
      order_ = stack_.size() >= deep_at_ ? Order::kBatch : Order::kStack;
      if (order_ == Order::kStack || has_range_in_hand) break;
      if (!batch_.Fill(&stack_, [this]() { return self().IsPauseWanted(); })) {
        deep_at_ = batch_.min();  // no batches where the memory is lacking
        order_ = Order::kStack;   // until the next words are marked
        break;
      }
      ++statistics.batches;
    }
    PutIntoRing(tail++, IsFull() ? stack_.Pop() : batch_.Take());
  }
  return tail;
}

// Pushes all of a long range but its first `first_bytes` at most, which it returns.
template <class Worker, class Clock>
PackedRange MarkLoop<Worker, Clock>::Split(PackedRange range, size_t first_bytes) {
  const Addr begin = range.begin();
  size_t bytes = range.bytes();
  while (bytes > kSplitBytes) {
    const size_t half = AlignDown(bytes / 2, kScanBytes);
    PushOrLeave({begin + half, bytes - half});
    bytes = half;
  }
  if (bytes <= first_bytes) return {begin, bytes};
  PushOrLeave({begin + first_bytes, bytes - first_bytes});
  return {begin, first_bytes};
}

template <class Worker, class Clock>
bool MarkLoop<Worker, Clock>::Drain() {
  if (self().MustPause()) return false;
  bool paused = false;
  typename Worker::Pipeline pipeline(&self());
  // In registers while objects are scanned. From here to their store at the end, the fields are
  // stale: of what is called, only MarkPending and ScanDescribed may use one, pending_, which is
  // stored before. (Members of a struct would not all be in registers.)
  size_t head = scan_head_;
  size_t tail = scan_tail_;
  size_t pending = pending_;
  const auto mark_pending = [this, &pending]() {
    pending_ = pending;
    self().MarkPending();
    pending = 0;
  };
  uint64_t scanned = 0;
  // The rest of a long range that is being scanned.
  PackedRange in_hand;
  for (;;) {
    if (GLEANER_UNLIKELY(order_ == Order::kBatch)) {
      tail = FillRing(head, tail, in_hand.bytes() != 0);
    }
    if (GLEANER_LIKELY(order_ == Order::kStack)) {
      while (tail - head < kScanRing && !stack_.empty()) {
        PackedRange range = stack_.Pop();
        // Others can take the rest from the stack, but nothing from the ring.
        if (GLEANER_UNLIKELY(range.bytes() > kScanBytes) && split_ && !MakesBatches()) {
          range = Split(range, kScanBytes);
        }
        PutIntoRing(tail++, range);
      }
    }
    PackedRange range = in_hand;
    if (GLEANER_LIKELY(range.bytes() == 0)) {
      if (head == tail) {
        if (pending == 0) break;  // nothing is left: the worker may turn idle [inv.termination]
        mark_pending();
        continue;
      }
      range = scan_ring_[head++ % kScanRing];
      if (GLEANER_UNLIKELY(range.bytes() == 0)) {
        pending_ = pending;
        self().ScanDescribed(range.begin());
        pending = pending_;
        continue;
      }
    }
    in_hand = PackedRange();
    if (GLEANER_UNLIKELY(range.bytes() > kScanBytes)) {
      if (split_ && range.bytes() > kSplitBytes && (!MakesBatches() || IsFull())) {
        range = Split(range, kSplitBytes);
      }
      in_hand = {range.begin() + kScanBytes, range.bytes() - kScanBytes};
      range = {range.begin(), kScanBytes};
    }
    Addr begin = range.begin();
    size_t bytes = range.bytes();
    Addr last;
    scanned += bytes;
    size_t kept = pipeline.Filter(begin, bytes, words_ + pending, &last);
    // A chain: one pointer and no other work. Follow it directly, since the latency of stack and
    // ring would dominate.
    while (kept == 1 && pending == 0 && head == tail && stack_.empty() && !self().pads_objects() &&
           scanned < kShareEveryBytes) {
      kept = 0;
      uint8_t* mark = pipeline.template Resolve<false>(last);
      if (mark == nullptr || !pipeline.Mark({mark, last}, &begin, &bytes)) break;
      scanned += bytes;
      if (GLEANER_UNLIKELY(bytes > kScanBytes)) {
        PushSpan(begin, bytes);
      } else {
        kept = pipeline.Filter(begin, bytes, words_, &last);
      }
    }
    if (GLEANER_UNLIKELY(self().pads_objects())) {
      typename Worker::Pipeline(&self()).MarkObjectsBefore(words_ + pending, kept);
    }
    pending += kept;
    if (pending >= kPendingWords) mark_pending();
    if (GLEANER_UNLIKELY(scanned >= kShareEveryBytes)) {
      statistics.bytes_scanned += scanned;
      scanned = 0;
      in_hand = ShareWork(in_hand);
      if (GLEANER_UNLIKELY(order_ == Order::kBatch) && in_hand.bytes() != 0 &&
          stack_.size() >= batch_.max()) {
        PushOrLeave(in_hand);
        in_hand = PackedRange();
      }
      if (GLEANER_UNLIKELY(self().MustPause())) {
        if (in_hand.bytes() != 0) PushOrLeave(in_hand);
        paused = true;
        break;
      }
    }
  }
  statistics.bytes_scanned += scanned;
  scan_head_ = head;
  scan_tail_ = tail;
  pending_ = pending;
  if (paused) return false;
  stack_.Rewind();
  return true;
}

// Offers some of the work if more workers are idle than it has offered segments, or wakes a helper
// if there is enough of it: half of the range in hand, the oldest ranges. Returns what is left in
// hand.
template <class Worker, class Clock>
GLEANER_NOINLINE PackedRange MarkLoop<Worker, Clock>::ShareWork(PackedRange in_hand) {
  const bool splits = split_ && in_hand.bytes() > kSplitBytes;
  if (!self().Shares()) return in_hand;
  if (!splits && stack_.size() < 2 && batch_.size() < 2) return in_hand;
  MarkCrew<Clock>& crew = self().crew();
  const size_t hungry = crew.idle.Load(platform::memory_order_relaxed);  // a hint
  const size_t max = hungry < WorkQueueOf<Clock>::kSlots ? hungry : WorkQueueOf<Clock>::kSlots;
  if (const size_t offered = queue.size(); offered != 0 && offered >= max) return in_hand;
  if (hungry == 0) {
    if (statistics.bytes_scanned < kHelpAfterBytes || !self().WakeHelper()) return in_hand;
  }
  Segment segment;
  size_t share = 0;
  if (splits) {
    const size_t kept = AlignDown(in_hand.bytes() / 2, kScanBytes);
    segment.ranges[share++] = PackedRange(in_hand.begin() + kept, in_hand.bytes() - kept).bits();
    in_hand = {in_hand.begin(), kept};
  }
  // A long range goes alone: its taker can split it, and the next taker gets the next one.
  bool is_long = splits;
  const auto add = [&](PackedRange range) {
    is_long = range.bytes() > kSplitBytes;
    segment.ranges[share++] = range.bits();
  };
  for (size_t half = stack_.size() / 2; half != 0 && share < Segment::kCapacity && !is_long;
       --half) {
    add(stack_.TakeOldest());
  }
  for (size_t half = batch_.size() / 2; half != 0 && share < Segment::kCapacity && !is_long;
       --half) {
    add(batch_.TakeLast());
  }
  segment.count = share;
  if (GLEANER_UNLIKELY(is_by_node_)) {
    offered_node_.Store(self().NodeOf(PackedRange::FromBits(segment.ranges[0]).begin()),
                        platform::memory_order_relaxed);  // a hint
  }
  // Cannot fail: fewer than kSlots segments are offered.
  queue.Push(segment);
  // seq_cst: the segment is visible before the load of sleepers; a sleeper looks for segments
  // after it has counted itself (Note [sleepers]).
  if (crew.sleepers.Load(platform::memory_order_seq_cst) != 0) {
    crew.work_available.FetchAdd(1, platform::memory_order_seq_cst);
    Clock::Wake(&crew.work_available, 1);
  }
  return in_hand;
}

template <class Worker, class Clock>
bool MarkLoop<Worker, Clock>::StealFrom(Worker& victim, Segment* segment) {
  if (&victim == this || victim.queue.LooksEmpty()) return false;
  auto& termination = self().crew().termination;
  termination.SetBusy(id_);  // before taking anything [inv.termination]
  if (victim.queue.Steal(segment)) return true;
  termination.SetIdle(id_);
  return false;
}

template <class Worker, class Clock>
bool MarkLoop<Worker, Clock>::StealSegment(Segment* segment) {
  const int workers = self().worker_count();
  if (GLEANER_LIKELY(!is_by_node_)) {
    for (int i = 1; i < workers; ++i) {
      if (StealFrom(self().other((id_ + i) % workers), segment)) return true;
    }
    return false;
  }
  for (int i = 0; i < workers; ++i) {
    Worker& victim = self().other(victims_[i]);
    // Relaxed: a hint.
    const alloc::NodeMark offered = victim.offered_node_.Load(platform::memory_order_relaxed);
    if (offered == node_ && StealFrom(victim, segment)) return true;
  }
  for (int i = 0; i < workers; ++i) {
    if (StealFrom(self().other(victims_[i]), segment)) return true;
  }
  return false;
}

template <class Worker, class Clock>
bool MarkLoop<Worker, Clock>::FindWork(bool balances) {
  MarkCrew<Clock>& crew = self().crew();
  Segment segment;
  if (queue.Pop(&segment)) return TakeSegment(segment), true;
  const typename Clock::IdleSpan span(id_, &statistics.idle);
  if (!balances) {
    // Without balancing every worker stops when its own share of the roots is done.
    crew.termination.SetIdle(id_);
    while (!crew.termination.AllIdle() && !self().IsPausing()) Clock::Yield();
    return false;
  }
  crew.idle.FetchAdd(1, platform::memory_order_relaxed);  // a hint for ShareWork
  crew.termination.SetIdle(id_);
  for (int turn = 0;; ++turn) {
    // Read before the search for work: a segment published later changes it (Note [sleepers]).
    const uint32_t seen = crew.work_available.Load(platform::memory_order_seq_cst);
    if (StealSegment(&segment)) {
      crew.idle.FetchSub(1, platform::memory_order_relaxed);  // a hint
      ++statistics.steals;
      return TakeSegment(segment), true;
    }
    // A worker that pauses leaves the job busy, so the others must not wait for all to be idle.
    if (crew.done.Load(platform::memory_order_seq_cst) || self().IsPausing()) return false;
    if (crew.termination.AllIdle()) {
      crew.done.Store(true, platform::memory_order_seq_cst);
      crew.WakeSleepers();
      return false;
    }
    // Worker 0 keeps searching; the others sleep when they find no work.
    if (id_ != 0 && turn >= kSpinTurns) {
      crew.sleepers.FetchAdd(1, platform::memory_order_seq_cst);
      if (!crew.done.Load(platform::memory_order_seq_cst) && !self().IsPausing()) {
        bool offered = false;
        for (int i = 0; i < self().worker_count(); ++i)
          offered |= !self().other(i).queue.LooksEmpty();
        if (!offered) Clock::Wait(&crew.work_available, seen);
      }
      crew.sleepers.FetchSub(1, platform::memory_order_seq_cst);
      turn = 0;
    } else if (turn >= kYieldTurns) {
      Clock::Yield();  // the worker that has work may be waiting for this processor
    } else {
      Clock::Relax();
    }
  }
}

}  // namespace gleaner::gc
