#include "platform/loader/mappings.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/os/os_page.h"

namespace gleaner::platform {
namespace {

int OpenOwn(const char* path) { return open(path, O_RDONLY | O_CLOEXEC); }

// Parses lines "begin-end perms offset device inode   path", in which all numbers but the inode are
// hexadecimal.
class LineParser {
 public:
  // Takes the next character. True at the end of a complete line, whose fields are valid until the
  // next call.
  bool Take(char c) {
    if (starts_) *this = LineParser();
    starts_ = c == '\n';
    if (starts_) return field_ >= kInode;
    switch (field_) {
      case kBegin:
      case kEnd:
        if (c == '-' || c == ' ') {
          Next();
        } else {
          Addr& value = field_ == kBegin ? range_.begin : range_.end;
          value = value * 16 + static_cast<Addr>(c <= '9' ? c - '0' : c - 'a' + 10);
        }
        break;
      case kPermissions:
        if (c == ' ') {
          Next();
        } else if (count_ < sizeof permissions_) {
          permissions_[count_++] = c;
        }
        break;
      case kOffset:
      case kDevice:
        if (c == ' ') Next();
        break;
      case kInode:
        if (c == ' ') {
          Next();
        } else {
          has_inode_ |= c != '0';
        }
        break;
      case kPath:
        if (count_ == 0 && c == ' ') break;
        if (count_ < sizeof path_ - 1) path_[count_++] = c;
        break;
    }
    return false;
  }

  // Whether the process may have left pointers in the mapping of the line, which is stored in
  // *mapping.
  bool IsOfInterest(Mapping* mapping) const {
    const bool readable = permissions_[0] == 'r';
    const bool writable = permissions_[1] == 'w';
    *mapping = {range_, has_inode_, writable};
    const bool is_device = strncmp(path_, "/dev/", 5) == 0;
    // A mapping with MAP_SHARED | MAP_ANONYMOUS, which cannot be truncated as a file can.
    const bool is_zero_device = strncmp(path_, "/dev/zero", 9) == 0;
    if (!readable || (is_device && !is_zero_device)) return false;
    if (permissions_[3] == 's') return writable && is_zero_device;
    if (writable) return true;
    // Data that the loader or the program has made read-only. Larger files are usually mapped for
    // reading.
    constexpr size_t kMaxDataBytes = 16 * kMiB;
    if (has_inode_) return permissions_[2] != 'x' && range_.bytes() <= kMaxDataBytes;
    return strncmp(path_, "[v", 2) != 0;  // the kernel's own: [vvar], [vdso], [vsyscall]
  }

 private:
  void Next() {
    field_ = static_cast<Field>(field_ + 1);
    count_ = 0;
  }
  enum Field { kBegin, kEnd, kPermissions, kOffset, kDevice, kInode, kPath } field_ = kBegin;
  bool starts_ = false;
  Range range_;
  bool has_inode_ = false;
  char permissions_[4] = {};
  char path_[16] = {};
  size_t count_ = 0;  // of characters of the field
};

// Bits of an entry of /proc/self/pagemap: the page is in memory or in swap; the page is a file's or
// shared, not a private copy of the process.
constexpr uint64_t kTouched = uint64_t{3} << 62;
constexpr uint64_t kNotPrivate = uint64_t{1} << 61;

}  // namespace

bool VisitMappings(void (*f)(void* context, const Mapping& mapping), void* context) {
  const int fd = OpenOwn("/proc/self/maps");
  if (fd < 0) return false;
  LineParser line;
  Mapping mapping;
  char buffer[4096];
  ssize_t n;
  while ((n = read(fd, buffer, sizeof buffer)) > 0 || (n < 0 && errno == EINTR)) {
    for (ssize_t i = 0; i < n; ++i) {
      if (line.Take(buffer[i]) && line.IsOfInterest(&mapping)) f(context, mapping);
    }
  }
  close(fd);
  return n == 0;
}

TouchedPages::TouchedPages() : fd_(OpenOwn("/proc/self/pagemap")) {}
TouchedPages::~TouchedPages() {
  if (fd_ >= 0) close(fd_);
}

void TouchedPages::Visit(const Mapping& mapping, Range range, void (*f)(void* context, Range part),
                         void* context) const {
  constexpr size_t kEntries = 512;
  constexpr size_t kGapPages = 16;  // at most this many untouched pages do not end a part
  const size_t os_page = OsPageBytes();
  const size_t gap = mapping.is_file ? 0 : kGapPages * os_page;
  uint64_t entries[kEntries];
  Range part;  // whole pages not reported yet; an end of 0 means none
  const auto give = [&] {
    if (part.end == 0) return;
    f(context, {part.begin < range.begin ? range.begin : part.begin,
                part.end > range.end ? range.end : part.end});
    part.end = 0;
  };
  if (fd_ < 0 && mapping.is_file && !mapping.is_writable) return;
  for (Addr at = AlignDown(range.begin, os_page); at < range.end;) {
    const size_t left = (range.end - at + os_page - 1) / os_page;
    const size_t want = left < kEntries ? left : kEntries;
    const ssize_t n = fd_ < 0 ? -1
                              : pread(fd_, entries, want * sizeof(uint64_t),
                                      static_cast<off_t>(at / os_page * sizeof(uint64_t)));
    if (n < static_cast<ssize_t>(sizeof(uint64_t))) {
      if (part.end == 0) part.begin = at;
      part.end = range.end;
      break;
    }
    const size_t got = static_cast<size_t>(n) / sizeof(uint64_t);
    for (size_t i = 0; i < got; ++i, at += os_page) {
      if ((entries[i] & kTouched) == 0) continue;
      if (mapping.is_file && (entries[i] & kNotPrivate) != 0) continue;
      if (part.end != 0 && at - part.end > gap) give();
      if (part.end == 0) part.begin = at;
      part.end = at + os_page;
    }
  }
  give();
}

}  // namespace gleaner::platform
