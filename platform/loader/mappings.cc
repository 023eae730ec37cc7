#include "platform/loader/mappings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/os/filters.h"
#include "platform/os/memory.h"

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

// Whether the page of the address can be read at this instant. The system call copies the set of
// signals from there before it refuses its invalid operation.
bool IsReadable(Addr address) {
  constexpr size_t kKernelSetBytes = 8;
  const Addr set = AlignDown(address, kKernelSetBytes);
  return syscall(SYS_rt_sigprocmask, -1, set, nullptr, kKernelSetBytes) == 0 || errno != EFAULT;
}

// Copies [from, from + bytes), all of which could be read an instant ago, by /proc/self/mem.
// Returns the bytes copied: fewer if a page has vanished since, or the file cannot be opened.
size_t CopyByFile(char* to, Addr from, size_t bytes) {
  const int fd = HasFilter() ? -1 : OpenOwn("/proc/self/mem");
  if (fd < 0) return 0;
  constexpr int kAttempts = 8;  // for a page that exists
  size_t done = 0;
  for (int failed = 0; done < bytes && failed < kAttempts;) {
    const ssize_t n = pread(fd, to + done, bytes - done, static_cast<off_t>(from + done));
    if (n > 0) {
      done += static_cast<size_t>(n);
      failed = 0;
    } else {
      failed = IsReadable(from + done) ? failed + 1 : kAttempts;
    }
  }
  close(fd);
  return done;
}

// CopyIfMapped where the system refuses process_vm_readv: each page is tested before it is copied.
// A page that vanishes in between does no harm to a copy by /proc/self/mem. Only if that file
// cannot be opened are words loaded directly.
size_t CopyByPages(void* to, Addr from, size_t bytes) {
  auto* out = static_cast<char*>(to);
  const size_t readable = EndOfReadable(from, from + bytes) - from;
  size_t done = 0;
  constexpr int kAttempts = 8;
  for (int i = 0; done < readable && i < kAttempts; ++i) {
    done += CopyByFile(out + done, from + done, readable - done);
    if (done < readable && !IsReadable(from + done)) return done;
  }
  for (const size_t looked_at = done; done < readable;) {
    const Addr at = from + done;
    const Addr word_at = AlignDown(at, kWordBytes);
    if ((done == looked_at || at % OsPageBytes() == 0) && !IsReadable(at)) break;
    const Addr word = LoadForeignWord(word_at);
    const size_t skipped = at - word_at;
    const size_t rest = readable - done;
    const size_t n = rest < kWordBytes - skipped ? rest : kWordBytes - skipped;
    memcpy(out + done, reinterpret_cast<const char*>(&word) + skipped, n);
    done += n;
  }
  return done;
}

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

size_t CopyIfMapped(void* to, Addr from, size_t bytes) {
  const iovec local = {to, bytes};
  const iovec remote = {PointerAt<void>(from), bytes};
  if (HasFilter()) return CopyByPages(to, from, bytes);
  const ssize_t n = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (n >= 0) return static_cast<size_t>(n);
  return errno == EFAULT ? 0 : CopyByPages(to, from, bytes);
}

Addr EndOfReadable(Addr from, Addr limit) {
  const size_t os_page = OsPageBytes();
  while (from < limit && IsReadable(from)) from = AlignDown(from, os_page) + os_page;
  return from < limit ? from : limit;
}

Addr BeginOfReadable(Addr end) {
  const size_t os_page = OsPageBytes();
  Addr begin = AlignDown(end, os_page);
  while (begin >= os_page && IsReadable(begin - os_page)) begin -= os_page;
  return begin;
}

Addr LowestMapped(Range range) {
  constexpr size_t kPages = 256;  // tested by one call, while all are mapped
  const size_t os_page = OsPageBytes();
  const Addr first = AlignDown(range.begin, os_page);
  Addr at = AlignUp(range.end, os_page);
  for (size_t pages = kPages; at > first && pages > 0;) {
    unsigned char resident[kPages];
    const size_t left = (at - first) / os_page;
    const size_t step = (left < pages ? left : pages) * os_page;
    // Only ENOMEM says that a page is not mapped.
    const bool asks = !HasFilter();
    const bool mapped = asks && mincore(PointerAt<void>(at - step), step, resident) == 0;
    if (mapped || ((!asks || errno != ENOMEM) && step == os_page && IsReadable(at - step))) {
      at -= step;
    } else {
      pages /= 2;
    }
  }
  if (at > range.end) return range.end;
  return at < range.begin ? range.begin : at;
}

}  // namespace gleaner::platform
