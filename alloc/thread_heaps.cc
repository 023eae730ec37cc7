#include "alloc/thread_heaps.h"

#include <new>

#include "alloc/mark_bytes.h"
#include "alloc/metadata/meta.h"
#include "alloc/page_space.h"
#include "platform/nodes/topology.h"

namespace gleaner::alloc {
namespace {

using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;

// A thief takes this many free pages at most.
constexpr PageNumber kStealBatch = 8;

// Free pages that do not fit are given back in portions of one part in this many of the heap, or of
// the request if that is larger.
constexpr size_t kReleasedAtOnce = 64;

constexpr size_t kMaxHeaps = 65535;  // PageMeta::owner has 16 bits

struct Shared {
  Policy policy = Policy::kLps;
  double k = 1;
  ReservedArray<ThreadHeap*> heaps;  // entries [0, count) are constant
  platform::Atomic<size_t> count{0};
  size_t first_of_threads = 1;  // constant after Init
  // By NodeMark; null: the node has no list. Constant after Init.
  ThreadHeap* of_node[kPlaced + 1] = {};
  // The largest number of pages of each space seen in use (the thesis's max(l)).
  platform::Hint<uint32_t> max_live[2] = {};
  platform::Lock create{platform::LockRank::kHeaps};  // serialises creation and adoption
};
constinit Shared g_shared;

// Calls f(heap) for the heaps [first, count) until it returns a page: those of the nearest node
// first, as far as `farthest`, and among equals those with neighbouring indices, since heaps get
// their indices in the order in which their threads start.
template <class F>
PageNumber AskNearestFirst(const ThreadHeap* thief, size_t first, uint16_t farthest, F f) {
  const size_t heaps = ThreadHeaps::count() - first;
  const auto ask = [&](int distance) {
    for (size_t i = 1; i <= heaps; ++i) {
      ThreadHeap& heap = ThreadHeaps::at(first + (thief->index - first + i) % heaps);
      if (distance >= 0 && DistanceBetween(thief->node(), heap.node()) != distance) continue;
      const PageNumber page = f(heap);
      if (page != kNoPage) return page;
    }
    return kNoPage;
  };
  if (GLEANER_LIKELY(!g_space.by_node)) return ask(-1);
  for (int asked = -1;;) {
    int next = farthest + 1;
    for (size_t i = 0; i < heaps; ++i) {
      const int distance = DistanceBetween(thief->node(), ThreadHeaps::at(first + i).node());
      if (distance > asked && distance < next) next = distance;
    }
    if (next > farthest) return kNoPage;
    const PageNumber page = ask(next);
    if (page != kNoPage) return page;
    asked = next;
  }
}

}  // namespace

constinit bool g_free_counts_lack = false;

bool ThreadHeaps::Init(Policy policy, double k) {
  g_shared.policy = policy;
  g_shared.k = k;
  if (!g_shared.heaps.Reserve(kMaxHeaps)) return false;
  platform::LockGuard guard(g_shared.create);
  // Heap 0 belongs to no thread; it has the shared list of PS.
  if (Make() == nullptr || !MakeListsOfNodes()) return false;
  g_shared.first_of_threads = count();
  return true;
}

bool ThreadHeaps::MakeListsOfNodes() {
  if (!g_space.by_node || g_shared.policy != Policy::kLps) return true;
  platform::NodeSet nodes;
  if (!platform::GetAllowedNodes(&nodes)) return true;
  for (int node = nodes.First(); node >= 0; node = nodes.Next(node)) {
    const NodeMark mark = NodeMarkOf(node);
    if (mark == kNoNode) continue;
    ThreadHeap* list = Make();
    if (list == nullptr) return false;
    list->node_.Set(mark);
    g_shared.of_node[mark] = list;
  }
  return true;
}

size_t ThreadHeaps::first_of_threads() { return g_shared.first_of_threads; }

// Acquire: pairs with the release in Acquire, so the counted entries are visible.
size_t ThreadHeaps::count() { return g_shared.count.Load(memory_order_acquire); }
size_t ThreadHeaps::active() {
  size_t active = 0;
  for (size_t i = first_of_threads(); i < count(); ++i) {
    active += at(i).abandoned_.Get() ? 0 : 1;
  }
  return active == 0 ? 1 : active;
}
ThreadHeap& ThreadHeaps::at(size_t index) { return *g_shared.heaps[index]; }
const platform::Atomic<size_t>& ThreadHeaps::count_place() { return g_shared.count; }
ThreadHeap* const& ThreadHeaps::first_place() { return g_shared.heaps[0]; }
Policy ThreadHeaps::policy() { return g_shared.policy; }
double ThreadHeaps::k() { return g_shared.k; }

ThreadHeap* ThreadHeaps::Acquire() {
  platform::LockGuard guard(g_shared.create);
  const NodeMark here = g_space.by_node ? NodeMarkOf(platform::CurrentNode()) : kNoNode;
  ThreadHeap* heap = Adopt(here);
  if (heap != nullptr) return heap;
  heap = Make();
  if (heap == nullptr) return Adopt(kNoNode);  // one of another node is better than none
  heap->node_.Set(here);
  return heap;
}

ThreadHeap* ThreadHeaps::Adopt(NodeMark node) {
  const size_t heaps = count();
  for (size_t i = first_of_threads(); i < heaps; ++i) {
    ThreadHeap& heap = at(i);
    if (!heap.abandoned_.Get()) continue;  // decided under its lock below
    // Its pages are on the node of the thread that has ended.
    if (node != kNoNode && heap.node() != node && heap.node() != kNoNode) continue;
    platform::LockGuard heap_guard(heap.lock_);
    heap.abandoned_.Set(false);
    return &heap;
  }
  return nullptr;
}

ThreadHeap* ThreadHeaps::Make() {
  const size_t heaps = count();
  if (!g_shared.heaps.EnsureCommitted(heaps + 1)) return nullptr;
  // In one piece with its sampler: what MetaAllocate returns is never given back.
  constexpr size_t kSamplerOffset = AlignUp(sizeof(ThreadHeap), alignof(Sampler));
  const bool is_sampled = g_sample_mean_bytes != 0;
  void* memory = MetaAllocate(is_sampled ? kSamplerOffset + sizeof(Sampler) : sizeof(ThreadHeap));
  if (memory == nullptr) return nullptr;
  auto* heap = new (memory) ThreadHeap(static_cast<uint16_t>(heaps));
  for (size_t kind = 0; kind < kBuiltInKinds; ++kind) {
    for (auto& head : heap->partial_[kind])
      head.Store(kNoPage, memory_order_relaxed);  // not shared
  }
  if (is_sampled) {
    void* sampler = static_cast<char*>(memory) + kSamplerOffset;
    heap->sampler = new (sampler) Sampler(Mix64(g_sample_seed + heaps));
  }
  g_shared.heaps[heaps] = heap;
  g_shared.count.Store(heaps + 1, memory_order_release);  // pairs with count()
  return heap;
}

void ThreadHeaps::Abandon(ThreadHeap* heap) {
  platform::CriticalSection section;
  heap->Retire();
  platform::LockGuard guard(heap->lock_);
  heap->abandoned_.Set(true);  // read under lock_ where it matters
}

ThreadHeap& ThreadHeaps::HomeOfFree(PageNumber page) {
  if (g_shared.policy == Policy::kPageShared) return at(0);
  // Relaxed: the caller keeps others from taking the page.
  ThreadHeap& owner = at(g_space.meta[page].owner.Load(memory_order_relaxed));
  if (GLEANER_LIKELY(!g_space.by_node)) return owner;
  // The thread may have gone to another node since, or taken the page from there.
  const NodeMark node = NodeOfPage(page);
  ThreadHeap* list = node == owner.node() ? nullptr : g_shared.of_node[node];
  return list == nullptr ? owner : *list;
}

void ThreadHeaps::Settle(PageNumber page) {
  // Relaxed: the heap looks again.
  while (!at(g_space.meta[page].owner.Load(memory_order_relaxed)).Settle(page, kShareOfFree)) {
  }
}

PageNumber ThreadHeaps::TakeOfNode(Space space, NodeMark node) {
  ThreadHeap* list = g_shared.of_node[node];
  return list == nullptr ? kNoPage : list->PopFree(space);
}

bool ThreadHeaps::GiveToNode(PageNumber page) {
  ThreadHeap* list = g_shared.of_node[NodeOfPage(page)];
  if (list != nullptr) list->PushFree(page);
  return list != nullptr;
}

PageNumber ThreadHeaps::Steal(Space space, const ThreadHeap* thief) {
  if (g_shared.policy == Policy::kPageShared) return kNoPage;  // PopFree has looked already
  const auto s = static_cast<size_t>(space);
  return AskNearestFirst(thief, 0, kFarthest, [space, s, thief](ThreadHeap& victim) {
    if (&victim == thief || victim.free_pages(space) == 0) return kNoPage;
    PageNumber first;  // of the pages taken, which stay linked
    {
      platform::LockGuard guard(victim.lock_);
      first = victim.free_head_[s];
      if (first == kNoPage) return kNoPage;
      const PageNumber half = (victim.free_pages(space) + 1) / 2;
      const PageNumber want = half < kStealBatch ? half : kStealBatch;
      PageNumber last = first;
      PageNumber taken = 1;
      for (; taken < want && g_space.meta[last].next != kNoPage; ++taken) {
        last = g_space.meta[last].next;
      }
      victim.free_head_[s] = g_space.meta[last].next;
      g_space.meta[last].next = kNoPage;
      victim.free_count_[s].Set(victim.free_pages(space) - taken);
    }
    for (PageNumber page = g_space.meta[first].next; page != kNoPage;) {
      const PageNumber next = g_space.meta[page].next;  // PushFree links it anew
      at(thief->index).PushFree(page);
      page = next;
    }
    return first;
  });
}

// Where taking more than k times the need so far is the alternative, a page of another node is
// better. Abandoned pages count as needed, so this compares with the need before the request.
bool ThreadHeaps::WantsPartialOfAnyNode(Space space) {
  if (!g_space.by_node || g_shared.policy == Policy::kPageShared) return true;
  if (g_shared.policy == Policy::kAllLocal) return false;
  const uint32_t max = g_shared.max_live[static_cast<size_t>(space)].Get();
  return PageSpaceOf(space).taken().value() + 1 > g_shared.k * max;
}

PageNumber ThreadHeaps::StealPartial(Kind kind, size_t size_class, const ThreadHeap* thief,
                                     bool of_any_node) {
  const uint16_t farthest = of_any_node || WantsPartialOfAnyNode(SpaceOf(kind))
                                ? kFarthest
                                : DistanceBetween(thief->node(), thief->node());
  return AskNearestFirst(thief, first_of_threads(), farthest, [=](ThreadHeap& heap) {
    if (!heap.abandoned_.Get()) return kNoPage;  // decided below
    auto& head = heap.partial_[static_cast<size_t>(kind)][size_class];
    if (head.Load(memory_order_relaxed) == kNoPage) return kNoPage;  // a hint
    platform::LockGuard guard(heap.lock_);
    if (!heap.abandoned_.Get()) return kNoPage;
    if (static_cast<size_t>(kind) >= heap.kinds_) return kNoPage;
    return heap.PopPartialLocked(kind, size_class, *thief);
  });
}

bool ThreadHeaps::ShouldShare(Space space, PageCount pages) {
  if (g_shared.policy != Policy::kLps) return false;
  uint32_t free = 0;
  const size_t heaps = count();
  for (size_t i = 0; i < heaps; ++i) free += at(i).free_pages(space);
  const uint32_t taken = PageSpaceOf(space).taken().value();
  const uint32_t live = (taken > free ? taken - free : 0) + pages.value();
  auto& max_live = g_shared.max_live[static_cast<size_t>(space)];
  if (live > max_live.Get()) max_live.Set(live);  // the next miss repeats a lost update
  return free != 0 && taken + pages.value() > g_shared.k * max_live.Get();
}

void ThreadHeaps::FlushFreePages(Space space) {
  const size_t heaps = count();
  for (size_t i = 0; i < heaps; ++i) at(i).FlushFreePages(space);
}

size_t ThreadHeaps::ResidentFreePages(Space space) {
  size_t free = PageSpaceOf(space).resident_free().value();
  for (size_t i = 0; i < count(); ++i) free += at(i).free_pages(space);
  return free;
}

size_t ThreadHeaps::ReleaseToMakeRoom(size_t bytes, size_t min_share) {
  size_t free = 0;
  for (const Space space : {Space::kScanned, Space::kPointerFree}) free += ResidentFreePages(space);
  if (free * min_share < (ResidentBytes() >> kPageShift)) return 0;
  const size_t traded = Trade(Space::kScanned, bytes);
  return traded >= bytes ? traded : traded + Trade(Space::kPointerFree, bytes - traded);
}

void ThreadHeaps::CheckForTesting() {
  size_t listed = 0;
  for (size_t i = 0; i < count(); ++i) listed += at(i).CheckListsForTesting();
  size_t partial = 0;
  ForEachPage([&partial](PageNumber page, const PageInfo& info) {
    const PageMeta& meta = g_space.meta[page];
    // An unswept page may still say kPartial from before the cycle.
    if (info.state != PageState::kSmall || !IsSwept(meta)) return;
    partial += meta.listing() == Listing::kPartial ? 1 : 0;
    if (meta.listing() == Listing::kCurrent || g_free_counts_lack) return;
    const uint32_t free =
        info.slot_count - CountInUse(g_space.MarksOf(page), info.slot_count, kFreeSlot);
    GLEANER_CHECK(meta.standing().free() >= free,
                  "[inv.free-slots] page %u counts %u free slots and has %u", page,
                  meta.standing().free(), free);
  });
  GLEANER_CHECK(listed == partial, "[inv.listed-once] %zu of %zu partial pages are on a list",
                listed, partial);
}

size_t ThreadHeaps::Trade(Space space, size_t bytes) {
  const size_t min = ResidentBytes() / kReleasedAtOnce;
  const size_t enough = AlignUp(bytes < min ? min : bytes, kPageBytes) >> kPageShift;
  FlushFreePages(space);
  // Long spans first: best fit takes the short ones first, so these should stay resident.
  size_t traded = 0;
  for (uint32_t min_pages = PageSpace::kDiscardPages.value(); min_pages != 0 && traded < enough;
       min_pages /= 8) {
    traded += PageSpaceOf(space).DiscardFree(PageCount(min_pages), enough - traded) >> kPageShift;
  }
  return traded << kPageShift;
}

void ThreadHeaps::LockForFork() { g_shared.create.Acquire(); }
void ThreadHeaps::UnlockAfterFork() { g_shared.create.Release(); }

void ThreadHeaps::LockListsForFork() {
  for (size_t i = 0; i < count(); ++i) at(i).lock_.AcquireAmongEquals();
}
void ThreadHeaps::UnlockListsAfterFork() {
  for (size_t i = 0; i < count(); ++i) at(i).lock_.Release();
}

// A page of small objects, while no page is on a list of partial pages. Its count of free slots may
// lack the slot that a vanished thread was giving back, and a current page's is not exact.
void ThreadHeaps::SettleAfterFork(PageNumber page, const ThreadHeap* survivor) {
  PageMeta& meta = g_space.meta[page];
  const uint16_t owner = meta.owner.Load(memory_order_relaxed);  // a single thread is left
  if (meta.listing() == Listing::kCurrent) {
    if (survivor != nullptr && owner == survivor->index) return;
    const uint32_t slots = g_space.info[page].slot_count;
    const uint32_t used = CountInUse(g_space.MarksOf(page), slots, kFreeSlot);
    meta.SetStanding({Listing::kUnlisted, slots - used});
  } else if (IsSwept(meta)) {
    meta.SetStanding({Listing::kUnlisted, meta.standing().free()});
  }
  Settle(page);
}

void ThreadHeaps::ResetAfterFork(ThreadHeap* survivor) {
  g_shared.create.ResetAfterFork();
  g_free_counts_lack |= active() > 1;
  const size_t heaps = count();
  for (size_t i = 0; i < heaps; ++i) {
    ThreadHeap& heap = at(i);
    heap.lock_.ResetAfterFork();
    // A thread may have vanished in the middle of a list operation, so all lists are rebuilt.
    for (size_t s = 0; s < 2; ++s) {
      heap.free_head_[s] = kNoPage;
      heap.free_count_[s].Set(0);
    }
    heap.DropListsWorldStopped();
    if (&heap == survivor || i < first_of_threads()) continue;
    heap.GiveBackAfterFork();
    heap.abandoned_.Set(true);
  }
  ThreadHeap& home =
      survivor != nullptr && g_shared.policy != Policy::kPageShared ? *survivor : at(0);
  // Frees the pages that were on a free list, or that a vanished thread had taken.
  for (const Space which : {Space::kScanned, Space::kPointerFree}) {
    PageSpace& space = PageSpaceOf(which);
    for (PageNumber page = FirstCommitted(which); page < EndCommitted(which);) {
      const PageState state = g_space.info[page].state;
      PageMeta& meta = g_space.meta[page];
      if (state == PageState::kUnused) {
        ++page;
        continue;
      }
      // Also for small pages: a span that could not be split is larger than the request, and the
      // pages at its end are not spans.
      const PageCount pages = space.SpanPages(page);
      const bool left_half_way = state == PageState::kSmall && meta.listing() == Listing::kFree;
      if (left_half_way) {
        // The thread that found it empty has not put it on a list of free pages.
        home.PushFree(page);
      } else if (state == PageState::kSmall) {
        SettleAfterFork(page, survivor);
      } else {
        PageNumber head = page;
        while (g_space.info[head].state == PageState::kPadding) ++head;
        const bool is_in_hand = survivor != nullptr && survivor->span_in_hand == page;
        if (g_space.info[head].state == PageState::kTaken && !is_in_hand) {
          if (pages == PageCount(1)) {
            home.PushFree(page);
          } else {
            space.Free(page);
          }
        }
      }
      page = page + pages;
    }
  }
}

}  // namespace gleaner::alloc
