// Heap snapshots: GLEANER_SNAPSHOT and gleaner_heap_snapshot (docs/reference/heap.md).
//
// A snapshot is part of an explicit collection, which is stop-parallel and marks the whole heap.
// When it is decided which objects live, the collecting thread writes them, with the world stopped
// (gc/inspect/snapshot_walk.h). It holds the collector lock and the threads lock, so that nobody
// changes roots, threads, finalizers and links. Memory and file are had before the stop; in the
// stop nothing is allocated and no lock is taken but the loader's, which the stop has had before.
//
// One snapshot at a time; other threads wait for a minute at most (runtime/observe/writer_lock.h).
#pragma once

#include "gc/mark/marker.h"

namespace gleaner::runtime {

// Prepares for the snapshots that the options ask for. Complains if it cannot. Once.
void StartSnapshots();

// Takes the snapshot that a signal has asked for, if the calling thread may collect. When a thread
// reports what it has allocated, and after a collection; not with a lock.
void ContinueSnapshots();

// Writes a snapshot to the file. Returns 0 or the number of an error, as gleaner_heap_snapshot.
int TakeSnapshot(const char* path);

// gc::World::inspect: writes the snapshot that the calling thread has asked for.
void WriteSnapshotWorldStopped(const gc::Marker& marker, const gc::RootTasks& roots,
                               const gc::MarkConfig& config);

// In a forked child, by its only thread.
void ResetSnapshotsAfterFork();

}  // namespace gleaner::runtime
