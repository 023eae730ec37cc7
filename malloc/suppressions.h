// Leaks that the report omits: a file of rules in LeakSanitizer's format.
//
//   # a comment
//   leak:PATTERN
//
// A stack is suppressed if a pattern matches the function, the source file or the object of one of
// its frames. A pattern matches anywhere in a name. "*" stands for any characters; "^" at the
// beginning and "$" at the end of a pattern stand for the ends of the name.
#pragma once

#include "platform/os/base.h"

namespace gleaner::malloc_proxy {

class Suppressions {
 public:
  static constexpr size_t kMaxRules = 4096;

  // Reads the file. Reports wrong lines on standard error and ignores them. Once, at the start.
  static void Read(const char* path);

  static size_t count();
  // pre: 1 <= rule <= count().
  static const char* PatternOf(size_t rule);
  // The first rule that matches the name; 0 if none does.
  static size_t Match(const char* name);
};

// Whether the pattern matches the name.
bool MatchesPattern(const char* pattern, const char* name);

}  // namespace gleaner::malloc_proxy
