// The size of the system's pages.
#pragma once

#include <cstddef>

namespace gleaner::platform {

// The unit in which memory is committed, discarded and protected. Constant on x86-64; larger on
// some aarch64 kernels.
size_t OsPageBytes();

}  // namespace gleaner::platform
