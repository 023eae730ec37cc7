// Whether a word counts as a pointer, for searches that are not the marker's.
#pragma once

#include "gc/mark/marker.h"

namespace gleaner::gc {

// Whether the word points into a slot, allocated or not, in a way that counts. `interior`: pointers
// into the middle of objects count whatever the settings, as on stacks. A word one past the end of
// an object is looked up less 1.
inline bool IsPointer(Addr word, bool interior, const MarkConfig& config,
                      alloc::ObjectRef* object) {
  if (!alloc::FindSlot(word, object)) return false;
  const size_t displacement = word - object->base;
  if (displacement >= object->bytes) return false;
  if (alloc::g_space.info[object->page].ignore_off_page &&
      alloc::g_space.PageOf(word) != object->page) {
    return false;
  }
  return interior || config.all_interior_pointers ||
         (displacement < alloc::kPageBytes && g_valid_displacement[displacement] != 0);
}

}  // namespace gleaner::gc
