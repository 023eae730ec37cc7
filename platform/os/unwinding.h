// Clean-up for functions that call the program's code, if that code does not return: pthread_exit,
// a cancellation and C++ exceptions unwind the stack, frame by frame.
//
// The library is compiled without exceptions, and the compiler's clean-up code needs a library at
// run time. So a function that must restore something names a personality routine of its own. The
// unwinder calls the routine when it passes the function's frame; the routine acts and lets the
// unwinder continue. Not covered: a jump (longjmp) out of the frame, and a call of the program's
// code at the function's end, which the compiler may turn into a jump.
//
//   GLEANER_DEFINE_UNWOUND(gleaner_something_unwound) { puts things right; }
//   GLEANER_NOINLINE void* Call(...) {
//     GLEANER_WHEN_UNWOUND(gleaner_something_unwound);
//     ...
#pragma once

#include <unwind.h>

// Defines the routine `name`; the body that follows the macro is its action.
#define GLEANER_DEFINE_UNWOUND(name)                                               \
  static void name##_act();                                                        \
  extern "C" __attribute__((visibility("hidden"), used)) _Unwind_Reason_Code name( \
      int, _Unwind_Action actions, _Unwind_Exception_Class, _Unwind_Exception*,    \
      _Unwind_Context*) {                                                          \
    if ((actions & _UA_CLEANUP_PHASE) != 0) name##_act();                          \
    return _URC_CONTINUE_UNWIND;                                                   \
  }                                                                                \
  static void name##_act()

// Names the routine in a function that is not inlined. 0x1b: the routine is given by a relative
// address of 32 bits.
#define GLEANER_WHEN_UNWOUND(name) asm volatile(".cfi_personality 0x1b, " #name)
