// Initialisation of the runtime, attachment of threads, and memory for the API.
#pragma once

#include "gc/collector.h"
#include "runtime/debug/printing.h"
#include "runtime/process/options.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

// What a runtime that serves malloc wants different. Set before Init, constant afterwards.
struct MallocSupport {
  // Allocation may be called with locks of the C library held that other threads need on their way
  // to a stop. So a thread whose allocation finds a collection due does not wait long for one that
  // is under way, no collection waits long for a thread that does not stop, and the loader is never
  // asked.
  bool never_wait = false;
  // Called with the world stopped, before marking. False gives the collection up. May be null.
  bool (*find_roots)() = nullptr;
  // Adds further roots after all others. May be null.
  void (*add_roots)(gc::RootTasks* roots) = nullptr;
  // Called after a collection, under the collector lock; `done` is false if it was given up. May be
  // null.
  void (*collected)(bool done) = nullptr;
  // As gc::World::inspect: called with the world stopped, when everything reachable is marked. May
  // be null.
  void (*inspect)(const gc::Marker& marker) = nullptr;
  // Leaks are looked for. Objects are to be found that only a dead part of a stack, or a pointer
  // one past an object's end, refers to.
  bool strict_roots = false;
};
extern MallocSupport g_malloc_support;
// Defined where the library is a malloc, which has no helpers and its own handlers of fork. Starts
// it, if that is not done. Any thread.
extern void (*const g_start_malloc)() __attribute__((weak, visibility("hidden")));

// Initialises the runtime and registers the calling thread; no effect if that is done. The first
// allocation calls it. Any thread. Aborts with a message if the system refuses the minimum of
// memory.
void Init();
// Init that does not abort: false, and nothing is usable, if the system refuses the minimum of
// address space. pre: the first call of all, with no other thread inside the library.
[[nodiscard]] bool TryInit();
bool IsInitialised();
// Whether Init has been called; true while it runs, too. A hint for other threads.
bool IsInitialisationCalled();
// HoldInit waits for a start under way, and keeps other threads from starting the runtime until
// LetInit. Called by a thread that forks, before and after, in the child too.
void HoldInit();
void LetInit();

// Makes the calling thread a mutator with a heap; initialises the runtime first if need be. False
// without memory. Cheap for a thread that is a mutator already.
bool AttachThread();
// AttachThread for a caller that is about to use the heap: a blocking section ends, too
// (DoBlocking).
bool AttachToHeap();

// Limits the heap to `bytes`; 0 is no limit. Any thread, also before Init.
void SetMaxHeap(size_t bytes);

// Sets errno to ENOMEM, calls the client's out-of-memory procedure and returns its result; null if
// there is none.
void* OutOfMemory(size_t bytes);

// Allocates for the API's allocation functions: initialises, attaches the thread, collects and
// calls the out-of-memory procedure as needed.
void* Allocate(alloc::Kind kind, size_t bytes, size_t alignment = alloc::kGranuleBytes,
               bool ignore_off_page = false);

}  // namespace gleaner::runtime
