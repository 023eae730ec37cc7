// Checks and messages, which every layer uses.
//
// Three strengths of check: GLEANER_CHECK is in every build and guards what a caller or the
// operating system may get wrong; GLEANER_DCHECK is in debug and verify builds; kVerifyBuild
// wraps the expensive invariants of docs/design/invariants.md and exists only in the verify builds.
#pragma once

#include "platform/common/units.h"

namespace gleaner {

// Writes the message to standard error and aborts. Allocates nothing; callable from anywhere,
// signal handlers included.
[[noreturn]] GLEANER_COLD void Fatal(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Writes one line "gleaner: ..." to standard error. Allocates nothing.
GLEANER_COLD void Complain(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Called by Fatal before it aborts, with the line that it has written: describes the collector's
// state and informs the program. May be null.
extern void (*g_fatal_context)(const char* reason);

}  // namespace gleaner

#define GLEANER_CHECK(condition, ...)                                                 \
  do {                                                                                \
    if (GLEANER_UNLIKELY(!(condition))) {                                             \
      ::gleaner::Complain("%s:%d: check failed: %s", __FILE__, __LINE__, #condition); \
      ::gleaner::Fatal(__VA_ARGS__);                                                  \
    }                                                                                 \
  } while (false)

#define GLEANER_DCHECK(condition, ...)                       \
  do {                                                       \
    if (kDebugChecks) GLEANER_CHECK(condition, __VA_ARGS__); \
  } while (false)
