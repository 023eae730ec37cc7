#include "runtime/threads/blocking.h"

#include <atomic>

#include "platform/os/unwinding.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

namespace {

struct BlockingCall {
  void* (*f)(void*);
  void* data;
  void* result;
};

// Takes the thread's heap away and makes it blocked. A handler that comes between the two steps and
// allocates takes the heap back (EndBlocking), so that the exchange fails: Note [blocking].
void BeginBlocking(Addr stack_pointer) {
  Thread* self = Threads::Current();
  uint32_t running;
  do {
    running = self->state.Load(platform::memory_order_seq_cst);
    // Compiler order, against the thread's own handlers.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    alloc::t_heap = &alloc::g_no_heap;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // compiler order, as the fence before
  } while (!platform::TryEnterBlocking(self, stack_pointer, running));
}

GLEANER_DEFINE_UNWOUND(gleaner_blocking_unwound) { EndBlocking(); }

// The stack is unwound out of CallWithGcActive: the thread is blocked again, with its stack scanned
// from this frame upwards.
GLEANER_DEFINE_UNWOUND(gleaner_active_unwound) {
  if (HasHeap()) BeginBlocking(AddressOf(__builtin_frame_address(0)));
}

void BlockWithRegisters(Addr stack_pointer, void* context) {
  GLEANER_WHEN_UNWOUND(gleaner_blocking_unwound);
  auto* call = static_cast<BlockingCall*>(context);
  BeginBlocking(stack_pointer);
  call->result = call->f(call->data);
  EndBlocking();
}

GLEANER_NOINLINE void* CallActive(void* (*f)(void*), void* data) {
  GLEANER_WHEN_UNWOUND(gleaner_active_unwound);
  const Addr stack_pointer = Threads::Current()->stack_pointer;
  EndBlocking();
  void* result = f(data);
  if (HasHeap()) BeginBlocking(stack_pointer);
  return result;
}

}  // namespace

void EndBlocking() {
  Thread* self = Threads::Current();
  if (self == nullptr || HasHeap()) return;
  if (self->IsBlocked()) platform::LeaveBlocking(self);
  alloc::t_heap = self->heap;
  platform::ChangeRunning(self);
}

void* DoBlocking(void* (*f)(void*), void* data) {
  const Thread* self = Threads::Current();
  if (self == nullptr) return f(data);
  BlockingCall call{f, data, nullptr};
  const auto block = [](void* of_call) -> void* {
    platform::WithRegistersOnStack(BlockWithRegisters, of_call);
    return nullptr;
  };
  // The thread is in a blocking section already, or has jumped out of one. CallActive has the
  // frames between scanned, too.
  if (self->IsBlocked()) {
    CallActive(block, &call);
  } else {
    block(&call);
  }
  return call.result;
}

void* CallWithGcActive(void* (*f)(void*), void* data) {
  const Thread* self = Threads::Current();
  // Called outside a blocking section, it is a plain call.
  if (self == nullptr || !self->IsBlocked()) return f(data);
  return CallActive(f, data);
}

}  // namespace gleaner::runtime
