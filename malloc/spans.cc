#include "malloc/spans.h"

#include "alloc/span_space.h"
#include "alloc/thread_heaps.h"
#include "malloc/magazines.h"
#include "platform/os/memory.h"

namespace gleaner::malloc_proxy {
namespace {

using alloc::g_space;
using alloc::kNoPage;
using alloc::kPageBytes;
using alloc::kPageShift;
using alloc::PageInfo;
using alloc::PageState;

// A medium block on the shelf names the magazine of kLargeClass, so that freeing it again is a slow
// call, which fails.
bool IsWaiting(const PageInfo& info) { return info.magazine == DistanceOf(kLargeClass); }
void SetWaiting(PageInfo& info, bool waits) {
  info.magazine = DistanceOf(waits ? kLargeClass : info.size_class);
}

// PageInfo::ignore_off_page of a large block's first page: the block's contents came by MoveSpan,
// so its pages are a mapping of their own until they are renewed.
bool IsMoved(const PageInfo& info) { return info.ignore_off_page; }
void SetMoved(PageInfo& info, bool moved) { info.ignore_off_page = moved; }

// Maximum of moved blocks: each costs the process two more mappings, of some 65,000.
constexpr size_t kMaxMoved = 8192;
// Moved blocks.
constinit platform::Count<size_t> g_moved{0};

[[nodiscard]] bool RenewPages(PageNumber first, PageNumber pages) {
  if (!platform::Renew(PointerAt<void>(g_space.AddressOfPage(first)), size_t{pages} << kPageShift))
    return false;
  g_space.ApplyPlacement(first, pages);
  return true;
}

// pre: bytes <= g_space.bytes.
PageNumber PagesFor(size_t bytes) {
  return bytes == 0 ? 1 : static_cast<PageNumber>(AlignUp(bytes, kPageBytes) >> kPageShift);
}

// The word of the first page's descriptor: its block in the page space, and its number of pages.
void SetBlock(PageInfo& info, alloc::BlockId block, PageNumber pages) {
  info.word = uint64_t{block} << 32 | pages;
}
alloc::BlockId BlockOf(const PageInfo& info) {
  return static_cast<alloc::BlockId>(info.word >> 32);
}
PageNumber PagesOf(const PageInfo& info) { return static_cast<PageNumber>(info.word); }

// The first page of the block at `p`, or kNoPage.
PageNumber HeadOf(const void* p) {
  const Addr a = AddressOf(p);
  const PageNumber page = g_space.PageOf(a);
  const bool is_head =
      alloc::AddressSpace::OffsetInPage(a) == 0 && g_space.info[page].state == PageState::kLarge;
  return is_head ? page : kNoPage;
}

alloc::SpanSpace::Span TakePages(PageNumber pages) {
  if (pages > 1 && alloc::ThreadHeaps::ShouldShare(kSpace, alloc::PageCount(pages))) {
    alloc::ThreadHeaps::FlushFreePages(kSpace);
  }
  alloc::SpanSpace::Span span = alloc::g_spans.Allocate(alloc::PageCount(pages));
  if (GLEANER_UNLIKELY(span.first == kNoPage)) {
    Shelf::Clear();
    alloc::ThreadHeaps::FlushFreePages(kSpace);
    span = alloc::g_spans.Allocate(alloc::PageCount(pages));
  }
  return span;
}

void FreeHead(PageNumber head) {
  PageInfo& info = g_space.info[head];
  info.state = PageState::kTaken;
  info.magazine = DistanceOf(kLargeClass);
  alloc::g_spans.Free(BlockOf(info));
}

constexpr size_t kMaxShelfBytes = 8 * kMiB;
constexpr size_t kMaxShelfBlocks = 64;  // of a class

struct ShelfState {
  platform::Lock lock{platform::LockRank::kSlots};
  // Guarded by lock.
  size_t bytes = 0;
  struct {
    size_t count;
    void* blocks[kMaxShelfBlocks];
  } of[kMediumClasses] = {};
};
constinit ShelfState g_shelf;

}  // namespace

void* AllocateSpan(size_t size_class, size_t bytes, size_t alignment, bool zeroed) {
  if (bytes > g_space.bytes || alignment > g_space.bytes) return nullptr;
  const PageNumber pages = size_class == kLargeClass ? PagesFor(bytes) : MediumPages(size_class);
  const PageNumber padding = alignment > kPageBytes ? PagesFor(alignment) - 1 : 0;
  const alloc::SpanSpace::Span span = TakePages(pages + padding);
  if (span.first == kNoPage) return nullptr;
  const Addr start = AlignUp(g_space.AddressOfPage(span.first), alignment);
  const PageNumber head = g_space.PageOf(start);
  // Frees the padding behind the block; if that fails, the padding stays.
  if (padding != 0) {
    (void)alloc::g_spans.Resize(span.block, alloc::PageCount(head - span.first + pages));
  }
  if (zeroed) {
    const Addr begin = span.unknown.begin > start ? span.unknown.begin : start;
    const Addr end = span.unknown.end < start + bytes ? span.unknown.end : start + bytes;
    if (begin < end) platform::Zero(PointerAt<void>(begin), end - begin);
  }
  if (GLEANER_UNLIKELY(g_space.IsPlacedInBlocks(bytes))) {
    alloc::PlacementResult ignored;
    (void)alloc::Place(PointerAt<void>(start), bytes, g_space.placement, &ignored);
  }
  PageInfo& info = g_space.info[head];
  SetBlock(info, span.block, pages);
  info.size_class = static_cast<uint8_t>(size_class);
  SetWaiting(info, false);
  SetMoved(info, false);
  info.state = PageState::kLarge;
  return PointerAt<void>(start);
}

BlockError FreeSpan(void* p) {
  const PageNumber head = HeadOf(p);
  if (head == kNoPage) return BlockError::kNoBlock;
  PageInfo& info = g_space.info[head];
  // If two threads free the block, one of them gets the error. Acquire and release: the program's
  // uses of the block are over before it is free; the page space's lock passes that on. As a byte,
  // since clang's atomics take no enumeration.
  const uint8_t was =
      __atomic_exchange_n(reinterpret_cast<uint8_t*>(&info.state),
                          static_cast<uint8_t>(PageState::kTaken), __ATOMIC_ACQ_REL);
  platform::MaybeDelay();
  if (was != static_cast<uint8_t>(PageState::kLarge)) return BlockError::kNotOut;
  if (GLEANER_UNLIKELY(IsMoved(info))) {
    g_moved.Subtract(1);
    if (!RenewPages(head, PagesOf(info))) return BlockError::kNone;  // the pages are not reused
  }
  alloc::g_spans.Free(BlockOf(info));
  return BlockError::kNone;
}

size_t SpanBytes(const void* p) {
  const PageNumber head = HeadOf(p);
  return head == kNoPage ? 0 : size_t{PagesOf(g_space.info[head])} << kPageShift;
}

bool ResizeSpan(void* p, size_t bytes) {
  const PageNumber head = g_space.PageOf(AddressOf(p));
  PageInfo& info = g_space.info[head];
  if (bytes > g_space.bytes) return false;
  const PageNumber need = PagesFor(bytes);
  if (need == PagesOf(info)) return true;
  // The tail's contents are not needed. If the renewal fails, the caller copies the block.
  if (IsMoved(info) && need < PagesOf(info) && !RenewPages(head + need, PagesOf(info) - need)) {
    return false;
  }
  const PageNumber padding = head - alloc::g_spans.FirstOf(BlockOf(info));
  if (!alloc::g_spans.Resize(BlockOf(info), alloc::PageCount(padding + need))) return false;
  SetBlock(info, BlockOf(info), need);
  return true;
}

void* MoveSpan(void* p, size_t bytes) {
  if (g_moved.Add(1) > kMaxMoved) {
    g_moved.Subtract(1);
    return nullptr;
  }
  const PageInfo& from = g_space.info[g_space.PageOf(AddressOf(p))];
  void* to = AllocateSpan(kLargeClass, bytes, alloc::kGranuleBytes, false);
  if (to != nullptr) {
    const platform::Moved moved =
        platform::MoveContents(p, to, size_t{PagesOf(from)} << kPageShift);
    if (moved == platform::Moved::kDone) {
      SetMoved(g_space.info[g_space.PageOf(AddressOf(to))], true);
      if (FreeSpan(p) != BlockError::kNone) Fatal("realloc(%p): freed meanwhile", p);
      return to;
    }
    // In the remaining case (neither done nor refused) the pages stay allocated for ever.
    if (moved == platform::Moved::kRefused) (void)FreeSpan(to);
  }
  g_moved.Subtract(1);
  return nullptr;
}

size_t Shelf::Take(size_t size_class, void** out, size_t want) {
  platform::LockGuard guard(g_shelf.lock);
  auto& stack = g_shelf.of[size_class - kFirstMedium];
  const size_t got = stack.count < want ? stack.count : want;
  for (size_t i = 0; i < got; ++i) {
    out[i] = stack.blocks[--stack.count];
    SetWaiting(g_space.info[g_space.PageOf(AddressOf(out[i]))], false);
  }
  g_shelf.bytes -= got * ClassBytes(size_class);
  return got;
}

BlockError Shelf::Put(size_t size_class, void** blocks, size_t count, void** wrong) {
  const size_t bytes = ClassBytes(size_class);
  platform::LockGuard guard(g_shelf.lock);
  auto& stack = g_shelf.of[size_class - kFirstMedium];
  for (size_t i = 0; i < count; ++i) {
    const PageNumber head = HeadOf(blocks[i]);
    if (head == kNoPage || g_space.info[head].size_class != size_class ||
        IsWaiting(g_space.info[head])) {
      *wrong = blocks[i];
      return head == kNoPage ? BlockError::kNoBlock : BlockError::kNotOut;
    }
    if (stack.count == kMaxShelfBlocks || g_shelf.bytes + bytes > kMaxShelfBytes) {
      FreeHead(head);
      continue;
    }
    SetWaiting(g_space.info[head], true);
    stack.blocks[stack.count++] = blocks[i];
    g_shelf.bytes += bytes;
  }
  return BlockError::kNone;
}

void Shelf::Clear() {
  platform::LockGuard guard(g_shelf.lock);
  for (auto& stack : g_shelf.of) {
    while (stack.count != 0) FreeHead(g_space.PageOf(AddressOf(stack.blocks[--stack.count])));
  }
  g_shelf.bytes = 0;
}

size_t Shelf::Bytes() {
  platform::LockGuard guard(g_shelf.lock);
  return g_shelf.bytes;
}

void Shelf::LockForFork() { g_shelf.lock.AcquireAmongEquals(); }
void Shelf::UnlockAfterFork() { g_shelf.lock.Release(); }

}  // namespace gleaner::malloc_proxy
