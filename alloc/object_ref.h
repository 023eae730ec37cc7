// A slot of the heap.
#pragma once

#include "alloc/address_space.h"

namespace gleaner::alloc {

struct ObjectRef {
  Addr base;
  size_t bytes;     // usable size
  PageNumber page;  // of the base
  uint32_t slot;    // index of the mark byte in that page
  uint8_t* mark() const { return g_space.MarksOf(page) + slot; }
  Kind kind() const { return g_space.info[page].kind; }
};

}  // namespace gleaner::alloc
