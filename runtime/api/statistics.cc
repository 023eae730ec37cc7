// The GC_ API and gleaner.h: statistics.
#include "runtime/collect/statistics.h"

#include "alloc/page_space.h"
#include "platform/costs/machine_costs.h"
#include "runtime/api/api.h"

using runtime::HeapFigures;

namespace {

// Total pause time when the program turned measuring on, and whether it did.
constinit uint64_t g_pauses_before_ns = 0;
constinit bool g_measuring = false;

// Relaxed: a count that a collection may be changing; no other data depends on it.
uint64_t TotalPauseNs() {
  return __atomic_load_n(&g_collector.totals().pauses.all_ns, __ATOMIC_RELAXED);
}

uint64_t ObtainedBytes() { return runtime::MaxHeapBytes() + runtime::MetadataBytes(); }

}  // namespace

extern "C" {

GC_word GC_get_gc_no(void) { return GC_gc_no; }

size_t GC_get_heap_size(void) { return runtime::HeapBytes(); }
size_t GC_get_free_bytes(void) { return runtime::ReadHeapFigures().free_bytes; }
size_t GC_get_unmapped_bytes(void) { return runtime::ReadHeapFigures().unmapped_bytes; }
size_t GC_get_bytes_since_gc(void) { return runtime::ReadHeapFigures().allocated_since_gc_bytes; }
size_t GC_get_expl_freed_bytes_since_gc(void) {
  return runtime::ReadHeapFigures().explicitly_freed_since_gc_bytes;
}
size_t GC_get_total_bytes(void) { return runtime::ReadHeapFigures().allocated_bytes; }
size_t GC_get_obtained_from_os_bytes(void) { return ObtainedBytes(); }

void GC_get_heap_usage_safe(GC_word* heap_size, GC_word* free_bytes, GC_word* unmapped_bytes,
                            GC_word* bytes_since_gc, GC_word* total_bytes) {
  HeapFigures figures;
  {
    platform::LockGuard guard(g_collector.lock());
    figures = runtime::ReadHeapFigures();
  }
  if (heap_size != nullptr) *heap_size = figures.heap_bytes;
  if (free_bytes != nullptr) *free_bytes = figures.free_bytes;
  if (unmapped_bytes != nullptr) *unmapped_bytes = figures.unmapped_bytes;
  if (bytes_since_gc != nullptr) *bytes_since_gc = figures.allocated_since_gc_bytes;
  if (total_bytes != nullptr) *total_bytes = figures.allocated_bytes;
}

void GC_incr_bytes_allocd(size_t bytes) {
  if (!runtime::AttachToHeap()) return;
  platform::AddToOwn(&alloc::t_heap->allocated_bytes, bytes);
  // What the program allocates elsewhere makes collections due.
  g_collector.pacer().CountAllocated(
      static_cast<ptrdiff_t>(bytes < PTRDIFF_MAX / 4 ? bytes : PTRDIFF_MAX / 4));
}
void GC_incr_bytes_freed(size_t bytes) {
  if (runtime::AttachToHeap()) platform::AddToOwn(&alloc::t_heap->freed_bytes, bytes);
}

size_t GC_get_memory_use(void) {
  platform::LockGuard guard(g_collector.lock());
  return runtime::OccupiedBytes();
}

size_t GC_get_prof_stats_unsafe(GC_prof_stats_s* stats, size_t size) {
  if (RejectNull("GC_get_prof_stats", "the result", stats)) return 0;
  const HeapFigures figures = runtime::ReadHeapFigures();
  const uint64_t reclaimed_last = g_collector.last().freed_bytes;
  GC_prof_stats_s all;
  all.heapsize_full = figures.heap_bytes + figures.unmapped_bytes;
  all.free_bytes_full = figures.free_bytes + figures.unmapped_bytes;
  all.unmapped_bytes = figures.unmapped_bytes;
  all.bytes_allocd_since_gc = figures.allocated_since_gc_bytes;
  all.allocd_bytes_before_gc = figures.allocated_bytes - figures.allocated_since_gc_bytes;
  all.non_gc_bytes = GC_non_gc_bytes;
  all.gc_no = GC_gc_no;
  all.markers_m1 = static_cast<GC_word>(GC_parallel);
  all.bytes_reclaimed_since_gc = reclaimed_last;
  all.reclaimed_bytes_before_gc = g_collector.totals().freed_bytes - reclaimed_last;
  all.expl_freed_bytes_since_gc = figures.explicitly_freed_since_gc_bytes;
  all.obtained_from_os_bytes = ObtainedBytes();
  const size_t filled = CopyOut(stats, size, &all, sizeof all);
  memset(reinterpret_cast<char*>(stats) + filled, 0xff, size - filled);
  return filled;
}

size_t GC_get_prof_stats(GC_prof_stats_s* stats, size_t size) {
  platform::LockGuard guard(g_collector.lock());
  return GC_get_prof_stats_unsafe(stats, size);
}

void GC_start_performance_measurement(void) {
  if (g_measuring) return;
  g_pauses_before_ns = TotalPauseNs();
  g_measuring = true;
}

unsigned long GC_get_full_gc_total_time(void) {
  return g_measuring ? (TotalPauseNs() - g_pauses_before_ns) / 1000000 : 0;
}

const char* gleaner_version(void) { return GLEANER_VERSION; }

size_t gleaner_get_stats(gleaner_stats* stats, size_t size) {
  if (RejectNull("gleaner_get_stats", "the result", stats)) return 0;
  gleaner_stats all = {};
  {
    platform::LockGuard guard(g_collector.lock());
    const auto& last = g_collector.last();
    const auto& totals = g_collector.totals();
    all.collections = totals.collections;
    all.live_bytes = last.live_bytes;
    all.heap_bytes = alloc::ResidentBytes();
    all.last_pause_ns = last.pause.all_ns;
    const uint64_t pauses = totals.collections - totals.inspections;
    all.mean_pause_ns = pauses != 0 ? totals.pauses.all_ns / pauses : 0;
    all.max_pause_ns = totals.longest_pause.all_ns;
    all.total_pause_ns = totals.pauses.all_ns;
    all.mark_ns = last.pause.of(gc::PausePart::kMark);
    all.markers = static_cast<uint64_t>(last.markers);
    all.bytes_freed_last = last.freed_bytes;
    all.metadata_bytes = runtime::MetadataBytes();
    all.minor_collections = totals.minors;
    all.minor_pause_ns = totals.minor_ns;
    all.concurrent_collections = totals.concurrent;
    all.concurrent_sweeps = totals.concurrent_sweeps;
    const ptrdiff_t allocated = g_collector.pacer().allocated();
    all.allocated_bytes = allocated > 0 ? static_cast<uint64_t>(allocated) : 0;
    all.allowance_bytes = static_cast<uint64_t>(g_collector.pacer().allowance());
    const HeapFigures figures = runtime::ReadHeapFigures();
    all.pages_taken = figures.pages_taken;
    all.remote_pages = figures.remote_pages;
    all.first_write_ns = platform::g_machine_costs.first_write_ns();
  }
  return CopyOut(stats, size, &all, sizeof all);
}

}  // extern "C"
