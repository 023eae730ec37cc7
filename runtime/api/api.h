// Shared by the files of the API: gc.h, gleaner.h, the start and the calling thread, memory, the
// report of null arguments, copies of structures and texts.
#pragma once

#include <cerrno>
#include <cstring>

#include "alloc/object.h"
#include "gc/collector.h"
#include "gc/javaxfc.h"
#include "gleaner.h"
#include "runtime/process/runtime_state.h"
#include "runtime/process/variables.h"
#include "runtime/threads/mutator.h"

namespace gleaner::runtime {

// Sets errno to ENOMEM, calls the client's out-of-memory procedure and returns its result; null if
// there is none.
void* OutOfMemory(size_t bytes);

// Allocates for the API's allocation functions: initialises, attaches the thread, collects and
// calls the out-of-memory procedure as needed.
void* Allocate(alloc::Kind kind, size_t bytes, size_t alignment = alloc::kGranuleBytes,
               bool ignore_off_page = false);

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

// The functions of a setting that takes any value.
#define GLEANER_SETTING(type, name, variable)          \
  void GC_set_##name(type value) { variable = value; } \
  type GC_get_##name(void) { return variable; }

// Names that most of these files use, whose functions are in no namespace.
namespace alloc = gleaner::alloc;
namespace gc = gleaner::gc;
namespace platform = gleaner::platform;
namespace runtime = gleaner::runtime;
using gleaner::Addr;
using gleaner::AddressOf;
using gleaner::Complain;
using gleaner::Fatal;
using gleaner::kWordBytes;
using gleaner::PointerAt;
using gleaner::alloc::Kind;
using gleaner::alloc::ObjectRef;
using gleaner::gc::g_collector;
using gleaner::runtime::CopyOut;
using gleaner::runtime::RejectNull;
using gleaner::runtime::Thread;
using gleaner::runtime::Threads;
