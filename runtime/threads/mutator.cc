#include "runtime/threads/mutator.h"

#include "platform/os/filters.h"
#include "platform/os/readable.h"
#include "runtime/process/runtime_state.h"
#include "runtime/threads/blocking.h"
#include "runtime/threads/dead_stack.h"

namespace gleaner::runtime {

bool AttachThread() {
  if (GLEANER_LIKELY(Threads::Current() != nullptr)) return true;
  Init();
  return Threads::Current() != nullptr || Threads::Register() != nullptr;
}

bool AttachToHeap() {
  if (GLEANER_LIKELY(HasHeap())) return true;
  EndBlocking();
  return AttachThread();
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
