// Address space from the operating system: the whole contract of the heap with the kernel's memory.
//
// Memory is reserved (addresses only), then committed (may be touched; reads as zero), then perhaps
// discarded (stays committed, its contents are gone and read as zero again). All functions are
// thread-safe and allocate nothing.
//
// A limit on address space that the program sets for itself (RLIMIT_AS; RLIMIT_MEMLOCK, where all
// memory is to be locked) counts reserved memory. So under a limit the part of a reservation that
// is not committed is unmapped. This part is a hole, whose addresses the system may give to other
// mappings; a large reservation made under a limit begins as one hole. Commit maps addresses of a
// hole again if no other mapping has them. Large reservations lie far from where the system places
// other mappings, so mostly none has.
//
//    begin        begin + low         begin + bytes - high      begin + bytes
//      | committed    |        hole          |    committed         |
//
// Core dumps leave out what is reserved and not committed, of reservations of more than 1 MiB: a
// debugger would write all of it (gdb's gcore), or the kernel, as zeroes into a pipe. Advice only:
// where the system refuses it, dumps have more, or lack memory that is in use.
//
// [inv.hole] A thread touches memory of a hole only if it has seen a Commit of that memory succeed.
// Where a reservation by ReserveZeroes may have a hole, a thread touches uncommitted memory only if
// it has seen KeepWhole succeed.
#pragma once

#include "platform/common/range.h"
#include "platform/os/base.h"
#include "platform/os/os_page.h"

namespace gleaner::platform {

// The ends from which a reservation is committed. Its hole, if any, lies furthest from these ends.
enum class CommitFrom : uint8_t { kBegin, kBothEnds };

// Reserves `bytes` of address space at a multiple of `alignment`; null if the system refuses.
// pre: bytes is a multiple of the OS page, alignment a power of two and at least an OS page.
void* Reserve(size_t bytes, size_t alignment, CommitFrom from = CommitFrom::kBegin);

// Reserves address space that reads as zero and becomes writable by Commit; it never gets a hole.
// Null if the system refuses.
void* ReserveZeroes(size_t bytes);
// The same, but the reservation may get a hole, which does not read as zero.
void* ReserveZeroes(size_t bytes, CommitFrom from);

// Keeps a reservation from getting a hole until AllowHole; in a forked child until the fork. False
// if the reservation has had a hole.
[[nodiscard]] bool KeepWhole(void* reservation);
void AllowHole(void* reservation);

// Calls f(context, range) for the mapped parts of all reservations. For the collecting thread with
// the world stopped; reservations beyond the first thousand or so are missing.
void VisitReservations(void (*f)(void* context, Range range), void* context);

// Gives reserved addresses back. pre: [p, p + bytes) is one reservation.
void Release(void* p, size_t bytes);

// Makes reserved memory readable and writable, and with `executable` executable. False if the
// system refuses (errno says why), or would refuse a new mapping of `bytes`.
[[nodiscard]] bool Commit(void* p, size_t bytes, bool executable = false);

// Drops the contents of committed memory; it reads as zero afterwards.
void Discard(void* p, size_t bytes);

// Makes committed memory read as zero: writes short ranges, and drops the contents of ranges of at
// least kZeroedByDropping. Faulting a page in again costs some seven times as much as writing it,
// so dropping pays if less than a seventh is used. Programs that allocate zeroed blocks this long
// either use little of them, or get them from the system each time with the C library's malloc,
// too: it keeps no longer blocks (M_MMAP_THRESHOLD never rises above this).
inline constexpr size_t kZeroedByDropping = 32 * kMiB;
void Zero(void* p, size_t bytes);

// Makes committed memory as if freshly committed: it reads as zero, and the system keeps no record
// of its origin (MoveContents). If the system refuses, Renew only discards the memory. False if
// that fails, too: then the memory must not be used any more.
[[nodiscard]] bool Renew(void* p, size_t bytes);

// Moves the contents of committed memory to other committed memory of one mapping, page table by
// page table. The destination's old contents are lost, and the source reads as zero. The
// destination counts as a mapping of its own afterwards, of which a process can have some 65,000:
// Renew undoes that.
enum class Moved : uint8_t {
  kDone,
  kRefused,  // nothing has changed, except that the destination may read as zero
  kLost,     // the destination must not be used any more; the source is as it was
};
[[nodiscard]] Moved MoveContents(void* from, void* to, size_t bytes);

// Makes committed memory resident at once, which costs a quarter less than a fault for each page.
// Advice only; false if some may not be resident.
bool Populate(void* p, size_t bytes);

// The same for any memory, protected by tracking or not, and certainly: where the system does not
// know the advice (Linux before 5.14), by touching each OS page, which changes no contents,
// whatever other threads write meanwhile. Returns 0, or why some are not resident: EACCES if they
// must not be written, else what the system says (ENOMEM where there is no memory). Linux before
// 5.14 ends the process instead. A thread that is to be stopped waits for 2 MiB at most. pre: whole
// OS pages.
int MakeResident(void* p, size_t bytes);

// What MakeResident asks of a tracker that protects memory: the system refuses to make protected
// memory resident. Both functions keep errno; any thread, outside signal handlers.
struct WritePins {
  struct Pinned {  // the tracker's own numbers; equal: nothing is pinned
    size_t first, end;
  };
  // Makes the range, any memory, writable, and keeps it so until unpin is called with the result.
  Pinned (*pin)(Range range);
  void (*unpin)(Pinned pinned);
};
// Set by a tracker of the kind when it starts, before it protects any memory: each time to the same
// constant, which is never taken away. Release in SetWritePins and acquire in MakeResident, so that
// whoever sees the functions sees what they stand on. A call of MakeResident that sees none, or
// whose `pin` finds no tracker, has come before the tracker. If the tracker protects the memory
// during the call, MakeResident returns EACCES; a caller cannot rely on more, as it does not know
// when trackers start. A forked child has a copy of the pointer, and of the tracker that the
// functions look for.
void SetWritePins(const WritePins* pins);

// Asks for 2 MiB pages in the range. Advice only.
void AdviseHugePages(void* p, size_t bytes);

// The whole process's limit on address space in bytes (RLIMIT_AS), or SIZE_MAX. Where the program
// filters calls (filters.h), as it was at the last look.
size_t AddressSpaceLimit();

// Both unmap the memory that is not committed in reservations of more than 1 MiB, which makes
// holes: NoticeAddressSpaceLimit only if the limit on address space is lower than at its last call,
// UnmapUncommitted always. Async-signal-safe. While another call changes reservations,
// NoticeAddressSpaceLimit leaves the work to that call, and UnmapUncommitted may do nothing. In a
// child of vfork, whose memory is its parent's, both do nothing.
void NoticeAddressSpaceLimit();
void UnmapUncommitted();

// Memory and swap of the machine in bytes; SIZE_MAX if the system does not say.
size_t MemoryAndSwapBytes();

// To be called in a forked child before it commits memory.
void ResetReservationsAfterFork();

}  // namespace gleaner::platform
