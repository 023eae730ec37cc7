// gleaner.h: fibers.
#include "runtime/threads/fibers.h"

#include "runtime/api/api.h"

using gleaner::kKiB;
using runtime::Fibers;
using runtime::FiberState;

namespace {

// A stack left by an announced switch is scanned from this far below the announcing frame: room for
// what the switch pushes.
constexpr size_t kAnnounceSlackBytes = 1 * kKiB;

static_assert(GLEANER_FIBER_NONE == static_cast<int>(FiberState::kFree));
static_assert(GLEANER_FIBER_FRESH == static_cast<int>(FiberState::kFresh));
static_assert(GLEANER_FIBER_SUSPENDED == static_cast<int>(FiberState::kSuspended));
static_assert(GLEANER_FIBER_RUNNING == static_cast<int>(FiberState::kRunning));
static_assert(GLEANER_FIBER_ABANDONED == static_cast<int>(FiberState::kAbandoned));

const char* Reason(int error, const gleaner_fiber* to) {
  switch (error) {
    case EINVAL:
      return to != nullptr && !Fibers::IsRegistered(to)
                 ? "no fiber"
                 : "the thread is not on the stack it last switched to";
    case EBUSY:
      return to != nullptr ? "it is running" : "the thread is on its own stack already";
    case ESRCH:
      return "its thread has ended on it";
    default:
      return "refused";
  }
}

// Announces the switch, or prints why it is refused. Returns 0 or an errno value.
int Announce(const char* call, gleaner_fiber* to, Addr stack_pointer) {
  if (!runtime::AttachThread()) {
    Complain("%s(%p): no memory to register the thread; ignored", call, static_cast<void*>(to));
    return ENOMEM;
  }
  Thread* self = Threads::Current();
  if (self->IsBlocked()) {
    Complain("%s(%p): inside GC_do_blocking; ignored", call, static_cast<void*>(to));
    return EPERM;
  }
  const int error = Fibers::Switch(self, to, stack_pointer);
  if (error != 0) Complain("%s(%p): %s; ignored", call, static_cast<void*>(to), Reason(error, to));
  return error;
}

struct SwitchCall {
  gleaner_fiber* to;
  void (*switch_stacks)(void*);
  void* argument;
  int error;
};

// When switch_stacks returns, another thread may run this code, so nothing that belongs to a thread
// is used after it.
void SwitchWithRegisters(Addr stack_pointer, void* context) {
  auto* call = static_cast<SwitchCall*>(context);
  call->error = Announce("gleaner_fiber_switch", call->to, stack_pointer);
  if (call->error == 0) call->switch_stacks(call->argument);
}

}  // namespace

extern "C" {

gleaner_fiber* gleaner_fiber_create(void* stack, size_t bytes) {
  const Addr begin = AddressOf(stack);
  gleaner_fiber* fiber = nullptr;
  const char* reason = nullptr;
  int error = EINVAL;
  if (stack == nullptr) {
    reason = "the stack is NULL";
  } else if (bytes == 0) {
    reason = "the stack has no bytes";
  } else if (begin % kWordBytes != 0 || bytes % kWordBytes != 0) {
    reason = "address and size must be multiples of 8";
  } else if (begin + bytes < begin) {
    reason = "the stack wraps around";
  } else if (!runtime::AttachThread()) {
    error = ENOMEM;
  } else {
    error = Fibers::Create({begin, begin + bytes}, &fiber);
    if (error == 0) return fiber;
    if (error == EEXIST) reason = "overlaps the stack of a fiber or a thread";
  }
  Complain("gleaner_fiber_create(%p, %zu): %s; ignored", stack, bytes,
           reason != nullptr ? reason : "no memory, or too many fibers");
  errno = error;
  return nullptr;
}

int gleaner_fiber_destroy(gleaner_fiber* fiber) {
  if (RejectNull("gleaner_fiber_destroy", "the fiber", fiber)) return EINVAL;
  const int error = Fibers::Destroy(fiber);
  if (error != 0) {
    Complain("gleaner_fiber_destroy(%p): %s; ignored", static_cast<void*>(fiber),
             error == EBUSY ? "it is running" : "no fiber");
  }
  return error;
}

GLEANER_NOINLINE int gleaner_fiber_switch(gleaner_fiber* to, void (*switch_stacks)(void*),
                                          void* argument) {
  if (RejectNull("gleaner_fiber_switch", "the function", switch_stacks)) return EINVAL;
  SwitchCall call{to, switch_stacks, argument, 0};
  platform::WithRegistersOnStack(SwitchWithRegisters, &call);
  return call.error;
}

GLEANER_NOINLINE int gleaner_fiber_announce(gleaner_fiber* to) {
  return Announce("gleaner_fiber_announce", to,
                  AddressOf(__builtin_frame_address(0)) - kAnnounceSlackBytes);
}

int gleaner_fiber_set_context(gleaner_fiber* fiber, const void* context, size_t bytes) {
  if (RejectNull("gleaner_fiber_set_context", "the fiber", fiber)) return EINVAL;
  const Addr begin = AddressOf(context);
  if ((context == nullptr && bytes != 0) || begin + bytes < begin) {
    Complain("gleaner_fiber_set_context(%p, %p, %zu): no range of memory; ignored",
             static_cast<void*>(fiber), context, bytes);
    return EINVAL;
  }
  const int error = Fibers::SetContext(fiber, {begin, begin + bytes});
  if (error != 0) {
    Complain("gleaner_fiber_set_context(%p): no fiber; ignored", static_cast<void*>(fiber));
  }
  return error;
}

gleaner_fiber* gleaner_fiber_current(void) {
  const Thread* self = Threads::Current();
  return self != nullptr ? self->fiber : nullptr;
}

gleaner_fiber_state gleaner_fiber_get_state(const gleaner_fiber* fiber) {
  if (fiber == nullptr || !Fibers::IsRegistered(fiber)) return GLEANER_FIBER_NONE;
  // Relaxed: the answer may be out of date at once.
  return static_cast<gleaner_fiber_state>(fiber->state.Load(platform::memory_order_relaxed));
}

}  // extern "C"
