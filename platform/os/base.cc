#include "platform/os/base.h"

#include <fcntl.h>
#include <linux/kcmp.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "platform/os/cancellation.h"
#include "platform/os/standard_error.h"
#include "platform/os/write_all.h"

namespace gleaner {

void (*g_fatal_context)(const char* reason) = nullptr;

namespace {

constexpr size_t kMaxLineBytes = 512;

// Puts prefix, message and a newline into `line`; returns their length. The message is cut off if
// it is too long.
size_t FormatLine(char* line, const char* prefix, const char* format, va_list arguments) {
  int n = snprintf(line, kMaxLineBytes, "%s", prefix);
  const int rest =
      vsnprintf(line + n, kMaxLineBytes - static_cast<size_t>(n) - 1, format, arguments);
  if (rest > 0) n += rest;
  if (n > static_cast<int>(kMaxLineBytes) - 2) n = static_cast<int>(kMaxLineBytes) - 2;
  HideControls(line, static_cast<size_t>(n));
  line[n++] = '\n';
  return static_cast<size_t>(n);
}

void Write(const char* line, size_t bytes) {
  const platform::UncancellableSection section;  // the caller may not expect a cancellation
  (void)platform::WriteAll(StandardError(), line, bytes);
}

// The file of descriptor 2 when the library started, or at the first message if that came before.
// Threads that write these at once write the same values.
constinit bool g_noted = false;
constinit bool g_was_open = false;
constinit uint64_t g_device = 0;
constinit uint64_t g_inode = 0;

// Whether descriptors 1 and 2 share an open file, by dup, dup2 or fork. False if the system does
// not tell.
bool SharesStandardOutput() {
  const pid_t self = getpid();
  return syscall(SYS_kcmp, self, self, KCMP_FILE, STDOUT_FILENO, STDERR_FILENO) == 0;
}

}  // namespace

void HideControls(char* text, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    const bool is_c1 = i > 0 && text[i - 1] == '\xc2' && c >= 0x80 && c < 0xa0;
    if ((c < ' ' && c != '\n' && c != '\t') || c == 0x7f || is_c1) text[i] = '?';
  }
}

void RecordStandardError() {
  if (g_noted) return;
  struct stat status;
  g_was_open = fstat(STDERR_FILENO, &status) == 0;
  if (g_was_open) {
    g_device = status.st_dev;
    g_inode = status.st_ino;
  }
  g_noted = true;
}

int StandardError() {
  const int saved = errno;
  RecordStandardError();
  struct stat status;
  bool theirs = fstat(STDERR_FILENO, &status) == 0;
  if (theirs && !(g_was_open && status.st_dev == g_device && status.st_ino == g_inode)) {
    const int flags = fcntl(STDERR_FILENO, F_GETFD);
    theirs = flags >= 0 && (flags & FD_CLOEXEC) == 0 &&
             (S_ISFIFO(status.st_mode) || S_ISCHR(status.st_mode) || SharesStandardOutput());
  }
  errno = saved;
  return theirs ? STDERR_FILENO : -1;
}

void Complain(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char line[kMaxLineBytes];
  const size_t bytes = FormatLine(line, "gleaner: ", format, arguments);
  va_end(arguments);
  Write(line, bytes);
}

void Fatal(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  char line[kMaxLineBytes];
  const size_t bytes = FormatLine(line, "gleaner: fatal: ", format, arguments);
  va_end(arguments);
  Write(line, bytes);
  if (g_fatal_context != nullptr) {
    auto* describe = g_fatal_context;
    g_fatal_context = nullptr;  // a failure while describing must not recurse
    Complain(
        "the heap in gdb: gdb -p %d, or gdb PROGRAM CORE; then: source "
        "PREFIX/share/gleaner/gleaner_gdb.py",
        getpid());
    line[bytes - 1] = 0;
    describe(line);
  }
  abort();
}

}  // namespace gleaner
