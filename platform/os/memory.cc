#include "platform/os/memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

#include "platform/faults/failures.h"
#include "platform/os/clock.h"
#include "platform/os/filters.h"
#include "platform/os/lock.h"
#include "platform/os/raw_call.h"

namespace gleaner::platform {
namespace {

constexpr size_t kSmallBytes = kMiB;  // reservations up to this stay whole
constexpr int kReserved = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;

// A reservation (the picture in the header). Written under g_lock. VisitReservations reads the
// atomic fields without the lock, with the world stopped, when no stopped thread holds the lock.
// Relaxed: the lock or the stop orders all accesses.
struct Reservation {
  Atomic<Addr> begin;
  Atomic<size_t> bytes;  // 0: the entry is free
  // Mapped: [begin, begin + low) and [begin + bytes - high, begin + bytes).
  Atomic<size_t> low;
  Atomic<size_t> high;
  // At most these bytes from the lower and the upper end are committed.
  size_t used_low;
  size_t used_high;
  CommitFrom from;
  bool not_dumped;  // what is not committed is left out of core dumps
  bool whole;       // the reservation has never had a hole
  bool kept_whole;
  bool wants_hole;  // AllowHole makes the hole that KeepWhole has prevented
};
constexpr size_t kMaxReservations = 1024;
constinit Reservation g_reservations[kMaxReservations] = {};
// Entries from this one on were never used. Written and read like the entries' atomic fields.
constinit Atomic<uint32_t> g_end{0};

std::span<Reservation> Reservations() {
  return {g_reservations, g_end.Load(memory_order_relaxed)};  // under the lock or a stop
}

constinit Lock g_lock(LockRank::kReservations);
// Guarded by g_lock.
constinit Addr g_next_end = 0;  // the end of the next large reservation
// The limit on address space at the last look. Written under g_lock.
constinit Hint<size_t> g_known_limit{SIZE_MAX};

// Asks the holder of g_lock, or the next one, to look at the limit. Sequentially consistent: if a
// thread sets the flag and then fails to take the lock, the lock's holder sees the flag after it
// has released the lock.
constinit Atomic<bool> g_look_at_limit{false};

// The process that owns this memory. A child of vfork has its own limits but its parent's memory.
// Relaxed: written before there is a second process, or by the only thread of a forked child.
constinit Atomic<int> g_process{0};

size_t ReadLimit() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return SIZE_MAX;
  return limit.rlim_cur;
}

// pre for the functions down to LookAtLimit: g_lock is held, so relaxed loads see the last stores.

// Records a new reservation. False if the table is full.
bool RecordReservation(Addr begin, size_t bytes, size_t mapped, size_t used, CommitFrom from) {
  if (g_process.Load(memory_order_relaxed) == 0) g_process.Store(getpid(), memory_order_relaxed);
  const uint32_t end = g_end.Load(memory_order_relaxed);
  uint32_t i = 0;
  while (i < end && g_reservations[i].bytes.Load(memory_order_relaxed) != 0) ++i;
  if (i == kMaxReservations) return false;
  Reservation& entry = g_reservations[i];
  entry.begin.Store(begin, memory_order_relaxed);
  entry.low.Store(mapped, memory_order_relaxed);
  entry.high.Store(0, memory_order_relaxed);
  entry.used_low = used;
  entry.used_high = 0;
  entry.from = from;
  entry.not_dumped =
      mapped > kSmallBytes && madvise(PointerAt<void>(begin), mapped, MADV_DONTDUMP) == 0;
  entry.whole = mapped == bytes;
  entry.kept_whole = entry.wants_hole = false;
  entry.bytes.Store(bytes, memory_order_relaxed);
  if (i == end) g_end.Store(end + 1, memory_order_relaxed);
  return true;
}

// The reservation that the address belongs to; null if none is noted. If one reservation lies in
// the hole of another, the inner one, which begins last.
Reservation* FindReservation(Addr address) {
  Reservation* found = nullptr;
  Addr last = 0;
  for (Reservation& entry : Reservations()) {
    const Addr begin = entry.begin.Load(memory_order_relaxed);
    if (begin < last || address - begin >= entry.bytes.Load(memory_order_relaxed)) continue;
    found = &entry;
    last = begin;
  }
  return found;
}

// The place for a large reservation: below the last one. The first ends an eighth of the address
// space below the place where the system puts mappings without a given address, so the system puts
// nothing into the holes. 0 if there is no room.
Addr FarAway(size_t bytes, size_t alignment) {
#ifdef __SANITIZE_THREAD__
  return 0;  // ThreadSanitizer uses most of these addresses
#endif
  if (g_next_end == 0) {
    void* usual = mmap(nullptr, OsPageBytes(), PROT_NONE, kReserved, -1, 0);
    if (usual == MAP_FAILED) return 0;
    munmap(usual, OsPageBytes());
    g_next_end = AddressOf(usual) - AddressOf(usual) / 8;
    g_known_limit.Set(ReadLimit());
  }
  return g_next_end > bytes + alignment ? AlignDown(g_next_end - bytes, alignment) : 0;
}

// Maps these addresses. False if another mapping has them, or the system refuses. Without the C
// library: sanitizers replace mmap, and take the place away from a call that wants it where they
// have memory of their own.
bool MapAt(Addr begin, size_t bytes, int protection = PROT_NONE) {
  if (Fails(Failing::kMapping)) return errno = ENOMEM, false;
  const long result = RawCall(SYS_mmap, static_cast<long>(begin), static_cast<long>(bytes),
                              protection, kReserved | MAP_FIXED_NOREPLACE, -1, 0);
  if (result == static_cast<long>(begin)) return true;
  if (result < 0 && result >= -4095) return errno = static_cast<int>(-result), false;
  // An old system, which does not know the flag, mapped elsewhere.
  munmap(PointerAt<void>(static_cast<Addr>(result)), bytes);
  return errno = ENOMEM, false;
}

// Notes that [from, to) of the reservation is about to be committed, and maps the part of it that
// lies in the hole. False if the part cannot be mapped.
bool PrepareCommit(Reservation* r, size_t from, size_t to) {
  const size_t bytes = r->bytes.Load(memory_order_relaxed);
  const size_t low = r->low.Load(memory_order_relaxed);
  const size_t high = r->high.Load(memory_order_relaxed);
  const size_t below = from > r->used_low ? from - r->used_low : 0;
  const size_t above = bytes - r->used_high > to ? bytes - r->used_high - to : 0;
  if (r->from == CommitFrom::kBegin || below <= above) {
    const size_t end = to < bytes - high ? to : bytes - high;
    if (end > low) {
      if (!MapAt(r->begin.Load(memory_order_relaxed) + low, end - low)) return false;
      r->low.Store(end, memory_order_relaxed);
    }
    if (to > r->used_low) r->used_low = to;
  } else {
    const size_t begin = from > low ? from : low;
    if (begin < bytes - high) {
      const Addr address = r->begin.Load(memory_order_relaxed) + begin;
      if (!MapAt(address, bytes - high - begin)) return false;
      r->high.Store(bytes - begin, memory_order_relaxed);
    }
    if (bytes - from > r->used_high) r->used_high = bytes - from;
  }
  return true;
}

// Has core dumps contain all of the reservation. pre: its memory is not dumped.
void DumpWhole(Reservation* r) {
  const Addr begin = r->begin.Load(memory_order_relaxed);
  const Addr end = begin + r->bytes.Load(memory_order_relaxed);
  const size_t high = r->high.Load(memory_order_relaxed);
  madvise(PointerAt<void>(begin), r->low.Load(memory_order_relaxed), MADV_DODUMP);
  if (high != 0) madvise(PointerAt<void>(end - high), high, MADV_DODUMP);
  r->not_dumped = false;
}

// Unmaps the memory of the reservation that is not committed, unless the reservation is kept whole.
void MakeHole(Reservation* r) {
  r->wants_hole = r->kept_whole;
  if (r->kept_whole) return;
  const Addr begin = r->begin.Load(memory_order_relaxed);
  const size_t bytes = r->bytes.Load(memory_order_relaxed);
  const size_t low = r->low.Load(memory_order_relaxed);
  const size_t high = r->high.Load(memory_order_relaxed);
  const size_t new_low = AlignUp(r->used_low, OsPageBytes());
  const size_t new_high = AlignUp(r->used_high, OsPageBytes());
  const auto unmap = [begin](size_t from, size_t to) {
    return from < to && munmap(PointerAt<void>(begin + from), to - from) == 0;
  };
  if (low + high == bytes) {
    if (!unmap(new_low, bytes - new_high)) return;
    r->whole = false;
    r->low.Store(new_low, memory_order_relaxed);
    r->high.Store(new_high, memory_order_relaxed);
    return;
  }
  // Unmaps memory that was mapped again for a commit that then failed.
  if (unmap(new_low, low)) r->low.Store(new_low, memory_order_relaxed);
  if (unmap(bytes - high, bytes - new_high)) r->high.Store(new_high, memory_order_relaxed);
}

void MakeHoles() {
  for (Reservation& entry : Reservations()) {
    if (entry.bytes.Load(memory_order_relaxed) > kSmallBytes) MakeHole(&entry);
  }
}

// Makes holes if the limit on address space is lower than when it was last looked at.
void LookAtLimit() {
  const size_t limit = ReadLimit();
  const bool lower = limit < g_known_limit.Get();
  g_known_limit.Set(limit);
  if (lower) MakeHoles();
}

bool OwnsMemory() { return g_process.Load(memory_order_relaxed) == getpid(); }  // written before

// Looks at the limit if that is asked for and the lock is free. Never waits: the holder may be
// interrupted by this thread's handler, or have vanished in a fork.
void LookIfAsked() {
  while (g_look_at_limit.Load(memory_order_seq_cst)) {
    if (!OwnsMemory() || !g_lock.TryAcquire()) return;
    g_look_at_limit.Store(false, memory_order_seq_cst);
    LookAtLimit();
    g_lock.Release();
  }
}

// Holds g_lock; afterwards looks at the limit if that was asked for meanwhile.
class Guard {
 public:
  Guard() { g_lock.Acquire(); }
  ~Guard() {
    g_lock.Release();
    LookIfAsked();
  }
  Guard(const Guard&) = delete;
  Guard& operator=(const Guard&) = delete;
};

// Reserves with PROT_NONE, or with PROT_READ for memory that reads as zero.
void* ReserveAs(int protection, size_t bytes, size_t alignment, CommitFrom from) {
  const size_t slack = alignment > OsPageBytes() ? alignment : 0;
  if (bytes + slack < bytes) return nullptr;
  const Guard guard;
  if (bytes > kSmallBytes) {
    if (const Addr begin = FarAway(bytes, alignment); begin != 0) {
      const bool mapped = g_known_limit.Get() == SIZE_MAX;
      if (mapped ? MapAt(begin, bytes, protection) : RecordReservation(begin, bytes, 0, 0, from)) {
        if (mapped) (void)RecordReservation(begin, bytes, bytes, 0, from);
        g_next_end = begin;
        return PointerAt<void>(begin);
      }
    }
  }
  void* raw = mmap(nullptr, bytes + slack, protection, kReserved, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  const Addr start = AddressOf(raw);
  const Addr aligned = AlignUp(start, alignment);
  if (aligned != start) munmap(raw, aligned - start);
  const Addr end = start + bytes + slack;
  if (end != aligned + bytes) munmap(PointerAt<void>(aligned + bytes), end - (aligned + bytes));
  (void)RecordReservation(aligned, bytes, bytes, 0, from);
  return PointerAt<void>(aligned);
}

}  // namespace

void* Reserve(size_t bytes, size_t alignment, CommitFrom from) {
  return ReserveAs(PROT_NONE, bytes, alignment, from);
}

void* ReserveZeroes(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ, kReserved, -1, 0);
  if (p == MAP_FAILED) return nullptr;
  const Guard guard;
  (void)RecordReservation(AddressOf(p), bytes, bytes, bytes, CommitFrom::kBegin);
  return p;
}

void* ReserveZeroes(size_t bytes, CommitFrom from) {
  return ReserveAs(PROT_READ, bytes, OsPageBytes(), from);
}

bool KeepWhole(void* reservation) {
  const Guard guard;
  Reservation* r = FindReservation(AddressOf(reservation));
  if (r == nullptr) return true;  // not noted: the reservation never gets a hole
  r->kept_whole = r->whole;
  return r->whole;
}

void AllowHole(void* reservation) {
  const Guard guard;
  Reservation* r = FindReservation(AddressOf(reservation));
  if (r == nullptr) return;
  r->kept_whole = false;
  if (r->wants_hole) MakeHole(r);
}

void VisitReservations(void (*f)(void* context, Range range), void* context) {
  for (const Reservation& entry : Reservations()) {
    const size_t bytes = entry.bytes.Load(memory_order_relaxed);  // the world is stopped
    if (bytes == 0) continue;
    const Addr begin = entry.begin.Load(memory_order_relaxed);  // the world is stopped
    const size_t low = entry.low.Load(memory_order_relaxed);    // the world is stopped
    const size_t high = entry.high.Load(memory_order_relaxed);  // the world is stopped
    f(context, {begin, begin + low});
    if (high != 0) f(context, {begin + bytes - high, begin + bytes});
  }
}

void Release(void* p, size_t bytes) {
  const Guard guard;
  Reservation* r = FindReservation(AddressOf(p));
  if (r == nullptr || r->begin.Load(memory_order_relaxed) != AddressOf(p)) {  // not noted
    munmap(p, bytes);
    return;
  }
  const size_t low = r->low.Load(memory_order_relaxed);    // under the lock
  const size_t high = r->high.Load(memory_order_relaxed);  // under the lock
  r->bytes.Store(0, memory_order_relaxed);                 // under the lock
  if (low != 0) munmap(p, low);
  if (high != 0) munmap(PointerAt<void>(AddressOf(p) + bytes - high), high);
}

size_t MemoryAndSwapBytes() {
  struct sysinfo info;
  return sysinfo(&info) == 0 ? (info.totalram + info.totalswap) * info.mem_unit : SIZE_MAX;
}

namespace {

// Whether the system would refuse a mapping of `bytes`. Unless it never overcommits, the system
// does not count reserved memory when it becomes usable. Its usual heuristic refuses only mappings
// larger than all memory and swap; trying such a mapping tells whether the heuristic is in force.
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
  const Guard guard;
  Reservation* r = FindReservation(AddressOf(p));
  if (r != nullptr) {
    const size_t from = AddressOf(p) - r->begin.Load(memory_order_relaxed);  // under the lock
    if (!PrepareCommit(r, from, from + bytes)) {
      LookAtLimit();  // it may have been lowered without a call of ours
      if (!PrepareCommit(r, from, from + bytes)) return false;
    }
  }
  const int protection = PROT_READ | PROT_WRITE | (executable ? PROT_EXEC : 0);
  if (r == nullptr || !r->not_dumped) return mprotect(p, bytes, protection) == 0;
  // Until the next call the memory is a mapping of its own: of those a process can have some
  // 65,000. Without room for it, all of the reservation is dumped.
  if (mprotect(p, bytes, protection) == 0) return madvise(p, bytes, MADV_DODUMP), true;
  DumpWhole(r);
  return mprotect(p, bytes, protection) == 0;
}

void Discard(void* p, size_t bytes) {
  // The system refuses where memory is locked (mlockall), or in a sandbox: then the memory stays
  // resident.
  if (madvise(p, bytes, MADV_DONTNEED) != 0) memset(p, 0, bytes);
}

void Zero(void* p, size_t bytes) {
  if (bytes >= kZeroedByDropping) {
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
  // Some refusals come after the old mapping has been removed: then madvise fails, too.
  return madvise(p, bytes, MADV_DONTNEED) == 0;
}

Moved MoveContents(void* from, void* to, size_t bytes) {
  if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, to) !=
      MAP_FAILED) {
    return Moved::kDone;
  }
  // The system does not know the call, or does not allow it: nothing has changed.
  if (errno == EINVAL || errno == ENOSYS || errno == EPERM) return Moved::kRefused;
  // Some failures come after the destination has been unmapped. A mapping that is there now may be
  // another thread's.
  void* again = mmap(to, bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (again == to) return Moved::kRefused;
  if (again != MAP_FAILED) munmap(again, bytes);  // an old system, without the flag
  return Moved::kLost;
}

bool Populate(void* p, size_t bytes) { return madvise(p, bytes, MADV_POPULATE_WRITE) == 0; }

namespace {

constinit Atomic<const WritePins*> g_write_pins{nullptr};

// Whether the system knows the advice: it looks at that before it looks at the range.
bool KnowsPopulate() { return madvise(nullptr, 0, MADV_POPULATE_WRITE) == 0; }

// pre: whole OS pages, which tracking keeps writable meanwhile.
int MakePartResident(void* p, size_t bytes) {
  if (Populate(p, bytes)) return 0;
  const int error = errno;
  if (error != EINVAL) return error;
  if (KnowsPopulate()) return EACCES;  // it means memory that must not be written, too
  for (Addr page = AddressOf(p); page < AddressOf(p) + bytes; page += OsPageBytes()) {
    __atomic_fetch_or(PointerAt<char>(page), 0, __ATOMIC_RELAXED);  // publishes nothing
  }
  return 0;
}

}  // namespace

void SetWritePins(const WritePins* pins) {
  g_write_pins.Store(pins, memory_order_release);  // pairs with MakeResident
}

int MakeResident(void* p, size_t bytes) {
  // A thread cannot be stopped within a call: so a call makes a huge page resident, or as much.
  constexpr size_t kPart = 2 * kMiB;
  const Addr end = AddressOf(p) + bytes;
  for (Addr from = AddressOf(p); from < end;) {
    const size_t part = AlignDown(from, kPart) + kPart - from;
    const size_t now = end - from < part ? end - from : part;
    // Acquire: pairs with SetWritePins.
    const WritePins* pins = g_write_pins.Load(memory_order_acquire);
    const WritePins::Pinned pinned =
        pins != nullptr ? pins->pin({from, from + now}) : WritePins::Pinned{};
    const int error = MakePartResident(PointerAt<void>(from), now);
    if (pins != nullptr) pins->unpin(pinned);
    if (error != 0) return error;
    from += now;
  }
  return 0;
}

void AdviseHugePages(void* p, size_t bytes) { madvise(p, bytes, MADV_HUGEPAGE); }

size_t AddressSpaceLimit() { return HasFilter() ? g_known_limit.Get() : ReadLimit(); }

void NoticeAddressSpaceLimit() {
  g_look_at_limit.Store(true, memory_order_seq_cst);
  LookIfAsked();
}

void UnmapUncommitted() {
  if (!OwnsMemory() || !g_lock.TryAcquire()) return;
  MakeHoles();
  g_lock.Release();
  LookIfAsked();
}

void ResetReservationsAfterFork() {
  g_lock.ResetAfterFork();
  // The threads that called KeepWhole do not exist in the child, or call it again.
  for (Reservation& entry : Reservations()) {
    entry.kept_whole = false;
    if (entry.wants_hole) MakeHole(&entry);
  }
  g_process.Store(getpid(), memory_order_relaxed);  // the only thread
}

}  // namespace gleaner::platform
