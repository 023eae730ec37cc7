// Pages: their descriptors and mark bytes, which lie outside the pages at places computed from the
// page number.
//
//   heap        | page 0 | page 1 | ... one reservation, 16 KiB a page
//   PageInfo[]  hot: all that the pointer test needs, 16 bytes a page
//   PageMeta[]  cold: lists, owner, tree-fit block
//   marks[]     1,024 bytes a page, one a slot
//
// Mark bytes [inv.mark-byte]: 0 is a free slot, the live epoch (1 or 2) an allocated one. While a
// cycle marks, the live epoch is "white" and the other epoch "black"; a marker stores black over
// white and nothing else. After the cycle black becomes the live epoch, and the sweep turns every
// byte that was white into 0. So the byte map is also the allocation map, and a word that points
// into a free slot is no pointer. In generational mode objects are allocated with a young value (4
// or 8), which is white, too; in a minor collection only young values are white, and black is the
// live epoch itself (docs/design/collection.md). The value 16 marks an object that is neither
// free nor reachable; it exists only between a sweep and the disclaim procedures that follow the
// sweep.
//
// Every value but 0 is one bit, so a set of values is a mask.
//
// States of a page. The thread that holds the space's lock makes the moves to and from kUnused; the
// thread that turns the page's listing to kFree makes the move from kSmall; the page's owner makes
// the others:
//
//   kUnused -> kTaken        PageSpace hands it out
//   kTaken -> kSmall         ThreadHeap formats it
//   kTaken -> kLarge/kTail/kPadding   object.cc makes a span a large object
//   kSmall -> kTaken         the sweep, or GC_free, leaves it without objects: a free page
//   any but kSmall -> kUnused   given back to the PageSpace
#pragma once

#include <compare>
#include <cstring>

#include "alloc/size_class.h"
#include "platform/os/atomic.h"

namespace gleaner::alloc {

// What the collector knows of a page's objects. The constants are those of the libgc API. Kinds
// from kFirstMade on are made at run time (gc/mark/kinds.h): collectable, zeroed, in the scanned
// space.
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
  kPointerFree = 1,  // no word is a pointer
  kDescribed = 2,    // the kind's descriptor says where pointers are
};
// Indexed by kind. An entry is written before the first page of its kind exists.
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

// A number of pages, which is no PageNumber: a place plus a count is a place, and counts do not
// fall below 0.
class PageCount {
 public:
  constexpr PageCount() = default;
  template <class T>
  explicit constexpr PageCount(T count) : count_(static_cast<uint32_t>(count)) {}
  // Whole pages for `bytes`.
  static constexpr PageCount For(size_t bytes) {
    return PageCount((bytes + kPageBytes - 1) >> kPageShift);
  }

  constexpr uint32_t value() const { return count_; }
  constexpr size_t bytes() const { return size_t{count_} << kPageShift; }

  friend constexpr PageCount operator+(PageCount a, PageCount b) {
    return PageCount(a.count_ + b.count_);
  }
  friend constexpr PageCount operator-(PageCount a, PageCount b) {
    GLEANER_DCHECK(a.count_ >= b.count_, "%u pages less %u", a.count_, b.count_);
    return PageCount(a.count_ - b.count_);
  }
  friend constexpr PageNumber operator+(PageNumber page, PageCount count) {
    return page + count.count_;
  }
  friend constexpr auto operator<=>(PageCount, PageCount) = default;

 private:
  uint32_t count_ = 0;
};

// The first word tells the marker at once whether a page has slots: slot_count is 0 in every state
// but kSmall, since object_bytes and pages_back are below 2^48 and the other states keep the word 0
// [inv.slot-count].
struct PageInfo {
  union {
    uint64_t word;          // 0 except in the states below
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
  // kLarge: pointers beyond the first page do not keep the object (GC_malloc_ignore_off_page).
  bool ignore_off_page;
  union {
    struct {
      Contents contents;  // of kind
      // needs_zeroing and resident stay when the page becomes free; discarding the page's contents
      // clears both.
      bool needs_zeroing;  // contents may be other than zero
      bool resident;       // counted as resident memory: the page was handed out before
      // A mask of the layer above: what it may know of objects that begin on the page. Zero when
      // the page gets objects.
      uint8_t registered;
    };
    // Used in place of the four fields above in a heap without a collector (malloc/magazines.h).
    int32_t magazine;
  };

  // Release, paired with the acquire of LoadState: a thread that sees the state of a page with
  // objects sees the word of that state, or of a later one.
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
  // The word as it was at one instant; the rest of the result is 0. Relaxed: the caller has loaded
  // the state before, and LoadState's acquire orders the word.
  PageInfo LoadWord() const {
    PageInfo at_once = {};
    at_once.word = __atomic_load_n(&word, __ATOMIC_RELAXED);
    return at_once;
  }
  // Relaxed, all three: a thread that has an object sees what was noted of this object; for other
  // objects on the page bits may be set at any time.
  uint8_t Registered() const { return __atomic_load_n(&registered, __ATOMIC_RELAXED); }
  void SetRegistered(uint8_t mask) { __atomic_fetch_or(&registered, mask, __ATOMIC_RELAXED); }
  void ClearRegistered() { __atomic_store_n(&registered, 0, __ATOMIC_RELAXED); }
  // Relaxed: SetState publishes the word. Atomic because a concurrent sweep may read it meanwhile.
  void StoreWord(uint64_t new_word) { __atomic_store_n(&word, new_word, __ATOMIC_RELAXED); }
};
static_assert(sizeof(PageInfo) == 16);

inline constexpr size_t kMarkBytesPerPage = kMaxSlotsPerPage;

inline constexpr uint8_t kFreeSlot = 0;
inline constexpr uint8_t kEpochs = 1 | 2;  // a mask of mark bytes, as kYoungMarks
inline constexpr uint8_t kYoungMarks = 4 | 8;
// The mark of an unreachable object whose kind's disclaim procedure has not been called yet
// (gc/finish/sweeper.h).
inline constexpr uint8_t kDisclaiming = 16;
inline constexpr uint8_t OtherEpoch(uint8_t epoch) { return epoch ^ kEpochs; }

// The live epoch. Changes only with the world stopped.
extern uint8_t g_epoch;
// The mark of objects allocated since the last collection, if objects are allocated young. It
// alternates, which tells these objects from older young ones that a sweep may have left dead.
// Changes only with the world stopped.
extern uint8_t g_young;
// The mark of new objects while no cycle marks concurrently: g_epoch or g_young. Changes only with
// the world stopped.
extern uint8_t g_idle_allocation_colour;
// The mark that the allocator gives new objects: g_idle_allocation_colour, or black while a cycle
// marks concurrently. Accessed relaxed: a thread reads it in the critical section in which it
// stores the mark byte, and between the write and the next stop either value is right.
extern platform::Atomic<uint8_t> g_allocation_colour;
// The mask of marks that unreachable objects still have during a concurrent sweep, else 0. Read
// relaxed: between the write and the next stop either value is right for a thread that stops. Set
// with release, which pairs with the fence of FindObject, which serves other threads, too.
extern platform::Atomic<uint8_t> g_dead_mark;

// Pages and large objects of uncollectable kinds ever made. While it is 0, the collector need not
// search for uncollectable objects as roots.
extern platform::Atomic<uint64_t> g_uncollectable_units;

// The number of the last concurrent sweep, modulo 2^16. Changes only with the world stopped; a
// change makes all pages with objects unswept. Each sweep reaches every page with objects before
// the next begins (Collector::FinishSweep), so a page's number is this one or the one before.
extern uint16_t g_sweep_number;

inline uint8_t AllocationColour() {
  return g_allocation_colour.Load(platform::memory_order_relaxed);
}  // relaxed: g_allocation_colour says why
// Whether a cycle marks concurrently: then no thread takes a page with objects away. In a critical
// section the answer holds until the section's end, or marking has not reached this thread yet.
inline bool MarksConcurrently() { return AllocationColour() != g_idle_allocation_colour; }

// Whether the mark byte's slot holds an object that the program may use, or one that waits for its
// disclaim procedure.
inline bool IsInUse(uint8_t mark) {
  return mark != kFreeSlot &&
         (mark & g_dead_mark.Load(platform::memory_order_relaxed)) == 0;  // g_dead_mark says why
}
// Whether the slot holds an object that the program may use.
inline bool IsAllocated(uint8_t mark) { return IsInUse(mark) && mark != kDisclaiming; }
// Relaxed: the caller holds the object, or can use an answer that may be out of date at once.
inline uint8_t LoadMark(const uint8_t* mark) { return __atomic_load_n(mark, __ATOMIC_RELAXED); }

// Which list a page is on, if any: whether its owner finds it when it looks for free slots.
//
// [inv.listed-once] A page is on one list at most, once. A swept page becomes kPartial, or is taken
// off its list, under the lock of its owner's heap; from its sweep on, only a page of small objects
// is kUnlisted or kPartial.
enum class Listing : uint8_t {
  kUnlisted = 0,  // nearly full, or never had objects
  kPartial,       // on the owner's list of partial pages
  kCurrent,       // the owner's thread bumps in it
  kFree,          // empty: on a list of free pages, or held by the thread that took it
  kLarge,         // the first page of a large object
  kFreed,         // the first page of a large object freed while a cycle marked; see DeferFree
};

// A page's listing and its number of free slots. Both are in one word, so that of two threads that
// change it the later one sees what the other did (Note [standing] in
// docs/design/invariants.md).
//
// [inv.free-slots] `free` is not less than the number of the page's mark bytes that are 0. Who
// turns bytes to 0 adds them to `free` afterwards, in the same critical section. Who takes slots is
// the page's owner while the page is current, and subtracts them when it gives the page up: until
// then they are in Run::taken, too. It is that number unless
//   - a marker has turned the byte of a slot black that was given back meanwhile, or a program has
//     given one slot back twice at once: then it is larger, until an owner has searched the page;
//   - a thread was between its two steps when another one forked, in the child: then it is less.
// A sweep in a stop sets it right.
struct Standing {
  static constexpr uint16_t kOneFree = 8;
  constexpr Standing(Listing in, uint32_t free_slots)
      : word(static_cast<uint16_t>(free_slots * kOneFree + static_cast<uint16_t>(in))) {}
  constexpr explicit Standing(uint16_t w) : word(w) {}
  constexpr Listing listing() const { return static_cast<Listing>(word % kOneFree); }
  // 0 while the count is less than 0: an owner has taken and subtracted what is not counted yet.
  constexpr uint32_t free() const {
    const auto as_signed = static_cast<int16_t>(word);
    return as_signed < 0 ? 0 : static_cast<uint32_t>(as_signed) / kOneFree;
  }
  uint16_t word;
};

// A power of two, so that the table of a chunk begins and ends with an OS page.
struct alignas(32) PageMeta {
  PageNumber next;      // the next page of the list that the page is on
  PageNumber previous;  // in a list of partial pages
  uint32_t block;       // first page of a span: the span's block in the tree-fit space
  // Index of the ThreadHeap. That of a partial page changes under the lock of the old owner.
  platform::Atomic<uint16_t> owner;
  // The number of the last sweep that swept the page, or during which the page was formatted.
  platform::Atomic<uint16_t> swept;
  platform::Atomic<uint16_t> standing_word;
  // Whose thread touched the page first since it became resident: ToucherOf its heap's index, or 0
  // if nobody is known to have. Written by the thread that holds the page.
  uint8_t toucher;

  // Relaxed: for a caller that keeps others from changing it, or can use a hint.
  Standing standing() const { return Standing(standing_word.Load(platform::memory_order_relaxed)); }
  Listing listing() const { return standing().listing(); }
  // pre: no other thread changes it. Published by the state, or the world is stopped.
  void SetStanding(Standing standing) {
    standing_word.Store(standing.word, platform::memory_order_relaxed);
  }
  // Adds slots to the free ones (less than 0: subtracts), and changes the listing; for a caller
  // that alone may change the listing. Acq_rel: Note [standing].
  Standing Change(Listing from, Listing to, int free_slots) {
    const auto add = static_cast<uint16_t>(free_slots * Standing::kOneFree + static_cast<int>(to) -
                                           static_cast<int>(from));
    const uint16_t old = standing_word.FetchAdd(add, platform::memory_order_acq_rel);
    return Standing(static_cast<uint16_t>(old + add));
  }
};
static_assert(sizeof(PageMeta) == 32);
static_assert(3 * kMaxSlotsPerPage <= INT16_MAX / Standing::kOneFree);

// A statistic: a heap that has the same number as another counts its pages as its own.
inline uint8_t ToucherOf(uint16_t heap) { return static_cast<uint8_t>(1 + heap % 255); }

// No thread allocates in an unswept page, and only the page's sweeper lists it [inv.swept-list].
// Acquire: pairs with the sweeper's release store, after which the page's mark bytes and listing
// are decided.
inline bool IsSwept(const PageMeta& meta) {
  return meta.swept.Load(platform::memory_order_acquire) == g_sweep_number;
}

}  // namespace gleaner::alloc
