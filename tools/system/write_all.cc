#include "tools/system/write_all.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>

namespace gleaner::tools {

bool WriteAll(int descriptor, const char* text, size_t bytes, int limit_ms) {
  while (bytes != 0) {
    const ssize_t n = write(descriptor, text, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) {
      pollfd room = {descriptor, POLLOUT, 0};
      const int ready = poll(&room, 1, limit_ms);
      if (ready > 0 || (ready < 0 && errno == EINTR)) continue;
    }
    if (n < 0) return false;
    text += n;
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

}  // namespace gleaner::tools
