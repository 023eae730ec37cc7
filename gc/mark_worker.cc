#include <sched.h>

#include "alloc/walk.h"
#include "gc/mark_pipeline.h"
#include "gc/worker_nodes.h"
#include "platform/topology.h"
#include "platform/trace.h"

namespace gleaner::gc {

using alloc::Contents;
using alloc::g_space;
using alloc::NodeMark;
using alloc::ObjectRef;
using alloc::PageNumber;
using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;

namespace {

// A longer range is scanned in steps of this size.
constexpr size_t kScanBytes = kScanWords * kWordBytes;
// A longer range is split for other workers.
constexpr size_t kSplitBytes = 32 * kKiB;
// A longer range is halved, so that thieves get shares of equal size.
constexpr size_t kHalveBytes = 1 * kMiB;
// Large objects are pushed as ranges of this size.
constexpr size_t kSpanBytes = 8 * kMiB;

// After scanning this much a worker checks whether other workers are idle and whether to pause.
constexpr uint64_t kShareEveryBytes = 8 * kKiB;
// Waking a helper costs as much as scanning this much (some 50 us). Only a worker that has scanned
// more, and still has work, wakes a helper.
constexpr uint64_t kHelpAfterBytes = 256 * kKiB;
// Turns of searching for work before an idle worker yields its processor, and before it sleeps.
constexpr int kYieldTurns = 8;
constexpr int kSpinTurns = 200;

}  // namespace

bool MarkWorker::Init(Marker* marker, int id, size_t max_stack_entries, int max_workers) {
  marker_ = marker;
  id_ = id;
  if (!stack_.Init(max_stack_entries)) return false;
  batch_.Init(g_space.bytes, max_workers);
  return true;
}

void MarkWorker::BeginCycle() {
  base_ = g_space.base;
  heap_bytes_ = g_space.bytes;
  info_ = g_space.info;
  marks_ = g_space.marks;
  white_ = marker_->white_;
  black_ = marker_->black_;
  interior_ = marker_->config_.all_interior_pointers;
  past_the_end_ = interior_ && marker_->config_.past_the_end;
  pad_objects_ = marker_->config_.pad_objects;
  split_ = marker_->config_.split;
  filter_ = marker_->scan_code_.filter;
  min_select_words_ = marker_->scan_code_.min_select_words;
  select_ = interior_ ? marker_->scan_code_.select : nullptr;
  statistics = {};
  is_deep_ = false;
  const size_t pages = alloc::EndCommitted(alloc::Space::kScanned);
  batch_.BeginCycle(base_, pages * alloc::kPageBytes, marker_->config_.min_batch);
  deep_at_ = batch_.min();
  has_hole_ = marker_->has_hole_;
  hole_begin_ = alloc::EndCommitted(alloc::Space::kScanned);
  hole_pages_ =
      has_hole_ ? alloc::FirstCommitted(alloc::Space::kPointerFree) - hole_begin_ : PageNumber{0};
}

GLEANER_COLD void MarkWorker::NoteOverflow(PackedRange range) {
  ++statistics.overflows;
  if (marker_->rescan_set_ == nullptr) {
    marker_->overflowed_.Store(true, memory_order_relaxed);  // read after all workers are done
    return;
  }
  ObjectRef object;
  if (range.bytes() != 0) {
    marker_->rescan_set_->Set(range.begin(), range.bytes());
  } else if (FindSlot(range.begin(), &object)) {
    marker_->rescan_set_->Set(object.base, object.bytes);
  }
}

// Pushes memory of any length.
void MarkWorker::PushSpan(Addr begin, size_t bytes) {
  while (bytes > kSpanBytes) {
    bytes -= kSpanBytes;
    PushOrNote({begin + bytes, kSpanBytes});
  }
  PushOrNote({begin, bytes});
}

// A range of 0 bytes on the stack stands for the object that begins there.
void MarkWorker::PushForDescription(Addr base) { PushOrNote({base, 0}); }

void MarkWorker::PushContents(const ObjectRef& object) {
  switch (g_space.info[object.page].contents) {
    case Contents::kWords:
      return PushSpan(object.base, object.bytes);
    case Contents::kPointerFree:
      return;
    case Contents::kDescribed:
      return PushForDescription(object.base);
  }
}

void MarkWorker::PushFound(MarkSink* sink, Addr word) {
  MarkWorker* worker = static_cast<Sink*>(sink)->worker;
  if (word - worker->base_ < worker->heap_bytes_) worker->AddWord(word, false);
}

void MarkWorker::PushFoundRange(MarkSink* sink, Addr begin, Addr end, bool interior) {
  MarkWorker* worker = static_cast<Sink*>(sink)->worker;
  for (Addr at = AlignUp(begin, kWordBytes); at + kWordBytes <= end; at += kWordBytes) {
    const Addr word = LoadForeignWord(at);
    if (word - worker->base_ < worker->heap_bytes_) worker->AddWord(word, interior);
  }
}

// Marks all pending words. Does not make words pending.
GLEANER_NOINLINE void MarkWorker::MarkPending() {
  Pipeline(this).MarkWords(words_, pending_);
  pending_ = 0;
  if (GLEANER_UNLIKELY(stack_.size() >= deep_at_)) is_deep_ = true;
}

// Marks the object of a word for which any displacement counts where those of the pending words are
// checked.
GLEANER_NOINLINE void MarkWorker::MarkInterior(Addr word) {
  Pipeline pipeline(this);
  uint8_t* mark = pipeline.Resolve<true>(word);
  if (mark != nullptr) pipeline.Settle({mark, word});
}

// Makes words pending.
void MarkWorker::ScanDescribed(Addr base) {
  ObjectRef object;
  if (!FindSlot(base, &object)) return;
  statistics.bytes_scanned += object.bytes;
  if (!marker_->is_concurrent_) return PushDescribed(object, &sink_);
  if (!TryPushDescribed(object, &sink_)) marker_->rescan_set_->Set(object.base, object.bytes);
}

void MarkWorker::PushContentsButSelf(const ObjectRef& object) {
  if (g_space.info[object.page].contents == Contents::kPointerFree) return;
  for (Addr at = object.base; at < object.base + object.bytes; at += kWordBytes) {
    const Addr word = LoadForeignWord(at);
    if (word - object.base >= object.bytes && word - base_ < heap_bytes_) AddWord(word, false);
  }
}

void MarkWorker::MarkObject(const ObjectRef& object) {
  // Relaxed, load and store: another worker may mark the object, too (Note [mark-race]).
  if ((__atomic_load_n(object.mark(), __ATOMIC_RELAXED) & white_) == 0) return;
  platform::MaybeDelay();                                     // another worker may mark the object
  __atomic_store_n(object.mark(), black_, __ATOMIC_RELAXED);  // Note [mark-race]
  ++statistics.objects;
  PushContents(object);
}

// Pushes all of a long range but its first kSplitBytes, which it returns.
PackedRange MarkWorker::Split(PackedRange range) {
  const Addr begin = range.begin();
  size_t bytes = range.bytes();
  while (bytes > kHalveBytes) {
    const size_t half = AlignDown(bytes / 2, kSplitBytes);
    PushOrNote({begin + half, bytes - half});
    bytes = half;
  }
  PushOrNote({begin + kSplitBytes, bytes - kSplitBytes});
  return {begin, kSplitBytes};
}

void MarkWorker::ScanRoots(platform::Range range, bool interior) {
  for (Addr at = range.begin; at < range.end; at += kScanWords * kWordBytes) {
    const size_t left = (range.end - at) / kWordBytes;
    const size_t count = left < kScanWords ? left : kScanWords;
    // A word one past the reservation's end may be one past the end of its last object.
    Addr* const found = words_ + kPendingWords;  // words become pending while these are read
    const size_t kept = filter_(PointerAt<const Addr>(at), count, base_, heap_bytes_ + 1, found);
    for (size_t i = 0; i < kept; ++i) {
      const Addr word = found[i];
      if (GLEANER_LIKELY(word - base_ < heap_bytes_)) AddWord(word, interior);
      // Objects have no padding byte: a pointer one past the end of an object is the base of the
      // next. The program may mean either object, so both are kept.
      if (past_the_end_ && word % alloc::kGranuleBytes == 0 && word != base_) {
        AddWord(word - 1, true);
      }
    }
    if (stack_.size() > kDrainRootsAt) Drain();
  }
}

bool MarkWorker::MustPause() const {
  return statistics.bytes_scanned >= pause_at_bytes_ ||
         marker_->slice_over_.Load(memory_order_seq_cst) || IsPauseWanted();
}

// Whether another thread waits for the pause; else it may come a little later.
bool MarkWorker::IsPauseWanted() const {
  if (marker_->pause_.Load(memory_order_seq_cst)) return true;
  // Relaxed: a hint that may be stale; the mutator parks at the end of its critical section.
  return marker_->is_concurrent_ && platform::t_critical.stop_pending->Load(memory_order_relaxed);
}

bool MarkWorker::HasNothing() const {
  return stack_.empty() && batch_.empty() && pending_ == 0 && scan_head_ == scan_tail_ &&
         queue.LooksEmpty();
}

void MarkWorker::Forget() {
  stack_.Rewind();
  batch_.Clear();
  pending_ = 0;
  scan_head_ = scan_tail_;
  for (Segment segment; queue.Pop(&segment);) {
  }
}

void MarkWorker::PutIntoRing(size_t place, PackedRange range) {
  __builtin_prefetch(PointerAt<void>(range.begin()), 0, 3);
  // Objects that are no longer than a cache line may straddle two.
  const size_t near = range.bytes() < kCacheLineBytes ? range.bytes() : kCacheLineBytes;
  __builtin_prefetch(PointerAt<void>(range.begin() + near - 1), 0, 3);
  scan_ring_[place % kScanRing] = range;
}

// Puts ranges of the batch into the ring, until the stack is no longer deep. Returns the ring's
// tail. A long range in hand is scanned before the next batch, which is the denser for it.
GLEANER_NOINLINE size_t MarkWorker::FillRing(size_t head, size_t tail, bool has_range_in_hand) {
  while (tail - head < kScanRing) {
    if (batch_.empty()) {
      is_deep_ = stack_.size() >= deep_at_;
      if (!is_deep_ || has_range_in_hand) break;
      if (!batch_.Fill(&stack_, [this]() { return IsPauseWanted(); })) {
        if (batch_.min() == SIZE_MAX) deep_at_ = SIZE_MAX;
        is_deep_ = false;  // until the next words are marked
        break;
      }
      ++statistics.batches;
    }
    PutIntoRing(tail++, IsFull() ? stack_.Pop() : batch_.Take());
  }
  return tail;
}

bool MarkWorker::Drain() {
  if (MustPause()) return false;
  bool paused = false;
  Pipeline pipeline(this);
  size_t scan_head = scan_head_;
  size_t scan_tail = scan_tail_;
  size_t pending = pending_;  // in a register while objects are scanned
  const auto mark_pending = [this, &pending]() {
    pending_ = pending;
    MarkPending();
    pending = 0;
  };
  uint64_t scanned = 0;
  // The rest of a long range that is being scanned.
  PackedRange in_hand;
  for (;;) {
    if (GLEANER_UNLIKELY(is_deep_)) {
      scan_tail = FillRing(scan_head, scan_tail, in_hand.bytes() != 0);
    }
    if (GLEANER_LIKELY(!is_deep_)) {
      while (scan_tail - scan_head < kScanRing && !stack_.empty()) {
        PutIntoRing(scan_tail++, stack_.Pop());
      }
    }
    PackedRange range = in_hand;
    if (GLEANER_LIKELY(range.bytes() == 0)) {
      if (scan_head == scan_tail) {
        if (pending == 0) break;  // nothing is left: the worker may turn idle [inv.termination]
        mark_pending();
        continue;
      }
      range = scan_ring_[scan_head++ % kScanRing];
      if (GLEANER_UNLIKELY(range.bytes() == 0)) {
        pending_ = pending;
        ScanDescribed(range.begin());
        pending = pending_;
        continue;
      }
    }
    in_hand = PackedRange();
    if (GLEANER_UNLIKELY(range.bytes() > kScanBytes)) {
      if (split_ && range.bytes() > kSplitBytes && (deep_at_ == SIZE_MAX || IsFull())) {
        range = Split(range);
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
    while (kept == 1 && pending == 0 && scan_head == scan_tail && stack_.empty() && !pad_objects_ &&
           scanned < kShareEveryBytes) {
      kept = 0;
      uint8_t* mark = pipeline.Resolve<false>(last);
      if (mark == nullptr || !pipeline.Mark({mark, last}, &begin, &bytes)) break;
      scanned += bytes;
      if (GLEANER_UNLIKELY(bytes > kScanBytes)) {
        PushSpan(begin, bytes);
      } else {
        kept = pipeline.Filter(begin, bytes, words_, &last);
      }
    }
    if (GLEANER_UNLIKELY(pad_objects_)) Pipeline(this).MarkObjectsBefore(words_ + pending, kept);
    pending += kept;
    if (pending >= kPendingWords) mark_pending();
    if (GLEANER_UNLIKELY(scanned >= kShareEveryBytes)) {
      statistics.bytes_scanned += scanned;
      scanned = 0;
      in_hand = ShareWork(in_hand);
      if (GLEANER_UNLIKELY(is_deep_) && in_hand.bytes() != 0 && stack_.size() >= batch_.max()) {
        PushOrNote(in_hand);
        in_hand = PackedRange();
      }
      if (GLEANER_UNLIKELY(MustPause())) {
        if (in_hand.bytes() != 0) PushOrNote(in_hand);
        paused = true;
        break;
      }
    }
  }
  statistics.bytes_scanned += scanned;
  scan_head_ = scan_head;
  scan_tail_ = scan_tail;
  pending_ = pending;
  if (paused) return false;
  stack_.Rewind();
  return true;
}

// Offers some of the work if a worker is idle, or wakes a helper if there is enough of it: half of
// the range in hand, the oldest ranges. Returns what is left in hand.
GLEANER_NOINLINE PackedRange MarkWorker::ShareWork(PackedRange in_hand) {
  const bool splits = split_ && in_hand.bytes() > kSplitBytes;
  if (!marker_->config_.balance || marker_->IsAlone() || !queue.LooksEmpty()) return in_hand;
  if (!splits && stack_.size() < 2 && batch_.size() < 2) return in_hand;
  const bool hungry = marker_->idle_.Load(memory_order_relaxed) != 0;  // a hint
  if (!hungry) {
    if (statistics.bytes_scanned < kHelpAfterBytes || !marker_->MayWake() ||
        !marker_->pool_->CanWake()) {
      return in_hand;
    }
    if (!marker_->pool_->WakeOne()) return in_hand;
  }
  Segment segment;
  size_t share = 0;
  if (splits) {
    const size_t kept = AlignDown(in_hand.bytes() / 2, kScanBytes);
    segment.ranges[share++] = PackedRange(in_hand.begin() + kept, in_hand.bytes() - kept).bits();
    in_hand = {in_hand.begin(), kept};
  }
  for (size_t half = stack_.size() / 2; half != 0 && share < Segment::kCapacity; --half) {
    segment.ranges[share++] = stack_.TakeOldest().bits();
  }
  for (size_t half = batch_.size() / 2; half != 0 && share < Segment::kCapacity; --half) {
    segment.ranges[share++] = batch_.TakeLast().bits();
  }
  segment.count = share;
  if (GLEANER_UNLIKELY(g_space.by_node)) {
    const Addr oldest = PackedRange::FromBits(segment.ranges[0]).begin();
    offered_node_.Store(
        g_space.Contains(oldest) ? alloc::NodeOfPage(g_space.PageOf(oldest)) : alloc::kNoNode,
        memory_order_relaxed);  // a hint
  }
  queue.Push(segment);  // cannot fail: the queue was empty
  // seq_cst: the segment is visible before the load of sleepers_; a sleeper looks for segments
  // after it has counted itself (Note [sleepers]).
  if (marker_->sleepers_.Load(memory_order_seq_cst) != 0) {
    marker_->work_available_.FetchAdd(1, memory_order_seq_cst);
    FutexWake(&marker_->work_available_, 1);
  }
  return in_hand;
}

void MarkWorker::TakeSegment(const Segment& segment) {
  for (size_t i = 0; i < segment.count; ++i) {
    PushOrNote(PackedRange::FromBits(segment.ranges[i]));
  }
}

void MarkWorker::OrderVictims() {
  is_by_node_ = false;
  if (GLEANER_LIKELY(g_space.nodes == nullptr) || !marker_->config_.balance) return;
  const platform::Topology* topology = platform::LoadedTopologyOfThisMachine();
  if (topology == nullptr) return;
  int nodes[kMaxWorkers];
  for (int i = 0; i < marker_->worker_count_; ++i) {
    nodes[i] = NodeOfWorker(*topology, i, marker_->worker_count_);
  }
  const int node = id_ == 0 ? platform::CurrentNode() : nodes[id_];
  node_ = alloc::NodeMarkOf(node);
  platform::NearestFirst(*topology, node, nodes, static_cast<size_t>(marker_->worker_count_),
                         static_cast<size_t>(id_) + 1, victims_);
  is_by_node_ = true;
}

bool MarkWorker::StealFrom(MarkWorker& victim, Segment* segment) {
  if (&victim == this || victim.queue.LooksEmpty()) return false;
  marker_->termination_.SetBusy(id_);  // before taking anything [inv.termination]
  if (victim.queue.Steal(segment)) return true;
  marker_->termination_.SetIdle(id_);
  return false;
}

bool MarkWorker::StealSegment(Segment* segment) {
  const int workers = marker_->worker_count_;
  if (GLEANER_LIKELY(!is_by_node_)) {
    for (int i = 1; i < workers; ++i) {
      if (StealFrom(*marker_->workers_[(id_ + i) % workers], segment)) return true;
    }
    return false;
  }
  for (int i = 0; i < workers; ++i) {
    MarkWorker& victim = *marker_->workers_[victims_[i]];
    // Relaxed: a hint.
    const NodeMark offered = victim.offered_node_.Load(memory_order_relaxed);
    if (offered == node_ && StealFrom(victim, segment)) return true;
  }
  for (int i = 0; i < workers; ++i) {
    if (StealFrom(*marker_->workers_[victims_[i]], segment)) return true;
  }
  return false;
}

// Waits until the worker has work (true), or marking is over or paused (false).
bool MarkWorker::FindWork() {
  Marker& marker = *marker_;
  Segment segment;
  if (queue.Pop(&segment)) return TakeSegment(segment), true;
  const platform::TraceScope idle(platform::TraceEvent::kIdle, static_cast<uint64_t>(id_));
  if (!marker.config_.balance) {
    // Without balancing every worker stops when its own share of the roots is done.
    marker.termination_.SetIdle(id_);
    while (!marker.termination_.AllIdle() && !marker.IsPausing()) sched_yield();
    return false;
  }
  marker.idle_.FetchAdd(1, memory_order_relaxed);  // a hint for ShareWork
  marker.termination_.SetIdle(id_);
  for (int turn = 0;; ++turn) {
    // Read before the search for work: a segment published later changes it (Note [sleepers]).
    const uint32_t seen = marker.work_available_.Load(memory_order_seq_cst);
    if (StealSegment(&segment)) {
      marker.idle_.FetchSub(1, memory_order_relaxed);  // a hint
      ++statistics.steals;
      return TakeSegment(segment), true;
    }
    // A worker that pauses leaves the job busy, so the others must not wait for all to be idle.
    if (marker.done_.Load(memory_order_seq_cst) || marker.IsPausing()) return false;
    if (marker.termination_.AllIdle()) {
      marker.done_.Store(true, memory_order_seq_cst);
      marker.WakeSleepers();
      return false;
    }
    // Worker 0 keeps searching; the others sleep when they find no work.
    if (id_ != 0 && turn >= kSpinTurns) {
      marker.sleepers_.FetchAdd(1, memory_order_seq_cst);
      if (!marker.done_.Load(memory_order_seq_cst) && !marker.IsPausing()) {
        bool offered = false;
        for (int i = 0; i < marker.worker_count_; ++i)
          offered |= !marker.workers_[i]->queue.LooksEmpty();
        if (!offered) platform::FutexWait(&marker.work_available_, seen);
      }
      marker.sleepers_.FetchSub(1, memory_order_seq_cst);
      turn = 0;
    } else if (turn >= kYieldTurns) {
      sched_yield();  // the worker that has work may be waiting for this processor
    } else {
      for (int i = 0; i < 32; ++i) platform::CpuRelax();
    }
  }
}

void MarkWorker::RunRootTask(size_t task) {
  const RootTasks& roots = *marker_->roots_;
  const platform::Range range = roots.at(task).range;
  const RootKind kind = roots.at(task).kind;
  if (kind != RootKind::kUncollectablePages) {
    ScanRoots(range, kind == RootKind::kStack);
  } else {
    for (auto page = static_cast<PageNumber>(range.begin); page < range.end; ++page) {
      const alloc::Kind kind_of_page = info_[page].kind;
      const bool marked_too = IsUncollectable(kind_of_page);
      if (!marked_too && !RowOf(kind_of_page).marks_contents_of_unreachable) continue;
      alloc::ForEachSlotOf(page, [this, marked_too](const ObjectRef& object) {
        if (marked_too) {
          MarkObject(object);
        } else if (*object.mark() != alloc::kFreeSlot) {
          PushContents(object);
        }
      });
      if (stack_.size() > kDrainRootsAt) Drain();
    }
  }
  Drain();
}

void MarkWorker::Run(uint64_t slice_bytes) {
  RootTasks& roots = *marker_->roots_;
  pause_at_bytes_ =
      slice_bytes == kNeverPause ? kNeverPause : statistics.bytes_scanned + slice_bytes;
  const bool sorts = slice_bytes >= kMinSortingSlice || marker_->config_.min_batch != 0;
  deep_at_ = sorts ? batch_.min() : SIZE_MAX;
  OrderVictims();
  marker_->termination_.SetBusy(id_);
  const platform::TraceSpan span;
  const MarkStatistics before = statistics;
  // A claimed task is pushed whole even if the worker has to pause meanwhile.
  while (!MustPause()) {
    const size_t task = roots.Claim();
    if (task == roots.size()) break;
    RunRootTask(task);
  }
  while (!MustPause() && RescanNext()) {
  }
  while (Drain()) {
    if (!FindWork()) break;
  }
  if (MustPause()) marker_->EndSlice();
  pause_at_bytes_ = kNeverPause;
  span.End(platform::TraceEvent::kMark, id_, statistics.steals - before.steals,
           statistics.bytes_scanned - before.bytes_scanned, statistics.objects - before.objects);
}

}  // namespace gleaner::gc
