#include "alloc/hooks.h"

namespace gleaner::alloc {

constinit platform::Hint<uint64_t> g_collections{0};
constinit Hooks g_hooks = {};
constinit platform::Hint<ptrdiff_t> g_poll_bytes{32 * kKiB};

}  // namespace gleaner::alloc
