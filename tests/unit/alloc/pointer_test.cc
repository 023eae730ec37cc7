// From words to objects: interior pointers, ends, tails, free slots, waste; and giving objects
// back.
#include <gtest/gtest.h>

#include <ios>
#include <vector>

#include "alloc/thread_heaps.h"
#include "tests/support/heap.h"

namespace gleaner::alloc {
namespace {

using namespace testing;

void ExpectObject(Addr word, const void* base, size_t bytes) {
  ObjectRef object;
  ASSERT_TRUE(FindObject(word, &object)) << std::hex << word;
  EXPECT_EQ(object.base, AddressOf(base));
  EXPECT_EQ(object.bytes, bytes);
}
void ExpectNone(Addr word) {
  ObjectRef object;
  EXPECT_FALSE(FindObject(word, &object)) << std::hex << word;
}

CHILD_TEST(PointerTest, EveryByteOfASmallObjectLeadsToItsBase) {
  StartHeap();
  for (size_t c = 0; c < kClassCount; ++c) {
    for (const Kind kind : {Kind::kNormal, Kind::kAtomic, Kind::kUncollectable}) {
      const size_t slot = kSlotBytes[c];
      void* p = Allocate(kind, slot);
      ASSERT_NE(p, nullptr);
      for (size_t i = 0; i < slot; ++i) ExpectObject(AddressOf(p) + i, p, slot);
    }
  }
}

CHILD_TEST(PointerTest, ForeignAddressesAreNoObjects) {
  StartHeap();
  int local = 0;
  for (const Addr word : {Addr{0}, Addr{16}, AddressOf(&local), AddressOf(&g_space), ~Addr{0},
                          g_space.base - 1, g_space.base + g_space.bytes}) {
    ExpectNone(word);
    EXPECT_EQ(FreeObject(PointerAt<void>(word)), FreeResult::kForeign);
  }
  // In the reservation, but never handed out.
  for (Addr word = g_space.base; word < g_space.base + g_space.bytes; word += 64 * kKiB)
    ExpectNone(word);
}

CHILD_TEST(PointerTest, AFreeSlotIsNoObject) {
  StartHeap();
  void* a = Allocate(Kind::kNormal, 100);
  void* b = Allocate(Kind::kNormal, 100);
  EXPECT_EQ(FreeObject(a), FreeResult::kFreed);
  ExpectNone(AddressOf(a));
  ExpectNone(AddressOf(a) + 50);
  ExpectObject(AddressOf(b), b, 112);
  EXPECT_EQ(FreeObject(a), FreeResult::kNotAllocated);
  EXPECT_EQ(FreeObject(static_cast<char*>(b) + 16), FreeResult::kInterior);
  EXPECT_EQ(FreeObject(static_cast<char*>(b) + 1), FreeResult::kInterior);
}

// Which bytes count as objects, in each phase of a cycle [inv.mark-byte].
CHILD_TEST(PointerTest, MarkBytesOfEveryPhase) {
  StartHeap();
  constexpr auto kRelaxed = platform::memory_order_relaxed;
  void* small = Allocate(Kind::kNormal, 100);
  void* large = Allocate(Kind::kAtomic, 3 * kPageBytes);
  for (const uint8_t live : {uint8_t{1}, uint8_t{2}}) {
    g_epoch = live;
    for (const bool sweeping : {false, true}) {
      const uint8_t dead = OtherEpoch(live) | (g_young ^ kYoungMarks);
      g_dead_mark.Store(sweeping ? dead : 0, kRelaxed);
      for (void* p : {small, large}) {
        ObjectRef object;
        ASSERT_TRUE(FindSlot(AddressOf(p), &object));
        for (const uint8_t mark : {live, g_young}) {
          *object.mark() = mark;
          ExpectObject(AddressOf(p), p, object.bytes);
        }
        *object.mark() = kFreeSlot;
        ExpectNone(AddressOf(p));
        EXPECT_EQ(FreeObject(p), FreeResult::kNotAllocated);
        *object.mark() = kDisclaiming;
        ExpectNone(AddressOf(p));
        EXPECT_TRUE(IsInUse(kDisclaiming));
        EXPECT_EQ(FreeObject(p), FreeResult::kNotAllocated);
        // Black while a cycle marks, dead while its sweep goes on, as what was young before.
        for (const uint8_t mark : {OtherEpoch(live), uint8_t(g_young ^ kYoungMarks)}) {
          *object.mark() = mark;
          if (sweeping) {
            ExpectNone(AddressOf(p));
            EXPECT_EQ(FreeObject(p), FreeResult::kNotAllocated);
          } else {
            ExpectObject(AddressOf(p), p, object.bytes);
          }
        }
        *object.mark() = live;
      }
    }
    g_dead_mark.Store(0, kRelaxed);
  }
  // Of any colour, an object can be given back.
  g_epoch = 1;
  for (const uint8_t mark : {uint8_t{1}, uint8_t{2}, uint8_t{4}, uint8_t{8}}) {
    for (const size_t bytes : {size_t{100}, 3 * kPageBytes}) {
      void* p = Allocate(Kind::kNormal, bytes);
      ObjectRef object;
      ASSERT_TRUE(FindSlot(AddressOf(p), &object));
      *object.mark() = mark;
      EXPECT_EQ(FreeObject(p), FreeResult::kFreed);
      EXPECT_EQ(FreeObject(p) == FreeResult::kFreed, false);
    }
  }
}

CHILD_TEST(PointerTest, NewObjectsGetTheNewMark) {
  StartHeap();
  void* before = Allocate(Kind::kNormal, 2000);  // its run holds further slots
  g_allocation_colour.Store(2, platform::memory_order_relaxed);
  ThreadHeap* second = ThreadHeaps::Acquire();
  void* small = second->Allocate(Kind::kNormal, SizeClassOf(2000));
  void* large = Allocate(Kind::kNormal, 3 * kPageBytes);
  ObjectRef object;
  ASSERT_TRUE(FindObject(AddressOf(before), &object));
  EXPECT_EQ(*object.mark(), 1);
  for (void* p : {small, large}) {
    ASSERT_TRUE(FindObject(AddressOf(p), &object));
    EXPECT_EQ(*object.mark(), 2);
  }
  // What a thread holds across a stop comes back in it too.
  t_heap->RetireRunsWorldStopped();
  t_heap->ReviveRunsStopped();
  ASSERT_TRUE(FindObject(AddressOf(Allocate(Kind::kNormal, 2000)), &object));
  EXPECT_EQ(*object.mark(), 2);
}

CHILD_TEST(PointerTest, TheWasteAtTheEndOfAPageIsNoObject) {
  StartHeap();
  for (const size_t slot : kSlotBytes) {
    const size_t used = kPageBytes / slot * slot;
    if (used == kPageBytes) continue;
    void* p = Allocate(Kind::kNormal, slot);
    const Addr page = AddressOf(p) & ~(kPageBytes - 1);
    for (size_t offset = used; offset < kPageBytes; ++offset) ExpectNone(page + offset);
  }
}

CHILD_TEST(PointerTest, LargeObjectsFromEveryPage) {
  StartHeap();
  for (const Kind kind :
       {Kind::kNormal, Kind::kAtomic, Kind::kUncollectable, Kind::kAtomicUncollectable}) {
    for (const size_t bytes : {8193u, 16384u, 16385u, 40000u, 1000000u}) {
      void* p = Allocate(kind, bytes);
      ASSERT_NE(p, nullptr);
      EXPECT_EQ(AddressOf(p) % kPageBytes, 0u);
      const size_t usable = AlignUp(bytes, kGranuleBytes);
      for (size_t i = 0; i < usable; i += 1001) ExpectObject(AddressOf(p) + i, p, usable);
      ExpectObject(AddressOf(p) + usable - 1, p, usable);
      EXPECT_EQ(g_space.info[g_space.PageOf(AddressOf(p))].kind, kind);
      // What the marker asks each page of the object.
      for (size_t i = 0; i < usable; i += kPageBytes) {
        const PageInfo& info = g_space.info[g_space.PageOf(AddressOf(p) + i)];
        EXPECT_EQ(info.contents, ContentsOf(kind)) << bytes << " at " << i;
        EXPECT_EQ(info.kind, kind);
        EXPECT_EQ(info.slot_count, 0u);  // [inv.slot-count]
      }
      EXPECT_EQ(FreeObject(static_cast<char*>(p) + 16), FreeResult::kInterior);
      EXPECT_EQ(FreeObject(p), FreeResult::kFreed);
      ExpectNone(AddressOf(p));
      EXPECT_EQ(FreeObject(p), FreeResult::kForeign);
    }
  }
}

CHILD_TEST(PointerTest, AlignedObjects) {
  StartHeap();
  std::vector<void*> all;
  for (size_t alignment = 1; alignment <= 8 * kMiB; alignment *= 2) {
    for (const size_t bytes : {size_t{0}, size_t{1}, size_t{16}, size_t{100}, size_t{5000},
                               size_t{20000}, size_t{100000}}) {
      void* p = AllocateObject(Kind::kNormal, bytes, alignment);
      ASSERT_NE(p, nullptr) << bytes << " at " << alignment;
      EXPECT_EQ(AddressOf(p) % alignment, 0u);
      EXPECT_EQ(AddressOf(p) % kGranuleBytes, 0u);
      ObjectRef object;
      ASSERT_TRUE(FindObject(AddressOf(p), &object)) << bytes << " at " << alignment;
      EXPECT_EQ(object.base, AddressOf(p));
      EXPECT_GE(object.bytes, bytes == 0 ? 1 : bytes);
      for (size_t i = 0; i < bytes; ++i) ASSERT_EQ(static_cast<char*>(p)[i], 0);
      memset(p, 0x5a, bytes);
      // The padding before it is nobody's.
      if (alignment > kPageBytes &&
          g_space.info[g_space.PageOf(AddressOf(p) - 1)].state == PageState::kPadding) {
        ExpectNone(AddressOf(p) - 1);
      }
      all.push_back(p);
    }
  }
  for (void* p : all) EXPECT_EQ(FreeObject(p), FreeResult::kFreed);
  PageSpaceOf(Space::kScanned).CheckForTesting();
}

CHILD_TEST(PointerTest, LargeObjectsGrowAndShrinkInPlace) {
  StartHeap();
  auto* p = static_cast<char*>(Allocate(Kind::kNormal, 100000));
  memset(p, 1, 100000);
  ObjectRef object;
  ASSERT_TRUE(FindObject(AddressOf(p), &object));
  ASSERT_TRUE(ResizeInPlace(object, 30000));
  ASSERT_TRUE(FindObject(AddressOf(p), &object));
  EXPECT_EQ(object.bytes, AlignUp(30000, 16));
  ExpectNone(AddressOf(p) + 99999);
  ASSERT_TRUE(ResizeInPlace(object, 90000));
  ASSERT_TRUE(FindObject(AddressOf(p) + 89999, &object));
  EXPECT_EQ(object.base, AddressOf(p));
  for (size_t i = 0; i < 30000; ++i) ASSERT_EQ(p[i], 1) << i;
  for (size_t i = AlignUp(30000, 16); i < 90000; ++i) ASSERT_EQ(p[i], 0) << i;
  EXPECT_FALSE(ResizeInPlace(object, 100));  // would be a small object
  PageSpaceOf(Space::kScanned).CheckForTesting();
}

CHILD_TEST(PointerTest, SizesThatCannotExistGiveNull) {
  StartHeap();
  for (const size_t bytes :
       {SIZE_MAX, SIZE_MAX - 15, SIZE_MAX / 2, size_t{1} << 48, g_space.bytes + 1}) {
    EXPECT_EQ(Allocate(Kind::kNormal, bytes), nullptr) << bytes;
    EXPECT_EQ(AllocateObject(Kind::kNormal, bytes, kMiB), nullptr) << bytes;
  }
  EXPECT_EQ(AllocateObject(Kind::kNormal, 100, size_t{1} << 60), nullptr);
  EXPECT_NE(Allocate(Kind::kNormal, 100), nullptr);
}

}  // namespace
}  // namespace gleaner::alloc
