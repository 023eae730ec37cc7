#include "platform/base.h"

#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace gleaner {

void (*g_fatal_context)() = nullptr;

namespace {

void WriteLine(const char* prefix, const char* format, va_list arguments) {
  char line[512];
  int n = snprintf(line, sizeof line, "%s", prefix);
  const int rest = vsnprintf(line + n, sizeof line - static_cast<size_t>(n) - 1, format, arguments);
  if (rest > 0) n += rest;
  if (n > static_cast<int>(sizeof line) - 2) n = static_cast<int>(sizeof line) - 2;
  line[n++] = '\n';
  if (write(STDERR_FILENO, line, static_cast<size_t>(n)) < 0) return;  // nobody left to tell
}

}  // namespace

void Complain(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  WriteLine("gleaner: ", format, arguments);
  va_end(arguments);
}

void Fatal(const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  WriteLine("gleaner: fatal: ", format, arguments);
  va_end(arguments);
  if (g_fatal_context != nullptr) {
    auto* describe = g_fatal_context;
    g_fatal_context = nullptr;  // a failure while describing must not recurse
    describe();
  }
  abort();
}

}  // namespace gleaner
