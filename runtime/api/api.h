// What the files of the GC_ API share: gc.h, the report of null arguments, copies of texts.
#pragma once

#include <cerrno>
#include <cstring>

#include "gc/javaxfc.h"
#include "platform/base.h"

namespace gleaner::runtime {

// True, after a message, if the argument is null. `p` is a pointer to an object or a function.
template <class P>
bool RejectNull(const char* call, const char* argument, P p) {
  if (GLEANER_LIKELY(p != nullptr)) return false;
  Complain("%s: %s is NULL; ignored", call, argument);
  return true;
}

// Copies as much of a structure as the caller, whose sizeof is `size`, has room for. Returns how
// much that is.
inline size_t CopyOut(void* to, size_t size, const void* from, size_t from_bytes) {
  const size_t bytes = size < from_bytes ? size : from_bytes;
  memcpy(to, from, bytes);
  return bytes;
}

// Copies a text of that many characters into `memory`, which has room for one more, the end. Null,
// with errno ENOMEM, if there is no memory.
template <class Character>
Character* CopyText(void* memory, const Character* text, size_t length) {
  if (memory == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  auto* copy = static_cast<Character*>(memory);
  memcpy(copy, text, length * sizeof(Character));
  copy[length] = 0;
  return copy;
}

}  // namespace gleaner::runtime
