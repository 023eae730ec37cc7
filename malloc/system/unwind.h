// Walking the calling thread's stack from inside malloc: no memory is allocated, no lock is taken.
//
// x86-64: by the call frame information of .eh_frame, which says for each instruction how to find
// the caller's frame (DWARF 5, section 6.4; the System V ABI's supplement for x86-64, 3.7). The
// object that an address lies in comes from glibc's _dl_find_object, which takes no lock and may be
// called in signal handlers; before glibc 2.35 there is none, and a walk ends at once. What was
// found out about an address is kept in a cache, so that a frame costs some nanoseconds.
//
// Other processors: by frame pointers.
//
// Any kind of damage ends the walk:
//   [inv.unwind-stack]  the stack is read between the stack pointer and the end of the known stack,
//                       and elsewhere by a system call that fails where there is no memory.
//   [inv.unwind-up]     each frame lies above the one it called, but for what a signal interrupted.
//   [inv.unwind-table]  call frame information is read only inside the segment that its index is
//   in.
#pragma once

#include "platform/thread.h"

namespace gleaner::malloc_proxy {

// Addresses of the calls that are under way, innermost first; for a call that is the address behind
// it less one, so that it lies in the call's own line. Frames with addresses in `skip` are left out
// at the beginning. `stack` is that of the calling thread if known, else empty. Returns how many
// there are, at most `max`. Any thread, at any time, also in signal handlers.
GLEANER_NOINLINE size_t CaptureStack(platform::Range stack, platform::Range skip, Addr* out, size_t max);

// The addresses of the shared object or program that this function is in; empty if unknown.
platform::Range ThisObject();

// Makes the cache, once, before other threads walk. It is in reserved memory of its own: its words
// are none that a conservative scan should see.
void InitUnwinder();

// An object has been unloaded, and others may get its addresses: nothing is known any more.
void ForgetUnwindRules();

namespace internal {

// How to get from a frame to its caller's, for one address. The canonical frame address (CFA) is
// the stack pointer before the call; the return address is right below it.
struct UnwindRule {
  enum Kind : uint8_t {
    kNone,       // nothing is known, or nothing that we can do: the walk ends
    kOffset,     // CFA = base + offset
    kDeref,      // CFA = the word at base + offset
    kOutermost,  // there is no caller
    kSignal,     // the frame is the one that the kernel made for a signal handler
  };
  // Registers that calls preserve: base 0 is the stack pointer, i + 1 the i-th of these.
  static constexpr int kSavedCount = 6;
  static constexpr uint8_t kDwarfNumbers[kSavedCount] = {3, 6, 12, 13, 14, 15};  // rbx rbp r12-r15

  Kind kind = kNone;
  uint8_t base = 0;
  int32_t offset = 0;  // a multiple of 8
  // Where the frame has its caller's value of a register: 0: in the register itself; kLost: not
  // known; else n words below the CFA, or with kDeref n - 2 words below the base.
  static constexpr uint8_t kLost = 1;
  uint8_t saved[kSavedCount] = {};

  // In one word, so that it can be read and written at once. 0 stands for kNone.
  uint64_t Pack() const;
  static UnwindRule Unpack(uint64_t word);
  static constexpr int32_t kMaxOffset = 8 * ((1 << 20) - 1);
  static constexpr uint8_t kMaxSaved = 63;
};

// The rule for `pc` by the index .eh_frame_hdr at `index`. Reads nothing outside `segment`.
UnwindRule FindUnwindRule(platform::Range segment, Addr index, Addr pc);

}  // namespace internal

}  // namespace gleaner::malloc_proxy
