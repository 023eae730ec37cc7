// Writing to a descriptor that may be non-blocking: other processes share that flag, and set it.
#pragma once

#include <cstddef>

namespace gleaner::tools {

// Writes all of it; waits up to `limit_ms` for room each time that there is none; -1: as long as it
// takes. False with errno if that is not possible. Async-signal-safe.
[[nodiscard]] bool WriteAll(int descriptor, const char* text, size_t bytes, int limit_ms = -1);

}  // namespace gleaner::tools
