// Address space from the operating system: the whole contract of the heap with the kernel's memory.
//
// Memory is reserved (addresses only), then committed (may be touched; reads as zero), then perhaps
// discarded (stays committed, its contents are gone and read as zero again). All functions are
// thread-safe and allocate nothing.
//
// A limit on address space that the program sets for itself (RLIMIT_AS; RLIMIT_MEMLOCK, where all
// is to be locked) counts what is reserved. So what is not committed is unmapped then: a hole,
// whose addresses the system may give to others; and a large reservation that is made under a limit
// is nothing but a hole. Commit maps them again where nobody has got them. Large reservations lie
// far from where the system places what others ask for, so that mostly nobody has.
//
//    begin        begin + low         begin + bytes - high      begin + bytes
//      | committed    |        hole          |    committed         |
//
// [inv.hole] Memory of a hole is touched by nobody who has not seen a Commit of it succeed. Memory
// that reads as zero is not touched, besides, by who has not seen KeepWhole succeed.
#pragma once

#include "platform/base.h"
#include "platform/os_page.h"

namespace gleaner::platform {

// From where a reservation is committed: what lies furthest from there is the hole, if it gets one.
enum class CommitFrom : uint8_t { kBegin, kBothEnds };

// Reserves `bytes` of address space at a multiple of `alignment`; null if the system refuses.
// pre: bytes is a multiple of the OS page, alignment a power of two and at least an OS page.
void* Reserve(size_t bytes, size_t alignment, CommitFrom from = CommitFrom::kBegin);

// Reserves address space that reads as zero and becomes writable by Commit; it never has a hole.
// Null if refused.
void* ReserveZeroes(size_t bytes);
// The same, with a hole where there is to be one.
void* ReserveZeroes(size_t bytes, CommitFrom from);

// Keeps a reservation from getting a hole until AllowHole, or a fork, in the child. False if it has
// had one.
[[nodiscard]] bool KeepWhole(void* reservation);
void AllowHole(void* reservation);

// Calls f(context, range) for what has been reserved and not given back, without holes. For the
// collecting thread with the world stopped; ranges beyond the first thousand or so are missing.
struct Range;
void VisitReservations(void (*f)(void* context, Range range), void* context);

// Gives reserved addresses back. pre: [p, p + bytes) is one reservation.
void Release(void* p, size_t bytes);

// Makes reserved memory readable and writable, and executable if asked. False if the system refuses
// (errno is kept), or would refuse so much at once were it not reserved.
[[nodiscard]] bool Commit(void* p, size_t bytes, bool executable = false);

// Drops the contents of committed memory; it reads as zero afterwards.
void Discard(void* p, size_t bytes);

// Makes committed memory read as zero, by writing it, or where it is long by dropping its contents.
// To fault a page in again costs some seven times as much as to write it, so that dropping pays
// where less than a seventh is used. Who wants memory this long at once, and zero, either does
// that, or has it from the system each time with the C library's malloc, which keeps no longer
// blocks (M_MMAP_THRESHOLD never rises above this).
inline constexpr size_t kZeroedByDropping = 32 * kMiB;
void Zero(void* p, size_t bytes);

// Makes committed memory as if freshly committed: it reads as zero, and the system keeps no account
// of where it came from (MoveContents). If the system refuses that, it is discarded only; false if
// even that cannot be: then it must not be used any more.
[[nodiscard]] bool Renew(void* p, size_t bytes);

// Moves the contents of committed memory to other committed memory of one mapping, page table by
// page table; what was there is lost, and the source reads as zero. The destination counts as a
// mapping of its own from then on, of which a process can have some 65,000: Renew undoes that.
enum class Moved : uint8_t {
  kDone,
  kRefused,  // nothing has changed, but that the destination may read as zero
  kLost,     // the destination must not be used any more; the source is as it was
};
[[nodiscard]] Moved MoveContents(void* from, void* to, size_t bytes);

// Makes committed memory resident at once, which costs a quarter less than one fault for each page
// would. Advice only.
void Populate(void* p, size_t bytes);

// Asks for 2 MiB pages in the range. Advice only.
void AdviseHugePages(void* p, size_t bytes);

// The whole process's limit on address space in bytes (RLIMIT_AS), or SIZE_MAX.
size_t AddressSpaceLimit();

// Makes holes of all that is not committed in reservations of more than 1 MiB, if the limit on
// address space is lower than when this was last called, or without a condition. Async-signal-safe:
// if somebody is at work on reservations, the first one leaves it to them; the second may do
// nothing. In a child of vfork, whose memory is its parent's, they do nothing.
void NoticeAddressSpaceLimit();
void UnmapUncommitted();

// Memory and swap of the machine in bytes; SIZE_MAX if the system does not say.
size_t MemoryAndSwapBytes();

// In a forked child, before it commits memory.
void ResetReservationsAfterFork();

}  // namespace gleaner::platform
