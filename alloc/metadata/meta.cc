#include "alloc/metadata/meta.h"

namespace gleaner::alloc {
namespace {

constexpr size_t kSegmentBytes = 256 * kKiB;

constinit platform::Lock g_lock(platform::LockRank::kMeta);
// Guarded by g_lock.
constinit Addr g_next = 0;
constinit Addr g_end = 0;
constinit size_t g_handed_out = 0;

}  // namespace

void* MetaAllocate(size_t bytes, size_t alignment) {
  platform::LockGuard guard(g_lock);
  Addr start = AlignUp(g_next, alignment);
  if (g_next == 0 || start + bytes > g_end) {
    const size_t segment =
        AlignUp(bytes < kSegmentBytes ? kSegmentBytes : bytes, platform::OsPageBytes());
    void* p = platform::Reserve(segment, platform::OsPageBytes());
    if (p == nullptr) return nullptr;
    if (!platform::Commit(p, segment)) {
      platform::Release(p, segment);
      return nullptr;
    }
    g_next = AddressOf(p);
    g_end = g_next + segment;
    start = g_next;
  }
  g_next = start + bytes;
  g_handed_out += bytes;
  return PointerAt<void>(start);
}

size_t MetaBytes() {
  platform::LockGuard guard(g_lock);
  return g_handed_out;
}

const size_t& MetaBytesPlace() { return g_handed_out; }

void MetaResetLockAfterFork() { g_lock.ResetAfterFork(); }

}  // namespace gleaner::alloc
