// What has to be scanned again: a byte for each granule of the scanned side, set if black objects
// in it may have changed since they were scanned, or could not be scanned.
//
// Anybody sets; the worker that has claimed the page takes, and scans then. A byte that is set
// after it was taken, and before or during the scan, is found by the next round.
//
// Memory order: who sets a byte has turned the object black before (release), and who takes it sees
// the object black (acquire).
#pragma once

#include "alloc/address_space.h"
#include "alloc/meta.h"
#include "platform/bits.h"

namespace gleaner::gc {

class Pending {
 public:
  // The smaller of a tracker's units: a card.
  static constexpr size_t kGranuleBytes = 512;
  static constexpr size_t kGranulesPerPage = alloc::kPageBytes / kGranuleBytes;
  static constexpr size_t kGranulesPerUnit = 8;  // an OS page, the other trackers' unit

  // False if the address space cannot be had. Before any other call.
  [[nodiscard]] bool Init() {
    return bytes_.Reserve(size_t{alloc::g_space.page_count()} * kGranulesPerPage);
  }
  // Covers pages [0, pages); those beyond count as pending whatever is set. False if the system
  // refuses the memory. One thread at a time; others may set meanwhile.
  [[nodiscard]] bool Cover(alloc::PageNumber pages) {
    if (!bytes_.EnsureCommitted(size_t{pages} * kGranulesPerPage)) return false;
    // Release: pairs with the load in Set.
    if (pages > pages_.Load(platform::memory_order_relaxed)) {  // written by this caller only
      pages_.Store(pages, platform::memory_order_release);
    }
    return true;
  }
  alloc::PageNumber pages() const {
    return pages_.Load(platform::memory_order_acquire);
  }  // as above

  // Sets the granules that [begin, begin + bytes) of the heap touches, as far as they are covered.
  void Set(Addr begin, size_t bytes) {
    const size_t first = (begin - alloc::g_space.base) / kGranuleBytes;
    size_t end = (begin + bytes - 1 - alloc::g_space.base) / kGranuleBytes + 1;
    const size_t covered = size_t{pages()} * kGranulesPerPage;
    if (end > covered) end = covered;
    for (size_t granule = first; granule < end; ++granule) {
      __atomic_store_n(&bytes_[granule], 1, __ATOMIC_RELEASE);  // head of this file
    }
  }

  // Takes the page's granules: bit i of the result is that of granule i.
  uint32_t Take(alloc::PageNumber page) {
    static_assert(kGranulesPerPage == 32);
    uint8_t* bytes = &bytes_[size_t{page} * kGranulesPerPage];
    if (!IsAnySet(bytes)) return 0;
    uint32_t taken = 0;
    for (size_t i = 0; i < kGranulesPerPage; ++i) {
      // Relaxed: most are 0, and one that is set at this moment is for the next round.
      if (__atomic_load_n(bytes + i, __ATOMIC_RELAXED) == 0) continue;
      __atomic_exchange_n(bytes + i, 0, __ATOMIC_ACQ_REL);  // head of this file
      taken |= uint32_t{1} << i;
    }
    return taken;
  }

  // Calls f(page, unit, count) for each unit of kGranulesPerUnit granules of which `count`, not
  // 0, are set. A snapshot.
  template <class F>
  void ForEachUnit(const F& f) const {
    for (alloc::PageNumber page = 0; page < pages(); ++page) {
      const uint8_t* bytes = &bytes_[size_t{page} * kGranulesPerPage];
      if (!IsAnySet(bytes)) continue;
      for (size_t unit = 0; unit < kGranulesPerPage / kGranulesPerUnit; ++unit) {
        // Relaxed: see Take. Each byte is 0 or 1.
        const uint64_t set =
            __atomic_load_n(reinterpret_cast<const uint64_t*>(bytes) + unit, __ATOMIC_RELAXED);
        if (set != 0) f(page, unit, SumOfBytes(set));
      }
    }
  }
  // Forgets all. With no worker about.
  void Clear() {
    if (pages() != 0) memset(bytes_.data(), 0, size_t{pages()} * kGranulesPerPage);
  }

 private:
  // Relaxed: see Take.
  static bool IsAnySet(const uint8_t* bytes) {
    uint64_t any = 0;
    for (size_t i = 0; i < kGranulesPerPage; i += 8) {
      // As said.
      any |= __atomic_load_n(reinterpret_cast<const uint64_t*>(bytes + i), __ATOMIC_RELAXED);
    }
    return any != 0;
  }

  alloc::ReservedArray<uint8_t> bytes_;
  platform::Atomic<alloc::PageNumber> pages_{0};
};

}  // namespace gleaner::gc
