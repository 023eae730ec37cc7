// Figures of the heap.
//
//   heap      resident pages, or what the program asked for (GC_expand_hp) if that is more
//   used      live at the end of the last collection + allocated since - given to GC_free since
//   free      heap - used
//   unmapped  pages that were resident once and are not now
//
// A thread counts what it allocates when it takes a run of slots. So a figure may be ahead of the
// program by one run for each thread and size class. Reading takes no lock. Figures are consistent
// with each other if they are read under the collector lock and no thread allocates meanwhile.
#pragma once

#include "gc/collector.h"

namespace gleaner::runtime {

struct HeapFigures {
  uint64_t heap_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t unmapped_bytes = 0;
  uint64_t allocated_bytes = 0;           // since the start
  uint64_t allocated_since_gc_bytes = 0;  // part of allocated_bytes, since the last collection
  uint64_t explicitly_freed_bytes = 0;    // by GC_free, since the start
  uint64_t explicitly_freed_since_gc_bytes = 0;  // by GC_free, since the last collection
  uint64_t pages_taken = 0;   // times that a thread began to allocate small objects in a page
  uint64_t remote_pages = 0;  // of these, in a page that another thread had touched first
};

// Any thread may call these at any time, also before initialisation.
HeapFigures ReadHeapFigures();
size_t HeapBytes();
// The largest HeapBytes so far, as of the ends of collections and now.
size_t MaxHeapBytes();
// Bytes of the collector's own tables: for each committed page, and all.
inline constexpr size_t kMetadataBytesPerPage =
    sizeof(alloc::PageInfo) + sizeof(alloc::PageMeta) + alloc::kMarkBytesPerPage;
size_t MetadataBytes();
// Bytes of pages that hold objects. Reads the descriptor of every page.
size_t OccupiedBytes();

// Called at the end of a sweep, with the world stopped: the last collection of the figures.
void RecordHeapFigures();

}  // namespace gleaner::runtime
