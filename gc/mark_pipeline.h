// From words to grey objects: filter, select, resolve, candidate ring, mark. Used by one worker,
// with its state in registers while a range is scanned. See docs/life_of_an_object.md, "Found".
#pragma once

#include "alloc/mark_bytes.h"
#include "gc/marker.h"

namespace gleaner::gc {

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

  // Second step of a scan: from a word inside the reservation to the mark byte of its object. Null
  // if the word is no pointer. kInterior: any displacement counts.
  template <bool kInterior>
  GLEANER_ALWAYS_INLINE uint8_t* Resolve(Addr word) const {
    const size_t page = (word - base_) >> alloc::kPageShift;
    if (GLEANER_UNLIKELY(has_hole_) && !alloc::g_space.Contains(word)) return nullptr;
    const alloc::PageInfo& info = info_[page];
    const size_t offset = alloc::AddressSpace::OffsetInPage(word);
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
      Settle(slot);  // the ring is full: the oldest candidate makes room
    }
    ++tail_;
    slot = {mark, word};
  }

  // Marks the object if it is white. True if the caller has to push [*begin, *begin + *bytes), its
  // contents. False if there is nothing to scan, or if Mark has pushed the contents itself (large
  // and described objects).
  GLEANER_ALWAYS_INLINE bool Mark(const Candidate& candidate, Addr* begin, size_t* bytes) {
    // Relaxed, load and store: a lost race marks twice (Note [mark-race]).
    if ((__atomic_load_n(candidate.mark, __ATOMIC_RELAXED) & white_) == 0) return false;
    platform::MaybeDelay();  // the object may be freed, or marked by another worker
    __atomic_store_n(candidate.mark, black_, __ATOMIC_RELAXED);  // Note [mark-race]
    ++objects_;
    const alloc::PageInfo& info = info_[(candidate.word - base_) >> alloc::kPageShift];
    if (info.contents == alloc::Contents::kPointerFree) return false;
    if (GLEANER_UNLIKELY(info.slot_count == 0)) {
      PushLarge(candidate.word);
      return false;
    }
    const size_t offset = alloc::AddressSpace::OffsetInPage(candidate.word);
    const size_t start = size_t{alloc::SlotIndex(offset, info.reciprocal)} * info.slot_bytes;
    *bytes = info.slot_bytes;
    Addr object = candidate.word;
    // Nearly all pointers point to the start of an object. The predicted branch lets the processor
    // load the contents before the descriptor arrives, which halves the time on a list. The empty
    // asm keeps the compiler from turning the branch into arithmetic.
    if (GLEANER_UNLIKELY(offset != start)) {
      object -= offset - start;
      asm("" : "+r"(object));
    }
    if (GLEANER_UNLIKELY(info.contents != alloc::Contents::kWords)) {
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

  // The second step for the `kept` words that Filter has put into the worker's buffer.
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

  // First step: copies the words of the range that point into the reservation to the worker's
  // buffer, and returns their number. *last is the last of them, in a register for chains.
  GLEANER_ALWAYS_INLINE size_t Filter(Addr begin, size_t bytes, Addr* last) {
    platform::MaybeDelay();  // the object is black and not scanned
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
  // From this many words on it pays to drop words of marked objects in a batch.
  static constexpr size_t kSelectWords = 16;

  template <bool kInterior>
  GLEANER_NOINLINE uint8_t* ResolveLarge(Addr word, size_t page) const {
    const alloc::PageInfo& info = info_[page];
    size_t head = page;
    if (info.state == alloc::PageState::kTail) {
      if (!kInterior && !interior_) return nullptr;  // displacements are smaller than a page
      head -= info.pages_back;
      if (info_[head].ignore_off_page) return nullptr;
    } else if (info.state != alloc::PageState::kLarge) {
      return nullptr;
    }
    const Addr displacement = word - (base_ + (head << alloc::kPageShift));
    if (displacement >= info_[head].object_bytes) return nullptr;
    if (!kInterior && !interior_ && !g_valid_displacement[displacement]) return nullptr;
    return marks_ + head * alloc::kMarkBytesPerPage;
  }

  GLEANER_NOINLINE void PushLarge(Addr word) {
    alloc::ObjectRef object;
    if (FindSlot(word, &object)) worker_->PushContents(object);
  }

  MarkWorker* const worker_;
  const Addr base_;
  const size_t heap_bytes_;
  const alloc::PageInfo* const info_;
  const bool has_hole_;
  uint8_t* const marks_;
  const uint8_t white_;
  const uint8_t black_;
  const bool interior_;
  size_t head_;
  size_t tail_;
  uint64_t objects_;
};

}  // namespace gleaner::gc
