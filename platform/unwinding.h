// A way out of functions that call the program's code, for when that does not return: pthread_exit,
// a cancellation and C++ exceptions unwind the stack, frame by frame.
//
// The library is compiled without exceptions, and clean-up code of the compiler's needs a library
// at run time. So a function that has something to put right names a personality routine of its
// own, which the unwinder calls when it passes the function's frame; it acts, and lets the unwinder
// go on. Not seen: a jump (longjmp) out of the frame, and a call of the program's code at the
// function's end, of which the compiler makes a jump.
//
//   GLEANER_DEFINE_UNWOUND(gleaner_something_unwound) { puts things right; }
//   GLEANER_NOINLINE void* Call(...) {
//     GLEANER_WHEN_UNWOUND(gleaner_something_unwound);
//     ...
#pragma once

#include <unwind.h>

// The body that follows is what is done.
#define GLEANER_DEFINE_UNWOUND(name)                                               \
  static void name##_act();                                                        \
  extern "C" __attribute__((visibility("hidden"), used)) _Unwind_Reason_Code name( \
      int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception*,    \
      _Unwind_Context*) {                                                          \
    if ((actions & _UA_CLEANUP_PHASE) != 0) name##_act();                          \
    return _URC_CONTINUE_UNWIND;                                                   \
  }                                                                                \
  static void name##_act()

// In a function that is not inlined. 0x1b: the routine's distance, in 32 bits.
#define GLEANER_WHEN_UNWOUND(name) asm volatile(".cfi_personality 0x1b, " #name)
