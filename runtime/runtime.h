// Life of the runtime: initialisation, and memory for the API.
#pragma once

#include "gc/collector.h"
#include "runtime/options.h"
#include "runtime/printing.h"
#include "runtime/threads.h"

namespace gleaner::runtime {

// For a runtime that serves malloc. Set before Init, constant afterwards.
struct MallocSupport {
  // Allocation may be called with locks of the C library held that other threads need on their way
  // to a stop: a thread whose allocation finds a collection due does not wait long for one that is
  // under way. The loader is not asked for anything, and no collection waits long for a thread that
  // does not stop.
  bool never_wait = false;
  // Asked with the world stopped, before marking: false gives the collection up. May be null.
  bool (*find_roots)() = nullptr;
  // Adds further roots, after all others. May be null.
  void (*add_roots)(gc::RootTasks* roots) = nullptr;
  // After a collection, under its lock; also after one that was given up. May be null.
  void (*collected)(bool done) = nullptr;
  // With the world stopped, when everything reachable is marked: as gc::World::inspect. May be
  // null.
  void (*inspect)(const gc::Marker& marker) = nullptr;
  // Leaks are looked for: what only a dead part of a stack refers to, or a pointer one past an
  // object's end, is to be found.
  bool strict_roots = false;
};
extern MallocSupport g_malloc_support;

// Initialises the runtime and registers the calling thread; a further call does nothing. The first
// allocation does it too. Aborts with a message if the system refuses the minimum.
void Init();
// The same, but without an end: false, and nothing is usable, if the system refuses the minimum
// of address space. The first call of all.
[[nodiscard]] bool TryInit();
bool IsInitialised();
// Also while Init runs.
bool IsInitialisationCalled();

// Makes the calling thread a mutator with a heap, initialising the runtime first if need be. False
// without memory. Cheap if it is one already.
bool AttachThread();
// The same, for who is about to use the heap: a blocking section ends (see DoBlocking).
bool AttachToHeap();

// Bounds the heap; callable before Init. 0 is no limit.
void SetMaxHeap(size_t bytes);

// Runs out of memory: calls the client's procedure and returns what it returns.
void* OutOfMemory(size_t bytes);

// Memory for the API's allocation functions: initialises, attaches the thread, collects and calls
// the out-of-memory procedure as needed.
void* Allocate(alloc::Kind kind, size_t bytes, size_t alignment = alloc::kGranuleBytes,
               bool ignore_off_page = false);

}  // namespace gleaner::runtime
