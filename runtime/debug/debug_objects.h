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

// Call order for an object: Watch when it is allocated, SetFreed and Empty when the program frees
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
  // The same, and marks the object as freed by the program, which the copy does not tell.
  static bool SetFreed(Addr base, DebugObject* before);
  // Removes the entry: the object is given back.
  static void Forget(Addr base);
  // Overwrites the program's part of the object with kFreedWord.
  static void Empty(Addr base, const DebugObject& object);
  // The lowest address in the header, the padding or the marks that was overwritten; 0 if there is
  // none.
  static Addr FindDamage(Addr base, const DebugObject& object);

  // With the world stopped, after marking: forgets unmarked objects, and calls damaged(base,
  // object, where) for each marked one that is damaged, not freed and not yet reported.
  static void Inspect(const gc::Marker& marker,
                      void (*damaged)(Addr base, const DebugObject& object, Addr where));

  static size_t count();

  // Take and release the lock for a fork; make it free in a child whose parent did not.
  static void LockForFork();
  static void UnlockAfterFork();
  static void ResetAfterFork();

 private:
  static bool started_;
};

// "file.c:12" or "code at 0x...", for messages; `out` has room for kPlaceChars.
inline constexpr size_t kPlaceChars = 128;
const char* Describe(const Place& place, char* out);

}  // namespace gleaner::runtime
