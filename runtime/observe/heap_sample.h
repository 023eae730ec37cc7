// What the pages of the heap are used for, as events of a collector trace: by size class, and by
// the thread heap that owns them.
//
// A sample looks at 4,096 pages at most, drawn at random from as many parts of the heap of the same
// length, and multiplies what it finds. So it takes about a millisecond, however large the heap
// is. Threads go on meanwhile: each page is as it was at some instant (alloc/walk.h).
#pragma once

namespace gleaner::runtime {

// Emits the events SizeClass and HeapPages, all with the same time. One thread at a time,
// which the caller sees to; not with the world stopped.
void EmitHeapSample();

// Emits an event NodeMemory for each memory node that the process has memory of, if the machine has
// several. Its time rises with the process's memory: 0.15 s for 10 GB in OS pages of 4 KiB.
void EmitNodeMemory();

}  // namespace gleaner::runtime
