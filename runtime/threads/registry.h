// The state behind Threads, for its own files: threads.cc (registration), thread_stops.cc,
// thread_roots.cc and static_roots.cc.
#pragma once

#include "alloc/metadata/hash_table.h"
#include "alloc/object.h"
#include "platform/loader/loaded_objects.h"
#include "runtime/process/variables.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

extern platform::Lock g_threads_lock;

struct Registry {
  // Guarded by g_threads_lock.
  alloc::ReservedArray<platform::StopRecord*> records;  // of the registered threads
  size_t count = 0;                                     // of `records`
  Thread* free = nullptr;                               // list of unused records
  uint64_t handshake = 0;                               // number of the last BeginHandshakes
  // Results of threads that have ended and not been joined, by pthread_t: roots. Room is reserved
  // for the results of all registered threads.
  alloc::HashTable<void*> results;
  // Threads of Create that have ended and are not known to have been joined or detached: whether
  // they are suspended.
  alloc::HashTable<bool> ended;
  // Constant after Init.
  pthread_key_t exit_key = 0;  // its destructor notices the end of a thread
  bool tls_is_known = false;   // the layout of thread-local storage is known
  // What the loader had loaded when it was asked last. Written by the stopper inside
  // WithLoaderLocked.
  platform::LoaderGeneration generation{~0ull, ~0ull};
  GC_has_static_roots_func filter = nullptr;          // the program's, as of that look
  gc::RangeSet main_segments;                         // writable data of the program
  gc::RangeSet library_segments;                      // writable data of shared objects
  alloc::ReservedArray<platform::TlsModule> modules;  // with TLS outside the static block
  size_t module_count = 0;
  bool is_complete = true;  // false: there was no memory to note all of these
  // Copies of stacks and thread-local storage that are not read in place, for the collection under
  // way. Guarded by the collector lock.
  gc::RootBuffer copied;
};
extern Registry g_registry;

inline Thread* ThreadAt(size_t index) { return static_cast<Thread*>(g_registry.records[index]); }

inline bool IsObject(const void* result) { return alloc::g_space.Contains(AddressOf(result)); }

// Removes threads that ended without unregistering (LifeMark) from the list. pre: the threads lock
// is held.
void ForgetEndedThreads();

// Asks the loader again for the loaded objects, if they may have changed or could not all be noted.
// pre: inside WithLoaderLocked, under the collector lock.
void RefreshLoadedObjects(void*);

// Where the roots of one thread go: `in_place` takes ranges to be read directly. `copied` takes
// copies of words in memory that may be unmapped meanwhile, or end earlier than assumed.
struct ThreadRoots {
  gc::RootTasks* in_place;
  gc::RootBuffer* copied;
};
void AddThreadRoots(Thread& thread, const ThreadRoots& roots);

}  // namespace gleaner::runtime
