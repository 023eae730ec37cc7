// What `gleaner top` and `gleaner numa` read of a running process, from outside and without its
// help (docs/reference/formats.md).
//
// Most of it are addresses of what the library keeps anyway: nobody writes it for the reader. The
// rest is written once for each collection, under a sequence number: the writer makes it odd,
// writes, and makes it even. Who reads the number, then the figures, then the number again, and
// finds it even and unchanged, has the figures of one collection. The reader's copies are made by
// system calls, each of which reads after the one before it.
//
// Found by a note of the object file (owner "Gleaner"): the distance from the note's descriptor to
// g_live_figures. The structure is metadata and no static variable, since in a program that is
// linked with the static library times among the roots could look like addresses of objects.
#pragma once

#include "gc/collector.h"
#include "platform/os/stalls.h"

namespace gleaner::runtime {

// Where the heap and its page table are. All that there is of a heap without a collector
// (libgleaner_malloc.so).
struct HeapTables {
  static constexpr uint64_t kMagic = 0x33504f544e4c47;  // "GLNTOP3"; changes with the structures

  // Constant once g_live_figures points here.
  uint64_t magic;
  uint64_t bytes;  // of this structure, or of the one that it begins
  char version[16];
  uint64_t page_bytes;
  uint64_t pages;       // reserved
  uint64_t heap_base;   // address of page 0
  uint64_t page_infos;  // addresses of the tables: alloc::PageInfo,
  uint64_t page_metas;  // alloc::PageMeta,
  uint64_t mark_bytes;  // and alloc::kMarkBytesPerPage a page
};

struct LiveFigures : HeapTables {
  static constexpr uint32_t kNoteType = 1;
  static constexpr uint64_t kPauses = 256;

  // Constant once g_live_figures points here.
  uint64_t markers;
  uint64_t metadata_bytes_per_page;  // for each committed page

  // Where a number is that changes while the program runs. Each is true by itself.
  struct Place {
    uint64_t address;
    uint64_t bytes;  // of the number: 1, 4 or 8
  };
  Place resident_pages;
  Place wanted_bytes;        // the minimum size of the heap that the program has asked for
  Place allowance_bytes;     // allocation from one collection to the next; signed
  Place charged_bytes;       // what threads have reported of it; signed
  Place cycle_state;         // gc::CycleState
  Place threads;             // registered
  Place metadata_bytes;      // beside those per page
  Place scanned_end;         // pages below it are committed
  Place pointer_free_begin;  // those from it up to `pages`, too
  Place heaps;               // number of thread heaps
  uint64_t heap_pointers;    // address of an array of their addresses
  // In a thread heap, at this offset: bytes allocated, and bytes given to GC_free, since the start.
  uint64_t offset_in_heap;
  // Rows of `stall_row_bytes` that begin with kStallCauses sums of ns and as many longest ns.
  uint64_t stalls;
  uint64_t stall_rows;
  uint64_t stall_row_bytes;

  // Under the sequence number; written under the collector lock. Times are CLOCK_MONOTONIC, ns.
  using Word = platform::Atomic<uint64_t>;
  Word sequence;
  Word is_concurrent;  // the modes in use
  Word is_generational;
  Word causes[gc::kCauses];  // collections by gc::Cause
  Word kinds[4];             // and by gc::CollectionKind
  Word pause_ns;             // of all collections
  Word longest_pause_ns;
  // The last collection.
  Word cause;
  Word kind;
  Word end_ns;  // of its pause
  Word last_pause_ns;
  Word live_bytes;
  Word live_objects;
  Word freed_bytes;
  Word steals;
  Word finalizable;
  Word allocated_before;  // of all heaps, at its end
  Word freed_before;
  // Of the last kPauses pauses, that of collection n in row (n - 1) % kPauses; 0 ns of an
  // inspection.
  struct Pause {
    Word end_ns;
    Word ns;
  };
  Pause pauses[kPauses];
};

// Null until the heap is used, or if there is no memory for it. Leads to LiveFigures if there is a
// collector.
extern HeapTables* g_live_figures;

// At initialisation, before threads allocate.
void StartLiveFigures();
// The same for a heap without a collector.
void ShowHeapTables();
// After a collection. pre: the collector lock is held.
void RecordCollectionInLiveFigures();

}  // namespace gleaner::runtime
