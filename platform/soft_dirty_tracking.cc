#include "platform/soft_dirty_tracking.h"

#include <fcntl.h>
#include <unistd.h>

namespace gleaner::platform {

namespace {

constexpr uint64_t kSoftDirty = uint64_t{1} << 55;
constexpr size_t kWordsAtOnce = 512;

}  // namespace

bool SoftDirtyTracking::Open(const char* pagemap, const char* clear_refs) {
  pagemap_name_ = pagemap;
  clear_refs_name_ = clear_refs;
  cleared_.Store(false, memory_order_relaxed);  // no other thread uses it
  process_ = getpid();
  return pagemap_.Take(open(pagemap_name_, O_RDONLY | O_CLOEXEC));
}

void SoftDirtyTracking::Close() { pagemap_.Close(); }

bool SoftDirtyTracking::ClearAll() {
  const int fd = open(clear_refs_name_, O_WRONLY | O_CLOEXEC);
  const bool ok = fd >= 0 && write(fd, "4\n", 2) == 2;
  if (fd >= 0) close(fd);
  cleared_.Store(ok, memory_order_release);  // pairs with the acquire in Fetch
  return ok;
}

size_t SoftDirtyTracking::Fetch(Addr begin, Addr end, VisitDirty visit, void* context) {
  DirtyRanges dirty(visit, context);
  uint64_t words[kWordsAtOnce];
  // Acquire: pairs with the release in ClearAll.
  if (process_ != getpid() || !pagemap_.IsOwn() || !cleared_.Load(memory_order_acquire)) {
    dirty.Add(begin, end);
    return dirty.Finish();
  }
  for (Addr from = begin; from < end;) {
    const size_t left = (end - from) / kTrackedPageBytes;
    const size_t count = left < kWordsAtOnce ? left : kWordsAtOnce;
    const ssize_t got = pread(pagemap_.fd(), words, count * sizeof words[0],
                              static_cast<off_t>(from / kTrackedPageBytes * sizeof words[0]));
    if (got < static_cast<ssize_t>(sizeof words[0])) {
      dirty.Add(from, end);
      break;
    }
    const size_t pages = static_cast<size_t>(got) / sizeof words[0];
    for (size_t i = 0; i < pages; ++i, from += kTrackedPageBytes) {
      if ((words[i] & kSoftDirty) != 0) dirty.Add(from, from + kTrackedPageBytes);
    }
  }
  return dirty.Finish();
}

void SoftDirtyTracking::ResetInChild() {
  Close();
  if (!Open(pagemap_name_, clear_refs_name_)) process_ = 0;  // all pages count as dirty
}

}  // namespace gleaner::platform
