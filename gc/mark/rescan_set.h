// The rescan set: a byte for each card of the scanned space. A card is pending (its byte is 1) if
// black objects in it may have changed since they were scanned, or could not be scanned.
//
// Any thread sets cards. A worker that has claimed a page takes its cards, then scans them. A card
// that is set after it was taken, before or during the scan, is found by the next round.
//
// [inv.group] If a card is set, the byte of its group is set, or the thread that set the card is
// about to set it. The thread that takes a group takes its byte first, and then takes all of the
// group's pages or sets the byte again.
//
// Memory order: the thread that sets a card has turned the object black before (release); the
// thread that takes the card sees the object black (acquire).
//
// Call order: Init, then Cover before Set can have an effect; TakeGroup, then Take or LeavePage for
// each page of the group. Cover and Clear under the collector lock.
#pragma once

#include "alloc/address_space.h"
#include "alloc/metadata/meta.h"
#include "platform/common/bits.h"
#include "platform/faults/delays.h"

namespace gleaner::gc {

class RescanSet {
 public:
  static constexpr size_t kCardBytes = 512;  // the smallest unit that a tracker reports
  static constexpr size_t kCardsPerPage = alloc::kPageBytes / kCardBytes;
  static constexpr size_t kCardsPerOsPage = 8;  // trackers without cards report OS pages
  static constexpr size_t kPagesPerGroup = 64;

  // False if the address space cannot be had. Before any other call.
  [[nodiscard]] bool Init() {
    const size_t pages = alloc::g_space.page_count();
    return bytes_.Reserve(pages * kCardsPerPage) && groups_.Reserve(GroupsFor(pages));
  }
  // Covers pages [0, pages). The caller has to treat pages beyond as pending. False if the system
  // refuses the memory. One thread at a time; other threads may call Set meanwhile.
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
  }  // pairs with the release in Cover: the tables are committed

  // Sets the covered cards that overlap [begin, begin + bytes) of the heap.
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

  // Called before the group's pages are taken. False if no card of the group is set.
  bool TakeGroup(size_t group) {
    // Relaxed: most bytes are 0, and a byte set concurrently may wait for the next round.
    if (__atomic_load_n(&groups_[group], __ATOMIC_RELAXED) == 0) return false;
    platform::MaybeDelay();
    const bool taken = __atomic_exchange_n(&groups_[group], 0, __ATOMIC_ACQ_REL) != 0;  // with Set
    platform::MaybeDelay();  // its pages are still to be taken
    return taken;
  }
  // Called instead of Take: the page's cards stay set for a later round.
  void LeavePage(alloc::PageNumber page) {
    platform::MaybeDelay();
    __atomic_store_n(&groups_[page / kPagesPerGroup], 1, __ATOMIC_RELEASE);  // with TakeGroup
  }

  // Takes the page's cards. Bit i of the result: card i was set.
  uint32_t Take(alloc::PageNumber page) {
    static_assert(kCardsPerPage == 32);
    uint8_t* bytes = &bytes_[size_t{page} * kCardsPerPage];
    if (!IsAnySet(bytes)) return 0;
    uint32_t taken = 0;
    for (size_t i = 0; i < kCardsPerPage; ++i) {
      // Relaxed: most bytes are 0, and a byte set concurrently may wait for the next round.
      if (__atomic_load_n(bytes + i, __ATOMIC_RELAXED) == 0) continue;
      __atomic_exchange_n(bytes + i, 0, __ATOMIC_ACQ_REL);  // head of this file
      platform::MaybeDelay();
      taken |= uint32_t{1} << i;
    }
    return taken;
  }

  // Calls f(page, unit, count) for each unit of kCardsPerOsPage cards, if `count` > 0 of them are
  // set. A snapshot.
  template <class F>
  void ForEachUnit(const F& f) const {
    const alloc::PageNumber end = pages();
    for (alloc::PageNumber page = 0; page < end; ++page) {
      // Relaxed: a snapshot; a byte set concurrently may be missed.
      if (page % kPagesPerGroup == 0 &&
          __atomic_load_n(&groups_[page / kPagesPerGroup], __ATOMIC_RELAXED) == 0) {
        page += kPagesPerGroup - 1;
        continue;
      }
      const uint8_t* bytes = &bytes_[size_t{page} * kCardsPerPage];
      if (!IsAnySet(bytes)) continue;
      for (size_t unit = 0; unit < kCardsPerPage / kCardsPerOsPage; ++unit) {
        // Relaxed: a snapshot; a byte set concurrently may be missed. Each byte is 0 or 1.
        const uint64_t set =
            __atomic_load_n(reinterpret_cast<const uint64_t*>(bytes) + unit, __ATOMIC_RELAXED);
        if (set != 0) f(page, unit, SumOfBytes(set));
      }
    }
  }
  // Clears all cards. pre: no worker is in the job.
  void Clear() {
    if (pages() == 0) return;
    memset(bytes_.data(), 0, size_t{pages()} * kCardsPerPage);
    memset(groups_.data(), 0, GroupsFor(pages()));
  }

 private:
  static constexpr size_t GroupsFor(size_t pages) {
    return (pages + kPagesPerGroup - 1) / kPagesPerGroup;
  }
  static bool IsAnySet(const uint8_t* bytes) {
    uint64_t any = 0;
    for (size_t i = 0; i < kCardsPerPage; i += 8) {
      // Relaxed: a byte set concurrently may wait for the next round.
      any |= __atomic_load_n(reinterpret_cast<const uint64_t*>(bytes + i), __ATOMIC_RELAXED);
    }
    return any != 0;
  }

  alloc::ReservedArray<uint8_t> bytes_;
  // A byte for each group of pages, 0 if no card of it is set: the stop reads little of bytes_.
  alloc::ReservedArray<uint8_t> groups_;
  platform::Atomic<alloc::PageNumber> pages_{0};
};

}  // namespace gleaner::gc
