// Runs, windows and lists of a thread's heap, driven by one thread.
#include <gtest/gtest.h>
#include <sys/mman.h>

#include <random>
#include <set>
#include <vector>

#include "alloc/mark_bytes.h"
#include "tests/support/heap.h"

namespace gleaner::alloc {
namespace {

using namespace testing;

CHILD_TEST(ThreadHeapTest, TheFirstPagesAreUsedSlotBySlot) {
  StartHeap();
  for (size_t c = 0; c < kClassCount; ++c) {
    const size_t slots = kPageBytes / kSlotBytes[c];
    std::set<Addr> page;
    for (size_t i = 0; i < slots; ++i) {
      void* p = Allocate(Kind::kNormal, kSlotBytes[c]);
      page.insert(AddressOf(p));
      EXPECT_EQ(AddressOf(p) & ~(kPageBytes - 1), *page.begin() & ~(kPageBytes - 1)) << c;
    }
    EXPECT_EQ(page.size(), slots);
  }
}

// The slots that the page of `inside` has free, from the highest to the lowest.
std::vector<Addr> FreeSlotsDownwards(void* inside) {
  const PageNumber page = g_space.PageOf(AddressOf(inside));
  const PageInfo& info = g_space.info[page];
  std::vector<Addr> free;
  for (size_t slot = info.slot_count; slot-- != 0;) {
    if (g_space.MarksOf(page)[slot] != kFreeSlot) continue;
    free.push_back(g_space.AddressOfPage(page) + slot * info.slot_bytes);
  }
  return free;
}

// Allocation in a page takes each free slot, and no other, downwards: in a page without objects,
// and with any pattern of objects left in it, for a model that looks at one byte at a time.
CHILD_TEST(ThreadHeapTest, AllocationTakesTheFreeSlotsOfAPageDownwards) {
  StartHeap();
  std::mt19937 random(12);
  for (size_t c = 0; c < kClassCount; ++c) {
    const size_t slots = kPageBytes / kSlotBytes[c];
    for (const Kind kind : {Kind::kNormal, Kind::kAtomic}) {
      for (int round = 0; round < 8; ++round) {
        // Two new pages, used up one after the other.
        std::vector<void*> pages[2];
        for (std::vector<void*>& page : pages) {
          for (size_t i = 0; i < slots; ++i) page.push_back(Allocate(kind, kSlotBytes[c]));
          for (size_t i = 1; i < slots; ++i) {
            ASSERT_EQ(AddressOf(page[i]), AddressOf(page[i - 1]) - kSlotBytes[c]);
          }
          ASSERT_TRUE(FreeSlotsDownwards(page[0]).empty());
        }
        // Enough is freed in the first to list it, and not all, which would make it a free page.
        const unsigned share = 1 + random() % 7;
        size_t freed = 0;
        for (void* object : pages[0]) {
          if (freed + 1 == slots) break;
          if (random() % 8 >= share && freed * 8 >= slots) continue;
          ASSERT_EQ(FreeObject(object), FreeResult::kFreed);
          ++freed;
        }
        const std::vector<Addr> expected = FreeSlotsDownwards(pages[0][0]);
        ASSERT_EQ(expected.size(), freed);
        for (const Addr slot : expected) {
          ASSERT_EQ(AddressOf(Allocate(kind, kSlotBytes[c])), slot) << "class " << c;
        }
        ASSERT_TRUE(FreeSlotsDownwards(pages[0][0]).empty());
      }
    }
  }
}

CHILD_TEST(ThreadHeapTest, TheFastPathIsTakenForNearlyAllObjects) {
  StartHeap();
  size_t fast = 0;
  for (int i = 0; i < 100000; ++i) {
    void* p;
    if (t_heap->TryBump(Kind::kNormal, SizeClassOf(16), &p)) {
      ++fast;
    } else {
      ASSERT_NE(Allocate(Kind::kNormal, 16), nullptr);
    }
  }
  EXPECT_GT(fast, 99000u);  // a window is 2 KiB, 128 objects
}

// With the tables that threads share out of reach, the fast path goes on.
CHILD_TEST(ThreadHeapTest, TheFastPathTouchesNoSharedMemory) {
  StartHeap();
  for (const Kind kind :
       {Kind::kNormal, Kind::kAtomic, Kind::kUncollectable, Kind::kAtomicUncollectable}) {
    for (const size_t bytes : {16u, 32u, 112u, 256u}) {
      const size_t size_class = SizeClassOf(bytes);
      ASSERT_NE(Allocate(kind, bytes), nullptr);
      const size_t pages = g_space.page_count();
      const auto protect = [pages](int protection) {
        // Only the part that is committed is read and written.
        for (const Space space : {Space::kScanned, Space::kPointerFree}) {
          const PageNumber first = FirstCommitted(space);
          const PageNumber count = EndCommitted(space) - first;
          if (count == 0) continue;
          ASSERT_EQ(mprotect(g_space.info + first, count * sizeof(PageInfo), protection), 0);
          ASSERT_EQ(mprotect(g_space.meta + first, count * sizeof(PageMeta), protection), 0);
          ASSERT_EQ(mprotect(g_space.MarksOf(first), count * kMarkBytesPerPage, protection), 0);
        }
        ASSERT_LE(EndCommitted(Space::kScanned), pages);
      };
      size_t fast = 0;
      const uint64_t before = platform::AtomicRmwCount();
      protect(PROT_NONE);
      void* p;
      while (t_heap->TryBump(kind, size_class, &p)) ++fast;
      const uint64_t after = platform::AtomicRmwCount();
      protect(PROT_READ | PROT_WRITE);
      EXPECT_GE(fast, 2 * kKiB / bytes - 1);
      EXPECT_EQ(after, before);
      EXPECT_NE(Allocate(kind, bytes), nullptr);
    }
  }
}

#ifdef GLEANER_VERIFY
CHILD_TEST(ThreadHeapTest, MillionsOfObjectsNeedFewAtomicReadModifyWrites) {
  StartHeap();
  constexpr int kObjects = 1000000;
  const uint64_t before = platform::AtomicRmwCount();
  for (int i = 0; i < kObjects; ++i) ASSERT_NE(Allocate(Kind::kNormal, 16), nullptr);
  const uint64_t count = platform::AtomicRmwCount() - before;
  printf("%lu atomic read-modify-writes for %d objects of 16 bytes\n",
         static_cast<unsigned long>(count), kObjects);
  // Of the commit frontier, the page space, the thread's own lock and the page's standing, a few
  // for each page.
  constexpr size_t kPages = kObjects * size_t{16} / kPageBytes + 1;
  EXPECT_LE(count, 7 * kPages);
}
#endif

// Dirties memory of all classes, gives it back slot by slot in an order that makes runs of all
// lengths, and looks at what comes out again.
CHILD_TEST(ThreadHeapTest, MemoryIsZeroAfterReuseInAllClasses) {
  StartHeap();
  std::mt19937 random(10);
  for (int round = 0; round < 4; ++round) {
    for (size_t c = 0; c < kClassCount; ++c) {
      for (const Kind kind : {Kind::kNormal, Kind::kUncollectable}) {
        std::vector<unsigned char*> objects;
        const size_t slots = kPageBytes / kSlotBytes[c];
        for (size_t i = 0; i < 3 * slots; ++i) {
          auto* p = static_cast<unsigned char*>(Allocate(kind, kSlotBytes[c]));
          ASSERT_NE(p, nullptr);
          for (size_t b = 0; b < kSlotBytes[c]; ++b)
            ASSERT_EQ(p[b], 0) << "class " << c << " byte " << b;
          memset(p, 0xee, kSlotBytes[c]);
          objects.push_back(p);
        }
        const unsigned share = 1 + random() % 4;
        for (unsigned char* p : objects) {
          if (random() % share == 0) {
            ASSERT_EQ(FreeObject(p), FreeResult::kFreed);
          }
        }
      }
    }
  }
}

CHILD_TEST(ThreadHeapTest, LargeMemoryIsZeroAfterReuse) {
  StartHeap();
  std::mt19937 random(11);
  for (int round = 0; round < 300; ++round) {
    const size_t bytes = kMaxSmallBytes + 1 + random() % 200000;
    auto* p = static_cast<unsigned char*>(Allocate(Kind::kNormal, bytes));
    ASSERT_NE(p, nullptr);
    for (size_t b = 0; b < AlignUp(bytes, 16); ++b) ASSERT_EQ(p[b], 0) << b << " of " << bytes;
    memset(p, 0xee, AlignUp(bytes, 16));
    // Small pages come to lie where it was, too.
    if (random() % 4 != 0) {
      ASSERT_EQ(FreeObject(p), FreeResult::kFreed);
    }
    auto* small = static_cast<unsigned char*>(Allocate(Kind::kNormal, 1000));
    for (size_t b = 0; b < 1000; ++b) ASSERT_EQ(small[b], 0);
  }
}

// [inv.known-zero]: pages whose contents were dropped count as zero again, and are.
CHILD_TEST(ThreadHeapTest, DiscardedPagesAreZeroAndNoLongerResident) {
  StartHeap();
  void* p = Allocate(Kind::kNormal, 20 * kMiB);
  ASSERT_NE(p, nullptr);
  memset(p, 0xee, 20 * kMiB);
  const size_t resident = ResidentBytes();
  EXPECT_GE(resident, 20 * kMiB);
  ASSERT_EQ(FreeObject(p), FreeResult::kFreed);
  EXPECT_EQ(ResidentBytes(), resident);  // stays for a while
  EXPECT_GE(PageSpaceOf(Space::kScanned).DiscardFree(), 20 * kMiB);
  EXPECT_LE(ResidentBytes(), resident - 20 * kMiB);
  auto* again = static_cast<unsigned char*>(Allocate(Kind::kNormal, 10 * kMiB));
  for (size_t b = 0; b < 10 * kMiB; ++b) ASSERT_EQ(again[b], 0);
  EXPECT_EQ(PageSpaceOf(Space::kScanned).DiscardFree(), 0u);
}

CHILD_TEST(ThreadHeapTest, FreedSlotsAreUsedAgainBeforeNewPages) {
  StartHeap();
  std::vector<void*> objects;
  for (int i = 0; i < 10000; ++i) objects.push_back(Allocate(Kind::kNormal, 64));
  const size_t taken = TakenPages();
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 0; i < objects.size(); ++i) {
      if ((i + static_cast<size_t>(round)) % 2 == 0) {
        ASSERT_EQ(FreeObject(objects[i]), FreeResult::kFreed);
        objects[i] = nullptr;
      }
    }
    for (void*& p : objects) {
      if (p == nullptr) p = Allocate(Kind::kNormal, 64);
    }
  }
  EXPECT_EQ(std::set<void*>(objects.begin(), objects.end()).size(), objects.size());
  // 10,000 objects are 40 pages; 16 is a batch.
  EXPECT_LE(TakenPages(), taken + 16);
}

CHILD_TEST(ThreadHeapTest, TheHeapLimitHoldsAndFreeingMakesRoom) {
  StartHeap();
  SetHeapLimit(4 * kMiB);
  std::vector<void*> objects;
  while (void* p = Allocate(Kind::kNormal, 1000)) objects.push_back(p);
  EXPECT_LE(ResidentBytes(), 4 * kMiB);
  EXPECT_GE(objects.size() * 1024, 7 * kMiB / 2);
  EXPECT_EQ(Allocate(Kind::kNormal, 100000), nullptr);
  for (size_t i = 0; i < objects.size(); ++i) {
    if (i % 4 != 0) {
      ASSERT_EQ(FreeObject(objects[i]), FreeResult::kFreed);
    }
  }
  for (size_t i = 0; i < objects.size() / 2; ++i)
    ASSERT_NE(Allocate(Kind::kNormal, 1000), nullptr) << i;
  EXPECT_LE(ResidentBytes(), 4 * kMiB);
}

CHILD_TEST(ThreadHeapTest, ALimitBelowAPageIsALimit) {
  StartHeap();
  SetHeapLimit(100);
  EXPECT_NE(HeapLimit(), 0u);
  size_t objects = 0;
  while (objects < 10000 && Allocate(Kind::kNormal, 1000) != nullptr) ++objects;
  EXPECT_LE(objects, 16u);  // a page
}

CHILD_TEST(ThreadHeapTest, TheReservationUsedUpGivesNull) {
  testing::HeapConfig config;
  config.reserve = 16 * kMiB;
  StartHeap(config);
  std::vector<void*> objects;
  while (void* p = Allocate(Kind::kAtomic, 8192)) objects.push_back(p);
  EXPECT_GE(objects.size(), 2000u);
  EXPECT_LE(objects.size(), 2048u);
  EXPECT_EQ(Allocate(Kind::kNormal, 16), nullptr);  // the other space's share is gone, too
  for (void* p : objects) ASSERT_EQ(FreeObject(p), FreeResult::kFreed);
  EXPECT_NE(Allocate(Kind::kAtomic, 8192), nullptr);
}

}  // namespace
}  // namespace gleaner::alloc
