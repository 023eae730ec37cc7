// The GC_ API: threads, their stacks, blocking sections, the lock, the world, fork and signals.
#include <dlfcn.h>

#include "platform/mprotect/system_calls.h"
#include "platform/os/unwinding.h"
#include "runtime/api/api.h"
#include "runtime/collect/world.h"
#include "runtime/start/fork.h"
#include "runtime/threads/blocking.h"

namespace {

// Where scanning of the thread's stack ends. For the main thread that is GC_stackbottom, which
// programs write directly.
Addr StackBottom(const Thread& thread) {
  return thread.is_main ? AddressOf(GC_stackbottom) : thread.stack_bottom;
}
void SetStackBottom(Thread& thread, Addr bottom) {
  if (thread.is_main) {
    GC_stackbottom = PointerAt<char>(bottom);
  } else {
    thread.stack_bottom = bottom;
  }
}

bool IsSignal(const char* call, int number) {
  if (number >= 1 && number < NSIG && number != SIGKILL && number != SIGSTOP) return true;
  Complain("%s(%d): no signal that can be caught; ignored", call, number);
  return false;
}

// Takes the collector lock for the program's own code. That code may allocate: no collection is
// tried meanwhile, and the thread has its heap before.
void AcquireForProgram() {
  runtime::AttachThread();
  g_collector.lock().Acquire();
  if (Thread* self = Threads::Current(); self != nullptr) ++self->under_lock;
}
void ReleaseForProgram() {
  if (Thread* self = Threads::Current(); self != nullptr) --self->under_lock;
  const bool is_awaited = g_collector.lock().IsAwaited();
  if (is_awaited) runtime::SetLockHandover(runtime::LockHandover::kBegun);
  g_collector.lock().Release();
  if (is_awaited) runtime::SetLockHandover(runtime::LockHandover::kDone);
}

GLEANER_DEFINE_UNWOUND(gleaner_alloc_lock_unwound) { ReleaseForProgram(); }

GLEANER_NOINLINE void* CallWithLock(GC_fn_type f, void* data) {
  GLEANER_WHEN_UNWOUND(gleaner_alloc_lock_unwound);
  void* result = f(data);
  ReleaseForProgram();
  return result;
}

void* AcquireAndCall(const char* call, GC_fn_type f, void* data) {
  if (RejectNull(call, "the function", f)) return nullptr;
  if (!runtime::AttachThread()) return nullptr;
  if (Threads::Current()->under_lock != 0) {
    Complain("%s: the calling thread holds the lock already", call);
    return f(data);
  }
  AcquireForProgram();
  return CallWithLock(f, data);
}

void* Nothing(void*) { return nullptr; }

}  // namespace

extern "C" {

// --- Threads made, joined and ended ---

int GC_pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                      void* argument) {
  runtime::Init();
  return Threads::Create(thread, attributes, start, argument, platform::CreateThread);
}
int GC_pthread_join(pthread_t thread, void** result) { return Threads::Join(thread, result); }
int GC_pthread_detach(pthread_t thread) { return Threads::Detach(thread); }
void GC_pthread_exit(void* result) { Threads::Exit(result); }
int GC_pthread_cancel(pthread_t thread) { return pthread_cancel(thread); }

int GC_pthread_sigmask(int how, const sigset_t* set, sigset_t* old_set) {
  return platform::SigmaskOfProgram(how, set, old_set, pthread_sigmask);
}

void* GC_dlopen(const char* path, int mode) {
  GC_disable();
  void* handle = dlopen(path, mode);
  GC_enable();
  return handle;
}

// --- Explicit registration ---

void GC_allow_register_threads(void) { runtime::Init(); }

int GC_get_stack_base(GC_stack_base* base) {
  if (RejectNull("GC_get_stack_base", "the result", base)) return GC_UNIMPLEMENTED;
  base->mem_base = PointerAt<void>(platform::CurrentStackBounds().end);
  return GC_SUCCESS;
}

int GC_register_my_thread(const GC_stack_base* base) {
  if (RejectNull("GC_register_my_thread", "the stack base", base)) return GC_UNIMPLEMENTED;
  runtime::Init();
  if (Threads::Current() != nullptr) return GC_DUPLICATE;
  return Threads::Register(AddressOf(base->mem_base)) != nullptr ? GC_SUCCESS : GC_NO_MEMORY;
}

int GC_unregister_my_thread(void) {
  if (Threads::Current() != nullptr) {
    Threads::Unregister();
  } else {
    Complain("GC_unregister_my_thread: the calling thread is not registered; ignored");
  }
  return GC_SUCCESS;
}

int GC_thread_is_registered(void) { return Threads::Current() != nullptr ? 1 : 0; }

// The alternate stack's bounds are not needed: a thread stopped on one is recognised then.
void GC_register_altstack(void* stack, GC_word stack_size, void*, GC_word) {
  if (!runtime::AttachThread()) return;
  const Addr low = AddressOf(stack);
  Threads::SetOwnStack({low, low + stack_size});
}

// --- Stack bases ---

GLEANER_NOINLINE void* GC_call_with_stack_base(GC_stack_base_func fn, void* data) {
  if (RejectNull("GC_call_with_stack_base", "the function", fn)) return nullptr;
  GC_stack_base base{__builtin_frame_address(0)};
  void* result = fn(&base, data);
  asm volatile("" : : "r"(&base) : "memory");  // no tail call: the frame must outlive fn
  return result;
}

void* GC_get_my_stackbottom(GC_stack_base* base) {
  if (RejectNull("GC_get_my_stackbottom", "the result", base)) return nullptr;
  if (!runtime::AttachThread()) return nullptr;
  Thread* self = Threads::Current();
  base->mem_base = PointerAt<void>(StackBottom(*self));
  return self;
}

void GC_set_stackbottom(void* handle, const GC_stack_base* base) {
  if (RejectNull("GC_set_stackbottom", "the stack base", base) ||
      RejectNull("GC_set_stackbottom", "the address in the stack base", base->mem_base)) {
    return;
  }
  auto* thread = handle != nullptr ? static_cast<Thread*>(handle) : Threads::Current();
  if (thread != nullptr) {
    SetStackBottom(*thread, AddressOf(base->mem_base));
  } else if (!runtime::IsInitialised()) {
    GC_stackbottom = static_cast<char*>(base->mem_base);
  } else {
    Complain("GC_set_stackbottom: the calling thread is not registered; ignored");
  }
}

GLEANER_SETTING(GC_sp_corrector_proc, sp_corrector, runtime::g_sp_corrector)

// --- Blocking sections, the lock, the world ---

void* GC_do_blocking(GC_fn_type fn, void* data) {
  if (RejectNull("GC_do_blocking", "the function", fn)) return nullptr;
  return runtime::DoBlocking(fn, data);
}

GLEANER_NOINLINE void* GC_call_with_gc_active(GC_fn_type fn, void* data) {
  if (RejectNull("GC_call_with_gc_active", "the function", fn)) return nullptr;
  if (runtime::AttachThread()) {
    // A thread may have been registered with a stack base that is too low. At least this frame lies
    // on its stack, unless it runs on a stack of the program's own.
    Thread* self = Threads::Current();
    const Addr frame = AddressOf(__builtin_frame_address(0));
    if (self->stack.Contains(frame) && StackBottom(*self) < frame) SetStackBottom(*self, frame);
  }
  return runtime::CallWithGcActive(fn, data);
}

void* GC_call_with_alloc_lock(GC_fn_type fn, void* data) {
  return AcquireAndCall("GC_call_with_alloc_lock", fn, data);
}
void* GC_call_with_reader_lock(GC_fn_type fn, void* data, int) {
  return AcquireAndCall("GC_call_with_reader_lock", fn, data);
}

void GC_alloc_lock(void) { AcquireForProgram(); }
void GC_alloc_unlock(void) {
  if (g_collector.lock().IsHeld()) {
    ReleaseForProgram();
  } else {
    Complain("GC_alloc_unlock: the lock is not held; ignored");
  }
}

void GC_stop_world_external(void) {
  AcquireForProgram();
  g_collector.cycle().AwaitSlice();
  Threads::Stop();
}
void GC_start_world_external(void) {
  if (!platform::WorldIsStopped()) {
    return Complain("GC_start_world_external: the world is not stopped; ignored");
  }
  Threads::Resume();
  ReleaseForProgram();
}

void GC_suspend_thread(pthread_t thread) {
  runtime::Init();
  {
    platform::LockGuard guard(g_collector.lock());
    Threads::Suspend(thread);
  }
  // The calling thread stops at the end of a blocking section: here.
  if (pthread_equal(thread, pthread_self())) runtime::DoBlocking(Nothing, nullptr);
}
void GC_resume_thread(pthread_t thread) {
  if (!runtime::IsInitialised()) return;
  platform::LockGuard guard(g_collector.lock());
  Threads::Unsuspend(thread);
}
int GC_is_thread_suspended(pthread_t thread) {
  return runtime::IsInitialised() && Threads::IsSuspended(thread) ? 1 : 0;
}

GLEANER_SETTING(GC_on_thread_event_proc, on_thread_event, runtime::g_on_thread_event)

// --- Fork ---

void GC_set_handle_fork(int mode) {
  if (!runtime::IsInitialised()) runtime::g_handle_fork = mode < -1 ? 1 : mode;
}

// No effect if the library's own fork handlers are installed.
void GC_atfork_prepare(void) {
  if (runtime::g_handle_fork <= 0) runtime::PrepareFork();
}
void GC_atfork_parent(void) {
  if (runtime::g_handle_fork <= 0) runtime::ParentAfterFork();
}
void GC_atfork_child(void) {
  if (runtime::g_handle_fork <= 0) runtime::ChildAfterFork();
}

// --- Signals ---

void GC_set_suspend_signal(int number) {
  if (!runtime::IsInitialised() && IsSignal("GC_set_suspend_signal", number)) {
    platform::SetSuspendSignal(number);
  }
}
int GC_get_suspend_signal(void) { return platform::SuspendSignal(); }

void GC_set_thr_restart_signal(int number) {
  if (!runtime::IsInitialised() && IsSignal("GC_set_thr_restart_signal", number)) {
    platform::SetRestartSignal(number);
  }
}
int GC_get_thr_restart_signal(void) { return platform::RestartSignal(); }

// --- Marking threads ---

void GC_set_markers_count(unsigned markers) {
  constexpr unsigned kMax = gc::kMaxWorkers;
  runtime::g_markers_wanted = static_cast<int>(markers < kMax ? markers : kMax);
}

void GC_start_mark_threads(void) {
  runtime::Init();
  platform::LockGuard guard(g_collector.lock());
  // A forked child marks serially until its program makes this call.
  g_collector.pool().RestoreSize();
  g_collector.pool().StartHelpers();
}

int GC_get_parallel(void) { return GC_parallel; }

}  // extern "C"
