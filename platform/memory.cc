#include "platform/memory.h"

#include <sys/auxv.h>
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

// Where addresses are set aside: the lower half of what an x86-64 process has, but for its lowest
// and highest part. The system places mappings, stacks and programs above it, or from a third of
// the address space on upwards if the stack is unlimited.
constexpr Addr kAsideBegin = Addr{0x11} << 40;
constexpr Addr kAsideEnd = Addr{0x2a} << 40;
// The first addresses are as random as the stack's.
constexpr Addr kAsideRandom = Addr{4} << 40;
// What one library sets aside lies in a slot of this size, which it has claimed by a mapping of one
// page at its beginning: there may be several of them in a process, and the others' addresses are
// not mapped, either.
constexpr size_t kSlotBytes = size_t{2} << 40;

// Addresses of our slot from here on have not been set aside; 0: no slot has been claimed.
constinit Atomic<Addr> g_aside_next{0};

bool IsAside(const void* p) { return AddressOf(p) - kAsideBegin < kAsideEnd - kAsideBegin; }

Addr FirstAside() { return kAsideBegin + getauxval(AT_RANDOM) * kMiB % kAsideRandom; }

// Maps nothing, at that address or nowhere; errno says what is in the way.
bool TryMapAt(Addr begin, size_t bytes) {
  void* p = mmap(PointerAt<void>(begin), bytes, PROT_NONE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (p == MAP_FAILED) return false;
  if (AddressOf(p) == begin) return true;
  munmap(p, bytes);  // the system does not know the flag
  errno = EINVAL;
  return false;
}

bool CanMap(Addr begin, size_t bytes) {
  if (!TryMapAt(begin, bytes)) return false;
  munmap(PointerAt<void>(begin), bytes);
  return true;
}

// The slots of all libraries in the process begin at the same distances, as all know the same
// random number. 0 if there is none left.
Addr ClaimSlot() {
  for (Addr slot = FirstAside(); slot + kSlotBytes <= kAsideEnd; slot += kSlotBytes) {
    if (TryMapAt(slot, OsPageBytes())) return slot;
    if (errno != EEXIST) return 0;
  }
  return 0;
}

Addr EndOfSlot(Addr inside) {
  const Addr first = FirstAside();
  return first + AlignDown(inside - first, kSlotBytes) + kSlotBytes;
}

// Whether nothing is mapped there, as far as the system says: its limits may not allow as much.
bool IsUnmapped(Addr begin, size_t bytes) {
  return CanMap(begin, bytes) ||
         ((errno == ENOMEM || errno == EAGAIN) && CanMap(begin, OsPageBytes()));
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

void* SetAside(size_t bytes, size_t alignment) {
  if (AddressSpaceLimit() != SIZE_MAX) return Reserve(bytes, alignment);
  // It is the addresses that count, and the exchange decides who has them: nothing is to be
  // ordered.
  Addr next = g_aside_next.Load(memory_order_relaxed);
  if (next == 0) {
    const Addr slot = ClaimSlot();
    if (slot == 0) return Reserve(bytes, alignment);
    if (g_aside_next.CompareExchange(next, slot + OsPageBytes(), memory_order_acquire)) {
      next = slot + OsPageBytes();
    } else {
      munmap(PointerAt<void>(slot), OsPageBytes());  // another thread has claimed one
    }
  }
  const Addr slot_end = EndOfSlot(next - 1);
  Addr begin;
  do {
    begin = AlignUp(next, alignment);
    if (begin > slot_end || bytes > slot_end - begin) return Reserve(bytes, alignment);
  } while (!g_aside_next.CompareExchange(next, begin + bytes, memory_order_acquire));
  if (!IsUnmapped(begin, bytes)) return Reserve(bytes, alignment);
  NoteReservation(begin, bytes);
  return PointerAt<void>(begin);
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
  if (!IsAside(p)) return;
  Addr end = AddressOf(p) + bytes;  // of the last ones that were set aside: they are free again
  g_aside_next.CompareExchange(end, AddressOf(p), memory_order_acquire);  // as in SetAside
}

// The system does not count reserved memory when it becomes usable, unless it never overcommits. By
// its usual heuristic it refuses what is larger than all memory and swap, which is worth a question
// from here on: one that small is not refused.
constexpr size_t kLargeCommitBytes = 64 * kMiB;

namespace {
bool WouldRefuse(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return true;
  munmap(p, bytes);
  return false;
}
}  // namespace

bool Commit(void* p, size_t bytes, bool executable) {
  if (bytes >= kLargeCommitBytes && WouldRefuse(bytes)) return false;
  const int protection = PROT_READ | PROT_WRITE | (executable ? PROT_EXEC : 0);
  if (!IsAside(p)) return mprotect(p, bytes, protection) == 0;
  void* mapped = mmap(p, bytes, protection,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (mapped != MAP_FAILED && mapped != p) munmap(mapped, bytes);  // see IsUnmapped
  return mapped == p;
}

void Uncommit(void* p, size_t bytes) {
  if (IsAside(p)) munmap(p, bytes);
}

namespace {
// What is locked is dropped only on the second demand, which older systems do not know. A process
// in a sandbox may be refused both.
bool Drop(void* p, size_t bytes) {
  return madvise(p, bytes, MADV_DONTNEED) == 0 || madvise(p, bytes, MADV_DONTNEED_LOCKED) == 0;
}
}  // namespace

void Discard(void* p, size_t bytes) {
  if (!Drop(p, bytes)) memset(p, 0, bytes);
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
    if (Drop(PointerAt<void>(begin), end - begin)) {
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
  return Drop(p, bytes);
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

size_t MemoryAndSwapBytes() {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? (info.totalram + info.totalswap) * info.mem_unit : SIZE_MAX;
}

size_t AddressSpaceLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur;
}

}  // namespace gleaner::platform
