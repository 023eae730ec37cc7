// Which addresses can be read, and copies of memory that may be unmapped meanwhile. Allocates
// nothing; any thread, also with the world stopped.
#pragma once

#include "platform/common/range.h"

namespace gleaner::platform {

// Copies memory of this process that another thread may unmap meanwhile. Returns the number of
// bytes copied: all, or those up to the first page that cannot be read. If the system has no call
// for that, or the program filters calls (filters.h), each page is tested before it is copied by
// way of /proc/self/mem, so a page that vanishes in between does no harm unless that file cannot be
// opened.
size_t CopyIfMapped(void* to, Addr from, size_t bytes);

// The first address from `from` on that cannot be read; `limit` if all addresses below it can be
// read.
Addr EndOfReadable(Addr from, Addr limit);
// The lowest address such that all pages from it up to the page of `end` can be read. Makes a
// system call for each page.
Addr BeginOfReadable(Addr end);

// The lowest address of the range such that all pages from it up to the range's end are mapped,
// readable or not; the range's end if the last page is not mapped. Where the program filters calls
// (filters.h), a page that cannot be read counts as not mapped.
Addr LowestMapped(Range range);

}  // namespace gleaner::platform
