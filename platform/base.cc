#include "platform/base.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "platform/cancellation.h"

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
  line[n++] = '\n';
  return static_cast<size_t>(n);
}

void Write(const char* line, size_t bytes) {
  const platform::UncancellableSection section;       // the caller may be in the midst of anything
  if (write(STDERR_FILENO, line, bytes) < 0) return;  // nobody left to tell
}

}  // namespace

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
    line[bytes - 1] = 0;
    describe(line);
  }
  abort();
}

}  // namespace gleaner
