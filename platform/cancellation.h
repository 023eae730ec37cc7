// Keeping the calling thread from being cancelled.
//
// Files, messages and sleeps are points of cancellation in the C library. A thread that was
// cancelled there, in the midst of the library's work, would leave locks taken and the world
// stopped.
#pragma once

namespace gleaner::platform {

// The type matters for threads that may be cancelled at any instruction: the C library tells their
// joiners that they were cancelled if that happens when the type is set, not when the state is.
struct CancelState {
  int state;
  int type;
};

// Meanwhile the calling thread is not cancelled, whatever it calls. Async-signal-safe.
class UncancellableSection {
 public:
  UncancellableSection();
  ~UncancellableSection();
  UncancellableSection(const UncancellableSection&) = delete;
  UncancellableSection& operator=(const UncancellableSection&) = delete;

 private:
  CancelState before_;
};

// The same from Enter to Leave, which nest. Not for handlers, which may come in the midst of
// either.
void EnterUncancellable();
void LeaveUncancellable();
// Whether the calling thread, or what its handler has interrupted, is between the two.
bool IsUncancellable();

}  // namespace gleaner::platform
