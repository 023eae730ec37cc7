// What the allocator asks of the runtime (alloc/hooks.h): when threads report what they have
// allocated, when a request has no room, and when the heap would grow.
#pragma once

#include "platform/base.h"

namespace gleaner::runtime {

void InstallHooks();

// Whether the client lets allocation start collections.
bool AutomaticCollectionAllowed();

// One step of the concurrent cycle, for `bytes` allocated. False: the caller decides as for
// a stop-parallel collection.
bool PollConcurrent(ptrdiff_t bytes);

// The program registered something that a collection would let go of: counts like that many bytes
// allocated, and collects if that is due.
void NotePressure(size_t bytes);

}  // namespace gleaner::runtime
