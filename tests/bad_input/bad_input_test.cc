// What the API promises to programs that ask for what cannot be, and on systems that refuse. Each
// part runs in a child of its own that starts the collector anew; what it says on standard error is
// checked.
#include "tests/bad_input/bad_input.h"

#include <errno.h>
#include <gleaner.h>
#include <pthread.h>

#include <cstdlib>
#include <cstring>

namespace {

using namespace gleaner::testing;

size_t Opaque(size_t n) {
  volatile size_t copy = n;
  return copy;
}

// The heap still works.
void ExpectWorks() {
  for (int round = 0; round < 3; ++round) {
    Node* list = MakeList(10000);
    GC_gcollect();
    EXPECT_EQ(CountList(list, 10000), 10000u);
  }
}

int g_oom_calls = 0;
size_t g_oom_bytes = 0;
void* CountOom(size_t bytes) {
  ++g_oom_calls;
  g_oom_bytes = bytes;
  return nullptr;
}

// --- Wrong arguments ---

TEST(BadFreeTest, IsNamedAndIgnored) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    int on_stack = 0;
    static int in_data = 0;
    void* foreign = malloc(100);
    auto* object = static_cast<char*>(GC_malloc(100));
    auto* large = static_cast<char*>(GC_malloc(100000));
    GC_free(nullptr);
    GC_free(&on_stack);
    GC_free(&in_data);
    GC_free(foreign);
    GC_free(object + 8);
    GC_free(large + 50000);
    EXPECT_EQ(object[0], 0);
    GC_free(object);
    GC_free(object);
    GC_free(large);
    GC_free(large);
    free(foreign);
    ExpectWorks();
  });
  EXPECT_OK(result);
  size_t lines = 0;
  for (const char c : result.err) lines += c == '\n' ? 1 : 0;
  EXPECT_EQ(lines, 7u) << result.err;
  EXPECT_TRUE(Says(result, "GC_free(0x")) << result.err;
  EXPECT_TRUE(Says(result, "not an object of the heap; ignored")) << result.err;
  EXPECT_TRUE(Says(result, "points into an object, not to its start; ignored")) << result.err;
  EXPECT_TRUE(Says(result, "the object is free already; ignored")) << result.err;
}

// A file of the program's that has got the number of standard error gets no message.
TEST(MessagesTest, DoNotLandInAFile) {
  char path[] = "/tmp/gleaner_test_XXXXXX";
  const int file = mkstemp(path);
  ASSERT_GE(file, 0);
  const ChildResult result = RunWith({}, [&] {
    GC_INIT();
    auto* object = static_cast<char*>(GC_malloc(100));
    GC_free(object + 8);  // is told, to the pipe
    close(STDERR_FILENO);
    ASSERT_EQ(open(path, O_RDWR), STDERR_FILENO);
    GC_free(object + 8);
  });
  EXPECT_OK(result);
  EXPECT_TRUE(Says(result, "GC_free(0x")) << result.err;
  EXPECT_EQ(lseek(file, 0, SEEK_END), 0);
  unlink(path);
  close(file);
}

TEST(BadReallocTest, IsNamedAndRefused) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    int on_stack = 0;
    auto* object = static_cast<char*>(GC_malloc(100));
    errno = 0;
    EXPECT_EQ(GC_realloc(&on_stack, 10), nullptr);
    EXPECT_EQ(errno, EINVAL);
    EXPECT_EQ(GC_realloc(object + 16, 10), nullptr);
    GC_free(object);
    EXPECT_EQ(GC_realloc(object, 10), nullptr);
    ExpectWorks();
  });
  EXPECT_OK(result);
  EXPECT_TRUE(Says(result, "GC_realloc(0x")) << result.err;
  EXPECT_TRUE(Says(result, "not an object of the heap")) << result.err;
}

TEST(BadAlignmentTest, IsNamedAndRefused) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    for (const size_t alignment : {size_t{0}, size_t{3}, size_t{24}, size_t{4095}, SIZE_MAX}) {
      errno = 0;
      EXPECT_EQ(GC_memalign(Opaque(alignment), 100), nullptr) << alignment;
      EXPECT_EQ(errno, EINVAL);
    }
    void* untouched = &errno;
    EXPECT_EQ(GC_posix_memalign(&untouched, 24, 100), EINVAL);
    EXPECT_EQ(GC_posix_memalign(&untouched, 4, 100), EINVAL);
    EXPECT_EQ(untouched, &errno);
    EXPECT_EQ(GC_memalign(size_t{1} << 62, 100), nullptr);
    ExpectWorks();
  });
  EXPECT_OK(result);
  EXPECT_TRUE(Says(result, "GC_memalign(24, 100): the alignment is no power of two")) << result.err;
}

TEST(BadOptionsTest, AreReportedAtTheStartAndTheProgramRuns) {
  const ChildResult result =
      RunWith({"GLEANER_MARKRES=2", "GLEANER_K=0.1", "GLEANER_POLICY=best", "GC_MARKERS=1e9"}, [] {
        GC_INIT();
        ExpectWorks();
      });
  EXPECT_OK(result);
  EXPECT_TRUE(Says(result, "GLEANER_MARKRES is no option; did you mean GLEANER_MARKERS?"))
      << result.err;
  EXPECT_TRUE(Says(result, "option GLEANER_K: '0.1' is not allowed (1 to 65535); using 1"))
      << result.err;
  EXPECT_TRUE(Says(result, "option GLEANER_POLICY: 'best' is not allowed (lps/al/ps); using lps"))
      << result.err;
  EXPECT_TRUE(Says(result, "option GC_MARKERS: '1e9' is not allowed (0 to 64); using 0"))
      << result.err;
}

// --- Limits ---

// Fills what there is with a list, which is dropped on return.
__attribute__((noinline)) size_t FillHeap(size_t object_bytes) {
  void** list = nullptr;
  size_t bytes = 0;
  g_oom_calls = 0;
  while (auto* p = static_cast<void**>(GC_malloc(object_bytes))) {
    p[0] = list;
    list = p;
    bytes += object_bytes;
  }
  EXPECT_EQ(g_oom_calls, 1);
  EXPECT_EQ(g_oom_bytes, object_bytes);
  while (list != nullptr) {
    auto** next = static_cast<void**>(list[0]);
    list[0] = nullptr;
    list = next;
  }
  return bytes;
}

void* FillTogether(void*) {
  for (int i = 0; i < 3; ++i) {
    void** list = nullptr;
    while (auto* p = static_cast<void**>(GC_malloc(500))) {
      p[0] = list;
      list = p;
    }
  }
  return nullptr;
}

TEST(HeapLimitTest, HoldsForManyThreads) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    GC_set_oom_fn(CountOom);
    GC_set_max_heap_size(32 * kMiB);
    pthread_t threads[8];
    for (pthread_t& thread : threads)
      ASSERT_EQ(pthread_create(&thread, nullptr, FillTogether, nullptr), 0);
    for (pthread_t thread : threads) ASSERT_EQ(pthread_join(thread, nullptr), 0);
    EXPECT_LE(GC_get_heap_size(), 32 * kMiB);
    ExpectWorks();
  });
  EXPECT_OK(result);
}

// The system allows little address space from the start: it works, or it says why it cannot.
TEST(AddressSpaceTest, SmallFromTheStart) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs the address space itself";
  for (const size_t mib :
       {24, 48, 64, 100, 128, 160, 200, 256, 300, 400, 512, 700, 1024, 2048, 4096, 16384, 65536}) {
    for (const char* markers : {"GLEANER_MARKERS=1", "GLEANER_MARKERS=64"}) {
      const ChildResult result = RunWith({markers}, [mib] {
        const Limit limit(RLIMIT_AS, mib * kMiB);
        GC_INIT();
        GC_set_oom_fn(CountOom);
        // Most of a small space.
        ASSERT_NE(MakeList(100000), nullptr);
        ExpectWorks();
        if (mib <= 1024) {
          for (int round = 0; round < (mib <= 512 ? 2 : 1); ++round) {
            EXPECT_GE(FillHeap(1000), 4 * kMiB);
          }
          ExpectWorks();
        }
      });
      if (mib >= 200) {
        EXPECT_OK(result) << "\n" << mib << " MiB, " << markers;
      } else {
        EXPECT_TRUE(result.ok() || (result.aborted() && Says(result, "cannot start")))
            << mib << " MiB, " << markers << ": status 0x" << std::hex << result.status << "\n"
            << result.err;
      }
    }
  }
}

TEST(AddressSpaceTest, RefusedLater) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs the address space itself";
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    GC_set_oom_fn(CountOom);
    ExpectWorks();
    {
      // Less than is in use: what the heap has serves, and what needs more fails softly.
      const Limit limit(RLIMIT_AS, 4096);
      ExpectWorks();
      EXPECT_EQ(GC_malloc(50 * kMiB), nullptr);
      int count = 0;
      for (; count < 1'000'000; ++count) {
        void* object = GC_malloc(16);
        if (object == nullptr) break;
        GC_register_finalizer_no_order(
            object, [](void*, void*) {}, nullptr, nullptr, nullptr);
      }
      EXPECT_GT(count, 0);
      ExpectWorks();
    }
    ExpectWorks();
    EXPECT_NE(GC_malloc(50 * kMiB), nullptr);
  });
  EXPECT_OK(result);
}

// The system refuses to make memory usable (RLIMIT_DATA bounds private writable memory).
TEST(MemoryRefusedTest, AllocationFailsSoftlyAndRecovers) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer allocates, too";
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    GC_set_oom_fn(CountOom);
    Node* list = MakeList(200000);
    {
      const MemoryRefused refused;
      g_oom_calls = 0;
      void* keep = nullptr;
      size_t bytes = 0;
      while (void** p = static_cast<void**>(GC_malloc(5000))) {
        *p = keep;
        keep = p;
        bytes += 5000;
        if (bytes > 1024 * kMiB) break;
      }
      EXPECT_EQ(g_oom_calls, 1);
      EXPECT_LT(bytes, 100 * kMiB);
      GC_gcollect();
      EXPECT_EQ(CountList(list, 200000), 200000u);
    }
    EXPECT_NE(GC_malloc(50 * kMiB), nullptr);
    EXPECT_EQ(CountList(list, 200000), 200000u);
    ExpectWorks();
  });
  EXPECT_OK(result);
}

// Not even the first page of a mark stack is to be had: marking ends and loses nothing.
TEST(MemoryRefusedTest, AFirstCollectionNeedsNoNewMemory) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer allocates, too";
  const ChildResult result = RunWith(
      {"GLEANER_INITIAL_HEAP=1g", "GLEANER_MARKERS=2"},
      [] {
        GC_INIT();
        Node* list = MakeList(200000);
        ASSERT_EQ(GC_get_gc_no(), 0u);
        {
          const MemoryRefused refused;
          GC_gcollect();
          EXPECT_EQ(GC_get_gc_no(), 1u);
        }
        EXPECT_EQ(CountList(list, 200000), 200000u);
        ExpectWorks();
      },
      30);
  EXPECT_OK(result);
}

// --- Deep structures, small stacks ---

Node* g_list;

void* CollectOnSmallStack(void*) {
  GC_gcollect();
  // And an allocation that collects.
  for (int i = 0; i < 100000; ++i) GC_malloc(64);
  return nullptr;
}

// Depth costs no stack.
TEST(DeepTest, TenMillionNodesFromASmallStack) {
  const size_t length = kAddressSanitizer ? 1000000 : 10000000;
  for (const char* markers : {"GLEANER_MARKERS=1", "GLEANER_MARKERS=4"}) {
    const ChildResult result = RunWith(
        {markers},
        [length] {
          GC_INIT();
          g_list = MakeList(length);
          ASSERT_NE(g_list, nullptr);
          for (const size_t stack : {static_cast<size_t>(PTHREAD_STACK_MIN), size_t{64} * 1024}) {
            if (kAddressSanitizer && stack < 64 * 1024) continue;
            pthread_attr_t attributes;
            pthread_attr_init(&attributes);
            ASSERT_EQ(pthread_attr_setstacksize(&attributes, stack), 0);
            pthread_t thread;
            ASSERT_EQ(pthread_create(&thread, &attributes, CollectOnSmallStack, nullptr), 0);
            ASSERT_EQ(pthread_join(thread, nullptr), 0);
          }
          EXPECT_EQ(CountList(g_list, length), length);
        },
        110);
    EXPECT_OK(result);
  }
}

}  // namespace
