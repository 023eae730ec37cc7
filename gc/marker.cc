#include "gc/marker.h"

#include <new>

#include "alloc/mark_bytes.h"
#include "alloc/object.h"
#include "alloc/thread_heap.h"

namespace gleaner::gc {

using alloc::AddressSpace;
using alloc::g_space;
using alloc::Kind;
using alloc::ObjectRef;
using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;
using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;

constinit uint8_t g_valid_displacement[alloc::kPageBytes] = {1};

namespace {

// A range longer than this is scanned in pieces; the rest goes back to the stack first.
constexpr size_t kSplitBytes = kScanWords * kWordBytes;
// A range longer than this is halved, so that thieves get shares of equal size.
constexpr size_t kHalveBytes = 1 * kMiB;
// Large objects are pushed as ranges of this size.
constexpr size_t kSpanBytes = 8 * kMiB;
// Marks a range that stands for a whole large object.
constexpr uint64_t kWholeObject = (uint64_t{1} << PackedRange::kGranuleBits) - 1;

// A worker looks at most this often, in bytes scanned, whether others are hungry.
constexpr uint64_t kShareEveryBytes = 8 * kKiB;
// Waking a helper costs as much as scanning this much (some 50 us), so only a worker that has
// scanned more, and still has work, wakes one.
constexpr uint64_t kHelpAfterBytes = 256 * kKiB;
// Turns of looking for work before an idle worker sleeps.
constexpr int kSpinTurns = 200;

}  // namespace

// --- One worker ---

bool MarkWorker::Init(Marker* marker, int id, size_t max_stack_entries) {
  marker_ = marker;
  id_ = id;
  filter_ = ChooseFilter();
  return stack_.Init(max_stack_entries);
}

void MarkWorker::BeginCycle() {
  base_ = g_space.base;
  heap_bytes_ = g_space.bytes;
  info_ = g_space.info;
  marks_ = g_space.marks;
  first_pointer_free_ = FirstCommitted(alloc::Side::kPointerFree);
  white_ = marker_->white_;
  black_ = marker_->black_;
  interior_ = marker_->config_.all_interior_pointers;
  split_ = marker_->config_.split;
  statistics = {};
  scanned_since_share_ = 0;
}

void MarkWorker::Push(PackedRange range) {
  if (GLEANER_UNLIKELY(!stack_.Push(range))) {
    ++statistics.overflows;
    marker_->overflowed_.Store(true, memory_order_relaxed);  // read after all workers are done
  }
}

// Pushes memory of any length.
void MarkWorker::PushSpan(Addr begin, size_t bytes) {
  while (bytes > kSpanBytes) {
    bytes -= kSpanBytes;
    Push({begin + bytes, kSpanBytes});
  }
  Push({begin, bytes});
}

void MarkWorker::PushContents(const ObjectRef& object) {
  if (!IsPointerFree(object.kind())) PushSpan(object.base, object.bytes);
}

void MarkWorker::MarkObject(const ObjectRef& object) {
  if (*object.mark() != white_) return;
  *object.mark() = black_;
  ++statistics.objects;
  PushContents(object);
}

// The candidate was given time to arrive in the cache: test it and mark it.
GLEANER_ALWAYS_INLINE void MarkWorker::Settle(const Candidate& candidate) {
  // Relaxed: a lost race marks twice (head of marker.h).
  if (__atomic_load_n(candidate.mark, __ATOMIC_RELAXED) != white_) return;
  __atomic_store_n(candidate.mark, black_, __ATOMIC_RELAXED);
  ++statistics.objects;
  const uint64_t range = candidate.range;
  if (range == 0) return;
  if (GLEANER_UNLIKELY((range & kWholeObject) == kWholeObject)) {
    const Addr object = PackedRange::FromBits(range).begin();
    PushSpan(object, info_[g_space.PageOf(object)].object_bytes);
  } else {
    Push(PackedRange::FromBits(range));
  }
}

void MarkWorker::SettleAll() {
  while (candidate_head_ != candidate_tail_) {
    Settle(candidates_[candidate_head_++ % kCandidateRing]);
  }
}

GLEANER_ALWAYS_INLINE void MarkWorker::Enqueue(uint8_t* mark, uint64_t range) {
  __builtin_prefetch(mark, 1, 3);
  if (candidate_tail_ - candidate_head_ == kCandidateRing) {
    Settle(candidates_[candidate_head_++ % kCandidateRing]);
  }
  candidates_[candidate_tail_++ % kCandidateRing] = {mark, range};
}

// pre: word - base_ < heap_bytes_.
template <bool kRoot>
GLEANER_ALWAYS_INLINE void MarkWorker::Resolve(Addr word) {
  const auto page = static_cast<PageNumber>((word - base_) >> alloc::kPageShift);
  const PageInfo& info = info_[page];
  if (GLEANER_LIKELY(info.state == PageState::kSmall)) {
    const size_t offset = AddressSpace::OffsetInPage(word);
    const uint32_t slot = alloc::SlotIndex(offset, info.reciprocal);
    if (GLEANER_UNLIKELY(slot >= info.slot_count)) return;
    const size_t start = size_t{slot} * info.slot_bytes;
    if (!kRoot && !interior_ && !g_valid_displacement[offset - start]) return;
    const Addr object = base_ + (Addr{page} << alloc::kPageShift) + start;
    Enqueue(marks_ + size_t{page} * alloc::kMarkBytesPerPage + slot,
            page >= first_pointer_free_ ? 0 : PackedRange(object, info.slot_bytes).bits());
    return;
  }
  PageNumber head = page;
  if (info.state == PageState::kTail) {
    if (!kRoot && !interior_) return;  // displacements are smaller than a page
    head -= static_cast<PageNumber>(info.pages_back);
    if (info_[head].ignore_off_page) return;
  } else if (info.state != PageState::kLarge) {
    return;
  }
  const Addr object = base_ + (Addr{head} << alloc::kPageShift);
  if (word - object >= info_[head].object_bytes) return;
  if (!kRoot && !interior_ && !g_valid_displacement[word - object]) return;
  Enqueue(marks_ + size_t{head} * alloc::kMarkBytesPerPage,
          head >= first_pointer_free_
              ? 0
              : PackedRange(object, kWholeObject * alloc::kGranuleBytes).bits());
}

GLEANER_NO_SANITIZE void MarkWorker::PushContentsButSelf(const ObjectRef& object) {
  if (IsPointerFree(object.kind())) return;
  for (Addr at = object.base; at < object.base + object.bytes; at += kWordBytes) {
    const Addr word = *PointerAt<const Addr>(at);
    if (word - object.base >= object.bytes && word - base_ < heap_bytes_) Resolve<false>(word);
  }
}

GLEANER_NO_SANITIZE void MarkWorker::ScanWords(const Addr* words, size_t count) {
  const size_t kept = filter_(words, count, base_, heap_bytes_, buffer_);
  for (size_t i = 0; i < kept; ++i) Resolve<false>(buffer_[i]);
  if (GLEANER_UNLIKELY(marker_->config_.pad_objects)) {
    for (size_t i = 0; i < kept; ++i) Resolve<false>(buffer_[i] - 1);
  }
}

void MarkWorker::Scan(PackedRange range) {
  const Addr begin = range.begin();
  size_t bytes = range.bytes();
  if (GLEANER_UNLIKELY(bytes > kSplitBytes)) {
    if (split_) {
      while (bytes > kHalveBytes) {
        const size_t half = AlignDown(bytes / 2, kSplitBytes);
        Push({begin + half, bytes - half});
        bytes = half;
      }
      if (bytes > kSplitBytes) {
        Push({begin + kSplitBytes, bytes - kSplitBytes});
        bytes = kSplitBytes;
      }
    } else {
      // The variant without splitting: one worker scans it all.
      for (; bytes > kSplitBytes; bytes -= kSplitBytes) {
        ScanWords(PointerAt<const Addr>(begin + bytes - kSplitBytes), kScanWords);
      }
    }
  }
  ++statistics.ranges_scanned;
  statistics.bytes_scanned += bytes;
  scanned_since_share_ += bytes;
  ScanWords(PointerAt<const Addr>(begin), bytes / kWordBytes);
}

void MarkWorker::ScanRoots(platform::Range range) {
  for (Addr at = range.begin; at < range.end; at += kScanWords * kWordBytes) {
    const size_t left = (range.end - at) / kWordBytes;
    // Words one past the reservation's end may be past the end of its last object.
    const size_t kept = filter_(PointerAt<const Addr>(at), left < kScanWords ? left : kScanWords,
                                base_, heap_bytes_ + 1, buffer_);
    for (size_t i = 0; i < kept; ++i) {
      const Addr word = buffer_[i];
      if (GLEANER_LIKELY(word - base_ < heap_bytes_)) Resolve<true>(word);
      // Objects have no padding byte: a pointer one past the end of one is the base of the next. The
      // program may mean either, so both stay (DESIGN.md 4).
      if (word % alloc::kGranuleBytes == 0 && word != base_) Resolve<true>(word - 1);
    }
    scanned_since_share_ += left < kScanWords ? left * kWordBytes : kScanWords * kWordBytes;
    if (stack_.size() > kSpinTurns) Drain();
  }
}

void MarkWorker::Drain() {
  for (;;) {
    while (scan_tail_ - scan_head_ < kScanRing && !stack_.empty()) {
      const PackedRange range = stack_.Pop();
      __builtin_prefetch(PointerAt<void>(range.begin()), 0, 3);
      scan_ring_[scan_tail_++ % kScanRing] = range;
    }
    if (scan_head_ == scan_tail_) {
      if (candidate_head_ == candidate_tail_) return;
      SettleAll();
      continue;
    }
    Scan(scan_ring_[scan_head_++ % kScanRing]);
    if (GLEANER_UNLIKELY(scanned_since_share_ >= kShareEveryBytes)) ShareWork();
  }
}

// Offers the oldest ranges when somebody has nothing to do, or wakes somebody when there is enough.
void MarkWorker::ShareWork() {
  if (!marker_->config_.balance || stack_.size() < 4) return;
  const bool hungry = marker_->idle_.Load(memory_order_relaxed) != 0;  // a hint
  if (!hungry) {
    if (scanned_since_share_ < kHelpAfterBytes || !marker_->pool_->WakeOne()) return;
  }
  scanned_since_share_ = 0;
  if (!queue.LooksEmpty()) return;  // what was offered last is still there
  Segment segment;
  const size_t half = stack_.size() / 2;
  const size_t share = half < Segment::kCapacity ? half : Segment::kCapacity;
  for (size_t i = 0; i < share; ++i) segment.ranges[i] = stack_.TakeOldest().bits();
  segment.count = share;
  if (!queue.Push(segment)) {
    TakeSegment(segment);
    return;
  }
  // seq_cst: the segment is visible before we look for sleepers, who look for segments after they
  // have counted themselves (Note [sleepers]).
  if (marker_->sleepers_.Load(memory_order_seq_cst) != 0) {
    marker_->work_available_.FetchAdd(1, memory_order_seq_cst);
    FutexWake(&marker_->work_available_, 1);
  }
}

bool MarkWorker::TakeSegment(const Segment& segment) {
  for (size_t i = 0; i < segment.count; ++i) Push(PackedRange::FromBits(segment.ranges[i]));
  return true;
}

// Idle until there is work (true) or none is left anywhere (false).
bool MarkWorker::FindWork() {
  Marker& marker = *marker_;
  Segment segment;
  if (queue.Pop(&segment)) return TakeSegment(segment);
  if (!marker.config_.balance) {
    // Without balancing every worker stops when its own share of the roots is done.
    marker.termination_.SetIdle(id_);
    while (!marker.termination_.AllIdle()) platform::CpuRelax();
    return false;
  }
  marker.idle_.FetchAdd(1, memory_order_relaxed);  // a hint for ShareWork
  marker.termination_.SetIdle(id_);
  for (int turn = 0;; ++turn) {
    // Read before looking for work: a segment published later changes it (Note [sleepers]).
    const uint32_t seen = marker.work_available_.Load(memory_order_seq_cst);
    for (int i = 1; i < marker.worker_count_; ++i) {
      MarkWorker& victim = *marker.workers_[(id_ + i) % marker.worker_count_];
      if (victim.queue.LooksEmpty()) continue;
      marker.termination_.SetBusy(id_);  // before taking anything [inv.termination]
      if (victim.queue.Steal(&segment)) {
        marker.idle_.FetchSub(1, memory_order_relaxed);  // a hint
        ++statistics.steals;
        return TakeSegment(segment);
      }
      marker.termination_.SetIdle(id_);
    }
    if (marker.done_.Load(memory_order_seq_cst)) return false;
    if (marker.termination_.AllIdle()) {
      marker.done_.Store(true, memory_order_seq_cst);
      marker.work_available_.FetchAdd(1, memory_order_seq_cst);
      FutexWakeAll(&marker.work_available_);
      return false;
    }
    // Worker 0 keeps watch; the others sleep when nothing turns up.
    if (id_ != 0 && turn >= kSpinTurns) {
      marker.sleepers_.FetchAdd(1, memory_order_seq_cst);
      if (!marker.done_.Load(memory_order_seq_cst)) {
        bool offered = false;
        for (int i = 0; i < marker.worker_count_; ++i) offered |= !marker.workers_[i]->queue.LooksEmpty();
        if (!offered) platform::FutexWait(&marker.work_available_, seen);
      }
      marker.sleepers_.FetchSub(1, memory_order_seq_cst);
      turn = 0;
    } else {
      for (int i = 0; i < 32; ++i) platform::CpuRelax();
    }
  }
}

void MarkWorker::Run() {
  Marker& marker = *marker_;
  RootTasks& roots = *marker.roots_;
  marker.termination_.SetBusy(id_);
  for (size_t task = roots.Claim(); task != roots.size(); task = roots.Claim()) {
    const platform::Range range = roots.at(task);
    if (!roots.is_page_task(task)) {
      ScanRoots(range);
    } else {
      for (Addr page = range.begin; page < range.end; ++page) {
        const PageInfo& info = info_[page];
        if (!IsUncollectable(info.kind)) continue;
        ObjectRef object;
        const Addr address = g_space.AddressOfPage(static_cast<PageNumber>(page));
        if (info.state == PageState::kLarge) {
          object = {address, info.object_bytes, static_cast<PageNumber>(page), 0};
          MarkObject(object);
        } else if (info.state == PageState::kSmall) {
          for (uint32_t slot = 0; slot < info.slot_count; ++slot) {
            object = {address + size_t{slot} * info.slot_bytes, info.slot_bytes,
                      static_cast<PageNumber>(page), slot};
            MarkObject(object);
          }
        }
        if (stack_.size() > kSpinTurns) Drain();
      }
    }
    Drain();
  }
  do {
    Drain();
  } while (FindWork());
}

// --- All workers ---

bool Marker::Init(WorkerPool* pool, int max_workers) {
  pool_ = pool;
  if (max_workers > kMaxWorkers) max_workers = kMaxWorkers;
  // Room for as many ranges as the heap may hold objects of 256 bytes, 2 GiB at most.
  size_t entries = g_space.bytes / 256;
  constexpr size_t kMostEntries = 2 * kGiB / sizeof(PackedRange);
  if (entries > kMostEntries) entries = kMostEntries;
  for (int i = 0; i < max_workers; ++i) {
    void* memory = alloc::MetaAllocate(sizeof(MarkWorker));
    if (memory == nullptr) break;
    auto* worker = new (memory) MarkWorker();
    while (!worker->Init(this, i, entries)) {
      entries /= 2;
      if (entries < 4096) return i > 0;
    }
    workers_[i] = worker;
    worker_count_ = i + 1;
  }
  return worker_count_ > 0;
}

void Marker::RunJob(void* marker, int worker) {
  static_cast<Marker*>(marker)->workers_[worker]->Run();
}

void Marker::MarkFromRoots(const MarkConfig& config, RootTasks* roots) {
  config_ = config;
  roots_ = roots;
  white_ = alloc::g_epoch;
  black_ = alloc::OtherEpoch(white_);
  done_.Store(false, memory_order_seq_cst);
  idle_.Store(0, memory_order_relaxed);  // published with the helpers' wake-up
  sleepers_.Store(0, memory_order_seq_cst);
  overflowed_.Store(false, memory_order_relaxed);  // likewise
  termination_.Reset(config.termination, worker_count_);
  for (int i = 0; i < worker_count_; ++i) workers_[i]->BeginCycle();
  pool_->Begin(RunJob, this);
  // Roots of several tasks' size are work enough to share at once.
  workers_[0]->Run();
  pool_->Finish();
  RescanHeap();
}

void Marker::MarkMore() {
  config_.balance = false;  // the helpers have left
  workers_[0]->Drain();
  RescanHeap();
}

// After an overflow: black objects may have white children. Scan them all, until none overflows.
void Marker::RescanHeap() {
  while (overflowed_.Load(memory_order_relaxed)) {  // the workers are done
    overflowed_.Store(false, memory_order_relaxed);
    config_.balance = false;
    MarkWorker& worker = *workers_[0];
    const PageNumber end = EndCommitted(alloc::Side::kScanned);
    for (PageNumber page = 0; page < end; ++page) {
      const PageInfo& info = g_space.info[page];
      if (info.state != PageState::kSmall && info.state != PageState::kLarge) continue;
      const uint32_t slots = info.state == PageState::kSmall ? info.slot_count : 1;
      const size_t bytes = info.state == PageState::kSmall ? info.slot_bytes : info.object_bytes;
      for (uint32_t slot = 0; slot < slots; ++slot) {
        const ObjectRef object{g_space.AddressOfPage(page) + slot * bytes, bytes, page, slot};
        if (*object.mark() != black_) continue;
        worker.PushContents(object);
        worker.Drain();
      }
    }
  }
}

MarkStatistics Marker::statistics() const {
  MarkStatistics total;
  for (int i = 0; i < worker_count_; ++i) total.Add(workers_[i]->statistics);
  return total;
}

}  // namespace gleaner::gc
