#include "runtime/collect/statistics.h"

#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "alloc/walk.h"

namespace gleaner::runtime {

using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;
using gc::g_collector;

namespace {

// Relaxed, here and below: each count is true by itself.
uint64_t Read(const uint64_t& count) { return __atomic_load_n(&count, __ATOMIC_RELAXED); }

struct Sums {
  uint64_t allocated = 0;
  uint64_t explicitly_freed = 0;
  uint64_t pages_taken = 0;
  uint64_t remote_pages = 0;
};

// Sums over all thread heaps since the start.
Sums ReadSums() {
  Sums sums;
  const size_t heaps = alloc::ThreadHeaps::count();
  for (size_t i = 0; i < heaps; ++i) {
    const alloc::ThreadHeap& heap = alloc::ThreadHeaps::at(i);
    sums.allocated += Read(heap.allocated_bytes);
    sums.explicitly_freed += Read(heap.freed_bytes);
    sums.pages_taken += Read(heap.pages_taken);
    sums.remote_pages += Read(heap.remote_pages);
  }
  return sums;
}

// Values at the end of the last collection. Written with the world stopped.
constinit platform::Hint<uint64_t> g_allocated_before{0};
constinit platform::Hint<uint64_t> g_explicitly_freed_before{0};
constinit platform::Hint<size_t> g_max_heap_bytes{0};

// a - b, or 0 if it is negative because the counts were read at different times.
uint64_t Difference(uint64_t a, uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

size_t HeapBytes() {
  const size_t resident = alloc::ResidentBytes();
  const size_t wanted = g_collector.pacer().wanted_bytes();
  return resident > wanted ? resident : wanted;
}

size_t MaxHeapBytes() {
  const size_t now = HeapBytes();
  const size_t before = g_max_heap_bytes.Get();
  return now > before ? now : before;
}

void RecordHeapFigures() {
  const Sums sums = ReadSums();
  g_allocated_before.Set(sums.allocated);
  g_explicitly_freed_before.Set(sums.explicitly_freed);
  g_max_heap_bytes.Set(MaxHeapBytes());
}

HeapFigures ReadHeapFigures() {
  const gc::CycleReport& last = g_collector.last();
  const Sums sums = ReadSums();
  HeapFigures figures;
  // A collection that ends meanwhile may show in some figures and not in others.
  figures.allocated_bytes = sums.allocated;
  figures.allocated_since_gc_bytes = Difference(sums.allocated, g_allocated_before.Get());
  figures.explicitly_freed_bytes = sums.explicitly_freed;
  figures.explicitly_freed_since_gc_bytes =
      Difference(sums.explicitly_freed, g_explicitly_freed_before.Get());
  figures.pages_taken = sums.pages_taken;
  figures.remote_pages = sums.remote_pages;
  figures.heap_bytes = HeapBytes();
  figures.free_bytes = Difference(
      figures.heap_bytes, Difference(Read(last.live_bytes) + figures.allocated_since_gc_bytes,
                                     figures.explicitly_freed_since_gc_bytes));
  figures.unmapped_bytes = Difference(MaxHeapBytes(), figures.heap_bytes);
  return figures;
}

size_t MetadataBytes() {
  return alloc::CommittedPages() * kMetadataBytesPerPage + alloc::MetaBytes();
}

size_t OccupiedBytes() {
  size_t pages = 0;
  alloc::ForEachPage([&pages](PageNumber, const PageInfo& info) {
    pages += info.state == PageState::kSmall || info.state == PageState::kLarge ||
             info.state == PageState::kTail;
  });
  return pages * alloc::kPageBytes;
}

}  // namespace gleaner::runtime
