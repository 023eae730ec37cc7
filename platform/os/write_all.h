// Writing to a descriptor until all is written.
#pragma once

#include <cstddef>

namespace gleaner::platform {

// Writes all `bytes`. False if that fails.
bool WriteAll(int fd, const char* text, size_t bytes);

}  // namespace gleaner::platform
