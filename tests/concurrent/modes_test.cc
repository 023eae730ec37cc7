// What holds in each mode of collection: nothing is lost that only the program's own procedures
// lead to.
#include <gc/gc_mark.h>

#include <algorithm>
#include <cstring>

#include "tests/concurrent/workload.h"

namespace {

using namespace gleaner::testing;

const Environment kModes[] = {
    {"GLEANER_CONCURRENT=1", "GLEANER_COLLECT_EVERY=1m", "GLEANER_MARK_VERIFY=1"},
    {"GLEANER_GENERATIONAL=2", "GLEANER_COLLECT_EVERY=1m", "GLEANER_MARK_VERIFY=1"},
    {"GLEANER_CONCURRENT=1", "GLEANER_GENERATIONAL=2", "GC_FULL_FREQUENCY=2",
     "GLEANER_COLLECT_EVERY=1m", "GLEANER_MARK_VERIFY=1"}};

bool HasShown(const Environment& mode) {
  const auto asks = [&mode](const char* option) {
    return std::any_of(mode.begin(), mode.end(),
                       [option](const char* entry) { return strstr(entry, option) == entry; });
  };
  gleaner_stats stats;
  gleaner_get_stats(&stats, sizeof stats);
  return (!asks("GLEANER_CONCURRENT") || stats.concurrent_collections > 3) &&
         (!asks("GLEANER_GENERATIONAL") || stats.minor_collections > 3);
}

// Objects that keep their references in memory of malloc, as wrappers of foreign objects do; their
// mark procedure looks there.
struct Wrapper {
  struct Outside {
    uint64_t* reference;
    uint64_t number;
  } * outside;
  Wrapper* next;
};
GC_ms_entry* MarkWrapper(GC_word* object, GC_ms_entry* top, GC_ms_entry* limit, GC_word) {
  auto* wrapper = reinterpret_cast<Wrapper*>(object);
  if (wrapper->outside == nullptr) return top;  // on a free list, or new
  top = GC_MARK_AND_PUSH(wrapper->outside->reference, top, limit,
                         reinterpret_cast<void**>(&wrapper->outside->reference));
  return GC_MARK_AND_PUSH(wrapper->next, top, limit, reinterpret_cast<void**>(&wrapper->next));
}

// By the kind's descriptor, or by one in each object's type.
void CheckWrappers(bool by_type, const Environment& mode) {
  GC_INIT();
  const GC_word descriptor = GC_MAKE_PROC(GC_new_proc(MarkWrapper), 0);
  const unsigned kind = GC_new_kind(
      GC_new_free_list(), by_type ? GC_DS_PER_OBJECT | sizeof(Wrapper) : descriptor, 0, 1);
  const auto make = [&](Wrapper* next) {
    // With a type the descriptor comes after the object's own fields.
    auto* wrapper = static_cast<Wrapper*>(GC_generic_malloc(sizeof(Wrapper) + 16, kind));
    wrapper->next = next;
    wrapper->outside = static_cast<Wrapper::Outside*>(calloc(1, sizeof(Wrapper::Outside)));
    if (by_type) memcpy(wrapper + 1, &descriptor, sizeof descriptor);
    return wrapper;
  };
  Wrapper* volatile list = nullptr;
  for (int i = 0; i < 500; ++i) list = make(list);
  GC_gcollect();
  // The stores below are all outside; nothing else refers to what is stored.
  uint64_t number = 0;
  for (int round = 0; round < 20000 && (round < 200 || !HasShown(mode)); ++round) {
    size_t i = 0;
    for (Wrapper* wrapper = list; wrapper != nullptr; wrapper = wrapper->next, ++i) {
      Wrapper::Outside* outside = wrapper->outside;
      if (outside->reference != nullptr) {
        ASSERT_EQ(*outside->reference, outside->number) << round;
      }
      if (i % 8 != static_cast<size_t>(round) % 8) continue;
      outside->reference = static_cast<uint64_t*>(GC_malloc_atomic(256));
      *outside->reference = outside->number = ++number;
    }
    for (int j = 0; j < 100; ++j) memset(GC_malloc(256), 0x77, 256);
  }
  EXPECT_TRUE(HasShown(mode));
}

TEST(ModesTest, WhatMarkProceduresFindOutsideOfObjectsLives) {
  for (const Environment& mode : kModes) {
    for (const bool by_type : {false, true}) {
      EXPECT_CHILD_OK([&] {
        setenv("GLEANER_SHORT_PAUSE", "0", 1);
        for (const char* entry : mode) putenv(const_cast<char*>(entry));
        CheckWrappers(by_type, mode);
      });
    }
  }
}

}  // namespace
