// From words to grey objects: filter, select, resolve, mark. Used by one worker, with what it
// computes with in registers. See docs/design/architecture.md, "Found".
#pragma once

#include "alloc/mark_bytes.h"
#include "gc/mark/marker.h"

namespace gleaner::gc {

class MarkWorker::Pipeline {
 public:
  // A word and the mark byte of its object. The object's base is computed only if it is white.
  struct Resolved {
    uint8_t* mark;
    Addr word;
  };

  GLEANER_ALWAYS_INLINE explicit Pipeline(MarkWorker* worker)
      : worker_(worker),
        base_(worker->base_),
        heap_bytes_(worker->heap_bytes_),
        info_(worker->info_),
        has_hole_(worker->has_hole_),
        marks_(worker->marks_),
        white_(worker->white_),
        black_(worker->black_),
        interior_(worker->interior_) {}
  GLEANER_ALWAYS_INLINE ~Pipeline() { worker_->statistics.objects += objects_; }
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  GLEANER_ALWAYS_INLINE bool InHeap(Addr word) const { return word - base_ < heap_bytes_; }

  // From a word inside the reservation to the mark byte of its object. Null if the word is no
  // pointer. kInterior: any displacement counts.
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

  // Marks the object if it is white. True if the caller has to push [*begin, *begin + *bytes), its
  // contents. False if there is nothing to scan, or if Mark has pushed the contents itself (large
  // and described objects).
  GLEANER_ALWAYS_INLINE bool Mark(const Resolved& found, Addr* begin, size_t* bytes) {
    // Relaxed, load and store: a lost race marks twice (Note [mark-race]).
    if ((__atomic_load_n(found.mark, __ATOMIC_RELAXED) & white_) == 0) return false;
    platform::MaybeDelay();  // the object may be freed, or marked by another worker
    __atomic_store_n(found.mark, black_, __ATOMIC_RELAXED);  // Note [mark-race]
    ++objects_;
    const alloc::PageInfo& info = info_[(found.word - base_) >> alloc::kPageShift];
    if (info.contents == alloc::Contents::kPointerFree) return false;
    if (GLEANER_UNLIKELY(info.slot_count == 0)) {
      PushLarge(found.word);
      return false;
    }
    const size_t offset = alloc::AddressSpace::OffsetInPage(found.word);
    const size_t start = size_t{alloc::SlotIndex(offset, info.reciprocal)} * info.slot_bytes;
    *bytes = info.slot_bytes;
    Addr object = found.word;
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

  GLEANER_ALWAYS_INLINE void Settle(const Resolved& found) {
    Addr begin;
    size_t bytes;
    if (Mark(found, &begin, &bytes) && GLEANER_UNLIKELY(!worker_->stack_.Push({begin, bytes}))) {
      worker_->LeaveForRescan({begin, bytes});
    }
  }

  // Filters: copies the words of the range that point into the reservation to `out`, and returns
  // their number. *last is the last of them, in a register for chains.
  GLEANER_ALWAYS_INLINE size_t Filter(Addr begin, size_t bytes, Addr* out, Addr* last) const {
    platform::MaybeDelay();  // the object is black and not scanned
    const Addr* words = PointerAt<const Addr>(begin);
    const size_t count = bytes / kWordBytes;
    if (count > kInlineFilterWords) {
      const size_t kept = worker_->filter_(words, count, base_, heap_bytes_, out);
      *last = kept != 0 ? out[kept - 1] : 0;
      return kept;
    }
    size_t kept = 0;
    Addr newest = 0;
    for (size_t i = 0; i < count; i += 2) {
      for (Addr word : {words[i], words[i + 1]}) {
        GLEANER_LOADED_ONCE("r", word);
        out[kept] = word;
        kept += InHeap(word) ? 1 : 0;
        newest = InHeap(word) ? word : newest;
      }
    }
    *last = newest;
    return kept;
  }

  // Selects, resolves and marks, for the words of many objects at once: marks the objects that the
  // words point to, and pushes their contents. Changes the array. pre: all words are inside the
  // reservation.
  GLEANER_ALWAYS_INLINE void MarkWords(Addr* words, size_t count) {
    if (worker_->select_ == nullptr || count < worker_->min_select_words_) {
      return MarkInBatches(words, count);
    }
    // The mark bytes of the words that select keeps are in the cache.
    const size_t kept = worker_->select_(
        {base_, info_, marks_, white_, worker_->hole_begin_, worker_->hole_pages_}, words, count);
    for (size_t i = 0; i < kept; ++i) {
      uint8_t* mark = Resolve<false>(words[i]);
      if (GLEANER_LIKELY(mark != nullptr)) Settle({mark, words[i]});
    }
  }

  // With pad_objects, for words of heap objects alone: marks the objects that end where the words
  // point to. A pointer one past the end of an object is the base of the next.
  GLEANER_NOINLINE void MarkObjectsBefore(const Addr* words, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      if (!InHeap(words[i] - 1)) continue;
      uint8_t* mark = Resolve<false>(words[i] - 1);
      if (mark != nullptr) Settle({mark, words[i] - 1});
    }
  }

 private:
  static constexpr size_t kInlineFilterWords = 8;
  static constexpr size_t kBatchWords = 32;  // as many cache misses as a processor has under way

  // Resolves all words of a batch before it looks at their mark bytes, which gives these time to
  // arrive in the cache.
  GLEANER_ALWAYS_INLINE void MarkInBatches(const Addr* words, size_t count) {
    Resolved batch[kBatchWords];
    for (size_t i = 0; i < count;) {
      const size_t end = count - i < kBatchWords ? count : i + kBatchWords;
      size_t resolved = 0;
      for (; i < end; ++i) {
        uint8_t* mark = Resolve<false>(words[i]);
        if (GLEANER_UNLIKELY(mark == nullptr)) continue;
        __builtin_prefetch(mark, 1, 3);
        batch[resolved++] = {mark, words[i]};
      }
      for (size_t k = 0; k < resolved; ++k) Settle(batch[k]);
    }
  }

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
  uint64_t objects_ = 0;
};

}  // namespace gleaner::gc
