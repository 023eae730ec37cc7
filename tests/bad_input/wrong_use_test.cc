// One row for each way to use a function wrongly that has a message of its own and no test beside
// what the function is for: the whole message, whether the program ends by it, and that the heap
// works on.
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gleaner.h>
#include <sys/mman.h>

#include <cerrno>
#include <csignal>
#include <regex>

#include "tests/bad_input/bad_input.h"

namespace {

using namespace gleaner::testing;

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

struct Row {
  const char* name;
  const char* said;  // a pattern for the whole line behind "gleaner: "
  bool aborts;
  void (*use)();
};

void TakeAllKinds() {
  while (GC_new_kind(GC_new_free_list(), 0, 0, 1) < 15) {
  }
}

GC_ms_entry* MarkNothing(GC_word*, GC_ms_entry* stack, GC_ms_entry*, GC_word) { return stack; }

const Row kRows[] = {
    {"Kind", "GC_generic_malloc: there is no kind 99", false,
     [] {
       EXPECT_EQ(GC_generic_malloc(16, 99), nullptr);
       EXPECT_EQ(errno, EINVAL);
     }},
    {"NegativeKind", "GC_generic_malloc: there is no kind -1", false,
     [] { EXPECT_EQ(GC_generic_malloc(16, -1), nullptr); }},
    {"KindWithoutFreeList", "GC_new_kind: the free list is NULL; ignored", false,
     NewKindWithoutFreeList},
    {"DescriptorWithoutProcedures",
     "fatal: GC_make_descriptor: all numbers of mark procedures are in use", true,
     [] {
       unsigned last = 0;
       const unsigned max = 1u << GC_LOG_MAX_MARK_PROCS;
       while (last + 1 < max) last = GC_new_proc(MarkNothing);
       const GC_word bitmap[1] = {1};
       GC_make_descriptor(bitmap, 2);
     }},
    {"DescriptorWithoutKinds", "fatal: GC_make_descriptor: all kinds are in use", true,
     [] {
       TakeAllKinds();
       const GC_word bitmap[1] = {1};
       GC_make_descriptor(bitmap, 2);
     }},
    {"GcjWithoutKinds", "fatal: GC_init_gcj_malloc: all kinds are in use", true,
     [] {
       TakeAllKinds();
       GC_init_gcj_malloc(0, reinterpret_cast<void*>(MarkNothing));
     }},
    {"FinalizedWithoutKinds", "fatal: GC_init_finalized_malloc: all kinds are in use", true,
     [] {
       TakeAllKinds();
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

// Pages in the middle of static data that the program makes unreadable, as guards of a secret.
constexpr size_t kOsPage = 4096;
alignas(kOsPage) char g_zeroes[3 * kOsPage];
alignas(kOsPage) char g_data[3 * kOsPage] = {1};
char* const kUnreadable[] = {g_zeroes + kOsPage, g_data + kOsPage};
constexpr int kAdviceGuard = 102;  // MADV_GUARD_INSTALL; Linux 6.13

bool MakeUnreadable(char* page, int how) {
  if (how == 0) return mprotect(page, kOsPage, PROT_NONE) == 0;
  return how == 1 ? munmap(page, kOsPage) == 0 : madvise(page, kOsPage, kAdviceGuard) == 0;
}

TEST(UnreadableRootTest, IsNamed) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer has a handler";
  for (const Mode& mode : kModes) {
    for (int how = 0; how < 3; ++how) {
      for (char* page : kUnreadable) {
        const ChildResult result = RunWith({mode.settings[0], mode.settings[1]}, [&] {
          GC_INIT();
          GC_gcollect();
          if (!MakeUnreadable(page, how)) _exit(0);
          GC_gcollect();
        });
        if (how == 2 && result.ok()) continue;  // an older system
        EXPECT_TRUE(result.aborted()) << result.status << result.err;
        char said[200];
        snprintf(said, sizeof said,
                 "gleaner: fatal: the program has made memory unreadable that is searched for "
                 "pointers: %p, in static data or by GC_add_roots; "
                 "GC_exclude_static_roots leaves memory out",
                 static_cast<void*>(page));
        EXPECT_TRUE(Says(result, said)) << result.err;
      }
    }
  }
}

TEST(UnreadableRootTest, IsLeftOutIfTheProgramSaysSo) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    for (char* page : kUnreadable) {
      GC_exclude_static_roots(page, page + kOsPage);
      EXPECT_TRUE(MakeUnreadable(page, 0));
    }
    for (int i = 0; i < 3; ++i) GC_gcollect();
  });
  EXPECT_OK(result);
}

struct sigaction ActionOfFault() {
  struct sigaction action;
  EXPECT_EQ(sigaction(SIGSEGV, nullptr, &action), 0);
  return action;
}

// The program's action of SIGSEGV is as it was, and its handler gets the fault.
TEST(UnreadableRootTest, GoesToTheProgramsHandler) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer has a handler";
  const ChildResult result = RunWith({"GLEANER_MODE=stop"}, [] {
    GC_INIT();
    GC_gcollect();
    EXPECT_EQ(ActionOfFault().sa_handler, SIG_DFL);
    struct sigaction action = {};
    action.sa_handler = SIG_IGN;
    EXPECT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    GC_gcollect();
    EXPECT_EQ(ActionOfFault().sa_handler, SIG_IGN);
    action.sa_handler = [](int) { _exit(CountFailures() == 0 ? 0 : 8); };
    EXPECT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    GC_gcollect();
    EXPECT_EQ(ActionOfFault().sa_handler, action.sa_handler);
    EXPECT_TRUE(MakeUnreadable(g_data + kOsPage, 0));
    GC_gcollect();
    _exit(9);
  });
  EXPECT_OK(result);
  EXPECT_FALSE(Says(result, "fatal")) << result.err;
}

// A fault that is not the collector's ends the program as it would without a collector: here that
// of a procedure which the collector calls.
TEST(UnreadableRootTest, AnotherFaultIsASegmentationFault) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer has a handler";
  const ChildResult result = RunWith({"GLEANER_MODE=stop"}, [] {
    GC_INIT();
    const auto fault = [](GC_word* object, GC_ms_entry* stack, GC_ms_entry*, GC_word) {
      if (object[1] == 1) *static_cast<volatile char*>(Null()) = 1;
      return stack;
    };
    const unsigned kind =
        GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(fault), 0), 0, 1);
    volatile GC_word* volatile object =
        static_cast<GC_word*>(GC_generic_malloc(16, static_cast<int>(kind)));
    object[1] = 1;
    GC_gcollect();
    _exit(object != nullptr ? 9 : 8);
  });
  EXPECT_TRUE(WIFSIGNALED(result.status) && WTERMSIG(result.status) == SIGSEGV) << result.status;
  EXPECT_EQ(result.err, "");
}

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
