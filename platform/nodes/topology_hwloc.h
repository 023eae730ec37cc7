// What hwloc knows of the machine, for topology.cc alone.
#pragma once

#include "platform/nodes/topology.h"

namespace gleaner::platform {

// Fills in what the machine has, and in `nodes` and `processors` what control groups allow.
// `topology` is as it was before if that fails: then the reason is returned, else null. Loads the
// library, and unloads it again.
const char* ReadByHwloc(const char* library, Topology* topology);

}  // namespace gleaner::platform
