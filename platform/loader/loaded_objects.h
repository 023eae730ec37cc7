// The executable and the shared objects in the process, and their memory that may hold pointers to
// the heap.
#pragma once

#include "platform/threads/thread.h"

namespace gleaner::platform {

// Runs f(context) while no shared object can be loaded or unloaded. f must not wait for another
// thread that needs the loader. One thread at a time (the collector lock).
void WithLoaderLocked(void (*f)(void* context), void* context);

// The number of loads and unloads so far; equal values mean an unchanged set of objects. Only
// inside WithLoaderLocked.
struct LoaderGeneration {
  unsigned long long loads = 0;
  unsigned long long unloads = 0;
  bool operator==(const LoaderGeneration&) const = default;
};
LoaderGeneration CurrentLoaderGeneration();

// Called once for each writable segment, less the part that is read-only after relocation
// (PT_GNU_RELRO: the program cannot store there), and once for each object that has TLS.
struct LoadedObjectVisitor {
  void (*segment)(void* context, const char* object_name, Range range);
  void (*tls)(void* context, TlsModule module);
  void* context;
};
// Visits all loaded objects, except a shared object that is this library alone. Only inside
// WithLoaderLocked, or while no thread loads an object.
void VisitLoadedObjects(const LoadedObjectVisitor& visitor);

// Whether a shared object consists of this library alone, so that its code is the library's.
bool IsOwnObject();

// From here on the object that contains this library is never unloaded: the ends of threads that
// have allocated, signals, and the end of the process call into it.
void KeepLoaded();

// fork() and the loader. The C library does not handle the loader's lock when it forks: if another
// thread held the lock, in dlopen or in a walk of the loaded objects, the lock stays taken in the
// child for ever, and a thread that waits for it sleeps for ever. So a child does not take the lock
// until the loader's list, which can be read without the lock, differs from the list that its
// parent recorded last: then an object has been loaded or unloaded since, most likely in the child,
// and the lock was free.
//
// Records the present list. Called when all of its objects have been visited. Only inside
// WithLoaderLocked.
void RecordLoaderList();
// In a forked child: from here on WithLoaderLocked takes no lock until the list has changed.
void DistrustLoader();
// Whether functions that need the loader may be called. Under the lock of WithLoaderLocked's
// callers.
bool LoaderCanBeAsked();
// The same, as LoaderCanBeAsked found last. Any thread.
bool LoaderIsTrusted();

// Calls f(context, name, bias, range) for each loaded object. `name` is its path, empty for the
// program itself; `bias` is the difference between its addresses and those in its file; `range` is
// all that it occupies, gaps included.
void VisitObjectRanges(void (*f)(void* context, const char* name, Addr bias, Range range),
                       void* context);

// A loaded object as the loader has mapped it.
struct LoadedObject {
  const char* name;  // its path, empty for the program itself
  Addr bias;
  const uint8_t* build_id;  // null if there is none
  size_t build_id_bytes;
  size_t segments;
  const void* headers;  // of the segments
};
struct LoadedSegment {
  Range range;
  uint64_t offset;  // in the file
  uint32_t flags;   // as in ELF: 1 executable, 2 writable, 4 readable
};
// False if the header `i` of the object is none of a segment that is loaded.
[[nodiscard]] bool GetSegment(const LoadedObject& object, size_t i, LoadedSegment* segment);
// Calls f for each loaded object; this library is one of them. Under the lock of WithLoaderLocked's
// callers. A forked child that cannot ask the loader reads its list (LoaderCanBeAsked).
void VisitObjects(void (*f)(void* context, const LoadedObject& object), void* context);

}  // namespace gleaner::platform
