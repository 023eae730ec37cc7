// Pages: their descriptors and mark bytes, outside the pages, at places computed from the number.
//
//   heap        | page 0 | page 1 | ... one reservation, 16 KiB a page
//   PageInfo[]  hot: all that the pointer test needs, 16 bytes a page
//   PageMeta[]  cold: lists, owner, tree-fit block
//   marks[]     1,024 bytes a page, one a slot
//
// Mark bytes [inv.mark-byte]: 0 is a free slot, the live epoch (1 or 2) an allocated one. While a
// cycle marks, the live epoch is "white" and the other one "black"; a marker stores black over
// white and nothing else. After the cycle black becomes the live epoch and the sweep turns every
// byte that was white into 0. So the byte map is also the allocation map, and a word that points
// into a free slot is no pointer. In generational mode objects are born with a young value (4 or
// 8), which is white, too; where only those are, black is the live epoch itself
// (docs/generational.md). One more value, 16, exists only between a sweep and the disclaim
// procedures that follow it: not free, not reachable.
//
// Every value but 0 is one bit, so that a set of values is a mask.
//
// States of a page, and who moves it (the space's lock is held for moves to and from kUnused; the
// page's owner makes the others, or the collector with the world stopped):
//
//   kUnused -> kTaken        PageSpace hands it out
//   kTaken -> kSmall         ThreadHeap formats it
//   kTaken -> kLarge/kTail/kPadding   object.cc makes a span a large object
//   kSmall -> kTaken         the sweep finds it empty: a free page of its owner
//   any but kSmall -> kUnused   given back to the PageSpace
#pragma once

#include <cstring>

#include "alloc/size_class.h"
#include "platform/atomic.h"

namespace gleaner::alloc {

// What the collector knows of a page's objects. Constants are those of the libgc API. Kinds from
// kFirstMade on are made at run time (gc/kinds.h): collectable, zeroed, on the scanned space.
enum class Kind : uint8_t {
  kAtomic = 0,
  kNormal = 1,
  kUncollectable = 2,
  kAtomicUncollectable = 3,
  kFirstMade = 4
};
inline constexpr size_t kBuiltInKinds = 4;
inline constexpr size_t kMaxKinds = 16;

constexpr bool IsPointerFree(Kind kind) {
  return kind == Kind::kAtomic || kind == Kind::kAtomicUncollectable;
}
constexpr bool IsUncollectable(Kind kind) {
  return kind == Kind::kUncollectable || kind == Kind::kAtomicUncollectable;
}
// Memory of these kinds is zero when the program gets it.
constexpr bool IsZeroed(Kind kind) { return kind != Kind::kAtomic; }

// How the marker reads an object.
enum class Contents : uint8_t {
  kWords = 0,        // every word may be a pointer
  kPointerFree = 1,  // none is
  kDescribed = 2,    // as the kind's descriptor says
};
// By kind. A row is written before the first page of its kind exists.
extern Contents g_contents[kMaxKinds];
inline Contents ContentsOf(Kind kind) { return g_contents[static_cast<size_t>(kind)]; }

enum class PageState : uint8_t {
  kUnused = 0,  // in the page space; must be 0: tables start as zeroes
  kTaken,       // out of the page space, no objects
  kSmall,       // slots of one size class
  kLarge,       // first page of a large object
  kTail,        // further page of a large object
  kPadding,     // before a large object, for its alignment
};

// Number of a page in the reservation. 2^32 of them are 64 TiB.
using PageNumber = uint32_t;
inline constexpr PageNumber kNoPage = ~PageNumber{0};

// The first word tells the marker at once whether a page has slots: slot_count is 0 in every state
// but kSmall, as object_bytes and pages_back are below 2^48 and other states keep the word 0
// [inv.slot-count].
struct PageInfo {
  union {
    uint64_t word;          // 0 but in the following states
    struct {                // kSmall
      uint32_t reciprocal;  // of slot_bytes
      uint16_t slot_bytes;
      uint16_t slot_count;
    };
    uint64_t object_bytes;  // kLarge: usable size
    uint64_t pages_back;    // kTail: distance to the kLarge page
  };
  PageState state;
  Kind kind;
  uint8_t size_class;
  // kLarge: interior pointers beyond the first page do not count (GC_malloc_ignore_off_page).
  bool ignore_off_page;
  union {
    struct {
      Contents contents;  // of kind
      // The next two survive the page's being free; discarding its contents clears them.
      bool needs_zeroing;  // contents may be other than zero
      bool resident;       // counted as resident memory: was handed out before
      // What the layer above may know of objects that begin on the page: a mask of its own. Zero
      // when the page gets objects.
      uint8_t registered;
    };
    // Instead of these in a heap without a collector: malloc/magazines.h.
    int32_t magazine;
  };

  // Release and acquire: who sees the state of a page with objects sees the word of that state, or
  // of a later one.
  void SetState(PageState new_state) {
    platform::MaybeDelay();
    __atomic_store(&state, &new_state, __ATOMIC_RELEASE);
  }
  PageState LoadState() const {
    PageState seen;
    __atomic_load(&state, &seen, __ATOMIC_ACQUIRE);
    platform::MaybeDelay();
    return seen;
  }
  // The word as it was at one instant, the rest of the result being 0. Relaxed: see LoadState.
  PageInfo LoadWord() const {
    PageInfo at_once = {};
    at_once.word = __atomic_load_n(&word, __ATOMIC_RELAXED);
    return at_once;
  }
  // Relaxed, all three: whoever has an object sees what was noted of it; of other objects on the
  // page anything may be noted meanwhile.
  uint8_t Registered() const { return __atomic_load_n(&registered, __ATOMIC_RELAXED); }
  void NoteRegistered(uint8_t mask) { __atomic_fetch_or(&registered, mask, __ATOMIC_RELAXED); }
  void ClearRegistered() { __atomic_store_n(&registered, 0, __ATOMIC_RELAXED); }
  // Relaxed: see LoadState; a concurrent sweep may look meanwhile.
  void StoreWord(uint64_t new_word) { __atomic_store_n(&word, new_word, __ATOMIC_RELAXED); }
};
static_assert(sizeof(PageInfo) == 16);

inline constexpr size_t kMarkBytesPerPage = kMaxSlotsPerPage;

inline constexpr uint8_t kFreeSlot = 0;
inline constexpr uint8_t kEpochs = 1 | 2;  // masks, both
inline constexpr uint8_t kYoungMarks = 4 | 8;
// Unreachable, and its kind's disclaim procedure has not been asked yet (gc/sweeper.h).
inline constexpr uint8_t kDisclaiming = 16;
inline constexpr uint8_t OtherEpoch(uint8_t epoch) { return epoch ^ kEpochs; }

// Live epoch. Changes only with the world stopped, as the next two.
extern uint8_t g_epoch;
// The young value of objects born since the last collection, if they are born young. Alternates, so
// that they are told from those of before, which a sweep may have left dead.
extern uint8_t g_young;
// What new objects get while no cycle marks concurrently: g_epoch, or g_young.
extern uint8_t g_idle_allocation_colour;
// What the allocator gives new objects: g_idle_allocation_colour, or black while a cycle marks
// beside the program. Relaxed, as is the next: a thread reads it in the critical section in which
// it stores the byte, and between the write and the next stop either value is right.
extern platform::Atomic<uint8_t> g_allocation_colour;
// Mask of what unreachable objects still have while a sweep goes on concurrently, else 0.
extern platform::Atomic<uint8_t> g_dead_mark;

// Number of the last sweep that was begun concurrently. Changes only with the world stopped,
// and makes all pages with objects unswept.
extern uint16_t g_sweep_number;

inline uint8_t AllocationColour() {
  return g_allocation_colour.Load(platform::memory_order_relaxed);
}  // see there
// Whether a cycle marks concurrently: then nobody takes a page with objects away. In a
// critical section the answer holds until its end, or marking has not reached this thread yet.
inline bool MarksConcurrently() { return AllocationColour() != g_idle_allocation_colour; }

// Whether a byte says that its slot holds an object that the program may have, or one that waits
// for its disclaim procedure.
inline bool IsInUse(uint8_t mark) {
  return mark != kFreeSlot &&
         (mark & g_dead_mark.Load(platform::memory_order_relaxed)) == 0;  // see there
}
// The same without those that wait.
inline bool IsAllocated(uint8_t mark) { return IsInUse(mark) && mark != kDisclaiming; }
// Relaxed: who asks has the object, or gets an answer that may be out of date at once.
inline uint8_t LoadMark(const uint8_t* mark) { return __atomic_load_n(mark, __ATOMIC_RELAXED); }

// Whether a page is where its owner looks for free slots.
//
// [inv.listed-once] A page is on one list at most, once. Who changes kUnlisted to kPartial, by
// compare-exchange, lists it. That may be a thread that has given a slot back and was held up since
// (NoteFreed): no page but one of small objects is kUnlisted, from its sweep on.
enum class Listing : uint8_t {
  kUnlisted = 0,  // full as far as known; pages that never had objects
  kPartial,       // on the owner's list of partial pages
  kCurrent,       // the owner's thread bumps in it
  kFree,          // empty: on a list of free pages, or with who took it from there
  kLarge,         // the first of a large object
  kFreed,         // of a large object given to GC_free while a cycle marked: its pages wait
};

struct PageMeta {
  PageNumber next;  // the list the page is on
  uint32_t block;   // first page of a span: its block in the tree-fit space
  uint16_t owner;   // index of the ThreadHeap
  // Number of the last sweep that has been here, or during which the page was formatted.
  platform::Atomic<uint16_t> swept;
  platform::Atomic<Listing> listing;
  // Slots given back by GC_free since the page was last listed.
  platform::Atomic<uint16_t> freed;
};
static_assert(sizeof(PageMeta) == 16);

// Nothing is allocated in an unswept page, and nobody but its sweeper lists it [inv.swept-list].
// Acquire: pairs with the sweeper's release, so that its bytes and its listing are decided.
inline bool IsSwept(const PageMeta& meta) {
  return meta.swept.Load(platform::memory_order_acquire) == g_sweep_number;
}

}  // namespace gleaner::alloc
