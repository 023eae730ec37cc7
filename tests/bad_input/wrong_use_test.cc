// One row for each way to use a function wrongly that has a message of its own and no test beside
// what the function is for: the whole message, whether the program ends by it, and that the heap
// works on.
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gleaner.h>

#include <cerrno>
#include <regex>

#include "tests/bad_input/bad_input.h"

namespace {

using namespace gleaner::testing;

gleaner_arena_options Options(void (*change)(gleaner_arena_options*)) {
  gleaner_arena_options options = GLEANER_ARENA_OPTIONS;
  change(&options);
  return options;
}

void RefusesArena(void (*change)(gleaner_arena_options*)) {
  const gleaner_arena_options options = Options(change);
  EXPECT_EQ(gleaner_arena_create(kMiB, &options), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

// The compiler does not see that it is.
void* Null() {
  void* volatile null = nullptr;
  return null;
}

// The headers declare that these are never null, for which the sanitizer would end the process.
#define GLEANER_PASSES_NULL __attribute__((no_sanitize("nonnull-attribute")))
GLEANER_PASSES_NULL void NewKindWithoutFreeList() {
  GC_new_kind(static_cast<void**>(Null()), 0, 0, 1);
}
GLEANER_PASSES_NULL void FinalizedWithoutClosure() {
  GC_init_finalized_malloc();
  EXPECT_NE(GC_finalized_malloc(16, static_cast<GC_finalizer_closure*>(Null())), nullptr);
}

alignas(16) char g_memory[4096];

struct Row {
  const char* name;
  const char* said;  // a pattern for the whole line behind "gleaner: "
  bool aborts;
  void (*use)();
};

GC_ms_entry* MarkNothing(GC_word*, GC_ms_entry* stack, GC_ms_entry*, GC_word) { return stack; }

const Row kRows[] = {
    {"ArenaSize",
     "gleaner_arena_create: the option size is 1; it may be what GLEANER_ARENA_OPTIONS says, of "
     "headers not newer than the library",
     false, [] { RefusesArena([](gleaner_arena_options* o) { o->size = 1; }); }},
    {"ArenaPolicy",
     "gleaner_arena_create: the option policy is 77; it may be one of enum gleaner_arena_policy",
     false,
     [] {
       RefusesArena(
           [](gleaner_arena_options* o) { o->policy = static_cast<gleaner_arena_policy>(77); });
     }},
    {"ArenaFlags",
     "gleaner_arena_create: the option flags is 64; it may be a sum of enum gleaner_arena_flag",
     false, [] { RefusesArena([](gleaner_arena_options* o) { o->flags = 64; }); }},
    {"ArenaThreshold",
     "gleaner_arena_create: the option threshold is 262145; it may be 0 to 262144", false,
     [] { RefusesArena([](gleaner_arena_options* o) { o->threshold = 262145; }); }},
    {"ArenaOfNothing", "gleaner_arena_create: 0 bytes", false,
     [] { EXPECT_EQ(gleaner_arena_create(0, nullptr), nullptr); }},
    {"ArenaOnTooLittle",
     "gleaner_arena_create_on\\(0x[0-9a-f]+, 15\\): no memory for a block of [0-9]+ bytes in it, "
     "or it wraps around",
     false, [] { EXPECT_EQ(gleaner_arena_create_on(g_memory, 15, nullptr), nullptr); }},
    {"DebugFreeOfAPlainObject",
     "GC_debug_free\\(0x[0-9a-f]+\\): the object was allocated without debugging information",
     false, [] { GC_debug_free(GC_malloc(40)); }},
    {"DebugReallocOfAPlainObject",
     "GC_debug_realloc\\(0x[0-9a-f]+, 80\\): the object was allocated without debugging "
     "information",
     false, [] { EXPECT_NE(GC_debug_realloc(GC_malloc(40), 80, "here", 1), nullptr); }},
    {"DebugKind", "GC_debug_generic_or_special_malloc: there is no kind 99 \\(here:7\\)", false,
     [] {
       EXPECT_EQ(GC_debug_generic_or_special_malloc(16, 99, "here", 7), nullptr);
       EXPECT_EQ(errno, EINVAL);
     }},
    {"Kind", "GC_generic_malloc: there is no kind 99", false,
     [] {
       EXPECT_EQ(GC_generic_malloc(16, 99), nullptr);
       EXPECT_EQ(errno, EINVAL);
     }},
    {"NegativeKind", "GC_generic_malloc: there is no kind -1", false,
     [] { EXPECT_EQ(GC_generic_malloc(16, -1), nullptr); }},
    {"KindWithoutFreeList", "GC_new_kind: the free list is NULL; ignored", false,
     NewKindWithoutFreeList},
    {"TooManyKinds", "fatal: GC_new_kind: all 16 kinds are in use", true,
     [] {
       for (int i = 0; i < 100; ++i) GC_new_kind(GC_new_free_list(), 0, 0, 1);
     }},
    {"TooManyProcedures", "fatal: GC_new_proc: all [0-9]+ numbers are in use", true,
     [] {
       for (int i = 0; i < 100'000; ++i) GC_new_proc(MarkNothing);
     }},
    {"DescriptorWithoutProcedures",
     "fatal: GC_make_descriptor: all numbers of mark procedures are in use", true,
     [] {
       unsigned last = 0;
       const unsigned most = 1u << GC_LOG_MAX_MARK_PROCS;
       while (last + 1 < most) last = GC_new_proc(MarkNothing);
       const GC_word bitmap[1] = {1};
       GC_make_descriptor(bitmap, 2);
     }},
    {"DescriptorWithoutKinds", "fatal: GC_make_descriptor: all kinds are in use", true,
     [] {
       while (GC_new_kind(GC_new_free_list(), 0, 0, 1) < 15) {
       }
       const GC_word bitmap[1] = {1};
       GC_make_descriptor(bitmap, 2);
     }},
    {"GcjWithoutKinds", "fatal: GC_init_gcj_malloc: all kinds are in use", true,
     [] {
       while (GC_new_kind(GC_new_free_list(), 0, 0, 1) < 15) {
       }
       GC_init_gcj_malloc(0, reinterpret_cast<void*>(MarkNothing));
     }},
    {"FinalizedWithoutKinds", "fatal: GC_init_finalized_malloc: all kinds are in use", true,
     [] {
       while (GC_new_kind(GC_new_free_list(), 0, 0, 1) < 15) {
       }
       GC_init_finalized_malloc();
     }},
    {"FinalizedWithoutClosure", "GC_finalized_malloc: the closure is NULL; ignored", false,
     FinalizedWithoutClosure},
    {"StallCause", "gleaner_get_stall_stats: there is no cause 17", false,
     [] {
       gleaner_stall_stats stalls;
       EXPECT_EQ(gleaner_get_stall_stats(17, &stalls, sizeof stalls), 0u);
     }},
    {"PauseParts", "gleaner_get_pause_parts: there is no pause 17", false,
     [] {
       gleaner_pause_parts parts;
       EXPECT_EQ(gleaner_get_pause_parts(17, &parts, sizeof parts), 0u);
     }},
    {"LockTwice", "GC_call_with_alloc_lock: the calling thread holds the lock already", false,
     [] {
       GC_call_with_alloc_lock(
           [](void*) -> void* {
             return GC_call_with_alloc_lock([](void* data) { return data; }, nullptr);
           },
           nullptr);
     }},
};

class WrongUseTest : public ::testing::TestWithParam<Row> {};

TEST_P(WrongUseTest, IsNamed) {
  const Row& row = GetParam();
  const ChildResult result = RunWith({}, [&row] {
    GC_INIT();
    row.use();
    void* p = GC_malloc(100);
    GC_gcollect();
    EXPECT_NE(p, nullptr);
  });
  EXPECT_EQ(result.aborted(), row.aborts) << result.err;
  EXPECT_EQ(result.ok(), !row.aborts) << result.err;
  const std::string first = result.err.substr(0, result.err.find('\n'));
  EXPECT_TRUE(std::regex_match(first, std::regex(std::string("gleaner: ") + row.said)))
      << result.err;
}

INSTANTIATE_TEST_SUITE_P(All, WrongUseTest, ::testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
