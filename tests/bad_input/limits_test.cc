// Programs that meet a limit: address space bounded before they start, writable memory refused
// while threads run, the heap limit of the environment, and a mark stack that cannot grow.
//
// This program calls itself: with --under-limit it is the one that is started with little address
// space.
#include <pthread.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>

#include "tests/bad_input/bad_input.h"

namespace {

using namespace gleaner::testing;

// A list of blocks with contents that follow from their number.
struct Block {
  Block* next;
  size_t number;
  size_t words;
  uint64_t contents[1];
};

uint64_t Word(size_t number, size_t i) { return (number * 1009 + i) * 0x9e3779b97f4a7c15u | 1; }

Block* Push(Block* list, size_t bytes) {
  auto* block = static_cast<Block*>(GC_malloc(bytes));
  if (block == nullptr) return nullptr;
  block->next = list;
  block->number = list == nullptr ? 1 : list->number + 1;
  block->words = (bytes - offsetof(Block, contents)) / sizeof(uint64_t);
  for (size_t i = 0; i < block->words; ++i) block->contents[i] = Word(block->number, i);
  return block;
}

bool IsIntact(const Block* list) {
  size_t number = list == nullptr ? 0 : list->number;
  for (; list != nullptr; list = list->next, --number) {
    if (list->number != number) return false;
    for (size_t i = 0; i < list->words; ++i) {
      if (list->contents[i] != Word(number, i)) return false;
    }
  }
  return number == 0;
}

// Fills what there is, on top of `list`, with blocks of many sizes. The longer list.
Block* Fill(Block* list, size_t max_bytes, size_t* filled) {
  for (size_t i = 0; *filled < max_bytes; ++i) {
    const size_t bytes = 40 + i * 7919 % (i % 50 == 0 ? 100000 : 2000);
    Block* longer = Push(list, bytes);
    if (longer == nullptr) return list;
    list = longer;
    *filled += bytes;
  }
  return list;
}

// Clears the links, so that no stale pointer keeps more than one block.
__attribute__((noinline)) void Destroy(Block* list) {
  while (list != nullptr) {
    Block* next = list->next;
    list->next = nullptr;
    list = next;
  }
}

// --- RLIMIT_AS before exec ---

// 0 if all is well; writes what is not.
int Complaint(const char* what) {
  fprintf(stderr, "under limit: %s\n", what);
  return 1;
}

Block* g_kept;
Block* g_more;

int UnderLimit() {
  GC_INIT();
  size_t kept_bytes = 0;
  g_kept = Fill(nullptr, 1 * kMiB, &kept_bytes);
  if (kept_bytes < 1 * kMiB) return Complaint("not even 1 MiB");
  for (int round = 0; round < 2; ++round) {
    size_t filled = 0;
    g_more = Fill(nullptr, 4096 * kMiB, &filled);
    fprintf(stderr, "under limit: %zu KiB in round %d\n", filled / 1024, round);
    if (filled >= 4096 * kMiB) return Complaint("no end of memory");
    if (filled < 2 * kMiB) return Complaint("hardly any memory");
    if (!IsIntact(g_more) || !IsIntact(g_kept)) return Complaint("contents changed");
    GC_gcollect();
    if (!IsIntact(g_more) || !IsIntact(g_kept)) return Complaint("contents changed by collection");
    Destroy(g_more);
    g_more = nullptr;
    GC_gcollect();
  }
  return 0;
}

TEST(AddressSpaceTest, BoundedBeforeTheProgramStarts) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer needs the address space itself";
  for (const char* concurrent : {"GLEANER_CONCURRENT=0", "GLEANER_CONCURRENT=1"}) {
    for (const size_t mib : {64, 256, 1024}) {
      const ChildResult result = RunWith({concurrent}, [mib] {
        const Limit limit(RLIMIT_AS, mib * kMiB);
        execl("/proc/self/exe", "limits_test", "--under-limit", nullptr);
        _exit(3);
      });
      EXPECT_OK(result) << "\n" << mib << " MiB, " << concurrent;
      printf("%zu MiB, %s: %s", mib, concurrent, result.err.c_str());
    }
  }
}

TEST(AddressSpaceTest, OfAnySize) {
  for (const char* reserve : {"GLEANER_RESERVE=100000001", "GLEANER_RESERVE=77777777"}) {
    const ChildResult result = RunWith({reserve}, [] {
      GC_INIT();
      size_t filled = 0;
      g_kept = Fill(nullptr, 8 * kMiB, &filled);
      EXPECT_GE(filled, 8 * kMiB);
      for (size_t made = 0; made < 8 * kMiB; made += 5000) {
        ASSERT_NE(GC_malloc_atomic(5000), nullptr);
      }
      GC_gcollect();
      EXPECT_TRUE(IsIntact(g_kept));
    });
    EXPECT_OK(result) << "\n" << reserve;
  }
}

// --- RLIMIT_DATA while threads run ---

struct Party {
  std::atomic<bool> refused{false};
  std::atomic<bool> allowed{false};
  std::atomic<int> at_work{0};
  std::atomic<int> at_the_limit{0};
  std::atomic<int> wrong{0};
};

void* AllocateThroughTheLimit(void* argument) {
  auto& party = *static_cast<Party*>(argument);
  Block* list = nullptr;
  size_t filled = 0;
  bool is_at_work = false;
  // Goes on collecting its own garbage until memory is refused.
  while (!party.refused) {
    filled = 0;
    list = Fill(nullptr, kMiB, &filled);
    if (!IsIntact(list)) ++party.wrong;
    if (!is_at_work) ++party.at_work;
    is_at_work = true;
  }
  filled = 0;
  list = Fill(list, 4096 * kMiB, &filled);
  if (filled >= 4096 * kMiB) ++party.wrong;
  ++party.at_the_limit;
  if (!IsIntact(list)) ++party.wrong;
  GC_gcollect();
  if (!IsIntact(list)) ++party.wrong;
  while (!party.allowed) {
    GC_malloc(10000);
    GC_malloc(10);
  }
  filled = 0;
  Block* again = Fill(nullptr, 8 * kMiB, &filled);
  if (filled < 8 * kMiB || !IsIntact(again) || !IsIntact(list)) ++party.wrong;
  return nullptr;
}

TEST(MemoryRefusedTest, WhileThreadsAllocate) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer allocates, too";
  for (const char* setting :
       {"GLEANER_POLICY=lps", "GLEANER_POLICY=al", "GLEANER_POLICY=ps", "GLEANER_CONCURRENT=1"}) {
    const ChildResult result = RunWith({setting}, [] {
      GC_INIT();
      static Party party;
      pthread_t threads[4];
      for (pthread_t& thread : threads) {
        ASSERT_EQ(pthread_create(&thread, nullptr, AllocateThroughTheLimit, &party), 0);
      }
      while (party.at_work != 4) usleep(1000);
      {
        const MemoryRefused refused;
        party.refused = true;
        while (party.at_the_limit != 4) {
          GC_gcollect();
          usleep(1000);
        }
      }
      party.allowed = true;
      for (pthread_t thread : threads) ASSERT_EQ(pthread_join(thread, nullptr), 0);
      EXPECT_EQ(party.wrong, 0);
    });
    EXPECT_OK(result) << "\n" << setting;
  }
}

// --- The heap limit ---

int g_oom_calls = 0;
size_t g_oom_bytes = 0;
char g_spare[100000];
// Volatile: the compiler knows that GC_malloc returns what nobody else has a pointer to.
void* volatile g_answer = g_spare;
void* AnswerOom(size_t bytes) {
  ++g_oom_calls;
  g_oom_bytes = bytes;
  return g_answer;
}
bool IsAnswer(void* p) {
  void* volatile opaque = p;
  return opaque == g_answer;
}

void* AllocateLarge(void*) {
  void* large = GC_malloc(12 * kMiB);
  if (!IsAnswer(large)) memset(large, 1, 12 * kMiB);
  return nullptr;
}

TEST(HeapLimitTest, TheOomFunctionsAnswerIsReturnedAndSurvivorsAreIntact) {
  for (const char* limit : {"GC_MAXIMUM_HEAP_SIZE=33554432", "GLEANER_MAX_HEAP=32M"}) {
    const ChildResult result = RunWith({limit}, [] {
      GC_INIT();
      GC_set_oom_fn(AnswerOom);
      size_t filled = 0;
      g_kept = Fill(nullptr, 4 * kMiB, &filled);
      for (int round = 0; round < 4; ++round) {
        g_oom_calls = 0;
        size_t bytes = 0;
        for (filled = 0;; filled += bytes) {
          bytes = 40 + filled * 31 % 3000;
          auto* block = static_cast<Block*>(GC_malloc(bytes));
          if (g_oom_calls != 0) {
            EXPECT_TRUE(IsAnswer(block));
            break;
          }
          block->next = g_more;
          g_more = block;
          ASSERT_LT(filled, 64 * kMiB);
        }
        EXPECT_EQ(g_oom_calls, 1);
        EXPECT_EQ(g_oom_bytes, bytes);
        EXPECT_GE(filled, 20 * kMiB);
        EXPECT_TRUE(IsIntact(g_kept));
        // Full is full, however one asks.
        EXPECT_TRUE(IsAnswer(GC_malloc_atomic(90000)));
        EXPECT_EQ(g_oom_bytes, 90000u);
        EXPECT_TRUE(IsAnswer(GC_malloc_uncollectable(8 * kMiB)));
        EXPECT_TRUE(IsAnswer(GC_memalign(65536, 5000000)));
        EXPECT_LE(GC_get_heap_size(), 32 * kMiB);
        Destroy(g_more);
        g_more = nullptr;
        g_oom_calls = 0;
        pthread_t thread;  // its stack, and what is left there, goes with it
        ASSERT_EQ(pthread_create(&thread, nullptr, AllocateLarge, nullptr), 0);
        ASSERT_EQ(pthread_join(thread, nullptr), 0);
        EXPECT_EQ(g_oom_calls, 0);
        EXPECT_TRUE(IsIntact(g_kept));
      }
    });
    EXPECT_OK(result) << "\n" << limit;
    EXPECT_EQ(result.err, "") << limit;
  }
}

// A program that goes on after NULL does not wait for a collection at each further one. One that
// drops all it has gets memory soon, and one that drops a piece at a time keeps some.
TEST(HeapLimitTest, RequestsThatFailInARowAreCheap) {
  for (const char* mode :
       {"GLEANER_CONCURRENT=0", "GLEANER_CONCURRENT=1", "GLEANER_GENERATIONAL=2"}) {
    const ChildResult result = RunWith({mode}, [] {
      GC_INIT();
      GC_set_oom_fn([](size_t) -> void* { return nullptr; });
      GC_set_max_heap_size(64 * kMiB);
      const auto fill_up = [] {
        size_t filled = 0;
        for (;; filled += sizeof(Block)) {
          auto* block = static_cast<Block*>(GC_malloc(sizeof(Block)));
          if (block == nullptr) return filled;
          block->next = g_more;
          g_more = block;
        }
      };
      // What a stack still refers to keeps nothing else.
      const auto drop_all = [] {
        Destroy(g_more);
        g_more = nullptr;
      };
      for (int round = 0; round < 3; ++round) {
        drop_all();
        EXPECT_GE(fill_up(), 8 * kMiB) << "round " << round;  // in small pieces
      }
      const auto before = GC_get_gc_no();
      for (int i = 0; i < 1000; ++i) ASSERT_EQ(GC_malloc(kMiB), nullptr);
      EXPECT_LE(GC_get_gc_no() - before, 500u);
      drop_all();
      while (GC_malloc(kMiB) == nullptr) usleep(1000);

      static void* cache[40];
      for (void*& entry : cache) ASSERT_NE(entry = GC_malloc(kMiB), nullptr);
      for (int i = 0; i < 3; ++i) ASSERT_EQ(GC_malloc(1024 * kMiB), nullptr);
      for (void*& entry : cache) entry = nullptr;
      EXPECT_NE(GC_malloc(8 * kMiB), nullptr);  // less has not been tried in vain

      for (void*& entry : cache) ASSERT_NE(entry = GC_malloc(kMiB), nullptr);
      int dropped = 0;
      while (GC_malloc(36 * kMiB) == nullptr && dropped < 40) cache[dropped++] = nullptr;
      EXPECT_LT(dropped, 40);
    });
    EXPECT_OK(result) << "\n" << mode;
  }
}

// A heap of one size, as programs have it that embed a runtime.

// Allocates what is garbage at once.
void MakeGarbage(size_t bytes) {
  constexpr size_t kBytes = 100;
  for (size_t made = 0; made < bytes; made += kBytes) {
    if (GC_malloc(kBytes) == nullptr) {
      ADD_FAILURE() << made << " of " << bytes << " bytes";
      return;
    }
  }
}

TEST(HeapLimitTest, AHeapAskedForIsGrantedToTheByteAndUsedUp) {
  for (const char* mode : {"GLEANER_MODE=stop", "GLEANER_CONCURRENT=1", "GLEANER_GENERATIONAL=1"}) {
    const ChildResult result = RunWith({mode}, [mode] {
      constexpr size_t kBytes = 8 * kMiB + 12345;
      const bool early = strcmp(mode, "GLEANER_MODE=stop") != 0;
      GC_INIT();
      GC_set_max_heap_size(kBytes);
      ASSERT_EQ(GC_expand_hp(kBytes - GC_get_heap_size()), 1);
      EXPECT_EQ(GC_get_heap_size(), kBytes);
      EXPECT_EQ(GC_expand_hp(1), 0);
      const GC_word before = GC_get_gc_no();
      MakeGarbage(kBytes * 3 / 4);
      EXPECT_EQ(GC_get_gc_no(), before);
      size_t filled = 0;
      g_kept = Fill(nullptr, kBytes / 4, &filled);
      GC_gcollect();
      const GC_word first = GC_get_gc_no();
      constexpr size_t kTimes = 12;  // what is not live
      MakeGarbage(kTimes * (kBytes - filled));
      const GC_word collections = GC_get_gc_no() - first;
      printf("%s: %zu collections\n", mode, static_cast<size_t>(collections));
      EXPECT_LE(collections, early ? 2 * kTimes : kTimes * 5 / 4);
      EXPECT_TRUE(IsIntact(g_kept));
      EXPECT_EQ(GC_get_heap_size(), kBytes);
    });
    EXPECT_OK(result) << "\n" << mode;
    EXPECT_EQ(result.err, "") << mode;
  }
}

TEST(HeapLimitTest, AHeapAskedForLaterIsUsedUpToo) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    MakeGarbage(4 * kMiB);
    GC_gcollect();
    const GC_word before = GC_get_gc_no();
    ASSERT_EQ(GC_expand_hp(16 * kMiB), 1);
    MakeGarbage(14 * kMiB);
    EXPECT_EQ(GC_get_gc_no(), before);
    MakeGarbage(4 * kMiB);
    EXPECT_GT(GC_get_gc_no(), before);
  });
  EXPECT_OK(result);
}

// What is free among pages for pointer-free objects makes room for others.
TEST(HeapLimitTest, RoomOnTheOtherSideIsUsed) {
  const ChildResult result = RunWith({}, [] {
    constexpr size_t kBytes = 16 * kMiB;
    GC_INIT();
    GC_set_max_heap_size(kBytes);
    ASSERT_EQ(GC_expand_hp(kBytes - GC_get_heap_size()), 1);
    for (size_t made = 0; made < kBytes * 7 / 8; made += 1000) {
      ASSERT_NE(GC_malloc_atomic(1000), nullptr);
    }
    GC_gcollect();
    const GC_word before = GC_get_gc_no();
    MakeGarbage(kBytes * 3 / 4);
    EXPECT_EQ(GC_get_gc_no(), before);
    EXPECT_LE(GC_get_heap_size(), kBytes);
  });
  EXPECT_OK(result);
}

// --- More than the system has ---

size_t ResidentBytes() {
  size_t all = 0;
  size_t resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * 4096;
}

bool SystemHas(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  munmap(p, bytes);
  return true;
}

TEST(HugeObjectTest, BeyondMemoryIsRefusedAndWhatIsNotUsedIsNotWritten) {
  for (const char* mode :
       {"GLEANER_CONCURRENT=0", "GLEANER_CONCURRENT=1", "GLEANER_GENERATIONAL=1"}) {
    const ChildResult result = RunWith({mode}, [] {
      GC_INIT();
      size_t filled = 0;
      g_kept = Fill(nullptr, 2 * kMiB, &filled);
      struct sysinfo info;
      ASSERT_EQ(sysinfo(&info), 0);
      const size_t beyond = (info.totalram + info.totalswap) * info.mem_unit + 64 * kMiB;
      const bool granted = SystemHas(beyond);
      EXPECT_EQ(GC_malloc(beyond) != nullptr, granted);
      EXPECT_EQ(GC_malloc_atomic(beyond) != nullptr, granted);
      EXPECT_EQ(GC_malloc_uncollectable(beyond) != nullptr, granted);
      EXPECT_EQ(GC_realloc(GC_malloc(100000), beyond) != nullptr, granted);
      // Memory that had contents.
      constexpr size_t kBytes = 64 * kMiB;
      auto* first = static_cast<char*>(GC_malloc(kBytes));
      memset(first, 0xa5, kBytes);
      GC_free(first);
      const size_t before = ResidentBytes() - kBytes;
      for (int i = 0; i < 5; ++i) {
        auto* again = static_cast<char*>(GC_malloc(kBytes - 100));
        again[i * 12345] = 1;
        EXPECT_LT(ResidentBytes(), before + kBytes / 2);
        GC_free(again);
      }
      auto* all = static_cast<char*>(GC_malloc(kBytes));
      EXPECT_EQ(std::count(all, all + kBytes, 0), static_cast<ptrdiff_t>(kBytes));
      memset(all, 1, kBytes / 2);
      GC_gcollect();
      EXPECT_EQ(std::count(all, all + kBytes, 1), static_cast<ptrdiff_t>(kBytes / 2));
      EXPECT_TRUE(IsIntact(g_kept));
    });
    EXPECT_OK(result) << "\n" << mode;
  }
}

// --- The mark stack ---

// Each node of the spine has 500 leaves. The next node is one of them, not the first and not among
// the very last, so a depth-first marker leaves some hundred ranges behind at each step.
struct Spine {
  static constexpr size_t kTeeth = 507;
  struct Leaf {
    Leaf* self;
    uint64_t number;
  };
  uint64_t number;
  Leaf* teeth[kTeeth];
};

size_t PlaceOfNext(size_t i) { return i % 2 == 0 ? 200 : 440; }

void* g_spine;

void BuildSpine(size_t length) {
  for (size_t i = 0; i < length; ++i) {
    auto* node = static_cast<Spine*>(GC_malloc(sizeof(Spine)));
    ASSERT_NE(node, nullptr);
    node->number = i;
    for (size_t t = 0; t < Spine::kTeeth; ++t) {
      if (t == PlaceOfNext(i)) {
        node->teeth[t] = static_cast<Spine::Leaf*>(g_spine);
        continue;
      }
      auto* leaf = static_cast<Spine::Leaf*>(GC_malloc(sizeof(Spine::Leaf)));
      ASSERT_NE(leaf, nullptr);
      leaf->self = leaf;
      leaf->number = ~(i * Spine::kTeeth + t);
      node->teeth[t] = leaf;
    }
    g_spine = node;
  }
}

// The leaves that are as they were.
size_t CountSpine(size_t length) {
  size_t leaves = 0;
  const auto* node = static_cast<const Spine*>(g_spine);
  for (size_t i = length; i-- > 0;) {
    if (GC_base(const_cast<Spine*>(node)) != node || node->number != i) return leaves;
    for (size_t t = 0; t < Spine::kTeeth; ++t) {
      if (t == PlaceOfNext(i)) continue;
      const Spine::Leaf* leaf = node->teeth[t];
      if (leaf->self == leaf && leaf->number == ~(i * Spine::kTeeth + t)) ++leaves;
    }
    node = reinterpret_cast<const Spine*>(node->teeth[PlaceOfNext(i)]);
  }
  return leaves;
}

void* CollectThenOverwrite(void*) {
  GC_gcollect();
  // What was lost is overwritten.
  for (size_t i = 0; i < 200000; ++i) {
    auto* garbage = static_cast<uint64_t*>(GC_malloc(16));
    if (garbage != nullptr) garbage[0] = garbage[1] = i;
  }
  return nullptr;
}

void CollectOnSmallStack() {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, kAddressSanitizer ? 1 << 20 : 64 * 1024), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, &attributes, CollectThenOverwrite, nullptr), 0);
  ASSERT_EQ(pthread_join(thread, nullptr), 0);
}

// A stack for 64 MiB / 256 entries, and a graph that needs half as many again.
TEST(MarkStackTest, AWideGraphWithASmallReservation) {
  for (const char* markers : {"GLEANER_MARKERS=1", "GLEANER_MARKERS=4"}) {
    const ChildResult result =
        RunWith({markers, "GLEANER_RESERVE=64m", "GLEANER_MARK_VERIFY=1"}, [] {
          constexpr size_t kLength = 1500;
          GC_INIT();
          BuildSpine(kLength);
          for (int round = 0; round < 3; ++round) {
            CollectOnSmallStack();
            EXPECT_EQ(CountSpine(kLength), kLength * (Spine::kTeeth - 1));
          }
        });
    EXPECT_OK(result) << "\n" << markers;
  }
}

// The stack has some memory but gets no more.
TEST(MarkStackTest, AWideGraphWithoutMemoryForTheStack) {
  if (kAddressSanitizer) GTEST_SKIP() << "the sanitizer allocates, too";
  for (const char* markers : {"GLEANER_MARKERS=1", "GLEANER_MARKERS=4"}) {
    const ChildResult result = RunWith({markers, "GLEANER_INITIAL_HEAP=1g"}, [] {
      constexpr size_t kLength = 150;
      GC_INIT();
      GC_gcollect();  // some entries
      BuildSpine(kLength);
      {
        const MemoryRefused refused;
        for (int round = 0; round < 3; ++round) {
          CollectThenOverwrite(nullptr);
          EXPECT_EQ(CountSpine(kLength), kLength * (Spine::kTeeth - 1));
        }
      }
      CollectOnSmallStack();
      EXPECT_EQ(CountSpine(kLength), kLength * (Spine::kTeeth - 1));
    });
    EXPECT_OK(result) << "\n" << markers;
  }
}

// --- Counts ---

// Frees that are ignored change no statistic, and an object's share of one ends with the object.
TEST(BadFreeTest, NonGcBytesStayRight) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    const GC_word before = GC_get_non_gc_bytes();
    auto* small = static_cast<char*>(GC_malloc_uncollectable(100));
    auto* large = static_cast<char*>(GC_malloc_uncollectable(100000));
    const GC_word both = GC_get_non_gc_bytes();
    EXPECT_GE(both, before + 100100);
    GC_free(small + 8);
    GC_free(large + 8);
    GC_free(large + 50000);
    EXPECT_EQ(GC_get_non_gc_bytes(), both) << "pointers into objects";
    GC_free(small);
    const GC_word one = GC_get_non_gc_bytes();
    EXPECT_GE(one, before + 100000);
    EXPECT_LT(one, both);
    GC_free(small);
    EXPECT_EQ(GC_get_non_gc_bytes(), one) << "freed twice";
    GC_free(large);
    EXPECT_EQ(GC_get_non_gc_bytes(), before);
  });
  EXPECT_OK(result);
}

TEST(BadFreeTest, NonGcBytesFollowAnObjectThatIsResized) {
  const ChildResult result = RunWith({}, [] {
    GC_INIT();
    const GC_word before = GC_get_non_gc_bytes();
    void* p = GC_malloc_uncollectable(20000);
    for (const size_t bytes : {100000, 1000000, 90000, 20, 5000, 40000, 1, 70000}) {
      p = GC_realloc(p, bytes);
      ASSERT_NE(p, nullptr);
      EXPECT_GE(GC_get_non_gc_bytes(), before + bytes) << bytes;
      EXPECT_LE(GC_get_non_gc_bytes(), before + 2 * bytes + 16384) << bytes;
    }
    GC_free(p);
    EXPECT_EQ(GC_get_non_gc_bytes(), before);
  });
  EXPECT_OK(result);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && strcmp(argv[1], "--under-limit") == 0) return UnderLimit();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
