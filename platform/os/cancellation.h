// Keeping the calling thread from being cancelled.
//
// File operations, messages and sleeps are cancellation points of the C library. A thread that is
// cancelled there, within the library's work, would leave locks taken and the world stopped.
#pragma once

namespace gleaner::platform {

// A thread's cancellation state and type. The type matters for threads that may be cancelled at any
// instruction: their joiners learn of a pending cancellation only if it acts when the type is set,
// not when the state is set.
struct CancelState {
  int state;
  int type;
};

// While it exists, the calling thread is not cancelled, whatever it calls. Async-signal-safe.
class UncancellableSection {
 public:
  UncancellableSection();
  ~UncancellableSection();
  UncancellableSection(const UncancellableSection&) = delete;
  UncancellableSection& operator=(const UncancellableSection&) = delete;

 private:
  CancelState before_;
};

// From Enter to Leave the calling thread is not cancelled; the pairs nest. Not for signal handlers,
// which may interrupt either function.
void EnterUncancellable();
void LeaveUncancellable();
// Whether the calling thread, or the code that its handler has interrupted, is between the two.
bool IsUncancellable();

}  // namespace gleaner::platform
