// The mappings of the process, as the system lists them. Also copies memory that may be unmapped
// meanwhile, and tests whether addresses are mapped. Allocates nothing; for the collecting thread,
// also with the world stopped.
#pragma once

#include "platform/threads/thread.h"

namespace gleaner::platform {

struct Mapping {
  Range range;
  // A mapping of a file. Only the pages that the process has written count (TouchedPages::Visit):
  // the others are the file's, and reading a page behind the file's end faults.
  bool is_file = false;
  bool is_writable = false;
};

// Calls f(context, mapping) for each mapping in which the process may have left pointers: private
// mappings that are writable, or may have been written before they became read-only; and anonymous
// shared mappings. Devices and code are left out. False if the system's list cannot be read to its
// end.
[[nodiscard]] bool VisitMappings(void (*f)(void* context, const Mapping& mapping), void* context);

// Visit calls f(context, touched) for the touched pages in a part of a mapping. Untouched pages
// read as zero, and reading them would cost memory. Touched pages of an anonymous mapping that are
// near each other are joined. If the system does not tell which pages are touched, Visit reports
// the whole part, but nothing of a read-only mapping of a file.
class TouchedPages {
 public:
  TouchedPages();
  ~TouchedPages();
  TouchedPages(const TouchedPages&) = delete;
  TouchedPages& operator=(const TouchedPages&) = delete;
  void Visit(const Mapping& mapping, Range part, void (*f)(void* context, Range part),
             void* context) const;

 private:
  const int fd_;
};

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
