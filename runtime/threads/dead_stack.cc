#include "runtime/threads/dead_stack.h"

#include "platform/os/filters.h"
#include "platform/os/readable.h"
#include "runtime/threads/fibers.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

// A loop, since AddressSanitizer checks calls of memset: where a thread has the stack of one that
// is gone (in the child of a fork), it still knows that one's variables. Compilers make it a memset
// elsewhere.
GLEANER_NOINLINE GLEANER_NO_SANITIZE void ClearDeadStack(size_t bytes) {
  auto* dead = static_cast<Addr*>(__builtin_alloca(bytes));
  for (size_t i = 0; i < bytes / sizeof(Addr); ++i) dead[i] = 0;
  asm volatile("" : : "r"(dead) : "memory");  // keeps the memset, whose result is never read
}

// A conservative collector sees dead pointers in the stack: a new frame that does not write all of
// its memory revives what an old frame left there. So the part below the stack pointer is cleared
// from time to time: a quarter as many bytes as were allocated since the last time, at most 16 KiB.
// The bound is needed because the program may run on a stack that is an array within this one, with
// live frames below that array.
constexpr size_t kClearedStackBytes = 16 * kKiB;
constexpr size_t kBytesPerClearedByte = 4;

GLEANER_NOINLINE void ClearDeadStackIfDue() {
  Thread* self = Threads::Current();
  if (self == nullptr || self->bytes_since_cleared < kBytesPerClearedByte * kClearedStackBytes) {
    return;
  }
  self->bytes_since_cleared = 0;
  const Addr here = AddressOf(__builtin_frame_address(0));
  const platform::Range stack = self->fiber != nullptr ? self->fiber->stack : self->stack;
  const bool is_own =
      self->fiber != nullptr ? stack.Contains(here) : Threads::IsOnOwnStack(self, here);
  if (!is_own) return;                // a stack that the program has made
  if (platform::HasFilter()) return;  // an alternate stack within this one is not known then
  if (here - stack.begin <= 2 * kClearedStackBytes || platform::AlternateStackEnd(here) != 0) {
    return;
  }
  Addr low = here - kClearedStackBytes;
  if (self->is_main && self->fiber == nullptr && low < self->stack_mapped_from) {
    // The first thread's stack is mapped only as far as it was used; below that there is nothing to
    // clear.
    low = self->stack_mapped_from = platform::LowestMapped({low, here});
  }
  constexpr size_t kOwnFramesBytes = 1 * kKiB;  // between here and where clearing begins
  if (here - low > kOwnFramesBytes) ClearDeadStack(here - low - kOwnFramesBytes);
}

}  // namespace gleaner::runtime
