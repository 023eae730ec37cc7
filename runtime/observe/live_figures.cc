#include "runtime/observe/live_figures.h"

#include <cstdio>
#include <new>

#include "alloc/metadata/meta.h"
#include "alloc/page_space.h"
#include "alloc/thread_heaps.h"
#include "runtime/collect/statistics.h"
#include "runtime/collect/tracking.h"
#include "runtime/threads/registry.h"

namespace gleaner::runtime {

using gc::g_collector;
using platform::memory_order_relaxed;
using platform::memory_order_release;

constinit __attribute__((used)) HeapTables* g_live_figures = nullptr;

// Words 1 to 3: bytes of the owner's name and of the descriptor, LiveFigures::kNoteType.
asm(".pushsection .note.gleaner, \"a\", \"note\"\n"
    ".balign 4\n"
    ".4byte 8, 8, 1\n"
    ".asciz \"Gleaner\"\n"
    "0: .8byte _ZN7gleaner7runtime14g_live_figuresE - 0b\n"
    ".popsection");

namespace {

template <class T>
LiveFigures::Place PlaceOf(const T& number) {
  return {AddressOf(&number), sizeof number};
}

void Set(LiveFigures::Word* word, uint64_t value) {
  word->Store(value, memory_order_relaxed);  // between the sequence numbers
}
void AddOne(LiveFigures::Word* word) { Set(word, word->Load(memory_order_relaxed) + 1); }

void FillTables(size_t bytes, HeapTables* tables) {
  tables->magic = HeapTables::kMagic;
  tables->bytes = bytes;
  snprintf(tables->version, sizeof tables->version, "%s", GLEANER_VERSION);
  tables->page_bytes = alloc::kPageBytes;
  tables->pages = alloc::g_space.page_count();
  tables->heap_base = alloc::g_space.base;
  tables->page_infos = AddressOf(alloc::g_space.info);
  tables->page_metas = AddressOf(alloc::g_space.meta);
  tables->mark_bytes = AddressOf(alloc::g_space.marks);
}

// Release: who finds the pointer finds what it points to. Pairs with the reader's system calls.
void Show(HeapTables* tables) { __atomic_store_n(&g_live_figures, tables, __ATOMIC_RELEASE); }

void StoreModes(LiveFigures* figures) {
  const Modes modes = ModesInUse();
  Set(&figures->is_concurrent, modes.concurrent ? 1 : 0);
  Set(&figures->is_generational, modes.generational ? 1 : 0);
}

}  // namespace

void StartLiveFigures() {
  void* memory = alloc::MetaAllocate(sizeof(LiveFigures));
  if (memory == nullptr) return;
  auto* figures = new (memory) LiveFigures{};
  FillTables(sizeof *figures, figures);
  figures->markers = static_cast<uint64_t>(g_collector.pool().size());
  figures->metadata_bytes_per_page = kMetadataBytesPerPage;

  figures->resident_pages = PlaceOf(alloc::ResidentPages());
  figures->wanted_bytes = PlaceOf(g_collector.pacer().wanted_bytes_place());
  figures->allowance_bytes = PlaceOf(g_collector.pacer().allowance_place());
  figures->charged_bytes = PlaceOf(g_collector.pacer().allocated_place());
  figures->cycle_state = PlaceOf(g_collector.cycle().state_place());
  figures->threads = PlaceOf(g_registry.count);
  figures->metadata_bytes = PlaceOf(alloc::MetaBytesPlace());
  figures->scanned_end = PlaceOf(alloc::g_space.scanned_end);
  figures->pointer_free_begin = PlaceOf(alloc::g_space.pointer_free_begin);
  figures->heaps = PlaceOf(alloc::ThreadHeaps::count_place());
  figures->heap_pointers = AddressOf(&alloc::ThreadHeaps::first_place());
  const alloc::ThreadHeap& heap = alloc::ThreadHeaps::at(0);
  figures->offset_in_heap = AddressOf(&heap.allocated_bytes) - AddressOf(&heap);
  GLEANER_CHECK(&heap.freed_bytes == &heap.allocated_bytes + 1, "the reader takes both");
  const platform::StallRows stalls = platform::RowsOfStalls();
  figures->stalls = AddressOf(stalls.first);
  figures->stall_rows = stalls.count;
  figures->stall_row_bytes = stalls.row_bytes;
  StoreModes(figures);
  Show(figures);
}

void ShowHeapTables() {
  void* memory = alloc::MetaAllocate(sizeof(HeapTables));
  if (memory == nullptr) return;
  auto* tables = new (memory) HeapTables{};
  FillTables(sizeof *tables, tables);
  Show(tables);
}

void RecordCollectionInLiveFigures() {
  auto* f = static_cast<LiveFigures*>(g_live_figures);
  if (f == nullptr) return;
  const gc::CycleReport& last = g_collector.last();
  const gc::CollectorTotals& totals = g_collector.totals();
  const HeapFigures heap = ReadHeapFigures();
  // Relaxed: only the holder of the collector lock writes it. A child by fork may have it odd.
  const uint64_t odd = f->sequence.Load(memory_order_relaxed) | 1;
  f->sequence.Store(odd, memory_order_relaxed);
  // A reader that sees any of the figures sees the odd number after that.
  std::atomic_thread_fence(memory_order_release);
  StoreModes(f);
  AddOne(&f->causes[static_cast<int>(last.cause)]);
  AddOne(&f->kinds[static_cast<int>(KindOf(last))]);
  Set(&f->pause_ns, totals.pauses.all_ns);
  Set(&f->longest_pause_ns, totals.longest_pause.all_ns);
  Set(&f->cause, static_cast<uint64_t>(last.cause));
  Set(&f->kind, static_cast<uint64_t>(KindOf(last)));
  Set(&f->end_ns, last.end_ns);
  Set(&f->last_pause_ns, last.pause.all_ns);
  Set(&f->live_bytes, last.live_bytes);
  Set(&f->live_objects, last.live_objects);
  Set(&f->freed_bytes, last.freed_bytes);
  Set(&f->steals, last.steals);
  Set(&f->finalizable, last.finalizable);
  Set(&f->allocated_before, heap.allocated_bytes - heap.allocated_since_gc_bytes);
  Set(&f->freed_before, heap.explicitly_freed_bytes - heap.explicitly_freed_since_gc_bytes);
  LiveFigures::Pause& pause = f->pauses[(totals.collections - 1) % LiveFigures::kPauses];
  Set(&pause.end_ns, last.end_ns);
  Set(&pause.ns, last.cause == gc::Cause::kInspection ? 0 : last.pause.all_ns);
  // Release: the figures come before it.
  f->sequence.Store(odd + 1, memory_order_release);
}

}  // namespace gleaner::runtime
