// The mappings of the process, as the system lists them; and, without a descriptor, where memory is
// mapped and reading what may vanish. Allocates nothing; for the collecting thread, also with the
// world stopped.
#pragma once

#include "platform/thread.h"

namespace gleaner::platform {

struct Mapping {
  Range range;
  // Of a file's mapping only the pages count that the process has written (VisitTouched): the
  // others are the file's, and reading one behind the file's end is a fault.
  bool is_file = false;
  bool is_writable = false;
};

// Calls f(context, mapping) for each mapping where the process may have left pointers of its own:
// private ones, writable or of which the system may hold copies that were written before they
// became read-only, and anonymous shared ones. Devices and code are left out. False if the system's
// list cannot be read, or not to its end.
[[nodiscard]] bool VisitMappings(void (*f)(void* context, const Mapping& mapping), void* context);

// Calls f(context, part) for the parts of a mapping that were ever touched, as far as the system
// says: what was not reads as zero, and reading it would cost memory. Parts of anonymous mappings
// that are near each other are joined. Without the system's answer that is all of an anonymous
// mapping, and of a file's all that is writable.
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

// Copies memory of this process from where another thread may unmap it meanwhile. Returns how many
// bytes could be copied: all, or those up to the first page that cannot be read. Where the system
// has no service for that, each page is looked at before it is copied; nothing vanishes in between
// for the copy, as long as a file can be opened. pre: all are whole words.
size_t CopyIfMapped(void* to, Addr from, size_t bytes);

// The first address from `from` on that cannot be read; `limit` if all up to there can be.
Addr EndOfReadable(Addr from, Addr limit);
// The first address from which on all pages up to that of `end` can be read. A call for each page.
Addr BeginOfReadable(Addr end);

// The lowest address from which on all pages up to the range's end are mapped, readable or not;
// the range's end if the last one is not.
Addr LowestMapped(Range range);

}  // namespace gleaner::platform
