// Rescanning of pending cards, which the program has written while marking was under way: functions
// of MarkWorker.
#include "alloc/walk.h"
#include "gc/mark/mark_pipeline.h"

namespace gleaner::gc {

using alloc::Contents;
using alloc::g_space;
using alloc::ObjectRef;
using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;

namespace {

// Comparing with a shadow copy costs a sixth of scanning.
constexpr size_t kShadowsForOneScan = 6;
constexpr size_t kLineWords = kCacheLineBytes / kWordBytes;

GLEANER_NO_SANITIZE void CopyForeignWords(Addr from, Addr* to, size_t bytes) {
  for (size_t i = 0; i < bytes / kWordBytes; ++i) to[i] = LoadForeignWord(from + i * kWordBytes);
}

// A bit for each cache line in which a unit differs from its shadow copy. Other threads may be
// writing the unit.
GLEANER_NO_SANITIZE uint64_t DifferentLines(const Addr* unit, const Addr* shadow) {
  using Vector = uint64_t __attribute__((vector_size(16)));
  static_assert(ShadowCopies::kUnitBytes / kCacheLineBytes == 64);
  uint64_t different = 0;
  for (size_t line = 0; line < 64; ++line) {
    const auto* a = reinterpret_cast<const Vector*>(unit + line * kLineWords);
    const auto* b = reinterpret_cast<const Vector*>(shadow + line * kLineWords);
    const Vector any = (a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2]) | (a[3] ^ b[3]);
    different |= uint64_t{(any[0] | any[1]) != 0} << line;
  }
  return different;
}

}  // namespace

// For each small object of the page that must be rescanned, calls f(from, to) for its part in
// [begin, end), which are offsets in the page.
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

// Pushes the words of an object that lie in [begin, end).
void MarkWorker::PushWords(Addr object, size_t object_bytes, Addr begin, Addr end) {
  if (begin < object) begin = object;
  if (end > object + object_bytes) end = object + object_bytes;
  if (begin < end) PushSpan(begin, end - begin);
}

// Whether an object with this page and mark byte has to be scanned in this cycle.
bool MarkWorker::MustRescan(PageNumber page, const uint8_t* mark) const {
  const uint8_t value = alloc::LoadMark(mark);
  return value == black_ || (GLEANER_UNLIKELY(value != alloc::kFreeSlot) &&
                             RowOf(info_[page].kind).marks_contents_of_unreachable);
}

// Pushes the contents of the objects in [begin, end) of a page, offsets that are multiples of the
// card size.
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

// Rescans a unit by its shadow copy. False if the unit has none: then it has to be scanned whole.
bool MarkWorker::RescanByShadow(PageNumber page, size_t unit) {
  const PageState state = info_[page].LoadState();
  const bool small = state == PageState::kSmall;
  if (info_[page].contents != Contents::kWords) return false;
  const Addr begin = g_space.AddressOfPage(page) + unit * ShadowCopies::kUnitBytes;
  size_t bytes = ShadowCopies::kUnitBytes;
  ObjectRef object;
  if (!small) {
    if (!FindSlot(begin, &object) || !MustRescan(object.page, object.mark())) return true;
    const Addr end = object.base + object.bytes;
    if (begin >= end) return true;
    if (end - begin < bytes) bytes = end - begin;
  }
  bool fresh;
  Addr* shadow = marker_->shadows_->Find(page, unit, &fresh);
  if (shadow == nullptr) return false;
  if (!fresh) {
    statistics.bytes_scanned += bytes / kShadowsForOneScan;
    ScanChanges(begin, shadow, bytes, small);
    return true;
  }
  statistics.bytes_scanned += bytes;
  if (!small) {
    CopyForeignWords(begin, shadow, bytes);
  } else {
    ForEachRescanned(page, unit * ShadowCopies::kUnitBytes, (unit + 1) * ShadowCopies::kUnitBytes,
                     [begin, shadow](Addr from, Addr to) {
                       CopyForeignWords(from, shadow + (from - begin) / kWordBytes, to - from);
                     });
  }
  platform::MaybeDelay();  // the words are copied and not followed
  ScanWords(shadow, bytes / kWordBytes);
  return true;
}

// Follows the words in which a unit differs from its shadow copy, and updates the copy. With
// `small`, only words of objects that must be rescanned.
void MarkWorker::ScanChanges(Addr begin, Addr* shadow, size_t bytes, bool small) {
  Addr changes[ShadowCopies::kUnitWords];
  size_t count = 0;
  for (uint64_t lines = DifferentLines(PointerAt<const Addr>(begin), shadow); lines != 0;
       lines &= lines - 1) {
    const auto first = static_cast<size_t>(__builtin_ctzll(lines)) * kLineWords;
    for (size_t i = first; i < first + kLineWords && i * kWordBytes < bytes; ++i) {
      const Addr word = LoadForeignWord(begin + i * kWordBytes);
      if (word == shadow[i]) continue;
      ObjectRef object;
      if (small &&
          (!FindSlot(begin + i * kWordBytes, &object) || !MustRescan(object.page, object.mark()))) {
        continue;
      }
      shadow[i] = word;  // [inv.shadow-copy]
      changes[count++] = word;
    }
  }
  platform::MaybeDelay();
  ScanWords(changes, count);
}

void MarkWorker::ScanWords(const Addr* words, size_t count) {
  const size_t kept = filter_(words, count, base_, heap_bytes_, words_ + pending_);
  if (GLEANER_UNLIKELY(pad_objects_)) Pipeline(this).MarkObjectsBefore(words_ + pending_, kept);
  pending_ += kept;
  if (pending_ >= kPendingWords) MarkPending();
}

void MarkWorker::RescanPage(PageNumber page) {
  // A thread's current page changes all the time, and has slots that are not handed out.
  if (marker_->is_concurrent_ && g_space.meta[page].listing() == alloc::Listing::kCurrent) {
    return marker_->rescan_set_->LeavePage(page);
  }
  // Taken before the page is read, so that later writes set the cards again.
  uint64_t cards = marker_->rescan_set_->Take(page);
  platform::MaybeDelay();
  constexpr size_t kCardsPerOsPage = RescanSet::kCardsPerOsPage;
  static_assert(ShadowCopies::kUnitBytes == kCardsPerOsPage * RescanSet::kCardBytes);
  constexpr uint64_t kWholeUnit = (uint64_t{1} << kCardsPerOsPage) - 1;
  for (unsigned unit = 0; marker_->shadows_ != nullptr && unit < ShadowCopies::kUnitsPerPage;
       ++unit) {
    const uint64_t whole = kWholeUnit << (unit * kCardsPerOsPage);
    if ((cards & whole) == whole && RescanByShadow(page, unit)) cards &= ~whole;
  }
  while (cards != 0) {
    const auto first = static_cast<unsigned>(__builtin_ctzll(cards));
    const auto count = static_cast<unsigned>(__builtin_ctzll(~(cards >> first)));
    RescanRange(page, first * RescanSet::kCardBytes, (first + count) * RescanSet::kCardBytes);
    cards &= ~(((uint64_t{1} << count) - 1) << first);
  }
}

// Claims a group of pages of the round and rescans it. False if all pages are claimed.
bool MarkWorker::RescanNext() {
  const PageNumber end = marker_->rescan_end_;
  if (marker_->next_rescanned_.Next() >= end) return false;
  constexpr size_t kPages = RescanSet::kPagesPerGroup;
  const size_t begin = marker_->next_rescanned_.Take(kPages);
  if (begin >= end || !marker_->rescan_set_->TakeGroup(begin / kPages)) return true;
  for (size_t page = begin; page < begin + kPages && page < end; ++page) {
    RescanPage(static_cast<PageNumber>(page));
    if (stack_.size() > kDrainRootsAt) Drain();
  }
  // The rest of the group may have been covered since the round began.
  if (begin + kPages > end) marker_->rescan_set_->LeavePage(end);
  return true;
}

}  // namespace gleaner::gc
