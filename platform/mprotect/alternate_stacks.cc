#include "platform/mprotect/alternate_stacks.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

#include "platform/os/atomic.h"
#include "platform/os/os_page.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

namespace {

// Room for the frames of our handler and of the program's handler above it.
constexpr size_t kMinBytes = 64 * kKiB;

// The head of a stack's memory, which is never unmapped.
struct Stack {
  Stack* next;            // constant once it is in the list
  size_t bytes;           // behind this head; constant
  int32_t process;        // constant; a forked child does not use its parent's stacks
  Atomic<int32_t> owner;  // the thread that has the stack; it may have ended

  void* base() { return this + 1; }
};
constinit Atomic<Stack*> g_stacks{nullptr};

// Takes a stack that is the thread's already, or whose thread has ended.
bool TryTake(Stack* stack, int32_t self, int32_t process) {
  if (stack->process != process) return false;
  int32_t owner = stack->owner.Load(memory_order_relaxed);  // the exchange decides
  if (owner == self) return true;
  if (syscall(SYS_tgkill, process, owner, 0) == 0 || errno != ESRCH) return false;
  // Relaxed would do, since the memory holds nothing; acquire is the weakest order of
  // CompareExchange.
  return stack->owner.CompareExchange(owner, self, memory_order_acquire);
}

Stack* Map(size_t bytes, int32_t self, int32_t process) {
  const size_t all = AlignUp(bytes + sizeof(Stack), OsPageBytes());
  void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  auto* stack = static_cast<Stack*>(memory);
  stack->bytes = all - sizeof(Stack);
  stack->process = process;
  stack->owner.Store(self, memory_order_relaxed);     // published below
  stack->next = g_stacks.Load(memory_order_relaxed);  // the exchange decides
  // Acq_rel: pairs with the acquire of the threads that walk the list.
  while (!g_stacks.CompareExchange(stack->next, stack, memory_order_acq_rel)) {
  }
  return stack;
}

}  // namespace

bool MoveOffOwnStack(void** base, size_t* bytes, Range own_stack) {
  if (!own_stack.Contains(AddressOf(*base))) return false;
  const int saved = errno;
  const int32_t self = CurrentThreadId();
  const int32_t process = getpid();
  const size_t wanted = *bytes > kMinBytes ? *bytes : kMinBytes;
  Stack* stack = g_stacks.Load(memory_order_acquire);  // pairs with Map
  while (stack != nullptr && (stack->bytes < wanted || !TryTake(stack, self, process))) {
    stack = stack->next;
  }
  if (stack == nullptr) stack = Map(wanted, self, process);
  errno = saved;
  if (stack == nullptr) return false;
  *base = stack->base();
  *bytes = stack->bytes;
  return true;
}

}  // namespace gleaner::platform
