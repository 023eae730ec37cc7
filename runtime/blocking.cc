#include "runtime/blocking.h"

#include <atomic>

#include "platform/unwinding.h"
#include "runtime/threads.h"

namespace gleaner::runtime {

namespace {

struct BlockingCall {
  void* (*f)(void*);
  void* data;
  void* result;
};

// Without a heap from the instant on at which the thread is blocked. A handler that comes between
// the two and allocates takes the heap back (EndBlocking), and with it the preparation.
void BeginBlocking(Addr stack_pointer) {
  Thread* self = Threads::Current();
  uint32_t running;
  do {
    running = self->state.Load(platform::memory_order_seq_cst);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // against handlers, same thread
    alloc::t_heap = &alloc::g_no_heap;
    std::atomic_signal_fence(std::memory_order_seq_cst);  // likewise
  } while (!platform::TryEnterBlocking(self, stack_pointer, running));
}

GLEANER_DEFINE_UNWOUND(gleaner_blocking_unwound) { EndBlocking(); }

// Back in the section, all of whose stack counts down to this frame.
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
  // Inside such a section already, or after a jump out of one, the frames between count, too.
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
