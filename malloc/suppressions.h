// Leaks that the user does not want to hear of: a file in the form of LeakSanitizer's.
//
//   # a comment
//   leak:PATTERN
//
// A stack is suppressed if a pattern matches the function, the source file or the object of one of
// its frames. A pattern matches anywhere in a name; "*" stands for any characters, "^" at the
// beginning and "$" at the end tie it to the name's ends.
#pragma once

#include "platform/base.h"

namespace gleaner::malloc_proxy {

class Suppressions {
 public:
  static constexpr size_t kMaxRules = 4096;

  // Reads the file; what is wrong with it is said on standard error, by line, and the rest counts.
  // Once, at the start.
  static void Read(const char* path);

  static size_t count();
  // 1 to count().
  static const char* PatternOf(size_t rule);
  // The first rule that matches the name; 0 if none does.
  static size_t Match(const char* name);
};

// Whether the pattern matches the name.
bool MatchesPattern(const char* pattern, const char* name);

}  // namespace gleaner::malloc_proxy
