// An array of the heap's own, outside the heap and never scanned.
#pragma once

#include "platform/os/memory.h"

namespace gleaner::alloc {

// An array that grows in place: addresses are reserved once, and memory is committed as it is
// needed. Elements are plain data and start as zero bytes. Reserve comes first, then
// EnsureCommitted before an element is used. Not thread-safe: the owner's lock guards the array.
template <class T>
class ReservedArray {
 public:
  // False if the system refuses the address space.
  [[nodiscard]] bool Reserve(size_t max_elements) {
    const size_t os_page = platform::OsPageBytes();
    const size_t bytes = AlignUp(max_elements * sizeof(T), os_page);
    void* p = platform::Reserve(bytes, os_page);
    if (p == nullptr) return false;
    data_ = static_cast<T*>(p);
    max_ = max_elements;
    committed_ = 0;
    return true;
  }
  // Forgets the memory before it gives it back: a child that another thread forks meanwhile must
  // not give back what may belong to somebody else by then.
  void Release() {
    T* const data = data_;
    const size_t bytes = AlignUp(max_ * sizeof(T), platform::OsPageBytes());
    data_ = nullptr;
    max_ = committed_ = 0;
    if (data != nullptr && bytes != 0) platform::Release(data, bytes);
  }
  // Makes elements [0, count) usable. False if the limit is reached or the system refuses.
  [[nodiscard]] bool EnsureCommitted(size_t count) {
    if (GLEANER_LIKELY(count <= committed_)) return true;
    return Grow(count);
  }
  size_t committed() const { return committed_; }
  size_t max() const { return max_; }
  T* data() { return data_; }
  const T* data() const { return data_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }

 private:
  static constexpr size_t kAtOnceBytes = 1 * kMiB;  // arrays up to this size are committed whole

  bool Grow(size_t count) {
    if (count > max_) return false;
    const size_t os_page = platform::OsPageBytes();
    const size_t old_bytes = AlignUp(committed_ * sizeof(T), os_page);
    size_t bytes = AlignUp(count * sizeof(T), os_page);
    const size_t doubled = AlignUp(old_bytes + old_bytes / 2, os_page);
    const size_t all = AlignUp(max_ * sizeof(T), os_page);
    if (bytes < doubled) bytes = doubled;
    // Small arrays are committed whole: neighbouring arrays then share a mapping, and untouched
    // memory costs nothing.
    if (bytes > all || all <= kAtOnceBytes) bytes = all;
    if (!platform::Commit(reinterpret_cast<char*>(data_) + old_bytes, bytes - old_bytes)) {
      return false;
    }
    committed_ = bytes / sizeof(T) < max_ ? bytes / sizeof(T) : max_;
    return true;
  }

  T* data_ = nullptr;
  size_t max_ = 0;
  size_t committed_ = 0;
};

}  // namespace gleaner::alloc
