// Process-wide functions of malloc: start, fork, returning memory to the system, figures.
#pragma once

#include "alloc/address_space.h"

namespace gleaner::malloc_proxy {

// Makes the heap at the first call. False if the system refuses the address space; then the next
// allocator serves the program. Any thread, at any time after the loader has relocated the library.
bool Start();

// Looks up the C library's functions that threads.cc replaces. Once, at the start.
void FindSignalFunctions();

// Whether each call goes to the pages, without magazines (GLEANER_MALLOC_CHECK).
bool ChecksEveryCall();

// Returns all free memory to the system that the system can take. Whether any was returned.
bool Trim();

struct Figures {
  size_t small_bytes;       // slots that the program has, and slots in magazines
  size_t free_small_bytes;  // free slots in pages of slots
  size_t free_slots;
  size_t free_page_bytes;  // free pages of thread heaps
  size_t large_bytes;      // medium and large blocks, including those on the shelf
  size_t waiting_bytes;    // blocks on the shelf
  size_t idle_bytes;       // free and resident memory, in pieces of 2 MiB
};
// A snapshot while other threads go on.
Figures CountMemory();

}  // namespace gleaner::malloc_proxy
