// What the tests of bad input share: parts that run in a child with an environment, and systems
// that refuse.
#pragma once

#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "tests/support/child.h"

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
ChildResult RunWith(std::initializer_list<const char*> environment, F f, unsigned seconds = 60) {
  return RunInChild(
      [&] {
        for (const char* entry : environment) putenv(const_cast<char*>(entry));
        f();
      },
      seconds);
}

// Bounds a resource of the process for as long as it lives.
class Limit {
 public:
  Limit(__rlimit_resource resource, size_t bytes) : resource_(resource) {
    EXPECT_EQ(getrlimit(resource, &old_), 0);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(resource, &limit), 0);
  }
  ~Limit() { EXPECT_EQ(setrlimit(resource_, &old_), 0); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  const __rlimit_resource resource_;
  rlimit old_;
};

// The system makes no more private memory usable (RLIMIT_DATA bounds what is writable).
class MemoryRefused : Limit {
 public:
  MemoryRefused() : Limit(RLIMIT_DATA, 4096) {}
};

}  // namespace gleaner::testing
