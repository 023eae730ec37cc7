// Vectors in memory for which the system is asked for huge pages: they are read at random, and a
// translation of small pages would cost as much as the read.
#pragma once

#include <cstdlib>
#include <new>
#include <vector>

#include "platform/os/memory.h"

namespace gleaner::tools {

template <class T>
struct HugePageAllocator {
  using value_type = T;
  HugePageAllocator() = default;
  template <class U>
  HugePageAllocator(const HugePageAllocator<U>&) {}  // NOLINT(google-explicit-constructor)

  T* allocate(size_t count) {
    if (count > (size_t{1} << 46) / sizeof(T)) throw std::bad_alloc();
    const size_t bytes = (count * sizeof(T) + kPageBytes - 1) / kPageBytes * kPageBytes;
    void* p = std::aligned_alloc(kPageBytes, bytes);
    if (p == nullptr) throw std::bad_alloc();
    platform::AdviseHugePages(p, bytes);  // only a wish
    return static_cast<T*>(p);
  }
  void deallocate(T* p, size_t) { std::free(p); }
  bool operator==(const HugePageAllocator&) const { return true; }

 private:
  static constexpr size_t kPageBytes = size_t{2} << 20;
};

template <class T>
using HugeVector = std::vector<T, HugePageAllocator<T>>;

}  // namespace gleaner::tools
