// A table with one element for each 2^shift bytes of a reservation, at a computed place.
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/memory.h"

namespace gleaner::platform {

// The table is reserved as a whole and made writable from its beginning up to the bound of
// CoverUpTo. Elements start as zero bytes. Reserve comes first; an element is written only after
// CoverUpTo.
template <class T>
class SideTable {
 public:
  constexpr SideTable() = default;

  // pre: base is a multiple of 2^shift.
  [[nodiscard]] bool Reserve(Addr base, size_t bytes, unsigned shift) {
    base_ = base;
    shift_ = shift;
    table_bytes_ = AlignUp(((bytes >> shift) + 1) * sizeof(T), OsPageBytes());
    table_ = static_cast<T*>(ReserveZeroes(table_bytes_));
    return table_ != nullptr;
  }
  void Release() {
    if (table_ == nullptr) return;
    covered_bytes_.Store(0, memory_order_relaxed);  // no other thread uses it
    platform::Release(table_, table_bytes_);
    table_ = nullptr;
  }

  // Makes the elements of [base, end) writable. False if the system refuses. One caller at a time.
  [[nodiscard]] bool CoverUpTo(Addr end) {
    const size_t bytes = AlignUp(end - base_, size_t{1} << shift_);
    if (bytes <= covered_bytes_.Load(memory_order_relaxed))
      return true;  // only the caller writes it
    const size_t table_bytes = AlignUp((bytes >> shift_) * sizeof(T), OsPageBytes());
    if (!Commit(table_, table_bytes)) return false;
    // Release: a thread that loads the new bound with acquire finds the elements writable. So does
    // a thread that loads it relaxed, since it got its address from a later allocation.
    covered_bytes_.Store(bytes, memory_order_release);
    return true;
  }

  // Whether the address has a writable element. Relaxed: a caller with a heap address got it from
  // an allocation after CoverUpTo.
  bool Covers(Addr address) const {
    return address - base_ < covered_bytes_.Load(memory_order_relaxed);
  }
  Addr base() const { return base_; }
  // Acquire: pairs with the release in CoverUpTo, so the elements are writable.
  Addr covered_end() const { return base_ + covered_bytes_.Load(memory_order_acquire); }

  size_t IndexOf(Addr address) const { return (address - base_) >> shift_; }
  T& operator[](size_t index) const { return table_[index]; }
  T* data() const { return table_; }

 private:
  T* table_ = nullptr;
  Addr base_ = 0;
  unsigned shift_ = 0;
  size_t table_bytes_ = 0;
  Atomic<size_t> covered_bytes_{0};
};

}  // namespace gleaner::platform
