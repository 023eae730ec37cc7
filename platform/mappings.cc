#include "platform/mappings.h"

#include <fcntl.h>
#include <unistd.h>

#include "platform/memory.h"

namespace gleaner::platform {
namespace {

class File {
 public:
  explicit File(const char* path) : fd_(open(path, O_RDONLY | O_CLOEXEC)) {}
  ~File() {
    if (fd_ >= 0) close(fd_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// One line at a time: "begin-end perms ...", numbers in hexadecimal.
class LineParser {
 public:
  // True at the end of a line, whose fields are valid then.
  bool Take(char c) {
    if (c == '\n') {
      const bool whole = field_ == kRest;
      Clear();
      return whole;
    }
    switch (field_) {
      case kBegin:
      case kEnd: {
        if (begins_) range_ = {};
        begins_ = false;
        if (c == '-') {
          field_ = kEnd;
        } else if (c == ' ') {
          field_ = kPermissions;
          permission_count_ = 0;
        } else {
          Addr& value = field_ == kBegin ? range_.begin : range_.end;
          value = value * 16 + static_cast<Addr>(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        break;
      }
      case kPermissions:
        if (c == ' ') {
          field_ = kRest;
        } else if (permission_count_ < sizeof permissions_) {
          permissions_[permission_count_++] = c;
        }
        break;
      case kRest:
        break;
    }
    return false;
  }
  Range range() const { return range_; }
  bool IsPrivateWritable() const {
    return permissions_[0] == 'r' && permissions_[1] == 'w' && permissions_[3] == 'p';
  }

 private:
  void Clear() {
    field_ = kBegin;
    begins_ = true;
  }
  enum { kBegin, kEnd, kPermissions, kRest } field_ = kBegin;
  bool begins_ = true;
  Range range_;
  char permissions_[4] = {};
  size_t permission_count_ = 0;
};

}  // namespace

bool VisitPrivateWritableMappings(void (*f)(void* context, Range range), void* context) {
  const File file("/proc/self/maps");
  if (file.fd() < 0) return false;
  LineParser line;
  char buffer[4096];
  ssize_t n;
  while ((n = read(file.fd(), buffer, sizeof buffer)) > 0) {
    for (ssize_t i = 0; i < n; ++i) {
      if (line.Take(buffer[i]) && line.IsPrivateWritable()) f(context, line.range());
    }
  }
  return n == 0;
}

void VisitTouched(Range range, void (*f)(void* context, Range part), void* context) {
  // An entry a page: bit 63 is set if it is in memory, bit 62 if in swap.
  constexpr uint64_t kTouched = uint64_t{3} << 62;
  constexpr size_t kEntries = 512;
  constexpr size_t kGapPages = 16;  // fewer untouched pages than these are not worth a cut
  const File file("/proc/self/pagemap");
  const size_t os_page = OsPageBytes();
  uint64_t entries[kEntries];
  Range part;  // of whole pages; an end of 0 is none
  const auto give = [&] {
    if (part.end == 0) return;
    f(context, {part.begin < range.begin ? range.begin : part.begin,
                part.end > range.end ? range.end : part.end});
    part.end = 0;
  };
  for (Addr at = AlignDown(range.begin, os_page); at < range.end;) {
    const size_t left = (range.end - at + os_page - 1) / os_page;
    const size_t want = left < kEntries ? left : kEntries;
    const ssize_t n = file.fd() < 0 ? -1
                                    : pread(file.fd(), entries, want * sizeof(uint64_t),
                                            static_cast<off_t>(at / os_page * sizeof(uint64_t)));
    if (n < static_cast<ssize_t>(sizeof(uint64_t))) {
      if (part.end == 0) part.begin = at;
      part.end = range.end;
      break;
    }
    const size_t got = static_cast<size_t>(n) / sizeof(uint64_t);
    for (size_t i = 0; i < got; ++i, at += os_page) {
      if ((entries[i] & kTouched) == 0) continue;
      if (part.end != 0 && at - part.end > kGapPages * os_page) {
        give();
      }
      if (part.end == 0) part.begin = at;
      part.end = at + os_page;
    }
  }
  give();
}

}  // namespace gleaner::platform
