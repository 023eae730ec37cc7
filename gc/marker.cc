#include "gc/marker.h"

#include <sched.h>

#include <new>

#include "alloc/mark_bytes.h"
#include "alloc/thread_heap.h"
#include "alloc/walk.h"

namespace gleaner::gc {

using alloc::AddressSpace;
using alloc::Contents;
using alloc::g_space;
using alloc::ObjectRef;
using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;
using platform::memory_order_relaxed;
using platform::memory_order_seq_cst;

constinit uint8_t g_valid_displacement[alloc::kPageBytes] = {};

namespace {

// A longer range is scanned in steps of this.
constexpr size_t kScanBytes = kScanWords * kWordBytes;
// A range longer than this is split: the rest goes back to the stack, where others can take it.
constexpr size_t kSplitBytes = 32 * kKiB;
// A range longer than this is halved, so that thieves get shares of equal size.
constexpr size_t kHalveBytes = 1 * kMiB;
// Large objects are pushed as ranges of this size.
constexpr size_t kSpanBytes = 8 * kMiB;

// A worker looks at most this often, in bytes scanned, whether others are hungry.
constexpr uint64_t kShareEveryBytes = 8 * kKiB;
// Waking a helper costs as much as scanning this much (some 50 us), so only a worker that has
// scanned more, and still has work, wakes one.
constexpr uint64_t kHelpAfterBytes = 256 * kKiB;
// Turns of looking for work before an idle worker offers its processor to others, and before it
// sleeps.
constexpr int kYieldTurns = 8;
constexpr int kSpinTurns = 200;
// From this many words on it pays to drop the marked ones in a batch.
constexpr size_t kSelectWords = 16;
// Comparing with a twin costs a sixth of scanning.
constexpr size_t kTwinsForOneScan = 6;
constexpr size_t kLineWords = kCacheLineBytes / kWordBytes;
// Roots are scanned on until the stack is this deep.
constexpr size_t kDrainRootsAt = 256;

GLEANER_NO_SANITIZE void CopyForeignWords(Addr from, Addr* to, size_t bytes) {
  for (size_t i = 0; i < bytes / kWordBytes; ++i) to[i] = LoadForeignWord(from + i * kWordBytes);
}

// A bit for each cache line in which a unit, which others may be writing, differs from its twin.
GLEANER_NO_SANITIZE uint64_t DifferentLines(const Addr* unit, const Addr* twin) {
  using Vector = uint64_t __attribute__((vector_size(16)));
  static_assert(Twins::kUnitBytes / kCacheLineBytes == 64);
  uint64_t different = 0;
  for (size_t line = 0; line < 64; ++line) {
    const auto* a = reinterpret_cast<const Vector*>(unit + line * kLineWords);
    const auto* b = reinterpret_cast<const Vector*>(twin + line * kLineWords);
    const Vector any = (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]);
    different |= uint64_t{(any[0] | any[1]) != 0} << line;
  }
  return different;
}

}  // namespace

// --- One worker ---

bool MarkWorker::Init(Marker* marker, int id, size_t max_stack_entries) {
  marker_ = marker;
  id_ = id;
  // Asking the processor is slow under a hypervisor, so once.
  filter_ = ChooseFilter();
  fastest_select_ = ChooseSelect();
  return stack_.Init(max_stack_entries);
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
  select_ = interior_ ? fastest_select_ : nullptr;
  statistics = {};
  has_hole_ = marker_->has_hole_;
  hole_begin_ = alloc::EndCommitted(alloc::Side::kScanned);
  hole_pages_ =
      has_hole_ ? alloc::FirstCommitted(alloc::Side::kPointerFree) - hole_begin_ : PageNumber{0};
}

class MarkWorker::Pipeline {
 public:
  GLEANER_ALWAYS_INLINE explicit Pipeline(MarkWorker* worker)
      : worker_(worker),
        base_(worker->base_),
        heap_bytes_(worker->heap_bytes_),
        info_(worker->info_),
        has_hole_(worker->has_hole_),
        marks_(worker->marks_),
        white_(worker->white_),
        black_(worker->black_),
        interior_(worker->interior_) {
    Load();
  }
  GLEANER_ALWAYS_INLINE ~Pipeline() { Save(); }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  GLEANER_ALWAYS_INLINE void Load() {
    head_ = worker_->candidate_head_;
    tail_ = worker_->candidate_tail_;
    objects_ = 0;
  }
  GLEANER_ALWAYS_INLINE void Save() {
    worker_->candidate_head_ = head_;
    worker_->candidate_tail_ = tail_;
    worker_->statistics.objects += objects_;
  }

  GLEANER_ALWAYS_INLINE bool InHeap(Addr word) const { return word - base_ < heap_bytes_; }

  // Second step of a scan: from a word inside the reservation to its mark byte. Null if the word is
  // no pointer. kInterior: it counts whatever its displacement.
  template <bool kInterior>
  GLEANER_ALWAYS_INLINE uint8_t* Resolve(Addr word) const {
    const size_t page = (word - base_) >> alloc::kPageShift;
    if (GLEANER_UNLIKELY(has_hole_) && !g_space.Contains(word)) return nullptr;
    const PageInfo& info = info_[page];
    const size_t offset = AddressSpace::OffsetInPage(word);
    const uint32_t slot = alloc::SlotIndex(offset, info.reciprocal);
    if (GLEANER_UNLIKELY(slot >= info.slot_count)) return ResolveLarge<kInterior>(word, page);
    if (!kInterior && GLEANER_UNLIKELY(!interior_) &&
        !g_valid_displacement[offset - size_t{slot} * info.slot_bytes]) {
      return nullptr;
    }
    return marks_ + page * alloc::kMarkBytesPerPage + slot;
  }

  // Resolves, and gives the mark byte time to arrive in the cache.
  template <bool kInterior>
  GLEANER_ALWAYS_INLINE void Enqueue(Addr word) {
    uint8_t* mark = Resolve<kInterior>(word);
    if (GLEANER_UNLIKELY(mark == nullptr)) return;
    __builtin_prefetch(mark, 1, 3);
    Candidate& slot = worker_->candidates_[tail_ % kCandidateRing];
    if (tail_ - head_ == kCandidateRing) {
      ++head_;
      Settle(slot);  // the oldest lies where the newest goes
    }
    ++tail_;
    slot = {mark, word};
  }

  // Marks the object if it is white. Its contents are to be scanned if it may have any: true, and
  // where they are, unless that is too long for one range.
  GLEANER_ALWAYS_INLINE bool Mark(const Candidate& candidate, Addr* begin, size_t* bytes) {
    // Relaxed: a lost race marks twice (head of marker.h).
    if ((__atomic_load_n(candidate.mark, __ATOMIC_RELAXED) & white_) == 0) return false;
    platform::MaybeDelay();  // it may be freed, or marked by another worker
    __atomic_store_n(candidate.mark, black_, __ATOMIC_RELAXED);
    ++objects_;
    const PageInfo& info = info_[(candidate.word - base_) >> alloc::kPageShift];
    if (info.contents == Contents::kPointerFree) return false;
    if (GLEANER_UNLIKELY(info.slot_count == 0)) {
      PushLarge(candidate.word);
      return false;
    }
    const size_t offset = AddressSpace::OffsetInPage(candidate.word);
    const size_t start = size_t{alloc::SlotIndex(offset, info.reciprocal)} * info.slot_bytes;
    *bytes = info.slot_bytes;
    Addr object = candidate.word;
    // Nearly all pointers point to the start. A predicted branch, which the empty asm keeps the
    // compiler from turning into arithmetic, lets the processor load the contents before it has
    // seen the descriptor: on a list this is half of the time.
    if (GLEANER_UNLIKELY(offset != start)) {
      object -= offset - start;
      asm("" : "+r"(object));
    }
    if (GLEANER_UNLIKELY(info.contents != Contents::kWords)) {
      worker_->PushForDescription(object);
      return false;
    }
    *begin = object;
    return true;
  }

  GLEANER_ALWAYS_INLINE void Settle(const Candidate& candidate) {
    Addr begin;
    size_t bytes;
    if (Mark(candidate, &begin, &bytes) &&
        GLEANER_UNLIKELY(!worker_->stack_.Push({begin, bytes}))) {
      worker_->NoteOverflow({begin, bytes});
    }
  }

  // The second step for what Filter has left in the worker's buffer.
  GLEANER_ALWAYS_INLINE void EnqueueKept(size_t kept) {
    Addr* words = worker_->buffer_;
    if (GLEANER_UNLIKELY(worker_->pad_objects_)) {
      for (size_t i = 0; i < kept; ++i) {
        Enqueue<false>(words[i]);
        if (InHeap(words[i] - 1)) Enqueue<false>(words[i] - 1);
      }
      return;
    }
    if (kept >= kSelectWords && worker_->select_ != nullptr) {
      kept = worker_->select_(
          {base_, info_, marks_, white_, worker_->hole_begin_, worker_->hole_pages_}, words, kept);
    }
    for (size_t i = 0; i < kept; ++i) Enqueue<false>(words[i]);
  }

  GLEANER_ALWAYS_INLINE bool Empty() const { return head_ == tail_; }
  GLEANER_ALWAYS_INLINE bool SettleAll() {
    if (head_ == tail_) return false;
    do {
      Settle(worker_->candidates_[head_++ % kCandidateRing]);
    } while (head_ != tail_);
    return true;
  }

  // First step: the words of the range that point into the reservation, to the worker's buffer.
  // Also the last of them, in a register, for chains.
  GLEANER_ALWAYS_INLINE size_t Filter(Addr begin, size_t bytes, Addr* last) {
    platform::MaybeDelay();  // black, and not scanned
    const Addr* words = PointerAt<const Addr>(begin);
    const size_t count = bytes / kWordBytes;
    Addr* out = worker_->buffer_;
    if (count > kInlineFilterWords) {
      const size_t kept = worker_->filter_(words, count, base_, heap_bytes_, out);
      *last = kept != 0 ? out[kept - 1] : 0;
      return kept;
    }
    size_t kept = 0;
    Addr found = 0;
    for (size_t i = 0; i < count; i += 2) {
      for (const Addr word : {words[i], words[i + 1]}) {
        out[kept] = word;
        kept += InHeap(word) ? 1 : 0;
        found = InHeap(word) ? word : found;
      }
    }
    *last = found;
    return kept;
  }

 private:
  static constexpr size_t kInlineFilterWords = 8;

  template <bool kInterior>
  GLEANER_NOINLINE uint8_t* ResolveLarge(Addr word, size_t page) const {
    const PageInfo& info = info_[page];
    size_t head = page;
    if (info.state == PageState::kTail) {
      if (!kInterior && !interior_) return nullptr;  // displacements are smaller than a page
      head -= info.pages_back;
      if (info_[head].ignore_off_page) return nullptr;
    } else if (info.state != PageState::kLarge) {
      return nullptr;
    }
    const Addr displacement = word - (base_ + (head << alloc::kPageShift));
    if (displacement >= info_[head].object_bytes) return nullptr;
    if (!kInterior && !interior_ && !g_valid_displacement[displacement]) return nullptr;
    return marks_ + head * alloc::kMarkBytesPerPage;
  }

  GLEANER_NOINLINE void PushLarge(Addr word) {
    ObjectRef object;
    if (FindSlot(word, &object)) worker_->PushContents(object);
  }

  MarkWorker* const worker_;
  const Addr base_;
  const size_t heap_bytes_;
  const PageInfo* const info_;
  const bool has_hole_;
  uint8_t* const marks_;
  const uint8_t white_;
  const uint8_t black_;
  const bool interior_;
  size_t head_;
  size_t tail_;
  uint64_t objects_;
};

GLEANER_COLD void MarkWorker::NoteOverflow(PackedRange range) {
  ++statistics.overflows;
  if (marker_->pending_ == nullptr) {
    marker_->overflowed_.Store(true, memory_order_relaxed);  // read after all workers are done
    return;
  }
  ObjectRef object;
  if (range.bytes() != 0) {
    marker_->pending_->Set(range.begin(), range.bytes());
  } else if (FindSlot(range.begin(), &object)) {
    marker_->pending_->Set(object.base, object.bytes);
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

// A range of no bytes on the stack stands for the object that begins there.
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
  if (word - worker->base_ < worker->heap_bytes_) Pipeline(worker).Enqueue<false>(word);
}

void MarkWorker::PushFoundRange(MarkSink* sink, Addr begin, Addr end, bool interior) {
  Pipeline pipeline(static_cast<Sink*>(sink)->worker);
  for (Addr at = AlignUp(begin, kWordBytes); at + kWordBytes <= end; at += kWordBytes) {
    const Addr word = LoadForeignWord(at);
    if (!pipeline.InHeap(word)) continue;
    if (interior) {
      pipeline.Enqueue<true>(word);
    } else {
      pipeline.Enqueue<false>(word);
    }
  }
}

// pre: the pipeline's state is saved.
void MarkWorker::ScanDescribed(Addr base) {
  ObjectRef object;
  if (!FindSlot(base, &object)) return;
  statistics.bytes_scanned += object.bytes;
  if (!marker_->beside_) return PushDescribed(object, &sink_);
  if (!TryPushDescribed(object, &sink_)) marker_->pending_->Set(object.base, object.bytes);
}

void MarkWorker::PushContentsButSelf(const ObjectRef& object) {
  if (g_space.info[object.page].contents == Contents::kPointerFree) return;
  Pipeline pipeline(this);
  for (Addr at = object.base; at < object.base + object.bytes; at += kWordBytes) {
    const Addr word = LoadForeignWord(at);
    if (word - object.base >= object.bytes && pipeline.InHeap(word)) pipeline.Enqueue<false>(word);
  }
}

void MarkWorker::MarkObject(const ObjectRef& object) {
  // Relaxed: as in Pipeline::Mark; roots are marked in parallel, too.
  if ((__atomic_load_n(object.mark(), __ATOMIC_RELAXED) & white_) == 0) return;
  platform::MaybeDelay();  // as there
  __atomic_store_n(object.mark(), black_, __ATOMIC_RELAXED);
  ++statistics.objects;
  PushContents(object);
}

// Cuts off the piece of a long range to scan now and pushes the rest, first.
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
    const size_t kept = filter_(PointerAt<const Addr>(at), count, base_, heap_bytes_ + 1, buffer_);
    {
      Pipeline pipeline(this);
      for (size_t i = 0; i < kept; ++i) {
        const Addr word = buffer_[i];
        if (GLEANER_LIKELY(pipeline.InHeap(word))) {
          if (interior) {
            pipeline.Enqueue<true>(word);
          } else {
            pipeline.Enqueue<false>(word);
          }
        }
        // Objects have no padding byte: a pointer one past the end of one is the base of the next.
        // The program may mean either, so both stay.
        if (past_the_end_ && word % alloc::kGranuleBytes == 0 && word != base_) {
          pipeline.Enqueue<true>(word - 1);
        }
      }
    }
    if (stack_.size() > kDrainRootsAt) Drain();
  }
}

// An atomic load and a comparison: see kShareEveryBytes.
bool MarkWorker::MustPause() const {
  if (statistics.bytes_scanned >= pause_at_bytes_ || marker_->IsPausing()) return true;
  // Relaxed: a hint, which may be stale; at the end of the critical section the mutator parks.
  return marker_->beside_ && platform::t_critical.stop_pending->Load(memory_order_relaxed);
}

bool MarkWorker::HasNothing() const {
  return stack_.empty() && candidate_head_ == candidate_tail_ && scan_head_ == scan_tail_ &&
         queue.LooksEmpty();
}

void MarkWorker::Forget() {
  stack_.Rewind();
  candidate_head_ = candidate_tail_;
  scan_head_ = scan_tail_;
  for (Segment segment; queue.Pop(&segment);) {
  }
}

bool MarkWorker::Drain() {
  if (MustPause()) return false;
  bool paused = false;
  Pipeline pipeline(this);
  size_t scan_head = scan_head_;
  size_t scan_tail = scan_tail_;
  uint64_t scanned = 0;
  // What is left of a long range that is being scanned.
  PackedRange in_hand;
  for (;;) {
    while (scan_tail - scan_head < kScanRing && !stack_.empty()) {
      const PackedRange range = stack_.Pop();
      __builtin_prefetch(PointerAt<void>(range.begin()), 0, 3);
      scan_ring_[scan_tail++ % kScanRing] = range;
    }
    PackedRange range = in_hand;
    if (GLEANER_LIKELY(range.bytes() == 0)) {
      if (scan_head == scan_tail) {
        if (pipeline.SettleAll()) continue;
        break;
      }
      range = scan_ring_[scan_head++ % kScanRing];
      if (GLEANER_UNLIKELY(range.bytes() == 0)) {
        pipeline.Save();
        ScanDescribed(range.begin());
        pipeline.Load();
        continue;
      }
    }
    in_hand = PackedRange();
    if (GLEANER_UNLIKELY(range.bytes() > kScanBytes)) {
      if (split_ && range.bytes() > kSplitBytes) range = Split(range);
      in_hand = {range.begin() + kScanBytes, range.bytes() - kScanBytes};
      range = {range.begin(), kScanBytes};
    }
    Addr begin = range.begin();
    size_t bytes = range.bytes();
    Addr last;
    scanned += bytes;
    size_t kept = pipeline.Filter(begin, bytes, &last);
    // A chain: one pointer, and nothing else to do meanwhile. Follow it without the detour through
    // stack and rings, whose latency would be all that counts.
    while (kept == 1 && scan_head == scan_tail && pipeline.Empty() && stack_.empty() &&
           !pad_objects_ && scanned < kShareEveryBytes) {
      kept = 0;
      uint8_t* mark = pipeline.Resolve<false>(last);
      if (mark == nullptr || !pipeline.Mark({mark, last}, &begin, &bytes)) break;
      scanned += bytes;
      if (GLEANER_UNLIKELY(bytes > kScanBytes)) {
        PushSpan(begin, bytes);
      } else {
        kept = pipeline.Filter(begin, bytes, &last);
      }
    }
    pipeline.EnqueueKept(kept);
    if (GLEANER_UNLIKELY(scanned >= kShareEveryBytes)) {
      statistics.bytes_scanned += scanned;
      scanned = 0;
      ShareWork();
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
  if (paused) return false;
  stack_.Rewind();
  return true;
}

// Offers the oldest ranges when somebody has nothing to do, or wakes somebody when there is enough.
void MarkWorker::ShareWork() {
  if (!marker_->config_.balance || marker_->IsAlone() || stack_.size() < 2 || !queue.LooksEmpty()) {
    return;
  }
  const bool hungry = marker_->idle_.Load(memory_order_relaxed) != 0;  // a hint
  if (!hungry) {
    if (statistics.bytes_scanned < kHelpAfterBytes || !marker_->MayWake() ||
        !marker_->pool_->CanWake()) {
      return;
    }
    if (!marker_->pool_->WakeOne()) return;
  }
  Segment segment;
  const size_t half = stack_.size() / 2;
  const size_t share = half < Segment::kCapacity ? half : Segment::kCapacity;
  for (size_t i = 0; i < share; ++i) segment.ranges[i] = stack_.TakeOldest().bits();
  segment.count = share;
  queue.Push(segment);  // it was empty
  // seq_cst: the segment is visible before we look for sleepers, who look for segments after they
  // have counted themselves (Note [sleepers]).
  if (marker_->sleepers_.Load(memory_order_seq_cst) != 0) {
    marker_->work_available_.FetchAdd(1, memory_order_seq_cst);
    FutexWake(&marker_->work_available_, 1);
  }
}

void MarkWorker::TakeSegment(const Segment& segment) {
  for (size_t i = 0; i < segment.count; ++i) {
    PushOrNote(PackedRange::FromBits(segment.ranges[i]));
  }
}

// Idle until there is work (true) or none is left anywhere (false).
bool MarkWorker::FindWork() {
  Marker& marker = *marker_;
  Segment segment;
  if (queue.Pop(&segment)) return TakeSegment(segment), true;
  if (!marker.config_.balance) {
    // Without balancing every worker stops when its own share of the roots is done.
    marker.termination_.SetIdle(id_);
    while (!marker.termination_.AllIdle() && !marker.IsPausing()) sched_yield();
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
        return TakeSegment(segment), true;
      }
      marker.termination_.SetIdle(id_);
    }
    // Who pauses leaves the job busy: without it the others would wait for ever.
    if (marker.done_.Load(memory_order_seq_cst) || marker.IsPausing()) return false;
    if (marker.termination_.AllIdle()) {
      marker.done_.Store(true, memory_order_seq_cst);
      marker.WakeSleepers();
      return false;
    }
    // Worker 0 keeps watch; the others sleep when nothing turns up.
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
      sched_yield();  // the one with the work may be waiting for this very processor
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

// Calls f(from, to) for the part in [begin, end) of a page of each of its small objects whose
// contents count.
template <class F>
void MarkWorker::ForEachRescanned(PageNumber page, size_t begin, size_t end, const F& f) const {
  const Addr start = g_space.AddressOfPage(page);
  const PageInfo slots = info_[page].LoadWord();
  const uint8_t* marks = g_space.MarksOf(page);
  const uint32_t first = alloc::SlotIndex(begin, slots.reciprocal);
  const uint32_t last = alloc::SlotIndex(end - 1, slots.reciprocal);
  for (uint32_t slot = first; slot <= last && slot < slots.slot_count; ++slot) {
    if (!MustRescan(page, marks + slot)) continue;
    const size_t from = size_t{slot} * slots.slot_bytes;
    const size_t to = from + slots.slot_bytes;
    f(start + (from < begin ? begin : from), start + (to > end ? end : to));
  }
}

// The words of an object in [begin, end).
void MarkWorker::PushWords(Addr object, size_t object_bytes, Addr begin, Addr end) {
  if (begin < object) begin = object;
  if (end > object + object_bytes) end = object + object_bytes;
  if (begin < end) PushSpan(begin, end - begin);
}

// Whether the contents of an object of that page and mark byte count in this cycle.
bool MarkWorker::MustRescan(PageNumber page, const uint8_t* mark) const {
  const uint8_t value = alloc::LoadMark(mark);
  return value == black_ || (GLEANER_UNLIKELY(value != alloc::kFreeSlot) &&
                             RowOf(info_[page].kind).marks_contents_of_unreachable);
}

// The objects in [begin, end) of a page, both multiples of the granule.
void MarkWorker::RescanRange(PageNumber page, size_t begin, size_t end) {
  const Addr start = g_space.AddressOfPage(page);
  const PageState state = info_[page].LoadState();
  if (state != PageState::kSmall && state != PageState::kLarge && state != PageState::kTail) return;
  const Contents contents = info_[page].contents;
  if (contents == Contents::kPointerFree) return;
  if (state != PageState::kSmall) {
    ObjectRef object;
    if (!FindSlot(start + begin, &object) || !MustRescan(object.page, object.mark())) return;
    if (contents == Contents::kDescribed) return PushForDescription(object.base);
    return PushWords(object.base, object.bytes, start + begin, start + end);
  }
  ForEachRescanned(page, begin, end, [this, contents](Addr from, Addr to) {
    if (contents == Contents::kDescribed) return PushForDescription(from);
    PushSpan(from, to - from);
  });
}

// False if the unit has no twin: all of it is to be scanned.
bool MarkWorker::RescanByTwin(PageNumber page, size_t unit) {
  const PageState state = info_[page].LoadState();
  const bool small = state == PageState::kSmall;
  if (info_[page].contents != Contents::kWords) return false;
  const Addr begin = g_space.AddressOfPage(page) + unit * Twins::kUnitBytes;
  size_t bytes = Twins::kUnitBytes;
  ObjectRef object;
  if (!small) {
    if (!FindSlot(begin, &object) || !MustRescan(object.page, object.mark())) return true;
    const Addr end = object.base + object.bytes;
    if (begin >= end) return true;
    if (end - begin < bytes) bytes = end - begin;
  }
  bool fresh;
  Addr* twin = marker_->twins_->Find(page, unit, &fresh);
  if (twin == nullptr) return false;
  if (!fresh) {
    statistics.bytes_scanned += bytes / kTwinsForOneScan;
    ScanChanges(begin, twin, bytes, small);
    return true;
  }
  statistics.bytes_scanned += bytes;
  if (!small) {
    CopyForeignWords(begin, twin, bytes);
  } else {
    ForEachRescanned(page, unit * Twins::kUnitBytes, (unit + 1) * Twins::kUnitBytes,
                     [begin, twin](Addr from, Addr to) {
                       CopyForeignWords(from, twin + (from - begin) / kWordBytes, to - from);
                     });
  }
  platform::MaybeDelay();  // copied, and not followed
  ScanWords(twin, bytes / kWordBytes);
  return true;
}

// The words in which a unit differs from its twin, which are taken over; with `small`, only those
// of objects whose contents count.
void MarkWorker::ScanChanges(Addr begin, Addr* twin, size_t bytes, bool small) {
  Addr changes[Twins::kUnitWords];
  size_t count = 0;
  for (uint64_t lines = DifferentLines(PointerAt<const Addr>(begin), twin); lines != 0;
       lines &= lines - 1) {
    const auto first = static_cast<size_t>(__builtin_ctzll(lines)) * kLineWords;
    for (size_t i = first; i < first + kLineWords && i * kWordBytes < bytes; ++i) {
      const Addr word = LoadForeignWord(begin + i * kWordBytes);
      if (word == twin[i]) continue;
      ObjectRef object;
      if (small &&
          (!FindSlot(begin + i * kWordBytes, &object) || !MustRescan(object.page, object.mark()))) {
        continue;
      }
      twin[i] = word;  // [inv.twin]
      changes[count++] = word;
    }
  }
  platform::MaybeDelay();
  ScanWords(changes, count);
}

void MarkWorker::ScanWords(const Addr* words, size_t count) {
  const size_t kept = filter_(words, count, base_, heap_bytes_, buffer_);
  Pipeline(this).EnqueueKept(kept);
}

void MarkWorker::RescanPage(PageNumber page) {
  // Such a page changes all the time, and has slots that are not handed out.
  if (marker_->beside_ && g_space.meta[page].listing.Load(memory_order_relaxed) ==
                              alloc::Listing::kCurrent) {  // a hint
    return marker_->pending_->LeavePage(page);
  }
  // Taken before anything is looked at.
  uint64_t granules = marker_->pending_->Take(page);
  platform::MaybeDelay();
  constexpr size_t kGranulesPerUnit = Pending::kGranulesPerUnit;
  static_assert(Twins::kUnitBytes == kGranulesPerUnit * Pending::kGranuleBytes);
  constexpr uint64_t kWholeUnit = (uint64_t{1} << kGranulesPerUnit) - 1;
  for (unsigned unit = 0; marker_->twins_ != nullptr && unit < Twins::kUnitsPerPage; ++unit) {
    const uint64_t whole = kWholeUnit << (unit * kGranulesPerUnit);
    if ((granules & whole) == whole && RescanByTwin(page, unit)) granules &= ~whole;
  }
  while (granules != 0) {
    const auto first = static_cast<unsigned>(__builtin_ctzll(granules));
    const auto count = static_cast<unsigned>(__builtin_ctzll(~(granules >> first)));
    RescanRange(page, first * Pending::kGranuleBytes, (first + count) * Pending::kGranuleBytes);
    granules &= ~(((uint64_t{1} << count) - 1) << first);
  }
}

// False if all pages of the round are claimed.
bool MarkWorker::RescanNext() {
  const PageNumber end = marker_->pending_end_;
  // Relaxed: only uniqueness counts.
  if (marker_->next_pending_.Load(memory_order_relaxed) >= end) return false;
  constexpr size_t kPages = Pending::kPagesPerGroup;
  const size_t begin = marker_->next_pending_.FetchAdd(kPages, memory_order_relaxed);
  if (begin >= end || !marker_->pending_->TakeGroup(begin / kPages)) return true;
  for (size_t page = begin; page < begin + kPages && page < end; ++page) {
    RescanPage(static_cast<PageNumber>(page));
    if (stack_.size() > kDrainRootsAt) Drain();
  }
  // The rest may have been covered since the round began.
  if (begin + kPages > end) marker_->pending_->LeavePage(end);
  return true;
}

void MarkWorker::Run(uint64_t slice_bytes) {
  RootTasks& roots = *marker_->roots_;
  pause_at_bytes_ =
      slice_bytes == kNeverPause ? kNeverPause : statistics.bytes_scanned + slice_bytes;
  marker_->termination_.SetBusy(id_);
  // A task that is claimed is pushed whole, paused or not.
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
}

// --- All workers ---

bool Marker::Init(WorkerPool* pool, int max_workers) {
  g_valid_displacement[0] = 1;  // here, so that the table is no initialised data
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
    bool ready = worker->Init(this, i, entries);
    while (!ready && entries >= 8192) {
      entries /= 2;
      ready = worker->Init(this, i, entries);
    }
    if (!ready) break;
    workers_[i] = worker;
    worker_count_ = i + 1;
  }
  // No helper may be woken that has no worker.
  if (worker_count_ < pool->size()) pool->SetSize(worker_count_);
  return worker_count_ > 0;
}

void Marker::RunJob(void* marker, int worker) {
  auto* self = static_cast<Marker*>(marker);
  self->workers_[worker]->Run(self->slice_bytes_);
}

void Marker::BeginBeside(const MarkConfig& config, Pending* pending, Twins* twins) {
  Begin(config);
  beside_ = true;
  workers_beside_ = 1;
  pending_ = pending;
  twins_ = twins;
}

void Marker::Begin(const MarkConfig& config, bool minor) {
  config_ = config;
  beside_ = false;
  white_ = minor ? alloc::g_young : alloc::g_epoch | alloc::g_young;
  black_ = minor ? alloc::g_epoch : alloc::OtherEpoch(alloc::g_epoch);
  marked_by_hand_.Store(false, memory_order_relaxed);  // no worker runs
  kept_by_hand_.Store(false, memory_order_relaxed);    // likewise
  overflowed_.Store(false, memory_order_relaxed);      // published with the helpers' wake-up
  pending_ = nullptr;
  twins_ = nullptr;
  pending_end_ = 0;
  has_hole_ = !platform::KeepWhole(g_space.info);
  for (int i = 0; i < worker_count_; ++i) workers_[i]->BeginCycle();
}

bool Marker::MarkFromRoots(RootTasks* roots, uint64_t slice_bytes) {
  roots_ = roots;
  return Continue(slice_bytes);
}

bool Marker::Continue(uint64_t slice_bytes) {
  slice_bytes_ = slice_bytes;  // published with the helpers' wake-up
  slice_over_.Store(false, memory_order_seq_cst);
  done_.Store(false, memory_order_seq_cst);
  idle_.Store(0, memory_order_relaxed);  // published with the helpers' wake-up
  sleepers_.Store(0, memory_order_seq_cst);
  termination_.Reset(config_.termination, worker_count_);
  // What a helper had left when marking was paused is its own to go on with.
  int last = worker_count_ - 1;
  while (last > 0 && workers_[last]->HasNothing()) --last;
  pool_->Begin(RunJob, this);
  if (pending_ != nullptr || !config_.balance || helped_) {
    // Pending pages are claimed, not shared; and without balancing nobody will be woken for work to
    // share: each worker marks from the roots it claims. And if the last cycle had work for
    // helpers, they may as well wake up meanwhile.
    while (MayWake() && pool_->WakeOne()) {
    }
  }
  while (pool_->last_workers() <= last && pool_->CanWake()) pool_->WakeOne();
  workers_[0]->Run(slice_bytes);
  pool_->Finish();
  if (!beside_) helped_ = statistics().steals != 0;
  if (!IsPausing()) DrainLeftovers();
  return IsAllClaimed() && HasNothing() && RescanHeap();
}

// Of helpers that could not be woken again: in a forked child there are none. Serial.
void Marker::DrainLeftovers() {
  if (HasNothing()) return;
  const bool balance = config_.balance;
  config_.balance = false;  // nobody may be woken outside a job
  for (int i = 1; i < worker_count_; ++i) {
    while (!workers_[i]->HasNothing() && !IsPausing()) workers_[i]->Run(kNeverPause);
  }
  config_.balance = balance;
}

bool Marker::IsAllClaimed() const {
  return roots_->AllClaimed() &&
         next_pending_.Load(memory_order_relaxed) >= pending_end_;  // no worker is about
}

bool Marker::HasNothing() const {
  for (int i = 0; i < worker_count_; ++i) {
    if (!workers_[i]->HasNothing()) return false;
  }
  return true;
}

void Marker::WakeSleepers() {
  work_available_.FetchAdd(1, memory_order_seq_cst);
  FutexWakeAll(&work_available_);
}

void Marker::Pause() {
  pause_.Store(true, memory_order_seq_cst);
  WakeSleepers();
}

void Marker::End() {
  white_ = 0;
  platform::AllowHole(g_space.info);
}

void Marker::EndSlice() {
  slice_over_.Store(true, memory_order_seq_cst);
  WakeSleepers();
}

void Marker::Abandon() {
  for (int i = 0; i < worker_count_; ++i) workers_[i]->Forget();
  beside_ = false;
  slice_over_.Store(false, memory_order_seq_cst);
  alloc::ForEachPage([this](PageNumber page, const PageInfo& info) {
    const uint32_t slots = info.state == PageState::kSmall   ? info.slot_count
                           : info.state == PageState::kLarge ? 1
                                                             : 0;
    alloc::Recolour(g_space.MarksOf(page), slots, black_, alloc::g_epoch);
  });
  End();
  black_ = alloc::g_epoch;
}

void Marker::SetMark(const ObjectRef& object, bool marked) {
  // Relaxed: as in Pipeline::Mark, since a mark procedure may call this while others mark.
  if (white_ == 0 || beside_ ||
      __atomic_load_n(object.mark(), __ATOMIC_RELAXED) == alloc::kFreeSlot) {
    return;
  }
  NoteMarkedByHand();
  if (!marked && black_ == alloc::g_epoch) {
    // Objects that refer to it need not be looked at in this collection.
    kept_by_hand_.Store(true, memory_order_relaxed);  // as marked_by_hand_
    return;
  }
  __atomic_store_n(object.mark(), marked ? black_ : AnyWhite(), __ATOMIC_RELAXED);  // likewise
}

void Marker::MarkMore() {
  config_.balance = false;  // the helpers have left
  workers_[0]->Drain();
  RescanHeap();
}

// After an overflow: black objects may have white children. Scan them all, until none overflows.
bool Marker::RescanHeap() {
  while (overflowed_.Load(memory_order_relaxed)) {  // the workers are done
    overflowed_.Store(false, memory_order_relaxed);
    config_.balance = false;
    MarkWorker& worker = *workers_[0];
    alloc::ForEachPage(alloc::Side::kScanned, [&](PageNumber page, const PageInfo&) {
      alloc::ForEachSlotOf(page, [&](const ObjectRef& object) {
        if (!IsMarked(object) || IsPausing()) return;
        worker.PushContents(object);
        worker.Drain();
      });
    });
    if (IsPausing()) {
      overflowed_.Store(true, memory_order_relaxed);  // as above: from the beginning again
      return false;
    }
  }
  return true;
}

MarkStatistics Marker::statistics() const {
  MarkStatistics total;
  for (int i = 0; i < worker_count_; ++i) total.Add(workers_[i]->statistics);
  return total;
}

}  // namespace gleaner::gc
