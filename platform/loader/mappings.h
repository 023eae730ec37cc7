// The mappings of the process, as the system lists them. Allocates nothing; for the collecting
// thread, also with the world stopped.
#pragma once

#include "platform/common/range.h"

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

}  // namespace gleaner::platform
