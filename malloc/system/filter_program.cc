#include "malloc/system/filter_program.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "platform/os/write_all.h"

namespace gleaner::malloc_proxy {
namespace {

// Makes a file whose descriptor is above the three standard ones, which RunFilter replaces.
int MakeFile() {
  const int fd = memfd_create("gleaner", MFD_CLOEXEC);
  if (fd < 0 || fd > STDERR_FILENO) return fd;
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
  close(fd);
  return moved;
}

}  // namespace

MemoryFile::MemoryFile() : fd_(MakeFile()) {}

MemoryFile::~MemoryFile() {
  if (fd_ >= 0) close(fd_);
}

bool MemoryFile::Append(const void* data, size_t bytes) {
  return platform::WriteAll(fd_, static_cast<const char*>(data), bytes);
}

char* MemoryFile::Map(size_t* bytes) {
  struct stat status;
  if (fd_ < 0 || fstat(fd_, &status) != 0) return nullptr;
  *bytes = static_cast<size_t>(status.st_size);
  // One more byte, which reads as zero.
  if (ftruncate(fd_, status.st_size + 1) != 0) return nullptr;
  void* memory = mmap(nullptr, *bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd_, 0);
  return memory == MAP_FAILED ? nullptr : static_cast<char*>(memory);
}

bool RunFilter(const char* program, const char* const* arguments, const MemoryFile& input,
               const MemoryFile& output) {
  if (input.fd() < 0 || output.fd() < 0 || lseek(input.fd(), 0, SEEK_SET) != 0) return false;
  // Without memory these functions fail, and the program is not run.
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  if (posix_spawn_file_actions_init(&actions) != 0) return false;
  if (posix_spawnattr_init(&attributes) != 0) {
    posix_spawn_file_actions_destroy(&actions);
    return false;
  }
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  const char* const environment[] = {nullptr};
  pid_t child = -1;
  const bool started =
      posix_spawn_file_actions_adddup2(&actions, input.fd(), STDIN_FILENO) == 0 &&
      posix_spawn_file_actions_adddup2(&actions, output.fd(), STDOUT_FILENO) == 0 &&
      posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) == 0 &&
      posix_spawnattr_setsigmask(&attributes, &none) == 0 &&
      posix_spawnattr_setsigdefault(&attributes, &all) == 0 &&
      posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF) == 0 &&
      posix_spawn(&child, program, &actions, &attributes, const_cast<char* const*>(arguments),
                  const_cast<char* const*>(environment)) == 0;
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (!started) return false;
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return true;
}

}  // namespace gleaner::malloc_proxy
