// For builds without <sys/sdt.h>.
#include "observe/probes.h"

namespace gleaner::platform {

constinit Atomic<uint32_t> g_listeners{0};

void FireProbe(TraceEvent, uint64_t, const uint64_t*) {}

}  // namespace gleaner::platform
