// The executable and the shared objects in the process, and the memory of theirs that may hold
// pointers to the heap.
#pragma once

#include "platform/thread.h"

namespace gleaner::platform {

// Runs f(context) while no shared object can be loaded or unloaded. What f does must not need the
// loader in another thread. One thread at a time (the collector lock).
void WithLoaderLocked(void (*f)(void* context), void* context);

// Loads and unloads so far; equal values mean an unchanged set. Only inside WithLoaderLocked.
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
// The data of a shared object that is this library and nothing else is left out. Only inside
// WithLoaderLocked, or where nothing is loaded.
void VisitLoadedObjects(const LoadedObjectVisitor& visitor);

// The object that this library is in is never unloaded from here on: threads that have allocated
// come back to it when they end, and so do signals and the end of the process.
void KeepLoaded();

// fork() and the loader. The C library does not see to the loader's lock when it forks: a thread
// that held it, in dlopen or because it walked the loaded objects, holds it for ever in the child,
// where whoever asks for it sleeps for ever. So a child does not, until the loader's list, which
// can be read without the lock, differs from the one that its parent looked at last: then somebody
// has loaded or unloaded since, most likely in the child, and the lock was free.
//
// Notes the list, all of which has been looked at. Only inside WithLoaderLocked.
void NoteLoaderIsKnown();
// In the child: WithLoaderLocked takes no lock until the list has changed.
void DistrustLoader();
// Whether the functions above and below that need the loader may be called. Under the caller's
// lock.
bool LoaderCanBeAsked();

// Calls f(context, name, bias, range) for each loaded object: its path, empty for the program
// itself; what was added to the addresses that its file has; and all that it occupies, gaps
// included.
void VisitObjectRanges(void (*f)(void* context, const char* name, Addr bias, Range range),
                       void* context);

}  // namespace gleaner::platform
