// Toggle references: objects that the collector holds strongly or weakly. A function of the program
// decides which at each collection (for objects paired with reference-counted ones).
//
// Guarded by the collector lock. Call order in a collection: Update, MarkStrong, ForgetUnreachable.
// Update calls the function while the world runs, so the function may take locks. Its answers hold
// for the collection that follows at once.
#pragma once

#include "gc/mark/marker.h"

namespace gleaner::gc {

enum class ToggleStatus : uint8_t { kDrop, kStrong, kWeak };

class ToggleRefs {
 public:
  // False without memory. pre: `object` is the base of an object.
  [[nodiscard]] bool Add(Addr object, bool strong);
  // The object has moved to `to`, or was freed if `to` is 0.
  void Move(Addr object, Addr to);
  // Calls `ask` for every object and keeps its answers.
  void Update(ToggleStatus (*ask)(void* object));
  // Marks the objects that are held strongly.
  void MarkStrong(Marker* marker) const;
  // Calls f(object) for each object that is held strongly.
  template <class F>
  void ForEachStrong(F f) const {
    for (size_t i = 0; i < count_; ++i) {
      if (refs_[i].strong) f(refs_[i].object);
    }
  }
  // Drops the references to white objects.
  void ForgetUnreachable(const Marker& marker);

 private:
  static constexpr size_t kMaxRefs = size_t{1} << 24;
  struct Ref {
    Addr object;
    bool strong;
  };
  template <class Keep>
  void Filter(Keep keep);

  alloc::ReservedArray<Ref> refs_;  // in metadata, which is no root
  size_t count_ = 0;
};

}  // namespace gleaner::gc
