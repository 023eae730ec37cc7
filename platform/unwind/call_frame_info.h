// Call frame information (DWARF, .eh_frame): how to get from a frame to its caller's frame.
//
//   [inv.unwind-table]  call frame information is read only inside the segment that contains its
//                       index.
#pragma once

#include "platform/os/base.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

namespace internal {

// How to get from a frame to its caller's frame, for one address. The canonical frame address (CFA)
// is the stack pointer before the call; the return address is right below it.
struct UnwindRule {
  enum Kind : uint8_t {
    kNone,       // the rule is unknown or not supported: the walk ends
    kOffset,     // CFA = base + offset
    kDeref,      // CFA = the word at base + offset
    kOutermost,  // there is no caller
    kSignal,     // the kernel made this frame for a signal handler
  };
  // Registers that calls preserve: base 0 is the stack pointer, i + 1 the i-th of these.
  static constexpr int kSavedCount = 6;
  static constexpr uint8_t kDwarfNumbers[kSavedCount] = {3, 6, 12, 13, 14, 15};  // rbx rbp r12-r15

  Kind kind = kNone;
  uint8_t base = 0;    // 0: the stack pointer; i + 1: saved register i
  int32_t offset = 0;  // a multiple of 8
  // Where the caller's value of each saved register is. 0: in the register itself; kLost: unknown;
  // another n: n words below the CFA, or with kDeref n - 2 words below the base.
  static constexpr uint8_t kLost = 1;
  uint8_t saved[kSavedCount] = {};

  // The rule in one word, which can be loaded and stored at once. 0 stands for kNone.
  uint64_t Pack() const;
  static UnwindRule Unpack(uint64_t word);
  static constexpr int32_t kMaxOffset = 8 * ((1 << 20) - 1);
  static constexpr uint8_t kMaxSaved = 63;
};

// Finds the rule for `pc` by the index .eh_frame_hdr at `index`. Reads nothing outside `segment`.
UnwindRule FindUnwindRule(Range segment, Addr index, Addr pc);

}  // namespace internal

}  // namespace gleaner::platform
