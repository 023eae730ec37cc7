#include "platform/os/write_all.h"

#include <unistd.h>

#include <cerrno>

namespace gleaner::platform {

bool WriteAll(int fd, const char* text, size_t bytes) {
  while (bytes != 0) {
    const ssize_t n = write(fd, text, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    text += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace gleaner::platform
