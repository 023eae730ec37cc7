// The runtime's side of alloc/hooks.h: threads report what they have allocated, a request has no
// room, or the heap would grow.
#pragma once

#include "platform/os/base.h"

namespace gleaner::runtime {

void InstallHooks();

// Whether the client allows allocation to start collections.
bool AutomaticCollectionAllowed();

// One step of the concurrent cycle, for `bytes` allocated. False: the caller decides as for
// stop-parallel collection.
bool PollConcurrent(ptrdiff_t bytes);

// A collection is due for what finalizers are to release.
void CollectForFinalizers();

}  // namespace gleaner::runtime
