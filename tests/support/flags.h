// --seed, --seconds and --threads of the concurrent tests (gtest keeps what is not its own).
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace gleaner::testing {

inline unsigned long Flag(const char* name, unsigned long default_value) {
  unsigned long value = default_value;
  const auto arguments = ::testing::internal::GetArgvs();
  for (size_t i = 0; i + 1 < arguments.size(); ++i) {
    if (arguments[i] == std::string("--") + name)
      value = strtoul(arguments[i + 1].c_str(), nullptr, 10);
  }
  return value;
}

// Printed first, so that a failure can be repeated.
inline unsigned Seed() {
  static const unsigned seed = [] {
    const auto value = static_cast<unsigned>(Flag("seed", 1));
    printf("seed %u\n", value);
    fflush(stdout);
    return value;
  }();
  return seed;
}

inline unsigned Threads(unsigned default_value) {
  return static_cast<unsigned>(Flag("threads", default_value));
}

// Rounds of a test, for its usual second or so: more if --seconds says so.
inline unsigned Rounds(unsigned per_second) {
  return per_second * static_cast<unsigned>(Flag("seconds", 1));
}

}  // namespace gleaner::testing
