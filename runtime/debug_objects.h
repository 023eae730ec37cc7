// Objects of the GC_debug_ calls: where they were allocated, and marks around them.
//
//   base                                base + 32                 + size, rounded up to words
//    | file | line | size | start mark |  what the program sees ... |pad| end mark | unused
//
// An object's file, line and size are kept in a table outside the heap, keyed by its base. The copy
// in the header is for debuggers and for finding damage. So a damaged header misleads no report,
// and memory with the remains of an old header is not taken for a debugged object.
//
//   [inv.debugged]  an entry's object is allocated, by a GC_debug_ call, and was not given back:
//                   GC_free forgets the entry, and so does the collection that finds the object
//                   unmarked, with the world still stopped.
//
// GC_debug_free overwrites the object and keeps it until nothing refers to it, so that a later use
// or a second free is noticed. Uncollectable objects are given back at once. While leaks are looked
// for, all freed objects are given back at once, unless the option delay_free is set.
//
// Guarded by the collector lock, except Started, which any thread may call.
#pragma once

#include "alloc/hash_table.h"
#include "gc/marker.h"

namespace gleaner::runtime {

// The place where an object was allocated. If `file` is null, `line` is a code address.
struct Place {
  const char* file = nullptr;
  intptr_t line = 0;
};

// Bytes before an object; GC_debug_header_size.
inline constexpr size_t kDebugHeaderBytes = 32;

struct DebugObject {
  size_t bytes = 0;  // size that the program asked for
  Place place;
  bool freed = false;     // by GC_debug_free
  bool reported = false;  // damage was reported
};

// Call order for an object: Watch when it is allocated, Empty when the program frees it, Forget or
// Inspect when it is given back.
class DebugObjects {
 public:
  // True from the first GC_debug_ allocation on. Relaxed: a thread that has a debugged object got
  // it after `started_` was stored.
  static bool Started() { return __atomic_load_n(&started_, __ATOMIC_RELAXED); }

  // Size of the heap object that holds `bytes` of the program's; 0 if there is no such size.
  static size_t BytesFor(size_t bytes);

  // Makes the object at `base` a debugged one. False without memory for the entry. pre: the object
  // has BytesFor(bytes), and no other thread knows it.
  [[nodiscard]] static bool Watch(Addr base, size_t bytes, Place place);

  // The entry of the object at `base`, or null.
  static DebugObject* Find(Addr base);
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
    table_.EraseIf([&](uint64_t hidden, DebugObject& object) {
      alloc::ObjectRef ref;
      const Addr base = ~static_cast<Addr>(hidden);
      const bool found = alloc::FindSlot(base, &ref) && ref.base == base;
      GLEANER_DCHECK(found && *ref.mark() != alloc::kFreeSlot,
                     "the debugged object at %#llx was given back [inv.debugged]",
                     static_cast<unsigned long long>(base));
      if (!found || !marker.IsMarked(ref)) return true;
      if (object.freed || object.reported) return false;
      if (const Addr where = FindDamage(base, object); where != 0) {
        object.reported = true;
        damaged(base, object, where);
      }
      return false;
    });
  }

  static size_t count() { return table_.size(); }

 private:
  static bool started_;
  static alloc::HashTable<DebugObject> table_;  // by ~base
};

// "file.c:12" or "code at 0x...", for messages; `out` has room for kPlaceChars.
inline constexpr size_t kPlaceChars = 128;
const char* Describe(const Place& place, char* out);

}  // namespace gleaner::runtime
