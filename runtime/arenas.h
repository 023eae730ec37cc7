// Which arenas there are: the handles of the API.
//
// A handle is the address of a slot of a table that is never given back, plus a number below 64
// that counts how often the slot has been used. So a handle whose arena was destroyed is told from
// every arena that exists until its slot has been used 64 times more, and slots take turns.
//
// Thread-safety: Find needs no lock; the others take the table's.
#pragma once

#include "alloc/arenas/arena.h"

namespace gleaner::runtime {

class Arenas {
 public:
  static constexpr uint32_t kMaxArenas = 65536;

  // A handle for the arena; null if there are kMaxArenas, or no memory.
  static void* Add(alloc::Arena* arena);
  // The arena of the handle; null if there is none (any more).
  static alloc::Arena* Find(const void* handle);
  // The same, and takes the handle away from it.
  static alloc::Arena* Remove(const void* handle);

  // Holds every thread-safe arena still, so that the child of a fork finds it whole.
  static void LockForFork();
  static void UnlockAfterFork();

 private:
  struct alignas(64) Slot {
    platform::Atomic<alloc::Arena*> arena;
    uint32_t uses;       // changes only while the slot is free
    uint32_t next_free;  // guarded by the table's lock
  };
  static constexpr uint32_t kNoSlot = UINT32_MAX;

  static Slot* SlotOf(const void* handle);

  static platform::Lock lock_;
  static alloc::ReservedArray<Slot> slots_;
  static platform::Atomic<uint32_t> slot_count_;  // ever used; written under lock_
  static uint32_t first_free_, last_free_;        // guarded by lock_
};

}  // namespace gleaner::runtime
