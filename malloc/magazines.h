// Where a thread's magazines lie, and how much they may hold.
//
// A magazine's capacity follows its use: it doubles when it runs full or empty, up to MaxBlocks of
// its class, as long as those of all slot classes together stay within kThreadBytes, and those of
// all medium classes of all threads within a pool of kPoolBytes. Then a class that runs full takes
// half of what another one of its kind has in the thread. So what waits in the magazines of t
// threads is at most
//
//   t * (kThreadBytes + kMinBytes) + kPoolBytes
//
// While free memory waits to go back to the system, the magazines of a thread that knows of it are
// *set aside*: others that are empty and full at once stand in their place, so that every call of
// the thread is a slow one, which looks at the clock. Else a thread whose magazines always serve it
// would never take part in the decay.
#pragma once

#include "malloc/spans.h"
#include "platform/thread.h"

namespace gleaner::malloc_proxy {

inline constexpr size_t kThreadBytes = 512 * kKiB;
inline constexpr size_t kPoolBytes = 16 * kMiB;

// The capacity of a magazine at first, and at least.
constexpr size_t MinBlocks(size_t size_class) {
  const size_t blocks = 2 * kKiB / ClassBytes(size_class);
  return blocks < 16 ? blocks : 16;
}
// At most.
constexpr size_t MaxBlocks(size_t size_class) {
  const size_t blocks = 512 * kKiB / ClassBytes(size_class);
  return blocks < 64 ? 64 : blocks < 4096 ? blocks : 4096;
}

namespace internal {
constexpr size_t MinBytes() {
  size_t bytes = 0;
  for (size_t c = 0; c < kCachedClasses; ++c) bytes += MinBlocks(c) * ClassBytes(c);
  return bytes;
}
constexpr size_t MagazineWords() {
  size_t words = 0;
  for (size_t c = 0; c < kCachedClasses; ++c) words += 1 + MaxBlocks(c);
  return words;
}
}  // namespace internal

// MinBlocks of all classes together.
inline constexpr size_t kMinBytes = internal::MinBytes();
static_assert(kMinBytes < 64 * kKiB);

// Blocks of one class that wait to be used again:
//
//   bottom[-1]      null: nothing left, told by the word that is to be popped
//   [bottom, top)   blocks, the one used last on top
//   [top, limit)    room
//
// The magazines of a thread without a heap, those of one that has set its own aside, and that of
// kLargeClass in every thread, are empty and full at once: each call is a slow
// one.
struct Magazine {
  void** top;
  void** limit;
};
struct Magazines {
  Magazine of[kCachedClasses + 1];
};

// Owner thread only.
extern __thread Magazines t_magazines;

// PageInfo::magazine: how far from the thread pointer the magazine lies that blocks of the page
// wait in; the same in all threads, as it is static thread-local storage. Pages of slots, and first
// pages of medium blocks that are not on the shelf, name that of their class. First pages of other
// blocks and pages that once were one of these name that of kLargeClass. What it is for other pages
// does not matter: their word is 0.
inline int32_t DistanceOf(size_t size_class) {
  const Addr magazine = AddressOf(&t_magazines.of[size_class]);
  return static_cast<int32_t>(magazine - platform::CurrentThreadPointer());
}

// Owner thread only.
struct ThreadMagazines {
  // Bytes that the capacities of slot classes, and those of medium classes, amount to beyond the
  // least ones.
  size_t slot_bytes;
  size_t medium_bytes;
  size_t next_victim;  // the class that gives room next
  Magazines aside;     // the magazines while they are set aside
  // For each class a null and then the blocks.
  void* words[internal::MagazineWords()];
};

}  // namespace gleaner::malloc_proxy
