// What the tests of bad input share: parts that run in a child with an environment.
#pragma once

#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "tests/support/child.h"
#include "tests/support/list.h"
#include "tests/support/refusals.h"

namespace gleaner::testing {

inline constexpr size_t kMiB = size_t{1} << 20;

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

// A list that a program hides from the collector for a while. It is made on a thread that is gone,
// so that no stack has a stale copy of the pointer to it.
constexpr size_t kNodes = 1000;
struct Slot {
  Node* list;
  void* link;  // a hidden pointer to the list, cleared when that is found dead
};
inline void Fill(Slot* slot) {
  pthread_t thread;
  const auto make = [](void* data) -> void* {
    auto* of_list = static_cast<Slot*>(data);
    of_list->list = MakeList(kNodes);
    of_list->link = reinterpret_cast<void*>(GC_HIDE_POINTER(of_list->list));
    EXPECT_EQ(GC_general_register_disappearing_link(&of_list->link, of_list->list), GC_SUCCESS);
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, nullptr, make, slot), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
}
inline size_t CountLost(const Slot& slot, const Node* list) {
  return slot.link == nullptr ? kNodes : kNodes - CountList(list, kNodes);
}

struct Mode {
  const char* name;
  bool incremental;
  const char* settings[2];
};
inline constexpr Mode kModes[] = {
    {"stop-parallel", false, {"GLEANER_CONCURRENT=0", "GLEANER_GENERATIONAL=0"}},
    {"concurrent", true, {"GLEANER_CONCURRENT=1", "GLEANER_GENERATIONAL=0"}},
    {"in steps", true, {"GLEANER_CONCURRENT=1", "GLEANER_CYCLE_SLICE=64k"}},
    {"generational", false, {"GLEANER_GENERATIONAL=1", "GLEANER_CONCURRENT=0"}}};

// Runs f in a child in each mode. Each message, and each look at files, is a point of cancellation
// in the C library.
template <class F>
void InEachMode(const F& f) {
  for (const Mode& mode : kModes) {
    const ChildResult result = RunWith(
        {"GC_PRINT_STATS=1", mode.settings[0], mode.settings[1]},
        [&] {
          f();
          EXPECT_EQ(GC_is_incremental_mode() != 0, mode.incremental);
        },
        30);
    EXPECT_OK(result) << "\n" << mode.name;
    EXPECT_FALSE(Says(result, "cannot be tracked")) << result.err;
  }
}

}  // namespace gleaner::testing
