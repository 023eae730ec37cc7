// What the allocator asks of the layer above it.
#pragma once

#include "platform/base.h"

namespace gleaner::alloc {

struct Hooks {
  // A thread has allocated `bytes` net since its last call. May collect. Called outside critical
  // sections and without locks.
  void (*allocated)(ptrdiff_t bytes);
  // `bytes` cannot be had without passing the heap limit or the system's own. `attempt` counts from
  // 0 for one request. True if it is worth trying again. Same context as above.
  bool (*exhausted)(size_t bytes, int attempt);
  // `bytes` cannot be had unless the heap grows beyond the limit (LimitGrowth). Makes room or moves
  // the limit: the request is tried again in any case. Same context.
  void (*grow)(size_t bytes);
};

extern Hooks g_hooks;

// A thread calls `allocated` about every so many bytes. Set by the pacer, read by all.
extern size_t g_poll_bytes;

}  // namespace gleaner::alloc
