#include "platform/os/os_page.h"

#include <unistd.h>

namespace gleaner::platform {

size_t OsPageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace gleaner::platform
