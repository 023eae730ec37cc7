// Shadow copies of units (4 KiB) that the program writes again and again, as the cycle last scanned
// them. A rescan looks up only the words that differ from the copy (twin and diff, as in
// TreadMarks: Keleher et al., USENIX 1994). Comparing costs a sixth of scanning, and less if little
// has changed.
//
// [inv.shadow-copy] A word of a shadow copy that points into the heap was followed in this cycle,
// from the place that the copy stands for. So while the cycle marks, a word that has not changed
// need not be followed: its target has been marked, or is not kept by this word. Words of slots
// that are not scanned are not copied.
//
// A copy is made when a unit is rescanned for the second time in a cycle. Only the worker that has
// claimed the page in a round (gc/mark/rescan_set.h) touches the copies of its units. The end of
// the job between two rounds orders the claims.
#pragma once

#include "alloc/address_space.h"
#include "alloc/metadata/meta.h"

namespace gleaner::gc {

class ShadowCopies {
 public:
  static constexpr size_t kUnitBytes = 4 * kKiB;  // an OS page
  static constexpr size_t kUnitWords = kUnitBytes / kWordBytes;
  static constexpr size_t kUnitsPerPage = alloc::kPageBytes / kUnitBytes;

  // False if the address space cannot be had. Before any other call.
  [[nodiscard]] bool Init() {
    const size_t units = size_t{alloc::g_space.page_count()} * kUnitsPerPage;
    return numbers_.Reserve(units) && words_.Reserve(units / kMinShare * kUnitWords);
  }

  // Drops all copies and makes room for copies of at most one in kMinShare of the units of pages
  // [0, pages). If memory is short there is room for fewer. pre: no worker is in the job.
  void Reset(alloc::PageNumber pages) {
    if (units_ != 0) memset(numbers_.data(), 0, units_ * sizeof(uint32_t));
    const size_t units = size_t{pages} * kUnitsPerPage;
    units_ = numbers_.EnsureCommitted(units) ? units : 0;
    max_copies_ = words_.EnsureCommitted(units / kMinShare * kUnitWords)
                      ? static_cast<uint32_t>(units / kMinShare)
                      : 0;
    made_.Restart();
  }

  // The shadow copy of a unit that is about to be rescanned. Null: the unit is to be scanned whole.
  // `fresh`: the copy is new, and all zero. pre: the caller has claimed the page.
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
    if (made_.Next() >= max_copies_) return nullptr;
    const uint32_t mine = made_.Take();
    if (mine >= max_copies_) return nullptr;
    number = mine + kFirst;
    return static_cast<Addr*>(memset(ShadowOf(number), 0, kUnitBytes));
  }
  // Whether the unit has a shadow copy. pre: no worker is in the job.
  bool Has(alloc::PageNumber page, size_t unit) const {
    const size_t index = size_t{page} * kUnitsPerPage + unit;
    return index < units_ && numbers_[index] >= kFirst;
  }

 private:
  static constexpr size_t kMinShare = 16;
  // Values of numbers_.
  static constexpr uint32_t kNever = 0;  // the unit was not rescanned in this cycle
  static constexpr uint32_t kOnce = 1;   // the unit was rescanned once
  static constexpr uint32_t kFirst = 2;  // kFirst + i: the unit has copy i

  Addr* ShadowOf(uint32_t number) { return &words_[size_t{number - kFirst} * kUnitWords]; }

  alloc::ReservedArray<uint32_t> numbers_;  // by unit
  alloc::ReservedArray<Addr> words_;        // of the copies
  size_t units_ = 0;                        // units that numbers_ has room for
  uint32_t max_copies_ = 0;                 // maximum of copies
  platform::Tickets<uint32_t> made_{0};     // copies made; may exceed max_copies_
};

}  // namespace gleaner::gc
