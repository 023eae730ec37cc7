// What the tests of bad input share: parts that run in a child with an environment.
#pragma once

#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "tests/support/child.h"
#include "tests/support/refusals.h"

namespace gleaner::testing {

inline constexpr size_t kMiB = size_t{1} << 20;

#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kAddressSanitizer = true;  // needs memory and address space of its own
#else
inline constexpr bool kAddressSanitizer = false;
#endif

#define EXPECT_OK(result) \
  EXPECT_TRUE((result).ok()) << "status 0x" << std::hex << (result).status << "\n" << (result).err

inline bool Says(const ChildResult& result, const std::string& text) {
  return result.err.find(text) != std::string::npos;
}

template <class F>
ChildResult RunWith(std::initializer_list<const char*> environment, F f, unsigned seconds = 220) {
  return RunInChild(
      [&] {
        for (const char* entry : environment) putenv(const_cast<char*>(entry));
        f();
      },
      seconds);
}

}  // namespace gleaner::testing
