#include "platform/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "platform/thread.h"

namespace gleaner::platform {
namespace {

// What is reserved. An entry belongs to who has set `begin` from 0; one with bytes is valid.
// Relaxed: it is read with the world stopped, which orders it after what the threads did.
struct Reservation {
  Atomic<Addr> begin;
  Atomic<size_t> bytes;
};
constexpr size_t kMaxReservations = 1024;
constinit Reservation g_reservations[kMaxReservations] = {};

void NoteReservation(Addr begin, size_t bytes) {
  for (Reservation& entry : g_reservations) {
    Addr free = entry.begin.Load(memory_order_relaxed);  // a hint; the exchange decides
    if (free != 0 || !entry.begin.CompareExchange(free, begin, memory_order_acquire)) continue;
    entry.bytes.Store(bytes, memory_order_relaxed);  // see above
    return;
  }
}

void ForgetReservation(Addr begin) {
  for (Reservation& entry : g_reservations) {
    if (entry.begin.Load(memory_order_relaxed) != begin) continue;  // our own, or another's
    entry.bytes.Store(0, memory_order_relaxed);                     // see above
    entry.begin.Store(0, memory_order_release);                     // for who uses it next
    return;
  }
}

}  // namespace

size_t OsPageBytes() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

void* Reserve(size_t bytes, size_t alignment) {
  const size_t slack = alignment > OsPageBytes() ? alignment : 0;
  if (bytes + slack < bytes) return nullptr;
  void* raw =
      mmap(nullptr, bytes + slack, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const Addr start = AddressOf(raw);
  const Addr aligned = AlignUp(start, alignment);
  if (aligned != start) munmap(raw, aligned - start);
  const Addr end = start + bytes + slack;
  if (end != aligned + bytes) munmap(PointerAt<void>(aligned + bytes), end - (aligned + bytes));
  NoteReservation(aligned, bytes);
  return PointerAt<void>(aligned);
}

void* ReserveZeroes(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  NoteReservation(AddressOf(p), bytes);
  return p;
}

void VisitReservations(void (*f)(void* context, Range range), void* context) {
  for (const Reservation& entry : g_reservations) {
    const Addr begin = entry.begin.Load(memory_order_relaxed);    // see above
    const size_t bytes = entry.bytes.Load(memory_order_relaxed);  // likewise
    if (bytes != 0) f(context, {begin, begin + bytes});
  }
}

void Release(void* p, size_t bytes) {
  ForgetReservation(AddressOf(p));
  munmap(p, bytes);
}

namespace {

size_t MemoryAndSwapBytes() {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? (info.totalram + info.totalswap) * info.mem_unit : SIZE_MAX;
}

// The system does not count reserved memory when it becomes usable, unless it never overcommits.
// Its usual heuristic refuses a mapping that is larger than all memory and swap, and no other;
// whether that heuristic is in force tells such a mapping.
bool WouldRefuse(size_t bytes) {
  static const size_t all = MemoryAndSwapBytes();
  if (bytes <= all) return false;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return true;
  munmap(p, bytes);
  return false;
}

}  // namespace

bool Commit(void* p, size_t bytes, bool executable) {
  if (WouldRefuse(bytes)) return false;
  return mprotect(p, bytes, PROT_READ | PROT_WRITE | (executable ? PROT_EXEC : 0)) == 0;
}

void Discard(void* p, size_t bytes) {
  // Refused where memory is locked (mlockall), or to a process in a sandbox: then it stays.
  if (madvise(p, bytes, MADV_DONTNEED) != 0) memset(p, 0, bytes);
}

void Zero(void* p, size_t bytes) {
  // To fault a page in again costs some seven times as much as to write it, so that dropping pays
  // where less than a seventh is used. Who wants memory this long at once, and zero, either does
  // that, or has it from the system each time with the C library's malloc, which keeps no longer
  // blocks (M_MMAP_THRESHOLD never rises above this).
  constexpr size_t kDroppedFrom = 32 * kMiB;
  if (bytes >= kDroppedFrom) {
    const Addr begin = AlignUp(AddressOf(p), OsPageBytes());
    const Addr end = AlignDown(AddressOf(p) + bytes, OsPageBytes());
    if (madvise(PointerAt<void>(begin), end - begin, MADV_DONTNEED) == 0) {
      memset(p, 0, begin - AddressOf(p));
      memset(PointerAt<void>(end), 0, AddressOf(p) + bytes - end);
      return;
    }
  }
  memset(p, 0, bytes);
}

bool Renew(void* p, size_t bytes) {
  if (mmap(p, bytes, PROT_READ | PROT_WRITE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) != MAP_FAILED) {
    return true;
  }
  // Some refusals come after the old mapping has gone: then this fails, too.
  return madvise(p, bytes, MADV_DONTNEED) == 0;
}

Moved MoveContents(void* from, void* to, size_t bytes) {
  if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) !=
      MAP_FAILED) {
    return Moved::kDone;
  }
  // The system does not know the call, or does not allow it: it has not looked at the memory.
  if (errno == EINVAL || errno == ENOSYS || errno == EPERM) return Moved::kRefused;
  // Some failures come after the destination has been unmapped. If there is a mapping now, nobody
  // can say whether it is still ours.
  void* again = mmap(to, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (again == to) return Moved::kRefused;
  if (again != MAP_FAILED) munmap(again, bytes);  // of an old system, which does not know the flag
  return Moved::kLost;
}

void Populate(void* p, size_t bytes) { madvise(p, bytes, MADV_POPULATE_WRITE); }

void AdviseHugePages(void* p, size_t bytes) { madvise(p, bytes, MADV_HUGEPAGE); }

size_t AddressSpaceLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur;
}

}  // namespace gleaner::platform
