// What has to be scanned again: a byte for each card of the scanned space, set if black objects
// in it may have changed since they were scanned, or could not be scanned.
//
// Anybody sets; the worker that has claimed the page takes, and scans then. A byte that is set
// after it was taken, and before or during the scan, is found by the next round.
//
// [inv.group] Where a card is set, its group's byte is, or is going to be by who set it; who
// takes a group takes its byte first, and then all of its pages, or sets the byte again.
//
// Memory order: who sets a byte has turned the object black before (release), and who takes it sees
// the object black (acquire).
#pragma once

#include "alloc/address_space.h"
#include "alloc/meta.h"
#include "platform/bits.h"
#include "platform/delays.h"

namespace gleaner::gc {

class RescanSet {
 public:
  // The smaller of a tracker's units: a card.
  static constexpr size_t kCardBytes = 512;
  static constexpr size_t kCardsPerPage = alloc::kPageBytes / kCardBytes;
  static constexpr size_t kCardsPerOsPage = 8;  // an OS page, the other trackers' unit
  static constexpr size_t kPagesPerGroup = 64;

  // False if the address space cannot be had. Before any other call.
  [[nodiscard]] bool Init() {
    const size_t pages = alloc::g_space.page_count();
    return bytes_.Reserve(pages * kCardsPerPage) && groups_.Reserve(GroupsFor(pages));
  }
  // Covers pages [0, pages); those beyond count as pending whatever is set. False if the system
  // refuses the memory. One thread at a time; others may set meanwhile.
  [[nodiscard]] bool Cover(alloc::PageNumber pages) {
    if (!bytes_.EnsureCommitted(size_t{pages} * kCardsPerPage) ||
        !groups_.EnsureCommitted(GroupsFor(pages))) {
      return false;
    }
    // Release: pairs with the load in Set.
    if (pages > pages_.Load(platform::memory_order_relaxed)) {  // written by this caller only
      pages_.Store(pages, platform::memory_order_release);
    }
    return true;
  }
  alloc::PageNumber pages() const {
    return pages_.Load(platform::memory_order_acquire);
  }  // as above

  // Sets the cards that [begin, begin + bytes) of the heap touches, as far as they are covered.
  void Set(Addr begin, size_t bytes) {
    const size_t first = (begin - alloc::g_space.base) / kCardBytes;
    size_t end = (begin + bytes - 1 - alloc::g_space.base) / kCardBytes + 1;
    const size_t covered = size_t{pages()} * kCardsPerPage;
    if (end > covered) end = covered;
    if (first >= end) return;
    for (size_t card = first; card < end; ++card) {
      platform::MaybeDelay();
      __atomic_store_n(&bytes_[card], 1, __ATOMIC_RELEASE);  // head of this file
    }
    // After the cards [inv.group].
    const size_t last_page = (end - 1) / kCardsPerPage;
    for (size_t group = first / kCardsPerPage / kPagesPerGroup; group <= last_page / kPagesPerGroup;
         ++group) {
      platform::MaybeDelay();
      __atomic_store_n(&groups_[group], 1, __ATOMIC_RELEASE);  // pairs with TakeGroup
    }
  }

  // Before the group's pages are taken: false if none of them has anything set.
  bool TakeGroup(size_t group) {
    // Relaxed: most are 0, and one that is set at this moment is for the next round.
    if (__atomic_load_n(&groups_[group], __ATOMIC_RELAXED) == 0) return false;
    platform::MaybeDelay();
    const bool taken = __atomic_exchange_n(&groups_[group], 0, __ATOMIC_ACQ_REL) != 0;  // with Set
    platform::MaybeDelay();  // its pages are still to be taken
    return taken;
  }
  // The page was not taken after all: what is set there is for a later round.
  void LeavePage(alloc::PageNumber page) {
    platform::MaybeDelay();
    __atomic_store_n(&groups_[page / kPagesPerGroup], 1, __ATOMIC_RELEASE);  // as Set
  }

  // Takes the page's cards: bit i of the result is that of card i.
  uint32_t Take(alloc::PageNumber page) {
    static_assert(kCardsPerPage == 32);
    uint8_t* bytes = &bytes_[size_t{page} * kCardsPerPage];
    if (!IsAnySet(bytes)) return 0;
    uint32_t taken = 0;
    for (size_t i = 0; i < kCardsPerPage; ++i) {
      // Relaxed: most are 0, and one that is set at this moment is for the next round.
      if (__atomic_load_n(bytes + i, __ATOMIC_RELAXED) == 0) continue;
      __atomic_exchange_n(bytes + i, 0, __ATOMIC_ACQ_REL);  // head of this file
      platform::MaybeDelay();
      taken |= uint32_t{1} << i;
    }
    return taken;
  }

  // Calls f(page, unit, count) for each unit of kCardsPerOsPage cards of which `count`, not
  // 0, are set. A snapshot.
  template <class F>
  void ForEachUnit(const F& f) const {
    const alloc::PageNumber end = pages();
    for (alloc::PageNumber page = 0; page < end; ++page) {
      // Relaxed: see Take.
      if (page % kPagesPerGroup == 0 &&
          __atomic_load_n(&groups_[page / kPagesPerGroup], __ATOMIC_RELAXED) == 0) {
        page += kPagesPerGroup - 1;
        continue;
      }
      const uint8_t* bytes = &bytes_[size_t{page} * kCardsPerPage];
      if (!IsAnySet(bytes)) continue;
      for (size_t unit = 0; unit < kCardsPerPage / kCardsPerOsPage; ++unit) {
        // Relaxed: see Take. Each byte is 0 or 1.
        const uint64_t set =
            __atomic_load_n(reinterpret_cast<const uint64_t*>(bytes) + unit, __ATOMIC_RELAXED);
        if (set != 0) f(page, unit, SumOfBytes(set));
      }
    }
  }
  // Forgets all. With no worker about.
  void Clear() {
    if (pages() == 0) return;
    memset(bytes_.data(), 0, size_t{pages()} * kCardsPerPage);
    memset(groups_.data(), 0, GroupsFor(pages()));
  }

 private:
  static constexpr size_t GroupsFor(size_t pages) {
    return (pages + kPagesPerGroup - 1) / kPagesPerGroup;
  }
  // Relaxed: see Take.
  static bool IsAnySet(const uint8_t* bytes) {
    uint64_t any = 0;
    for (size_t i = 0; i < kCardsPerPage; i += 8) {
      // As said.
      any |= __atomic_load_n(reinterpret_cast<const uint64_t*>(bytes + i), __ATOMIC_RELAXED);
    }
    return any != 0;
  }

  alloc::ReservedArray<uint8_t> bytes_;
  // By group of pages: 0 if nothing is set in it. So most of the table is not looked at in the
  // stop.
  alloc::ReservedArray<uint8_t> groups_;
  platform::Atomic<alloc::PageNumber> pages_{0};
};

}  // namespace gleaner::gc
