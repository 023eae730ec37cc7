#include "gc/mark/roots.h"

#include <cstring>

#include "alloc/object.h"
#include "gc/mark/kinds.h"
#include "platform/os/readable.h"

namespace gleaner::gc {

void RootTasks::Clear() {
  count_ = 0;
  next_.Restart();
}

bool RootTasks::Append(platform::Range range, RootKind kind) {
  if (!tasks_.EnsureCommitted(count_ + 1)) return false;
  tasks_[count_++] = {range, kind};
  return true;
}

void RootTasks::Add(RootKind kind, Addr begin, Addr end) {
  begin = AlignUp(begin, kWordBytes);
  end = AlignDown(end, kWordBytes);
  if (begin >= end) return;
  while (begin < end) {
    // Without memory for more tasks the last task takes all that is left.
    const bool room = tasks_.EnsureCommitted(count_ + 2);
    const Addr stop = room && end - begin > kTaskBytes ? begin + kTaskBytes : end;
    if (!Append({begin, stop}, kind)) Fatal("no memory for the list of roots");
    begin = stop;
  }
}

void RootTasks::AddUncollectablePages() {
  // Relaxed: the world is stopped.
  if (alloc::g_uncollectable_units.Load(platform::memory_order_relaxed) == 0 &&
      !g_any_unreachable_contents) {
    return;
  }
  for (const alloc::Space space : {alloc::Space::kScanned, alloc::Space::kPointerFree}) {
    const alloc::PageNumber end = EndCommitted(space);
    for (alloc::PageNumber page = FirstCommitted(space); page < end;) {
      const alloc::PageNumber stop = end - page > kPagesPerTask ? page + kPagesPerTask : end;
      if (!Append({page, stop}, RootKind::kUncollectablePages))
        Fatal("no memory for the list of roots");
      page = stop;
    }
  }
}

size_t RootTasks::Claim() {
  const size_t task = next_.Take();
  return task < count_ ? task : count_;
}

bool RootTasks::HasUnclaimed(uint64_t bytes) const {
  uint64_t found = 0;
  // Of pages it is not known how many have objects that are roots.
  for (size_t i = next_.Next(); i < count_ && found < bytes; ++i) {
    const bool is_pages = tasks_[i].kind == RootKind::kUncollectablePages;
    if (!is_pages) found += tasks_[i].range.end - tasks_[i].range.begin;
  }
  return found >= bytes;
}

bool RootBuffer::Reserve(size_t kind) {
  if (words_[kind].max() != 0) return true;
  const bool bounded = platform::AddressSpaceLimit() != SIZE_MAX;
  return words_[kind].Reserve(bounded ? kMaxWordsWhenBounded : kMaxWords);
}

bool RootBuffer::Init() { return Reserve(0) && Reserve(1); }

bool RootBuffer::Holds(Addr a) const {
  for (const alloc::ReservedArray<Addr>& words : words_) {
    if (a - AddressOf(words.data()) < words.max() * sizeof(Addr)) return true;
  }
  return false;
}

void RootBuffer::Clear() { count_[0] = count_[1] = 0; }

void RootBuffer::Copy(RootKind kind, Addr begin, Addr end) {
  const size_t k = kind == RootKind::kStack ? 0 : 1;
  for (Addr at = AlignUp(begin, kWordBytes); at + kWordBytes <= end; at += kWordBytes) {
    const Addr word = LoadForeignWord(at);
    if (word - alloc::g_space.base > alloc::g_space.bytes) continue;
    if (!words_[k].EnsureCommitted(count_[k] + 1)) return;
    words_[k][count_[k]++] = word;
  }
}

bool RootBuffer::CopyIfMapped(RootKind kind, Addr* at, Addr end) {
  const size_t k = kind == RootKind::kStack ? 0 : 1;
  *at = AlignUp(*at, kWordBytes);
  end = AlignDown(end, kWordBytes);
  while (*at < end) {
    const size_t left = (end - *at) / kWordBytes;
    const size_t want = left < kChunkWords ? left : kChunkWords;
    if (!Reserve(k) || !words_[k].EnsureCommitted(count_[k] + want)) return false;
    // Copied behind the words kept so far; then those that point into the heap are kept.
    Addr* const copy = words_[k].data() + count_[k];
    const size_t got = platform::CopyIfMapped(copy, *at, want * kWordBytes) / kWordBytes;
    for (size_t i = 0; i < got; ++i) {
      if (copy[i] - alloc::g_space.base > alloc::g_space.bytes) continue;
      words_[k][count_[k]++] = copy[i];
    }
    *at += got * kWordBytes;
    if (got < want) break;
  }
  return true;
}

void RootBuffer::AddTo(RootTasks* roots) const {
  for (size_t k = 0; k < 2; ++k) {
    if (count_[k] == 0) continue;
    const Addr begin = AddressOf(words_[k].data());
    roots->Add(k == 0 ? RootKind::kStack : RootKind::kData, begin, begin + count_[k] * kWordBytes);
  }
}

bool RangeSet::Prepare(size_t ranges) {
  if (ranges_.max() == 0 && !ranges_.Reserve(kMaxRanges)) return false;
  if (!ranges_.EnsureCommitted(ranges)) return false;
  if (!is_large_) {
    memcpy(ranges_.data(), few_, count_ * sizeof(platform::Range));
    is_large_ = true;
  }
  return true;
}

bool RangeSet::InsertAt(size_t index, platform::Range range) {
  const bool may_wait = !is_large_ && count_ < kFew;
  if ((is_large_ || count_ >= kFew / 2) && !Prepare(count_ + 1) && !may_wait) return false;
  memmove(&Item(index) + 1, &Item(index), (count_ - index) * sizeof(platform::Range));
  Item(index) = range;
  ++count_;
  return true;
}

bool RangeSet::Add(platform::Range range) {
  if (range.begin >= range.end) return true;
  const size_t i = FirstFrom(range.begin);
  // All ranges from i on that touch the new range are merged with it.
  size_t last = i;
  while (last < count_ && Item(last).begin <= range.end) {
    if (Item(last).begin < range.begin) range.begin = Item(last).begin;
    if (Item(last).end > range.end) range.end = Item(last).end;
    ++last;
  }
  if (last == i) return InsertAt(i, range);
  Item(i) = range;
  memmove(&Item(i) + 1, &Item(last - 1) + 1, (count_ - last) * sizeof(platform::Range));
  count_ -= last - i - 1;
  return true;
}

bool RangeSet::Remove(platform::Range range) {
  if (range.begin >= range.end) return true;
  for (size_t i = 0; i < count_;) {
    platform::Range& r = Item(i);
    if (r.end <= range.begin || r.begin >= range.end) {
      ++i;
    } else if (r.begin < range.begin && r.end > range.end) {
      const platform::Range upper{range.end, r.end};
      if (!InsertAt(i + 1, upper)) return false;
      Item(i).end = range.begin;
      return true;
    } else if (r.begin < range.begin) {
      r.end = range.begin;
      ++i;
    } else if (r.end > range.end) {
      r.begin = range.end;
      ++i;
    } else {
      memmove(&Item(i), &Item(i) + 1, (count_ - i - 1) * sizeof(platform::Range));
      --count_;
    }
  }
  return true;
}

bool RangeSet::Overlaps(platform::Range range) const {
  for (size_t i = FirstFrom(range.begin); i < count_ && Item(i).begin < range.end; ++i) {
    if (range.begin < Item(i).end) return true;
  }
  return false;
}

bool RangeSet::Find(Addr a, platform::Range* found) const {
  for (size_t i = FirstFrom(a); i < count_ && Item(i).begin <= a; ++i) {
    if (!Item(i).Contains(a)) continue;  // it ends at `a`
    *found = Item(i);
    return true;
  }
  return false;
}

size_t RangeSet::FirstFrom(Addr a) const {
  size_t low = 0;
  for (size_t high = count_; low < high;) {
    const size_t middle = low + (high - low) / 2;
    if (Item(middle).end < a) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

}  // namespace gleaner::gc
