#include "tools/system/standard_descriptors.h"

#include <fcntl.h>
#include <unistd.h>

namespace gleaner::tools {

void HoldClosedStandardDescriptors() {
  for (int descriptor = STDIN_FILENO; descriptor <= STDERR_FILENO; ++descriptor) {
    if (fcntl(descriptor, F_GETFD) >= 0) continue;
    // Open for what is not done with it. It gets the lowest number that is free: this one.
    const int direction = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", direction | O_CLOEXEC) != descriptor) return;
  }
}

}  // namespace gleaner::tools
