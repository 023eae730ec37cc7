#include "alloc/residency.h"

#include <bit>

#include "platform/common/bits.h"

namespace gleaner::alloc {

bool Residency::Init(Addr begin, size_t bytes, size_t budget_bytes, uint64_t decay_ns) {
  GLEANER_CHECK(!initialised() && bytes > 0, "residency: Init(%zu bytes) of a range in use", bytes);
  begin_ = fresh_from_ = begin;
  end_ = begin + bytes;
  first_chunk_ = begin / kChunkBytes;
  chunk_count_ = ChunkOf(end_ - 1) + 1;
  budget_chunks_ = budget_bytes / kChunkBytes;
  decay_ns_ = decay_ns;
  const size_t words = WordCount();
  if (!users_.Reserve(chunk_count_) || !users_.EnsureCommitted(chunk_count_) ||
      !chunks_.Reserve(words) || !chunks_.EnsureCommitted(words)) {
    Destroy();
    return false;
  }
  return true;
}

void Residency::Destroy() {
  chunks_.Release();
  users_.Release();
  begin_ = end_ = fresh_from_ = 0;
  first_chunk_ = chunk_count_ = idle_chunks_ = budget_chunks_ = hand_ = 0;
  decay_ns_ = next_step_ns_ = discarded_bytes_ = 0;
  calls_ = 0;
}

template <class F>
void Residency::ForEachWord(size_t first, size_t end, F f) {
  while (first < end) {
    const size_t bit = first % kChunksPerWord;
    const size_t in_word = kChunksPerWord - bit < end - first ? kChunksPerWord - bit : end - first;
    const uint64_t mask = (~uint64_t{0} >> (kChunksPerWord - in_word)) << bit;
    f(first / kChunksPerWord, mask);
    first += in_word;
  }
}

void Residency::UseChunks(size_t first, size_t end) {
  ForEachWord(first, end, [this](size_t word, uint64_t mask) {
    Chunks& chunks = chunks_[word];
    idle_chunks_ -= CountBits(chunks.Idle() & mask);
    chunks.dirty |= mask;
    chunks.used |= mask;
    chunks.aged &= ~mask;
  });
}

void Residency::UnuseChunks(size_t first, size_t end) {
  ForEachWord(first, end, [this](size_t word, uint64_t mask) {
    Chunks& chunks = chunks_[word];
    chunks.used &= ~mask;
    idle_chunks_ += CountBits(mask);
  });
}

Residency::Range Residency::Take(Addr begin, size_t bytes) {
  GLEANER_DCHECK(begin >= begin_ && bytes > 0 && bytes <= end_ - begin, "residency: Take(%p, %zu)",
                 PointerAt<void>(begin), bytes);
  const Addr end = begin + bytes;
  const size_t first = ChunkOf(begin), last = ChunkOf(end - 1);

  size_t lowest = SIZE_MAX, highest = 0;
  for (size_t word = first / kChunksPerWord; word <= last / kChunksPerWord; ++word) {
    uint64_t dirty = chunks_[word].dirty;
    if (word == first / kChunksPerWord) dirty &= ~uint64_t{0} << (first % kChunksPerWord);
    if (word == last / kChunksPerWord) {
      dirty &= ~uint64_t{0} >> (kChunksPerWord - 1 - last % kChunksPerWord);
    }
    if (dirty == 0) continue;
    const size_t base = word * kChunksPerWord;
    if (lowest == SIZE_MAX) lowest = base + static_cast<size_t>(std::countr_zero(dirty));
    highest = base + kChunksPerWord - 1 - static_cast<size_t>(std::countl_zero(dirty));
  }
  Range unknown{begin, begin};
  if (lowest != SIZE_MAX) {
    const Addr low = BeginOf(lowest), high = BeginOf(highest + 1);
    unknown.begin = low > begin ? low : begin;
    unknown.end = high < end ? high : end;
    if (unknown.end > fresh_from_) unknown.end = fresh_from_;
    if (unknown.end < unknown.begin) unknown.end = unknown.begin;
  }
  if (end > fresh_from_) fresh_from_ = end;

  if (users_[first]++ == 0) UseChunks(first, first + 1);
  if (last != first) {
    UseChunks(first + 1, last);
    if (users_[last]++ == 0) UseChunks(last, last + 1);
  }
  return unknown;
}

void Residency::Return(Addr begin, size_t bytes) {
  const size_t first = ChunkOf(begin), last = ChunkOf(begin + bytes - 1);
  GLEANER_DCHECK(users_[first] != 0 && users_[last] != 0, "residency: Return(%p, %zu)",
                 PointerAt<void>(begin), bytes);
  if (--users_[first] == 0) UnuseChunks(first, first + 1);
  if (last != first) {
    UnuseChunks(first + 1, last);
    if (--users_[last] == 0) UnuseChunks(last, last + 1);
  }
}

void Residency::DiscardChunks(size_t first, size_t end) {
  const Addr low = BeginOf(first), high = BeginOf(end);
  const Addr from = low > begin_ ? low : begin_;
  const Addr to = high < end_ ? high : end_;
  platform::Discard(PointerAt<void>(from), to - from);
  discarded_bytes_ += to - from;
}

void Residency::DiscardInWord(size_t word, uint64_t candidates, size_t quota) {
  Chunks& chunks = chunks_[word];
  while (candidates != 0 && quota != 0) {
    const auto bit = static_cast<size_t>(std::countr_zero(candidates));
    auto run = static_cast<size_t>(std::countr_one(candidates >> bit));
    if (run > quota) run = quota;
    const uint64_t mask = (~uint64_t{0} >> (kChunksPerWord - run)) << bit;
    const size_t first = word * kChunksPerWord + bit;
    DiscardChunks(first, first + run);
    chunks.dirty &= ~mask;
    chunks.aged &= ~mask;
    candidates &= ~mask;
    quota -= run;
    idle_chunks_ -= run;
  }
}

void Residency::Pass(size_t first, size_t end) {
  const bool at_once = decay_ns_ == 0;
  ForEachWord(first, end, [this, at_once](size_t word, uint64_t mask) {
    Chunks& chunks = chunks_[word];
    const uint64_t idle = chunks.Idle() & mask;
    if (HasSurplus()) {
      DiscardInWord(word, at_once ? idle : idle & chunks.aged, idle_chunks_ - budget_chunks_);
    }
    chunks.aged |= chunks.Idle() & mask;
  });
}

size_t Residency::Decay(uint64_t now_ns) {
  if (!HasSurplus() || now_ns < next_step_ns_) return 0;
  const size_t chunks = ChunkOf(fresh_from_ - 1) + 1;  // ever handed out
  const uint64_t step_ns = decay_ns_ / 2 / kStepsPerTurn;
  const uint64_t late_ns = now_ns - next_step_ns_;
  size_t left = chunks;
  if (late_ns < step_ns * (kStepsPerTurn - 1)) {
    const size_t per_step = (chunks + kStepsPerTurn - 1) / kStepsPerTurn;
    const size_t due = (late_ns / step_ns + 1) * per_step;
    if (due < left) left = due;
  }
  next_step_ns_ = now_ns + step_ns;
  const uint64_t before = discarded_bytes_;
  while (left != 0) {
    if (hand_ == chunks) hand_ = 0;
    const size_t count = chunks - hand_ < left ? chunks - hand_ : left;
    Pass(hand_, hand_ + count);
    hand_ += count;
    left -= count;
  }
  return discarded_bytes_ - before;
}

size_t Residency::Trim() {
  const uint64_t before = discarded_bytes_;
  for (size_t word = 0; word < WordCount(); ++word) {
    DiscardInWord(word, chunks_[word].Idle(), kChunksPerWord);
  }
  return discarded_bytes_ - before;
}

void Residency::DiscardBetweenBlocks(Addr begin, Addr end) {
  const size_t os_page = platform::OsPageBytes();
  const auto discard = [os_page](Addr from, Addr to) {
    from = AlignUp(from, os_page);
    to = AlignDown(to, os_page);
    if (from < to) platform::Discard(PointerAt<void>(from), to - from);
  };
  if (begin >= end) return;
  // Only the first and the last chunk can also hold a part of a block in use.
  const size_t first = ChunkOf(begin), last = ChunkOf(end - 1);
  if (first == last) {
    if (users_[first] != 0) discard(begin, end);
    return;
  }
  if (users_[first] != 0) discard(begin, BeginOf(first + 1));
  if (users_[last] != 0) discard(BeginOf(last), end);
}

void Residency::CheckForTesting() const {
  size_t idle = 0;
  for (size_t word = 0; word < WordCount(); ++word) {
    const Chunks& chunks = chunks_[word];
    idle += CountBits(chunks.Idle());
    GLEANER_CHECK((chunks.used & ~chunks.dirty) == 0 && (chunks.aged & ~chunks.Idle()) == 0,
                  "residency: word %zu: dirty %llx used %llx aged %llx", word,
                  static_cast<unsigned long long>(chunks.dirty),
                  static_cast<unsigned long long>(chunks.used),
                  static_cast<unsigned long long>(chunks.aged));
  }
  GLEANER_CHECK(idle == idle_chunks_,
                "residency: %zu chunks are idle, %zu counted [inv.idle-bytes]", idle, idle_chunks_);
  for (size_t chunk = 0; chunk < chunk_count_; ++chunk) {
    const bool used = (chunks_[chunk / kChunksPerWord].used >> (chunk % kChunksPerWord) & 1) != 0;
    GLEANER_CHECK(used || users_[chunk] == 0, "residency: chunk %zu has %u users and is not used",
                  chunk, users_[chunk]);
  }
}

}  // namespace gleaner::alloc
