// malloc on the collector's heap, for GLEANER_COLLECT: what the program loses is collected. Blocks
// are ordinary collectable objects, which `free` gives back at once. GLEANER_LEAKS uses the same
// heap and the same roots, and collects nothing unless GLEANER_COLLECT is there too (leaks.h).
//
// The roots are more than those of a program that was written for a collector: process_roots.h.
//
// Threads register with the collector when pthread_create starts them, or by their first
// allocation. A thread that is not registered yet, or no longer, may still need blocks, the one
// that registers above all (the C library allocates for it): those are *orphans*, which are never
// collected, and are made and freed under the threads lock, so never while the world is stopped
// [inv.malloc-orphan].
// What is needed before the heap is ready comes from a small buffer and stays for ever.
#pragma once

#include "malloc/spans.h"

namespace gleaner::malloc_proxy {

class Collecting {
 public:
  // Once, at the start of the process's malloc. False if the system refuses the address space.
  [[nodiscard]] static bool Start();

  // As the functions of cache.h. All memory is zero. pre: Start was called, for all below.
  static void* Allocate(size_t bytes, size_t alignment);
  // Whether the block is ours; if it is no block, the program ends with a message that names
  // `call`.
  static bool Free(void* p, const char* call);
  static bool UsableBytes(void* p, size_t* bytes, const char* call);
  // Whether the block is of those from before the heap was ready. They are ours also if Start has
  // been refused.
  static bool IsEarly(const void* p, size_t* bytes);
  // Makes the block that large where it is; false if it cannot.
  static bool Resize(void* p, size_t bytes);

  // Collects and gives free memory back; whether there was any.
  static bool Trim();

  // Memory that stays until it is freed, and whose contents are roots. Null if there is none.
  static void* AllocateRoot(size_t bytes);
};

}  // namespace gleaner::malloc_proxy
