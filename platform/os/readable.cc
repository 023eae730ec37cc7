#include "platform/os/readable.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/os/filters.h"
#include "platform/os/os_page.h"

namespace gleaner::platform {
namespace {

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
  const int fd = HasFilter() ? -1 : open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
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
