// Figures of the heap, and what they are made of.
//
//   heap      resident pages, or what the program asked for (GC_expand_hp) if that is more
//   used      live at the end of the last collection + allocated since - given to GC_free since
//   free      heap - used
//   unmapped  pages that were resident once and are not now
//
// A thread counts what it allocates when it takes a run of slots, so a figure may be ahead of the
// program by a run a thread and size class. Reading takes no lock; figures belong together if they
// are read under the collector lock and nobody allocates meanwhile.
#pragma once

#include "gc/collector.h"

namespace gleaner::runtime {

struct HeapFigures {
  uint64_t heap_bytes = 0;
  uint64_t free_bytes = 0;
  uint64_t unmapped_bytes = 0;
  uint64_t allocated_bytes = 0;                  // since the start
  uint64_t allocated_since_gc_bytes = 0;         // of these, since the last collection
  uint64_t explicitly_freed_bytes = 0;           // by GC_free, since the start
  uint64_t explicitly_freed_since_gc_bytes = 0;  // likewise
};

// All of these: any thread, at any time, before initialisation too.
HeapFigures ReadHeapFigures();
size_t HeapBytes();
// The largest HeapBytes at the end of a collection or now.
size_t MaxHeapBytes();
// The collector's own tables.
size_t MetadataBytes();
// Pages that hold objects. Looks at the descriptor of every page.
size_t OccupiedBytes();

// At the end of a sweep, with the world stopped.
void NoteCollection();

}  // namespace gleaner::runtime
