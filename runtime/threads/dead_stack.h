// Clearing of the words that returned calls have left below the stack pointer.
#pragma once

#include "platform/os/base.h"

namespace gleaner::runtime {

// Clears `bytes` of the stack below the caller's frame.
//
// A loop, since AddressSanitizer checks calls of memset: where a thread has the stack of one that
// is gone (in the child of a fork), it still knows that one's variables. Compilers make it a memset
// elsewhere.
GLEANER_NOINLINE GLEANER_NO_SANITIZE inline void ClearDeadStack(size_t bytes) {
  auto* dead = static_cast<Addr*>(__builtin_alloca(bytes));
  for (size_t i = 0; i < bytes / sizeof(Addr); ++i) dead[i] = 0;
  asm volatile("" : : "r"(dead) : "memory");  // keeps the memset, whose result is never read
}

}  // namespace gleaner::runtime
