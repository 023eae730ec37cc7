// A heap of the allocator alone: no collector, no threads, no signals. Once a process: see child.h.
#pragma once

#include <gtest/gtest.h>

#include "alloc/hooks.h"
#include "alloc/object.h"
#include "alloc/page_space.h"
#include "alloc/thread_heap.h"
#include "alloc/thread_heaps.h"
#include "tests/support/child.h"

namespace gleaner::testing {

struct HeapConfig {
  alloc::Policy policy = alloc::Policy::kLps;
  double k = 1;
  alloc::FitPolicy fit = alloc::FitPolicy::kBinned;
  size_t reserve = 256 * kMiB;
  bool by_node = false;  // asks on which nodes pages are (fake_nodes.h)
};

// The calling thread gets the first heap.
inline void StartHeap(const HeapConfig& config = {}) {
  ASSERT_TRUE(alloc::g_space.Init(config.reserve, 16 * kMiB, false));
  if (config.by_node) alloc::g_space.InitNodes();
  ASSERT_TRUE(alloc::InitPageSpaces(config.fit));
  ASSERT_TRUE(alloc::ThreadHeaps::Init(config.policy, config.k));
  alloc::g_hooks.allocated = [](ptrdiff_t) {};
  alloc::g_hooks.exhausted = [](size_t, alloc::Attempts*) { return false; };
  alloc::t_heap = alloc::ThreadHeaps::Acquire();
  ASSERT_NE(alloc::t_heap, nullptr);
}

inline void* Allocate(alloc::Kind kind, size_t bytes) { return alloc::AllocateObject(kind, bytes); }

}  // namespace gleaner::testing
