#include "alloc/size_class.h"

#include <gtest/gtest.h>

namespace gleaner::alloc {
namespace {

TEST(SizeClassTest, EverySizeGetsTheLeastClassThatHoldsIt) {
  for (size_t bytes = 0; bytes <= kMaxSmallBytes; ++bytes) {
    const size_t size_class = SizeClassOf(bytes);
    ASSERT_LT(size_class, kClassCount) << bytes;
    ASSERT_GE(kSlotBytes[size_class], bytes);
    if (size_class > 0) {
      ASSERT_LT(kSlotBytes[size_class - 1], bytes);
    }
  }
  EXPECT_EQ(SizeClassOf(0), 0u);
}

TEST(SizeClassTest, SlotsAreGranulesInRisingOrderAndFitTheMarkBytes) {
  for (size_t c = 0; c < kClassCount; ++c) {
    EXPECT_EQ(kSlotBytes[c] % kGranuleBytes, 0u);
    if (c > 0) {
      EXPECT_GT(kSlotBytes[c], kSlotBytes[c - 1]);
    }
    EXPECT_LE(kPageBytes / kSlotBytes[c], kMaxSlotsPerPage);
    EXPECT_GE(kPageBytes / kSlotBytes[c], 2u);
  }
}

// No request wastes more than a third of its slot, and no page more than a slot at its end.
TEST(SizeClassTest, WasteIsBounded) {
  for (size_t bytes = 16; bytes <= kMaxSmallBytes; ++bytes) {
    const size_t slot = kSlotBytes[SizeClassOf(bytes)];
    EXPECT_LE(slot - bytes, bytes / 2 + kGranuleBytes) << bytes;
  }
  for (const size_t slot : kSlotBytes) {
    EXPECT_LT(kPageBytes % slot, slot);
    EXPECT_LE(kPageBytes % slot, kPageBytes / 32) << slot;
  }
}

// AllocateObject relies on it for alignments up to kMaxSmallBytes.
TEST(SizeClassTest, EveryPowerOfTwoIsASlotSize) {
  for (size_t bytes = kGranuleBytes; bytes <= kMaxSmallBytes; bytes *= 2) {
    EXPECT_EQ(kSlotBytes[SizeClassOf(bytes)], bytes);
  }
}

TEST(SizeClassTest, TheReciprocalIsExactForEveryOffsetAndClass) {
  for (const size_t slot : kSlotBytes) {
    const uint32_t reciprocal = ReciprocalOf(slot);
    for (size_t offset = 0; offset < kPageBytes; ++offset) {
      ASSERT_EQ(SlotIndex(offset, reciprocal), offset / slot) << offset << " in slots of " << slot;
    }
  }
}

TEST(SizeClassTest, WidenedClassesLeaveAGranuleToSpare) {
  const internal::ClassTable before = internal::g_class_table;
  WidenSizeClasses();
  for (size_t bytes = 0; bytes <= kMaxSmallBytes; ++bytes) {
    const size_t rounded = AlignUp(bytes, kGranuleBytes);
    const size_t wanted = rounded < kMaxSmallBytes ? rounded + kGranuleBytes : rounded;
    ASSERT_GE(kSlotBytes[SizeClassOf(bytes)], wanted) << bytes;
  }
  internal::g_class_table = before;
}

}  // namespace
}  // namespace gleaner::alloc
