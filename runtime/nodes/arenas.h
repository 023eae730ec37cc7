// The table of arenas: maps the API's handles to arenas.
//
// A handle is the address of a table slot plus a number below 64 that counts the slot's uses. The
// table is never unmapped. The handle of a destroyed arena is recognised as stale until its slot
// has been reused 64 times; free slots are reused in turn.
//
// Thread-safety: any thread may call. Find takes no lock; the other functions take the table's
// lock.
#pragma once

#include "alloc/arenas/arena.h"

namespace gleaner::runtime {

// Call order for an arena: Add, Find for each use, Remove before it is destroyed.
class Arenas {
 public:
  static constexpr uint32_t kMaxArenas = 65536;

  // Makes a handle for the arena; null if there are kMaxArenas already, or no memory.
  static void* Add(alloc::Arena* arena);
  // The arena of the handle; null if the handle is stale or was never one.
  static alloc::Arena* Find(const void* handle);
  // Finds the arena and makes the handle stale; null as for Find.
  static alloc::Arena* Remove(const void* handle);

  // Locks the table and every thread-safe arena, so that the child of a fork finds them consistent.
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
  static platform::Atomic<uint32_t> slot_count_;  // slots that were ever used; written under lock_
  static uint32_t first_free_, last_free_;        // guarded by lock_
};

}  // namespace gleaner::runtime
