// The executable and the shared objects in the process, and the memory of theirs that may hold
// pointers to the heap.
#pragma once

#include "platform/thread.h"

namespace gleaner::platform {

// Runs f(context) while no shared object can be loaded or unloaded. What f does must not need the
// loader in another thread.
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
// The library's own data is left out. Only inside WithLoaderLocked, or where nothing is loaded.
void VisitLoadedObjects(const LoadedObjectVisitor& visitor);

// Calls f(context, name, bias, range) for each loaded object: its path, empty for the program
// itself; what was added to the addresses that its file has; and all that it occupies, gaps
// included.
void VisitObjectRanges(void (*f)(void* context, const char* name, Addr bias, Range range),
                       void* context);

}  // namespace gleaner::platform
