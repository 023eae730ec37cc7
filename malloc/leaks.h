// GLEANER_LEAKS: which blocks the program has lost, and where it got them. docs/leaks.md has the
// whole.
//
// The heap is that of the collecting malloc (collecting.h), on which nothing is collected unless
// GLEANER_COLLECT says so too. A side table has a word for each block, at the place of the block's
// first granule:
//
//   bits 0-18   the number of the stack it was allocated with (stack_table.h), 0 if unknown
//   bits 19-31  bytes of the slot that were not asked for
//
// The word is written by the thread that has just got the block, and read with the world stopped.
//
// An examination is part of a collection. When all that is reachable is black, it looks at the
// blocks that are still white, in the order of their addresses. Meanwhile their mark bytes say:
//
//   white -> kDirect      no block seen so far leads to it: it is searched for pointers at once,
//                         and all that they lead to
//   white -> kIndirect    a lost block leads to it
//   kDirect -> kIndirect  one that is looked at later leads to it
//   white -> kSuppressed  (at the exit) its stack is suppressed, or such a block leads to it
//
// At the end each is counted to its stack, and becomes black, so that it stays; or white again, if
// the collection is one of GLEANER_COLLECT's, which then frees it.
#pragma once

#include "malloc/stack_table.h"

namespace gleaner::malloc_proxy {

struct LeakCount {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  void Add(const LeakCount& other) {
    blocks += other.blocks;
    bytes += other.bytes;
  }
};

// What became of the blocks that one stack allocated.
struct StackLeaks {
  LeakCount direct;
  LeakCount indirect;
};

// By stack: 0 if it is not suppressed, else which rule does that.
using RuleOfStack = uint16_t;

class Leaks {
 public:
  // Once, at the start, after Collecting::Start. False after a message if there is no memory.
  [[nodiscard]] static bool Init();

  // A block was handed out, or changed its size. Nothing if it is none of the heap's. Any thread.
  static void Note(void* p, size_t bytes);

  // Stops the world and examines; the caller's stack counts from `stack_pointer` on. Blocks of
  // stacks with a rule, and what these blocks lead to, are counted to the rule; `rules` may be
  // null. False without memory, or if the threads do not stop. pre: the calling thread is attached.
  [[nodiscard]] static bool Examine(Addr stack_pointer, const RuleOfStack* rules,
                                    LeakCount* suppressed);

  // What the last examination found, and what was collected before. By stack, of which there were
  // that many.
  static size_t stacks();
  static StackLeaks Of(StackId id);
};

}  // namespace gleaner::malloc_proxy
