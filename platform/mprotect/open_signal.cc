#include "platform/mprotect/open_signal.h"

#include <signal.h>

#include "platform/mprotect/alternate_stacks.h"
#include "platform/threads/fault_signal.h"
#include "platform/threads/stop_world.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

namespace {
// The installation of the handler for which the thread has unblocked SIGSEGV.
constinit __thread uint32_t t_open_for __attribute__((tls_model("initial-exec"))) = 0;

constexpr FaultSignalHooks kHooks = {OpenFaultSignal, KeepFaultSignalOpen, KeepAlternateStackApart};
}  // namespace

void KeepSignalOpenEverywhere() { SetFaultSignalHooks(&kHooks); }

void OpenFaultSignal() {
  // Acquire: pairs with the stores that install and remove the handler.
  const uint32_t installed = g_fault_handler.Load(memory_order_acquire);
  if (installed == t_open_for) return;
  t_open_for = installed;
  if (installed == 0) return;
  sigset_t fault;
  sigemptyset(&fault);
  sigaddset(&fault, SIGSEGV);
  RealSigmask(SIG_UNBLOCK, &fault, nullptr);
  stack_t stack;
  if (sigaltstack(nullptr, &stack) != 0 || (stack.ss_flags & SS_DISABLE) != 0) return;
  const Range own = t_stop_record != nullptr ? t_stop_record->stack : CurrentStackBounds();
  if (KeepAlternateStackApart(stack.ss_flags, &stack.ss_sp, &stack.ss_size, own)) {
    sigaltstack(&stack, nullptr);
  }
}

bool KeepAlternateStackApart(int flags, void** base, size_t* bytes, Range own_stack) {
  return g_fault_handler.Load(memory_order_acquire) != 0 &&  // pairs with InstallFaultHandler
         (flags & (SS_DISABLE | SS_ONSTACK)) == 0 && MoveOffOwnStack(base, bytes, own_stack);
}

void KeepFaultSignalOpen(sigset_t* mask) {
  // Acquire: pairs with the stores that install and remove the handler.
  if (g_fault_handler.Load(memory_order_acquire) != 0) sigdelset(mask, SIGSEGV);
}

}  // namespace gleaner::platform
