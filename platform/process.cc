#include "platform/process.h"

#include <fcntl.h>
#include <sys/auxv.h>

namespace gleaner::platform {

bool HasElevatedRights() { return getauxval(AT_SECURE) != 0; }

int OpenLogFile(const char* path) {
  return open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
}

int OpenForReading(const char* path) { return open(path, O_RDONLY | O_CLOEXEC); }

}  // namespace gleaner::platform
