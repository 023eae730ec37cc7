// Where a thread's magazines lie, and how much they may hold.
//
// A magazine's capacity doubles when the magazine runs full or empty, up to MaxBlocks of its class.
// Beyond MinBlocks, the capacities of a thread's slot classes together stay within kThreadBytes,
// and those of the medium classes of all threads within a pool of kPoolBytes. At these limits a
// class that runs full takes half of the extra capacity of another class of its kind in the thread.
// So the blocks in the magazines of t threads are at most
//
//   t * (kThreadBytes + kMinBytes) + kPoolBytes
//
// While free memory waits to return to the system, a thread that has noticed it *sets its magazines
// aside*: magazines that are both empty and full take their place, so that every call of the thread
// is slow and looks at the clock. Otherwise a thread whose magazines always serve it would never
// take part in the decay.
#pragma once

#include "malloc/spans.h"
#include "platform/threads/thread.h"

namespace gleaner::malloc_proxy {

inline constexpr size_t kThreadBytes = 512 * kKiB;
inline constexpr size_t kPoolBytes = 16 * kMiB;

// The first and the minimum capacity of a magazine.
constexpr size_t MinBlocks(size_t size_class) {
  const size_t blocks = 2 * kKiB / ClassBytes(size_class);
  return blocks < 16 ? blocks : 16;
}
// The maximum capacity of a magazine.
constexpr size_t MaxBlocks(size_t size_class) {
  const size_t blocks = 512 * kKiB / ClassBytes(size_class);
  return blocks < 64 ? 64 : blocks < 4096 ? blocks : 4096;
}

// The blocks that a magazine has room for before it moves (ThreadMagazines::words).
constexpr size_t FirstRoom(size_t size_class) {
  return MinBlocks(size_class) < 8 ? 8 : MinBlocks(size_class);
}

namespace internal {
constexpr size_t MinBytes() {
  size_t bytes = 0;
  for (size_t c = 0; c < kCachedClasses; ++c) bytes += MinBlocks(c) * ClassBytes(c);
  return bytes;
}
constexpr size_t MagazineWords() {
  size_t words = 0;
  for (size_t c = 0; c < kCachedClasses; ++c) words += 2 + FirstRoom(c) + MaxBlocks(c);
  return words;
}
}  // namespace internal

// Bytes of MinBlocks of all classes together.
inline constexpr size_t kMinBytes = internal::MinBytes();
static_assert(kMinBytes < 64 * kKiB);

// Free blocks of one class:
//
//   bottom[-1]      null: popping it tells that the magazine is empty
//   [bottom, top)   blocks, the last one freed on top
//   [top, limit)    room
//
// Some magazines are both empty and full, so that each call is slow: those of a thread without a
// heap, those of a thread that has set its own aside, and that of kLargeClass in every thread.
struct Magazine {
  void** top;
  void** limit;
};
struct Magazines {
  Magazine of[kCachedClasses + 1];
};

// Owner thread only.
extern __thread Magazines t_magazines;

// PageInfo::magazine: the distance from the thread pointer to the magazine for blocks of the page.
// It is the same in all threads, since magazines are static thread-local storage. Pages of slots,
// and first pages of medium blocks that are not on the shelf, name the magazine of their class.
// First pages of other blocks, and pages that once were of one of these sorts, name the magazine of
// kLargeClass. Other pages may name anything: their word is 0.
inline int32_t DistanceOf(size_t size_class) {
  const Addr magazine = AddressOf(&t_magazines.of[size_class]);
  return static_cast<int32_t>(magazine - platform::CurrentThreadPointer());
}

// Owner thread only.
struct ThreadMagazines {
  // Bytes of capacity beyond MinBlocks, of all slot classes and of all medium classes.
  size_t slot_bytes;
  size_t medium_bytes;
  size_t next_victim;  // the next class to give up capacity
  Magazines aside;     // the magazines while they are set aside
  bool has_moved[kCachedClasses];
  // For each class a null, then the room for its first blocks: all of them together, so that a
  // thread that has a few blocks of each class touches two OS pages. Then for each class a null and
  // the room for MaxBlocks; the magazine moves there when its capacity exceeds FirstRoom.
  void* words[internal::MagazineWords()];
};

}  // namespace gleaner::malloc_proxy
