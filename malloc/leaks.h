// GLEANER_LEAKS: which blocks the program has lost, and where it allocated them. See
// docs/reference/malloc.md.
//
// The heap is that of the collecting malloc (collecting.h), on which nothing is collected unless
// GLEANER_COLLECT is set too. A side table has a word for each block, at the index of the block's
// first granule:
//
//   bits 0-18   the number of the stack that allocated the block (stack_table.h), 0 if unknown
//   bits 19-31  bytes of the slot that were not asked for
//
// The thread that has just got the block writes the word; it is read with the world stopped.
//
// An examination is part of a collection. When all reachable blocks are black, it visits the blocks
// that are still white, in the order of their addresses. During the examination mark bytes change:
//
//   white -> kDirect      no block visited so far leads to this block; the block, and all blocks
//                         that it leads to, are searched for pointers at once
//   white -> kIndirect    a lost block leads to this block
//   kDirect -> kIndirect  a block that is visited later leads to this block
//   white -> kSuppressed  (at the exit) a rule matches the block's stack, or a suppressed block
//                         leads to this block
//
// At the end each lost block is counted for its stack, and becomes black, so that it stays; or
// white again, if the collection is one of GLEANER_COLLECT, which then frees the block.
#pragma once

#include "platform/unwind/stack_table.h"

namespace gleaner::malloc_proxy {

using platform::kMaxFrames;
using platform::kMaxStacks;
using platform::kNoStack;
using platform::kStackIdBits;
using platform::StackId;
using platform::StackTable;

struct LeakCount {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
  void Add(const LeakCount& other) {
    blocks += other.blocks;
    bytes += other.bytes;
  }
};

// The lost blocks that one stack allocated.
struct StackLeaks {
  LeakCount direct;    // no other lost block leads to them
  LeakCount indirect;  // a lost block leads to them
};

// The number of the rule that suppresses a stack; 0 if none does.
using RuleOfStack = uint16_t;

class Leaks {
 public:
  // Once, at the start, after Collecting::Start. False after a message if there is no memory.
  [[nodiscard]] static bool Init();

  // Called when a block was allocated or resized. No effect for addresses outside the heap. Any
  // thread.
  static void Record(void* p, size_t bytes);

  // Stops the world and examines the heap. The caller's stack counts from `stack_pointer` upwards.
  // `rules`, by stack, may be null: blocks of stacks with a rule, and blocks that they lead to, are
  // counted in `suppressed`, by rule. False without memory, or if the threads do not stop. pre: the
  // calling thread is registered.
  [[nodiscard]] static bool Examine(Addr stack_pointer, const RuleOfStack* rules,
                                    LeakCount* suppressed);

  // The blocks that the last examination found, and those collected before. stacks() is the number
  // of stacks.
  static size_t stacks();
  static StackLeaks Of(StackId id);
};

}  // namespace gleaner::malloc_proxy
