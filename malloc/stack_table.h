// The stacks that blocks were allocated with, each once, numbered.
//
// Stacks are only ever added. A thread that brings a new one takes a number and words for the
// frames by counting on, writes them, and then tries to put the number into the hash table, where
// others find it; if another thread put the same stack there meanwhile, the number and the words
// stay unused. No lock: a thread may be stopped, or vanish in a fork, at any point.
//
//   [inv.stack-published]  what the hash table has a number for is written, and does not change.
//
// Memory is reserved at the start and touched as stacks come. When numbers or words are used up,
// further stacks have the number 0, kNoStack.
#pragma once

#include "platform/atomic.h"

namespace gleaner::malloc_proxy {

using StackId = uint32_t;
inline constexpr StackId kNoStack = 0;
inline constexpr int kStackIdBits = 19;
inline constexpr size_t kMaxStacks = size_t{1} << kStackIdBits;
inline constexpr size_t kMaxFrames = 128;  // of one stack

class StackTable {
 public:
  // Once. False if the address space cannot be had; then no stack finds room.
  [[nodiscard]] static bool Init();

  // The number of a stack. Any thread, also in signal handlers.
  static StackId Intern(const Addr* frames, size_t count);

  // pre: the number is one that Intern returned.
  static size_t CountOf(StackId id);
  static const Addr* FramesOf(StackId id);

  // Numbers up to this one, exclusive, have been given out.
  static size_t end();
  // Whether some stack found no room.
  static bool IsFull();
};

}  // namespace gleaner::malloc_proxy
