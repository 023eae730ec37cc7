// A hash table from non-zero words to plain data, in memory outside the heap that is never scanned:
// finalizers and disappearing links are found by the address of their object.
//
// Open addressing with linear probing. Erasing shifts later entries back instead of leaving a
// tombstone, so a table that lives for the whole process and sees many insertions and erasures
// stays as fast as a new one. It grows by doubling at a load of 3/4 and gives the old table back to
// the system; it shrinks only in Clear.
//
// Invariants:
//   [inv.hash-table-reachable] from the slot an entry's key hashes to, its home, to the entry no
//                              slot is empty, so a search may end at the first empty slot;
//   [inv.hash-table-load]      at least a quarter of the slots is empty, so every search ends.
//
// Not thread-safe: the lock of the table's owner guards the table. Pointers to values last until
// the next Insert, Erase, EraseIf or Clear. There is no destructor: tables are static data.
#pragma once

#include <type_traits>

#include "platform/os/base.h"
#include "platform/os/memory.h"

namespace gleaner::alloc {

template <class Value>
class HashTable {
  static_assert(std::is_trivially_copyable_v<Value> && std::is_trivially_destructible_v<Value>);

 public:
  constexpr HashTable() = default;
  HashTable(const HashTable&) = delete;
  HashTable& operator=(const HashTable&) = delete;

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  // Bytes of memory the table holds.
  size_t MemoryBytes() const { return BytesFor(capacity_); }

  // The memory of all slots, empty ones included, for a conservative scan of keys and values.
  Addr storage_begin() const { return AddressOf(slots_); }
  Addr storage_end() const { return AddressOf(slots_ + capacity_); }

  // Null if the key is absent.
  Value* Find(uint64_t key) {
    Slot* slot = FindSlot(key);
    return slot == nullptr ? nullptr : &slot->value;
  }
  const Value* Find(uint64_t key) const {
    const Slot* slot = FindSlot(key);
    return slot == nullptr ? nullptr : &slot->value;
  }

  // Adds the key, or replaces its value. Null, with nothing changed, if the table has to grow and
  // the system refuses the memory.
  Value* Insert(uint64_t key, const Value& value) {
    GLEANER_DCHECK(key != 0, "hash table: key 0");
    const Value copy = value;  // `value` may lie in this table
    Slot* slot = capacity_ != 0 ? Probe(key) : nullptr;
    if (slot == nullptr || slot->key == 0) {
      if (size_ + 1 > capacity_ / 4 * 3) {
        if (!Grow()) return nullptr;
        slot = Probe(key);
      }
      ++size_;
      slot->key = key;
    }
    slot->value = copy;
    return &slot->value;
  }

  // Makes room for `entries` entries in total: Insert succeeds up to this number. False if the
  // system refuses the memory.
  bool Reserve(size_t entries) {
    while (entries > capacity_ / 4 * 3) {
      if (!Grow()) return false;
    }
    return true;
  }

  // False if the key is absent.
  bool Erase(uint64_t key) {
    Slot* slot = FindSlot(key);
    if (slot == nullptr) return false;
    size_t hole = static_cast<size_t>(slot - slots_);
    for (size_t i = Next(hole); slots_[i].key != 0; i = Next(i)) {
      // An entry may move back into the hole unless its home lies behind the hole.
      if (Distance(Home(slots_[i].key), i) < Distance(hole, i)) continue;
      slots_[hole] = slots_[i];
      hole = i;
    }
    slots_[hole] = {};  // clears the value, too: tables are scanned
    --size_;
    return true;
  }

  // Calls f(key, value&) for every entry, in no particular order. f must not use the table.
  template <class F>
  void ForEach(F f) {
    for (size_t i = 0; i < capacity_; ++i) {
      if (slots_[i].key != 0) f(uint64_t{slots_[i].key}, slots_[i].value);
    }
  }

  // Calls `bool f(key, value&)` exactly once for every entry and erases those it returns true for.
  // One pass, linear in the size of the table. f must not use the table.
  template <class F>
  void EraseIf(F f) {
    if (size_ == 0) return;
    // The pass starts behind an empty slot, so it meets every run of entries at its beginning. Each
    // entry that stays is placed anew from its home on: it lands at or before its old slot, and
    // only behind entries that have been placed already and do not move again. This keeps
    // [inv.hash-table-reachable].
    size_t first = 0;
    while (slots_[first].key != 0) first = Next(first);
    for (size_t i = Next(first); i != first; i = Next(i)) {
      const uint64_t key = slots_[i].key;
      if (key == 0) continue;
      const bool erase = f(key, slots_[i].value);
      const auto value = slots_[i].value;
      slots_[i] = {};  // clears the value, too
      if (erase) {
        --size_;
      } else {
        Place(key)->value = value;
      }
    }
  }

  // Empties the table and gives its memory back.
  void Clear() {
    if (slots_ != nullptr) platform::Release(slots_, BytesFor(capacity_));
    slots_ = nullptr;
    capacity_ = size_ = 0;
  }

  // Fatal if an invariant is broken.
  void CheckForTesting() const {
    size_t entries = 0;
    for (size_t i = 0; i < capacity_; ++i) {
      if (slots_[i].key == 0) continue;
      ++entries;
      for (size_t j = Home(slots_[i].key); j != i; j = Next(j)) {
        GLEANER_CHECK(slots_[j].key != 0 && slots_[j].key != slots_[i].key,
                      "hash table: the entry in slot %zu is cut off [inv.hash-table-reachable]", i);
      }
    }
    GLEANER_CHECK(entries == size_, "hash table: %zu entries, %zu counted", entries, size_);
    GLEANER_CHECK(size_ <= capacity_ / 4 * 3,
                  "hash table: %zu entries in %zu slots [inv.hash-table-load]", size_, capacity_);
  }

 private:
  struct Slot {
    uint64_t key;  // 0: the slot is empty, and `value` means nothing
    Value value;
  };
  static constexpr size_t kFirstCapacity = 64;

  static size_t BytesFor(size_t capacity) {
    return AlignUp(capacity * sizeof(Slot), platform::OsPageBytes());
  }

  // pre: capacity_ > 0.
  size_t Home(uint64_t key) const { return Mix64(key) & (capacity_ - 1); }
  size_t Next(size_t slot) const { return (slot + 1) & (capacity_ - 1); }
  size_t Distance(size_t from, size_t to) const { return (to - from) & (capacity_ - 1); }

  Slot* FindSlot(uint64_t key) const {
    GLEANER_DCHECK(key != 0, "hash table: key 0");
    if (size_ == 0) return nullptr;
    Slot* slot = Probe(key);
    return slot->key != 0 ? slot : nullptr;
  }

  // The key's slot, or the first empty one from its home on, where it would be. pre: capacity_ > 0.
  Slot* Probe(uint64_t key) const {
    size_t i = Home(key);
    while (slots_[i].key != 0 && slots_[i].key != key) i = Next(i);
    return &slots_[i];
  }

  // Puts an absent key in the first empty slot from its home on. pre: there is one.
  Slot* Place(uint64_t key) {
    size_t i = Home(key);
    while (slots_[i].key != 0) i = Next(i);
    slots_[i].key = key;
    return &slots_[i];
  }

  [[nodiscard]] GLEANER_NOINLINE bool Grow() {
    size_t capacity = capacity_ * 2;
    if (capacity_ == 0) {
      capacity = kFirstCapacity;  // or more, if the same OS pages hold it
      while (BytesFor(capacity * 2) == BytesFor(kFirstCapacity)) capacity *= 2;
    }
    if (capacity > SIZE_MAX / 2 / sizeof(Slot)) return false;
    const size_t bytes = BytesFor(capacity);
    void* memory = platform::Reserve(bytes, platform::OsPageBytes());
    if (memory == nullptr) return false;
    if (!platform::Commit(memory, bytes)) {
      platform::Release(memory, bytes);
      return false;
    }
    Slot* const old_slots = slots_;
    const size_t old_capacity = capacity_;
    slots_ = static_cast<Slot*>(memory);
    capacity_ = capacity;
    for (size_t i = 0; i < old_capacity; ++i) {
      if (old_slots[i].key != 0) Place(old_slots[i].key)->value = old_slots[i].value;
    }
    if (old_slots != nullptr) platform::Release(old_slots, BytesFor(old_capacity));
    return true;
  }

  Slot* slots_ = nullptr;
  size_t capacity_ = 0;  // a power of two, or 0
  size_t size_ = 0;
};

}  // namespace gleaner::alloc
