// The call stacks that allocated blocks, each once, numbered.
//
// Stacks are only ever added. A thread that has a new stack takes a number, and words for its
// frames, by incrementing counters. It writes the words, and then tries to put the number into the
// hash table, where other threads find it. If another thread has put the same stack there
// meanwhile, the number and the words stay unused. There is no lock, since a thread may be stopped,
// or vanish in a fork, at any point.
//
//   [inv.stack-published]  a stack whose number is in the hash table is written and does not
//   change.
//
// Memory is reserved at the start and touched as stacks are added. When numbers or words are used
// up, further stacks have the number 0, kNoStack.
#pragma once

#include "platform/os/atomic.h"

namespace gleaner::platform {

using StackId = uint32_t;
inline constexpr StackId kNoStack = 0;
inline constexpr int kStackIdBits = 19;
inline constexpr size_t kMaxStacks = size_t{1} << kStackIdBits;
inline constexpr size_t kMaxFrames = 128;  // of one stack

class StackTable {
 public:
  // Once. False if the address space cannot be had; then Intern returns kNoStack.
  [[nodiscard]] static bool Init();

  // The number of the stack; adds it if it is new. Any thread, also in signal handlers.
  static StackId Intern(const Addr* frames, size_t count);

  // pre: the number is one that Intern returned.
  static size_t CountOf(StackId id);
  static const Addr* FramesOf(StackId id);

  // All numbers given out are less than this.
  static size_t end();
  // Whether there was no room for some stack.
  static bool IsFull();
};

}  // namespace gleaner::platform
