// Toggle references: objects that the collector holds strongly or weakly, as a function of the
// program's says anew at each collection (for objects paired with reference-counted ones).
//
// Guarded by the collector lock. The function is called with the world running, so it may take
// locks; what it said holds for the collection that follows at once.
#pragma once

#include "gc/marker.h"

namespace gleaner::gc {

enum class ToggleStatus : uint8_t { kDrop, kStrong, kWeak };

class ToggleRefs {
 public:
  // False without memory. pre: `object` is the base of an object.
  [[nodiscard]] bool Add(Addr object, bool strong);
  // The object is given back, or has become the one at `to`, which is not 0 then.
  void Move(Addr object, Addr to);
  // Asks about every object.
  void Update(ToggleStatus (*ask)(void* object));
  // In a cycle: marks what is held strongly; forgets what died.
  void MarkStrong(Marker* marker) const;
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
