#include "platform/tracking/soft_dirty_tracking.h"

#include <fcntl.h>
#include <unistd.h>

#include "platform/os/memory.h"
#include "platform/os/process.h"

namespace gleaner::platform {

namespace {

constexpr uint64_t kSoftDirty = uint64_t{1} << 55;
constexpr size_t kWordsAtOnce = 512;

off_t OffsetOf(Addr page) {
  return static_cast<off_t>(page / kTrackedPageBytes * sizeof(uint64_t));
}

}  // namespace

bool SoftDirtyTracking::Open(const char* pagemap, const char* clear_refs) {
  pagemap_name_ = pagemap;
  clear_refs_name_ = clear_refs;
  cleared_.Store(false, memory_order_relaxed);  // no other thread uses it
  process_ = getpid();
  if (witness_ == nullptr) {
    witness_ = static_cast<char*>(Reserve(kTrackedPageBytes, kTrackedPageBytes));
    if (witness_ == nullptr) return false;
    if (!Commit(PointerAt<void>(witness()), kTrackedPageBytes)) return ReleaseWitness();
  }
  return pagemap_.Take(open(pagemap_name_, O_RDONLY | O_CLOEXEC)) || ReleaseWitness();
}

// Returns false.
bool SoftDirtyTracking::ReleaseWitness() {
  if (witness_ != nullptr) Release(PointerAt<void>(witness()), kTrackedPageBytes);
  witness_ = nullptr;
  return false;
}

void SoftDirtyTracking::Close() {
  pagemap_.Close();
  ReleaseWitness();
}

bool SoftDirtyTracking::ClearAll() {
  const int fd = open(clear_refs_name_, O_WRONLY | O_CLOEXEC);
  const bool ok = fd >= 0 && write(fd, "4\n", 2) == 2;
  if (fd >= 0) close(fd);
  if (ok) *witness_ = 1;
  cleared_.Store(ok, memory_order_release);  // pairs with the acquire in Fetch
  return ok;
}

size_t SoftDirtyTracking::Fetch(Addr begin, Addr end, VisitDirty visit, void* context) {
  DirtyRanges dirty(visit, context);
  uint64_t words[kWordsAtOnce];
  // Acquire: pairs with the release in ClearAll.
  if (MemoryIsCopy() || process_ != getpid() || !pagemap_.IsOwn() ||
      !cleared_.Load(memory_order_acquire)) {
    dirty.Add(begin, end);
    return dirty.Finish();
  }
  for (Addr from = begin; from < end;) {
    const size_t left = (end - from) / kTrackedPageBytes;
    const size_t count = left < kWordsAtOnce ? left : kWordsAtOnce;
    const ssize_t got = pread(pagemap_.fd(), words, count * sizeof words[0], OffsetOf(from));
    if (got < static_cast<ssize_t>(sizeof words[0])) {
      dirty.Add(from, end);
      break;
    }
    const size_t pages = static_cast<size_t>(got) / sizeof words[0];
    for (size_t i = 0; i < pages; ++i, from += kTrackedPageBytes) {
      if ((words[i] & kSoftDirty) != 0) dirty.Add(from, from + kTrackedPageBytes);
    }
  }
  const size_t found = dirty.Finish();
  if (HasWitness()) return found;
  visit(context, begin, end);
  return end - begin;
}

bool SoftDirtyTracking::HasWitness() const {
  uint64_t word;
  return pread(pagemap_.fd(), &word, sizeof word, OffsetOf(witness())) == sizeof word &&
         (word & kSoftDirty) != 0;
}

void SoftDirtyTracking::ResetInChild() {
  Close();
  if (!Open(pagemap_name_, clear_refs_name_)) process_ = 0;  // all pages count as dirty
}

}  // namespace gleaner::platform
