// How a concurrent cycle reaches the threads and their roots while the world runs. A part of World
// (gc/world.h), called with the collector lock held.
#pragma once

#include "gc/mark/roots.h"

namespace gleaner::gc {

// How far Handshakes::copy_roots has come.
struct RootPosition {
  size_t static_bytes = 0;  // of static data, copied
  size_t fiber = 0;         // index of the next fiber
};

struct Handshakes {
  // Starts a round of handshakes: every registered mutator needs one.
  void (*begin_handshakes)() = nullptr;
  // Does the handshake with one mutator that needs one: stops it (unless it is the caller), gives
  // the slots it holds the allocation colour, and copies its roots. A mutator that registers during
  // the round needs none. False if no mutator needs one any more. `stack_pointer` as for
  // World::add_roots; `scratch` is for the callee.
  bool (*handshake)(Addr stack_pointer, RootTasks* scratch, RootBuffer* words) = nullptr;
  // Copies some 64 KiB of the other roots. False if there are no more.
  bool (*copy_roots)(RootPosition* position, RootBuffer* words) = nullptr;
};

}  // namespace gleaner::gc
