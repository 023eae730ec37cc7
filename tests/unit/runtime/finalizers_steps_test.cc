// Finalizers while the system refuses the memory for the queue. Only in the verify build.
#include <gc.h>
#include <gtest/gtest.h>

#include "gc/collector.h"
#include "platform/faults/failures.h"
#include "platform/os/base.h"
#include "tests/support/child.h"

namespace gleaner::runtime {
namespace {

constexpr size_t kPairs = 20;
bool g_head_is_done[kPairs];
size_t g_tails = 0;
size_t g_early_tails = 0;

void FinalizeHead(void*, void* index) { g_head_is_done[AddressOf(index)] = true; }
void FinalizeTail(void*, void* index) {
  ++g_tails;
  if (!g_head_is_done[AddressOf(index)]) ++g_early_tails;
}

// Pairs of objects, of which the first refers to the second.
[[gnu::noinline]] void MakePairs() {
  for (size_t i = 0; i < kPairs; ++i) {
    auto* head = static_cast<void**>(GC_malloc(16));
    *head = GC_malloc(16);
    auto* index = PointerAt<void>(i);
    GC_register_finalizer_no_order(head, FinalizeHead, index, nullptr, nullptr);
    GC_register_finalizer_unreachable(*head, FinalizeTail, index, nullptr, nullptr);
  }
}

// What waits for its finalizer since there was no memory to queue it is in use, with all that it
// refers to.
TEST(FinalizersTest, NothingIsUnreachableThatARefusedObjectRefersTo) {
  for (uint32_t seed = 0; seed < 16; ++seed) {
    EXPECT_CHILD_OK([seed] {
      GC_init();
      MakePairs();
      for (int i = 0; i < 8; ++i) {
        constexpr uint32_t kOneByOne = 4;  // multiples of it
        platform::SetFailures(2, seed * kOneByOne, SetOf(platform::Failing::kMapping));
        GC_gcollect();
        platform::SetFailures(0, 0);
      }
      GC_gcollect();
      GC_gcollect();
      EXPECT_EQ(g_early_tails, 0u) << "seed " << seed;
      EXPECT_GE(g_tails, kPairs / 2) << "seed " << seed;
    });
  }
}

// Finalizers that earlier collections have found due do not count again.
CHILD_TEST(FinalizersTest, ACollectionThatFindsNoneDueCountsNone) {
  GC_init();
  MakePairs();
  GC_gcollect();
  EXPECT_GE(gc::g_collector.last().finalizable, kPairs / 2);
  for (int i = 0; i < 3; ++i) GC_gcollect();
  void* object = GC_malloc(16);
  GC_register_finalizer(object, FinalizeHead, nullptr, nullptr, nullptr);
  GC_gcollect();
  EXPECT_EQ(gc::g_collector.last().finalizable, 0u);
  GC_reachable_here(object);
}

}  // namespace
}  // namespace gleaner::runtime
