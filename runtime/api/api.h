// Shared by the files of the GC_ API: gc.h, the report of null arguments, copies of structures and
// texts.
#pragma once

#include <cerrno>
#include <cstring>

#include "gc/javaxfc.h"
#include "platform/os/base.h"

namespace gleaner::runtime {

// Prints a message and returns true if the argument is null. `p` is a pointer to an object or a
// function.
template <class P>
bool RejectNull(const char* call, const char* argument, P p) {
  if (GLEANER_LIKELY(p != nullptr)) return false;
  Complain("%s: %s is NULL; ignored", call, argument);
  return true;
}

// Copies the first min(size, from_bytes) bytes of a structure, where `size` is the caller's sizeof.
// Returns the number of bytes copied.
inline size_t CopyOut(void* to, size_t size, const void* from, size_t from_bytes) {
  const size_t bytes = size < from_bytes ? size : from_bytes;
  memcpy(to, from, bytes);
  return bytes;
}

// Copies `length` characters into `memory`, which has room for one more, and adds the terminator.
// If `memory` is null, returns null with errno ENOMEM.
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
