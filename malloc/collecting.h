// malloc on the collector's heap, for GLEANER_COLLECT: blocks that the program loses are collected.
// Blocks are ordinary collectable objects, which `free` frees at once. GLEANER_LEAKS uses the same
// heap and the same roots, and collects nothing unless GLEANER_COLLECT is set too (leaks.h).
//
// There are more roots than for a program that was written for a collector: process_roots.h.
//
// Threads register with the collector when pthread_create starts them, or by their first
// allocation. A thread that is not registered (not yet, or no longer) may still need blocks; a
// thread that is registering does, since the C library allocates for it. These blocks are
// *orphans*: they are never collected. They are made and freed under the threads lock, so never
// while the world is stopped [inv.malloc-orphan].
//
// Blocks needed before the heap is ready come from a small buffer, which is never reused.
#pragma once

#include "malloc/spans.h"

namespace gleaner::malloc_proxy {

// Whether Collecting serves all calls (GLEANER_COLLECT, GLEANER_LEAKS or GLEANER_PROFILE). Constant
// once the start of the process's malloc has ended.
bool IsCollecting();

class Collecting {
 public:
  // Once, at the start of the process's malloc. False if the system refuses the address space;
  // then IsCollecting is false again.
  [[nodiscard]] static bool Start();

  // --- Any thread. pre: Start was called. ---
  // A block whose memory is zero; null if there is no memory.
  static void* Allocate(size_t bytes, size_t alignment);
  // False if the address is not in this heap. If it is, but no block begins there, the process ends
  // with a message that names `call`.
  static bool Free(void* p, const char* call);
  static bool UsableBytes(void* p, size_t* bytes, const char* call);
  // Whether the block was allocated before the heap was ready; then *bytes is its size. Valid also
  // if Start has failed.
  static bool IsEarly(const void* p, size_t* bytes);
  // Resizes the block in place; false if that is not possible.
  static bool Resize(void* p, size_t bytes);

  // Collects and returns free memory to the system. Whether any was returned.
  static bool Trim();

  // The program is about to open this library. OpenJDK's turns collecting off, with a message: the
  // only pointers to some of its blocks lie at odd addresses in code that it compiles.
  static void TurnOffFor(const char* file);

  // An uncollectable block, whose contents are roots. Null if there is no memory.
  static void* AllocateRoot(size_t bytes);
};

}  // namespace gleaner::malloc_proxy
