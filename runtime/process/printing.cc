#include "runtime/process/printing.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "platform/os/cancellation.h"
#include "platform/os/lock.h"
#include "platform/os/process.h"
#include "platform/os/standard_error.h"

namespace gleaner::runtime {

namespace {

constinit platform::Lock g_lock(platform::LockRank::kLog);
// Plain words: a thread that reads an old value writes to the old file.
constinit int g_log_fd = STDERR_FILENO;
constinit bool g_all_to_log = false;

int FdOf(Stream stream) {
  const int fd = stream == Stream::kLog || g_all_to_log ? g_log_fd
                 : stream == Stream::kOutput            ? STDOUT_FILENO
                                                        : STDERR_FILENO;
  return fd == STDERR_FILENO ? StandardError() : fd;
}

void Write(int fd, const char* text, size_t bytes) {
  while (bytes != 0) {
    const ssize_t n = write(fd, text, bytes);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // the file does not take it
    text += n;
    bytes -= static_cast<size_t>(n);
  }
}

}  // namespace

void PrintArguments(Stream stream, const char* format, va_list arguments) {
  const int saved_errno = errno;
  const platform::UncancellableSection section;
  char text[kMaxPrintedBytes + 1];
  const int n = vsnprintf(text, sizeof text, format, arguments);
  if (n > 0) {
    const auto bytes =
        static_cast<size_t>(n) < kMaxPrintedBytes ? static_cast<size_t>(n) : kMaxPrintedBytes;
    if (stream == Stream::kLog) {
      platform::LockGuard guard(g_lock);  // keeps the lines of several threads apart
      Write(FdOf(stream), text, bytes);
    } else {
      Write(FdOf(stream), text, bytes);
    }
  }
  errno = saved_errno;
}

void Print(Stream stream, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PrintArguments(stream, format, arguments);
  va_end(arguments);
}

void Log(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  PrintArguments(Stream::kLog, format, arguments);
  va_end(arguments);
}

void SetLogFd(int fd) { g_log_fd = fd; }
void PrintAllToLog() { g_all_to_log = true; }

void PrintFile(const char* path) {
  const platform::UncancellableSection section;
  const int fd = platform::OpenForReading(path);
  if (fd < 0) return;
  char text[1024];
  for (;;) {
    const ssize_t n = read(fd, text, sizeof text);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    Write(FdOf(Stream::kError), text, static_cast<size_t>(n));
  }
  close(fd);
}

void ResetPrintingAfterFork() { g_lock.ResetAfterFork(); }

}  // namespace gleaner::runtime
