// Objects of the GC_debug_ calls: where they were allocated, and marks around them.
//
//   base                                base + 32                 + size, rounded up to words
//    | file | line | size | start mark |  what the program sees ... |pad| end mark | unused
//
// An object's file, line and size are kept outside the heap, too. The copy in the header is for
// debuggers and for finding damage. So a damaged header misleads no report, and memory with the
// remains of an old header is not taken for a debugged object.
//
// Objects of up to kMaxGroupedBytes have their entries in the group of their page, in the order of
// addresses: allocation, which goes through a page in that order, then finds the next entry next to
// the last one, in a cache, where a table of all objects would miss with each. A group takes half
// as much memory as its page, however few objects there are on it; so larger objects have their
// entries in a hash table. A page may have entries of both sorts.
//
//   [inv.debugged]  an entry's object is allocated, by a GC_debug_ call, and was not given back:
//                   GC_free forgets the entry, and so does the collection that finds the object
//                   unmarked, with the world still stopped.
//
// GC_debug_free overwrites the object and keeps it until nothing refers to it, so that a later use
// or a second free is noticed. Uncollectable objects are given back at once. While leaks are looked
// for, all freed objects are given back at once, unless the option delay_free is set.
//
// Any thread may call all functions. A lock of their own guards the entries: its holder cannot be
// stopped, so Inspect, with the world stopped, may take it, too. Entries are handed out as copies.
// Nothing is written into objects under the lock, since tracking of writes may have a writer wait.
#pragma once

#include "alloc/metadata/hash_table.h"
#include "alloc/size_class.h"
#include "gc/mark/marker.h"

namespace gleaner::runtime {

// The place where an object was allocated. If `file` is null, `line` is a code address.
struct Place {
  const char* file = nullptr;
  intptr_t line = 0;
};

// Bytes before an object; GC_debug_header_size.
inline constexpr size_t kDebugHeaderBytes = 32;

struct DebugObject {
  size_t bytes : 59 = 0;      // size that the program asked for
  size_t granule : 2 = 0;     // in a group: where in the entry's part of the page the object begins
  bool present : 1 = false;   // in a group: the entry is one
  bool freed : 1 = false;     // by GC_debug_free
  bool reported : 1 = false;  // damage was reported
  Place place;
};
static_assert(sizeof(DebugObject) == 24);

// Call order for an object: Watch when it is allocated, NoteFreed and Empty when the program frees
// it, Forget or Inspect when it is given back.
class DebugObjects {
 public:
  // True from the first GC_debug_ allocation on. Relaxed: a thread that has a debugged object got
  // it after `started_` was stored.
  static bool Started() { return __atomic_load_n(&started_, __ATOMIC_RELAXED); }

  // Size of the heap object that holds `bytes` of the program's; 0 if there is no such size.
  static size_t BytesFor(size_t bytes);

  // Makes the object at `base` a debugged one. False without memory for the entry. pre: the object
  // has BytesFor(bytes), and no other thread knows it; the collector lock is not held.
  [[nodiscard]] static bool Watch(Addr base, size_t bytes, Place place);

  // Copies the entry of the object at `base`. False if there is none.
  static bool Find(Addr base, DebugObject* found);
  // The same, and notes that the program has freed the object, which the copy does not tell.
  static bool NoteFreed(Addr base, DebugObject* before);
  // Removes the entry: the object is given back.
  static void Forget(Addr base);
  // Overwrites the program's part of the object with kFreedWord.
  static void Empty(Addr base, const DebugObject& object);
  // The lowest address in the header, the padding or the marks that was overwritten; 0 if there is
  // none.
  static Addr FindDamage(Addr base, const DebugObject& object);

  // With the world stopped, after marking: forgets unmarked objects, and calls damaged(base,
  // object, where) for each marked one that is damaged, not freed and not yet reported.
  template <class F>
  static void Inspect(const gc::Marker& marker, F damaged) {
    platform::LockGuard guard(lock_);
    const auto is_dead = [&](const alloc::ObjectRef& ref, DebugObject& object) {
      GLEANER_DCHECK(*ref.mark() != alloc::kFreeSlot,
                     "the debugged object at %#llx was given back [inv.debugged]",
                     static_cast<unsigned long long>(ref.base));
      if (!marker.IsMarked(ref)) return true;
      if (object.freed || object.reported) return false;
      if (const Addr where = FindDamage(ref.base, object); where != 0) {
        object.reported = true;
        damaged(ref.base, object, where);
      }
      return false;
    };
    large_.EraseIf([&](uint64_t hidden, DebugObject& object) {
      const Addr base = ~static_cast<Addr>(hidden);
      alloc::ObjectRef ref;
      const bool found = alloc::FindSlot(base, &ref) && ref.base == base;
      GLEANER_DCHECK(found, "no object at %#llx [inv.debugged]",
                     static_cast<unsigned long long>(base));
      return !found || is_dead(ref, object);
    });
    groups_.EraseIf([&](uint64_t address, Group*& group) {
      const alloc::PageNumber page = alloc::g_space.PageOf(static_cast<Addr>(address));
      const alloc::PageInfo& info = alloc::g_space.info[page];
      GLEANER_DCHECK(info.LoadState() == alloc::PageState::kSmall,
                     "page %u has entries of small objects [inv.debugged]", page);
      for (size_t i = 0, left = group->count; left != 0; ++i) {
        DebugObject& object = group->entries[i];
        if (!object.present) continue;
        --left;
        const size_t offset = i * kLeastBytes + object.granule * alloc::kGranuleBytes;
        const alloc::ObjectRef ref{static_cast<Addr>(address) + offset, info.slot_bytes, page,
                                   alloc::SlotIndex(offset, info.reciprocal)};
        if (!is_dead(ref, object)) continue;
        object.present = false;
        --group->count;
        --grouped_;
      }
      if (group->count != 0) return false;
      PutAside(group);
      return true;
    });
  }

  static size_t count();

  // Take and release the lock for a fork; make it free in a child whose parent did not.
  static void LockForFork() { lock_.Acquire(); }
  static void UnlockAfterFork() { lock_.Release(); }
  static void ResetAfterFork() { lock_.ResetAfterFork(); }

 private:
  // Slots that hold a debugged object are no smaller than this.
  static constexpr size_t kLeastBytes = 3 * alloc::kGranuleBytes;
  static constexpr size_t kMaxGroupedBytes = 256;
  static constexpr size_t kGroupEntries = alloc::kPageBytes / kLeastBytes;

  // The entries of a page: one for each kLeastBytes of it, in which at most one slot begins. A
  // group that is put aside has no entry present.
  struct Group {
    union {
      size_t count;  // of entries that are present
      Group* next;   // of the groups put aside
    };
    DebugObject entries[kGroupEntries];
  };
  static_assert(sizeof(Group) <= alloc::kPageBytes / 2);

  static DebugObject* FindLocked(Addr base);
  static bool InsertLocked(Addr base, size_t bytes, Place place);
  static Group* TakeGroup();
  static void PutAside(Group* group) {
    group->next = aside_;
    aside_ = group;
  }

  static platform::Lock lock_;
  static bool started_;
  // Guarded by lock_.
  static alloc::HashTable<Group*> groups_;      // by the page's address
  static alloc::HashTable<DebugObject> large_;  // by ~base
  static Group* aside_;
  static size_t grouped_;  // entries of all groups
};

// "file.c:12" or "code at 0x...", for messages; `out` has room for kPlaceChars.
inline constexpr size_t kPlaceChars = 128;
const char* Describe(const Place& place, char* out);

}  // namespace gleaner::runtime
