#include "platform/os/cancellation.h"

#include <pthread.h>

#include <cstdint>

namespace gleaner::platform {

namespace {

// State of the calling thread, not used by its signal handlers.
struct Uncancellable {
  uint32_t depth;
  CancelState before;  // outside all sections
};
__thread Uncancellable t_uncancellable __attribute__((tls_model("initial-exec"))) = {};

void Disable(CancelState* before) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before->state);
  pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &before->type);
}

// The type last, so that a pending cancellation acts when the type is set (CancelState).
void Restore(const CancelState& before) {
  pthread_setcancelstate(before.state, nullptr);
  pthread_setcanceltype(before.type, nullptr);
}

}  // namespace

UncancellableSection::UncancellableSection() { Disable(&before_); }
UncancellableSection::~UncancellableSection() { Restore(before_); }

void EnterUncancellable() {
  if (t_uncancellable.depth++ == 0) Disable(&t_uncancellable.before);
}
void LeaveUncancellable() {
  if (--t_uncancellable.depth == 0) Restore(t_uncancellable.before);
}

bool IsUncancellable() { return t_uncancellable.depth != 0; }

}  // namespace gleaner::platform
