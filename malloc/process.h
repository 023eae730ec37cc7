// What concerns the whole process: start, fork, memory that goes back to the system, figures.
#pragma once

#include "alloc/address_space.h"

namespace gleaner::malloc_proxy {

// Makes the heap, once; false if the system refuses the address space, and then the next allocator
// serves the program. Any thread, at any time after the loader has relocated the library.
bool Start();

// GLEANER_COLLECT or GLEANER_LEAKS: collecting.h serves all calls. Known from the start on.
bool IsCollecting();

// Looks up what threads.cc stands in front of. Once, at the start.
void FindSignalFunctions();

// Each call goes to the pages itself: GLEANER_MALLOC_CHECK.
bool ChecksEveryCall();

// Gives all free memory back that the system can take; whether there was any.
bool Trim();

struct Figures {
  size_t small_bytes;       // in slots that are the program's or in magazines
  size_t free_small_bytes;  // beside them in their pages
  size_t free_slots;
  size_t free_page_bytes;  // free pages of threads
  size_t large_bytes;      // in medium and large blocks, also those that wait
  size_t waiting_bytes;    // on the shelf
  size_t idle_bytes;       // free and resident, in pieces of 2 MiB
};
// A snapshot while other threads go on.
Figures CountMemory();

}  // namespace gleaner::malloc_proxy
