// For processors other than x86-64: follows frame pointers.
#include "platform/unwind/stack_reader.h"
#include "platform/unwind/unwind.h"

namespace gleaner::platform {

// A frame is the caller's frame pointer and the return address.
size_t CaptureStack(Range stack, Range skip, Addr* out, size_t max) {
  StackReader reader(stack);
  Addr frame = AddressOf(__builtin_frame_address(0));
  reader.StartAt(frame);
  size_t count = 0;
  while (count < max) {
    Addr next;
    Addr pc;
    if (!reader.Read(frame, &next) || !reader.Read(frame + kWordBytes, &pc) || pc == 0) break;
    if (count != 0 || !skip.Contains(pc)) out[count++] = pc - 1;
    if (next <= frame) break;
    frame = next;
  }
  return count;
}

Range ThisObject() { return {}; }

void InitUnwinder() {}
void ForgetUnwindRules() {}

}  // namespace gleaner::platform
