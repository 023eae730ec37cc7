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
};

}  // namespace gleaner::runtime
