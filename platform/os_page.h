// The system's unit of memory.
#pragma once

#include <cstddef>

namespace gleaner::platform {

// What memory is committed, discarded and protected by. Constant on x86-64; larger on some aarch64
// kernels.
size_t OsPageBytes();

}  // namespace gleaner::platform
