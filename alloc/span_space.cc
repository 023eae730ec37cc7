#include "alloc/span_space.h"

#include "platform/os/clock.h"

namespace gleaner::alloc {

bool SpanSpace::Init(size_t budget_bytes, uint64_t decay_ns) {
  if (!residency_.Init(g_space.base, g_space.bytes, budget_bytes, decay_ns)) return false;
  pages_.spans_ = this;
  return true;
}

BlockId SpanSpace::TakeWaiting(PageCount count) {
  const BlockId top = waiting_;
  if (top == TreeFit::kNone) return top;
  if (pages_.PagesOf(top) != count) {
    FreeWaiting();
    return TreeFit::kNone;
  }
  waiting_ = pages_.fit_.OwnerWord(top, kWaitingWord);
  --waiting_count_;
  return top;
}

void SpanSpace::FreeWaiting() {
  while (waiting_ != TreeFit::kNone) {
    const BlockId top = waiting_;
    waiting_ = pages_.fit_.OwnerWord(top, kWaitingWord);
    pages_.fit_.Free(top);
  }
  waiting_count_ = 0;
}

SpanSpace::Span SpanSpace::Allocate(PageCount count) {
  platform::LockGuard guard(pages_.lock_);
  Span span{kNoPage, TreeFit::kNone, {}};
  if (size_t{pages_.taken().value()} + count.value() > HeapLimitPages()) return span;
  span.block = TakeWaiting(count);
  if (span.block == TreeFit::kNone) span.block = pages_.TakeBlock(count);
  if (span.block == TreeFit::kNone) return span;
  // Without metadata for a split the block may be larger than asked.
  const PageCount got = pages_.PagesOf(span.block);
  span.first = pages_.FirstPage(span.block);
  __builtin_prefetch(&g_space.info[span.first], 1);  // the caller writes it, likely a miss
  span.unknown = residency_.Take(g_space.AddressOfPage(span.first), got.bytes());
  pages_.SetTaken(pages_.taken() + got);
  PublishSurplus();
  return span;
}

PageNumber SpanSpace::AllocateNamedByPage(PageCount count, bool* untouched) {
  const Span span = Allocate(count);
  *untouched = span.unknown.begin == span.unknown.end;
  if (span.first != kNoPage) g_space.meta[span.first].block = span.block;
  return span.first;
}

void SpanSpace::Free(BlockId block) {
  platform::LockGuard guard(pages_.lock_);
  const PageCount count = pages_.PagesOf(block);
  residency_.Return(g_space.AddressOfPage(pages_.FirstPage(block)), count.bytes());
  if (waiting_count_ == kMaxWaiting) FreeWaiting();
  pages_.fit_.OwnerWord(block, kWaitingWord) = waiting_;
  waiting_ = block;
  ++waiting_count_;
  pages_.SetTaken(pages_.taken() - count);
  if (residency_.IsDecayDue()) residency_.Decay(platform::CoarseNowNs());
  PublishSurplus();
}

void SpanSpace::PublishSurplus() {
  const uint64_t next = residency_.next_step_ns();
  // Written only if it changes, since all threads read the cache line.
  if (next_step_ns_.Get() == next) return;
  next_step_ns_.Set(next);
}

bool SpanSpace::DecaySurplus() {
  const uint64_t next = next_step_ns_.Get();
  if (next == Residency::kNever) return false;
  const uint64_t now = platform::CoarseNowNs();
  if (now < next || !pages_.lock_.TryAcquire()) return false;  // the lock's holder may be making it
  residency_.Decay(now);
  PublishSurplus();
  pages_.lock_.Release();
  return true;
}

bool SpanSpace::Resize(BlockId block, PageCount count) {
  platform::LockGuard guard(pages_.lock_);
  TreeFit& fit = pages_.fit_;
  const PageCount before = pages_.PagesOf(block);
  if (count > before) {
    const PageCount more = count - before;
    FreeWaiting();
    if (size_t{pages_.taken().value()} + more.value() > HeapLimitPages()) return false;
    if (!fit.TryGrow(block, count.value()) &&
        !(fit.IsLastAllocated(block) && pages_.Grow(more) && fit.TryGrow(block, count.value()))) {
      return false;
    }
  } else {
    fit.Shrink(block, count.value());
  }
  const PageCount after = pages_.PagesOf(block);
  const Addr begin = g_space.AddressOfPage(pages_.FirstPage(block));
  residency_.Return(begin, before.bytes());
  (void)residency_.Take(begin, after.bytes());
  pages_.SetTaken(pages_.taken() - before + after);
  PublishSurplus();
  return true;
}

PageNumber SpanSpace::FirstOf(BlockId block) {
  platform::LockGuard guard(pages_.lock_);
  return pages_.FirstPage(block);
}

size_t SpanSpace::Trim() {
  platform::LockGuard guard(pages_.lock_);
  FreeWaiting();
  pages_.fit_.ForEachFree([this](uint64_t start, uint64_t units) {
    const Addr begin = g_space.AddressOfPage(pages_.PageOfUnits(start, units));
    residency_.DiscardBetweenBlocks(begin, begin + (size_t{units} << kPageShift));
  });
  const size_t bytes = residency_.Trim();
  PublishSurplus();
  return bytes;
}

size_t SpanSpace::IdleBytes() {
  platform::LockGuard guard(pages_.lock_);
  return residency_.idle_bytes();
}

}  // namespace gleaner::alloc
