// Copies of what a cycle has scanned of pages that are written again and again, so that only the
// words that have changed since are looked up (twin and diff, as in TreadMarks: Keleher et al.,
// USENIX 1994). Comparing costs a sixth of scanning, and less where little has changed.
//
// [inv.shadow-copy] A word of a twin that points into the heap was followed in this cycle, from the
// place that the twin stands for. So while the cycle marks, finding the same word there again tells
// nothing new: its target has been marked, or marked objects do not keep it. Words of slots that
// were not to be scanned are not taken over.
//
// A twin is made when a unit is scanned again for the second time in a cycle. Who has claimed the
// page in a round (gc/rescan_set.h) may touch the twins of its units; claims of successive rounds
// are ordered by the end of the job between them.
#pragma once

#include "alloc/address_space.h"
#include "alloc/meta.h"

namespace gleaner::gc {

class ShadowCopies {
 public:
  static constexpr size_t kUnitBytes = 4 * kKiB;  // what the kernel tracks
  static constexpr size_t kUnitWords = kUnitBytes / kWordBytes;
  static constexpr size_t kUnitsPerPage = alloc::kPageBytes / kUnitBytes;

  // False if the address space cannot be had. Before any other call.
  [[nodiscard]] bool Init() {
    const size_t units = size_t{alloc::g_space.page_count()} * kUnitsPerPage;
    return numbers_.Reserve(units) && words_.Reserve(units / kMinShare * kUnitWords);
  }

  // Forgets all twins and makes room for those of pages [0, pages): one unit in kMinShare at
  // most. With less memory, or none, there are fewer. No worker is about.
  void Reset(alloc::PageNumber pages) {
    if (units_ != 0) memset(numbers_.data(), 0, units_ * sizeof(uint32_t));
    const size_t units = size_t{pages} * kUnitsPerPage;
    units_ = numbers_.EnsureCommitted(units) ? units : 0;
    most_ = words_.EnsureCommitted(units / kMinShare * kUnitWords)
                ? static_cast<uint32_t>(units / kMinShare)
                : 0;
    made_.Store(0, platform::memory_order_relaxed);  // no worker is about
  }

  // The twin of a unit that is going to be scanned again, or null: then it is scanned whole. A
  // `fresh` one is zero. pre: the caller has claimed the page.
  Addr* Find(alloc::PageNumber page, size_t unit, bool* fresh) {
    const size_t index = size_t{page} * kUnitsPerPage + unit;
    if (index >= units_) return nullptr;
    uint32_t& number = numbers_[index];
    if (number == kNever) {
      number = kOnce;
      return nullptr;
    }
    *fresh = number == kOnce;
    if (!*fresh) return ShadowOf(number);
    // Relaxed: only uniqueness counts.
    const uint32_t made = made_.Load(platform::memory_order_relaxed);
    if (made >= most_) return nullptr;
    const uint32_t mine = made_.FetchAdd(1, platform::memory_order_relaxed);  // as above
    if (mine >= most_) return nullptr;
    number = mine + kFirst;
    return static_cast<Addr*>(memset(ShadowOf(number), 0, kUnitBytes));
  }
  // Whether there is one. No worker is about.
  bool Has(alloc::PageNumber page, size_t unit) const {
    const size_t index = size_t{page} * kUnitsPerPage + unit;
    return index < units_ && numbers_[index] >= kFirst;
  }

 private:
  static constexpr size_t kMinShare = 16;
  // Numbers in the table: scanned again never, once, or kFirst and the place of the twin.
  static constexpr uint32_t kNever = 0;
  static constexpr uint32_t kOnce = 1;
  static constexpr uint32_t kFirst = 2;

  Addr* ShadowOf(uint32_t number) { return &words_[size_t{number - kFirst} * kUnitWords]; }

  alloc::ReservedArray<uint32_t> numbers_;  // by unit
  alloc::ReservedArray<Addr> words_;
  size_t units_ = 0;
  uint32_t most_ = 0;
  platform::Atomic<uint32_t> made_{0};  // may go beyond most_
};

}  // namespace gleaner::gc
