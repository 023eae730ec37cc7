// Why an object is still there: for each object that a collection finds reachable, the word that
// refers to it on a shortest path from the roots.
//
// Recorded on demand, serially, by a breadth-first search with the world stopped after marking.
// Static data and uncollectable objects come first and stacks last, so that the pointer that the
// asking function has on its stack is found only if there is no other. Following the words leads to
// a root.
//
// Guarded by the collector lock.
#pragma once

#include "alloc/metadata/hash_table.h"
#include "gc/mark/kinds.h"
#include "gc/mark/marker.h"

namespace gleaner::gc {

class BackReferences {
 public:
  enum class From : uint8_t {
    kNothing,    // no word: the object is uncollectable
    kRoot,       // the word lies in a root
    kHeap,       // the word lies in another object
    kFinalizer,  // no word: the object is kept for a finalizer
  };
  struct Reference {
    Addr word = 0;  // address of the word that refers to the object; 0 if there is none
    From from = From::kNothing;
  };

  // Replaces what was recorded before. False without memory; then nothing is recorded. pre: the
  // world is stopped, and it is decided which objects are black.
  bool RecordWorldStopped(const Marker& marker, const RootTasks& roots, const MarkConfig& config);
  // The reference of the object at `base`; null if there was no such object.
  const Reference* Find(Addr base) const { return table_.Find(base); }
  void Clear() { table_.Clear(); }

 private:
  struct Sink : MarkSink {
    explicit Sink(BackReferences* r);
    BackReferences* references;
  };

  void AddRoots(const RootTasks& roots, bool stacks);
  void AddPage(alloc::PageNumber page);
  void AddRest(const Marker& marker);
  void Words(Addr begin, Addr end, From from, bool interior);
  void Word(Addr word, Addr at, From from, bool interior);
  void Record(const alloc::ObjectRef& object, Reference reference);
  void Drain();

  alloc::HashTable<Reference> table_;  // by base

  // Used during the search only.
  alloc::ReservedArray<Addr> queue_;
  size_t head_ = 0;
  size_t tail_ = 0;
  bool failed_ = false;
  uint8_t black_ = 0;
  MarkConfig config_;
  alloc::ObjectRef current_ = {};  // the object being scanned
};

}  // namespace gleaner::gc
