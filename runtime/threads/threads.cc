#include "runtime/threads/threads.h"

#include <cerrno>
#include <new>

#include "alloc/thread_heaps.h"
#include "gc/collector.h"
#include "observe/trace.h"
#include "platform/loader/loaded_objects.h"
#include "platform/os/memory.h"
#include "platform/os/stalls.h"
#include "runtime/process/malloc_support.h"
#include "runtime/process/variables.h"
#include "runtime/threads/dead_stack.h"
#include "runtime/threads/registry.h"

namespace gleaner::runtime {

using platform::Range;

constinit platform::Lock g_threads_lock(platform::LockRank::kThreads);
constinit Registry g_registry;

namespace {

constexpr size_t kMaxThreads = size_t{1} << 16;  // each needs a heap; fewer heaps can exist
constexpr size_t kMaxTlsModules = size_t{1} << 16;

// A destructor of thread-specific data notices the end of a thread. Other destructors may still use
// the heap, so this one runs again in each round and unregisters in the last.
int ExitRounds() {
  // ThreadSanitizer ends its own record of the thread in the last round.
  return platform::HasThreadSanitizer() ? PTHREAD_DESTRUCTOR_ITERATIONS - 1
                                        : PTHREAD_DESTRUCTOR_ITERATIONS;
}
void OnThreadExit(void* value) {
  auto* thread = static_cast<Thread*>(value);
  if (platform::t_stop_record != thread) return;  // unregistered explicitly
  if (++thread->exit_rounds < ExitRounds()) {
    pthread_setspecific(g_registry.exit_key, thread);
    return;
  }
  // The C library keeps the stacks of ended threads, and a malloc scans them as roots.
  // The part that the C library does not return to the system.
  constexpr size_t kClearedBytes = 16 * kKiB;
  const Addr here = AddressOf(__builtin_frame_address(0));
  if (g_malloc_support.strict_roots && thread->stack.Contains(here - 2 * kClearedBytes)) {
    ClearDeadStack(kClearedBytes);
  }
  Threads::Unregister();
}

// Takes a thread off the list. pre: the threads lock is held.
void RemoveLocked(Thread* thread) {
  Fibers::AbandonLocked(thread);
  // What the thread has allocated since its last report: many short threads may make none.
  gc::g_collector.pacer().CountAllocated(thread->heap->unpolled_bytes);
  alloc::ThreadHeaps::Abandon(thread->heap);
  platform::StopRecord* last = g_registry.records[--g_registry.count];
  g_registry.records[thread->index] = last;
  static_cast<Thread*>(last)->index = thread->index;
  thread->next_free = g_registry.free;
  g_registry.free = thread;
}

// What others may still ask of a thread that ends. Its result becomes a root, if it is an object.
// pre: the threads lock is held.
void KeepUnjoined(const Thread& thread) {
  if (IsObject(thread.result)) g_registry.results.Insert(thread.id, thread.result);
  if (!thread.is_joinable) return;
  // Who joins or detaches by functions that are not ours leaves names behind.
  constexpr size_t kMaxEnded = 4096;
  alloc::HashTable<bool>& ended = g_registry.ended;
  if (ended.size() >= kMaxEnded) ended.EraseIf([](uint64_t, bool suspended) { return !suspended; });
  // Relaxed: who suspends has the lock. Without memory the thread is forgotten.
  (void)ended.Insert(thread.id, thread.suspended.Load(platform::memory_order_relaxed) != 0);
}

// Removes a thread that ended without unregistering. Its result may still be asked for. pre: the
// threads lock is held.
void ForgetLocked(Thread* ended) {
  KeepUnjoined(*ended);
  RemoveLocked(ended);
}

// Removes the thread that had this system thread number: the number is in use again, so that thread
// ended without unregistering. pre: the threads lock is held.
void ForgetEnded(int32_t tid) {
  for (size_t i = 0; i < g_registry.count; ++i) {
    auto* thread = ThreadAt(i);
    if (thread->tid == tid) return ForgetLocked(thread);
  }
}

bool HasEnded(Thread* thread) {
  return thread != Threads::Current() && thread->life.HolderHasEnded();
}

// Removes ended threads with this pthread_t. pre: the threads lock is held.
void ForgetEndedNamed(pthread_t id) {
  for (size_t i = g_registry.count; i-- > 0;) {
    auto* thread = ThreadAt(i);
    if (pthread_equal(thread->id, id) && HasEnded(thread)) ForgetLocked(thread);
  }
}

enum Registration : uint32_t { kNotYet, kRegistered, kRefused };

struct StartInfo {
  void* (*start)(void*);    // null: start_c11 is set
  int (*start_c11)(void*);  // start function for thrd_create
  void* argument;
  bool joinable = true;
  platform::Atomic<uint32_t> registration{kNotYet};
};

void* RunRegistered(void* data) {
  auto* info = static_cast<StartInfo*>(data);
  void* (*start)(void*) = info->start;
  int (*start_c11)(void*) = info->start_c11;
  void* argument = info->argument;
  const bool ok = Threads::Current() != nullptr || Threads::Register() != nullptr;
  if (ok) Threads::Current()->is_joinable = info->joinable;
  // After the store the parent may return, and `info`, on its stack, may be gone. A futex wake on
  // reused memory at worst wakes a thread that checks its word again. Seq_cst: release is enough;
  // pairs with the parent's loads in StartRegistered.
  info->registration.Store(ok ? kRegistered : kRefused, platform::memory_order_seq_cst);
  platform::FutexWakeAll(&info->registration);
  if (!ok) return nullptr;  // the parent returns the error
  void* result =
      start != nullptr
          ? start(argument)
          : PointerAt<void>(static_cast<Addr>(static_cast<intptr_t>(start_c11(argument))));
  if (Threads::Current() != nullptr) Threads::Current()->result = result;
  return result;
}

// The registered thread with this pthread_t, or null. pre: the threads lock is held.
Thread* FindLocked(pthread_t id) {
  for (size_t i = 0; i < g_registry.count; ++i) {
    auto* thread = ThreadAt(i);
    if (pthread_equal(thread->id, id)) return thread;
  }
  return nullptr;
}

// Whether some thread may still join the calling thread. True if there is no memory to find out;
// then the result is kept until another thread gets the same pthread_t.
bool CurrentThreadIsJoinable() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return true;
  int state = PTHREAD_CREATE_JOINABLE;
  pthread_attr_getdetachstate(&attributes, &state);
  pthread_attr_destroy(&attributes);
  return state == PTHREAD_CREATE_JOINABLE;
}

// Takes the calling thread, which is `thread`, off the list.
void RemoveFromList(Thread* thread) {
  platform::LockGuard guard(g_threads_lock);
  KeepUnjoined(*thread);
  RemoveLocked(thread);
  alloc::t_heap = &alloc::g_no_heap;
  alloc::t_placement = nullptr;
  platform::AdoptRecord(nullptr);
  thread->life.Release();
}

// The calling thread has entered Register.
constinit __thread bool t_came_to_register = false;

// Sets whether a thread is suspended, if it has ended. pre: the threads lock is held.
void SetSuspendedIfEndedLocked(pthread_t id, bool suspended) {
  if (bool* ended = g_registry.ended.Find(id); ended != nullptr) *ended = suspended;
}

// pre: the threads lock is held.
void ForgetUnjoinedLocked(pthread_t id) {
  g_registry.results.Erase(id);
  g_registry.ended.Erase(id);
}

void ForgetUnjoined(pthread_t id) {
  platform::LockGuard guard(g_threads_lock);
  ForgetUnjoinedLocked(id);
}

// The result of a thread that is about to be detached.
void* ForgetAllButResult(pthread_t id) {
  platform::LockGuard guard(g_threads_lock);
  ForgetEndedNamed(id);
  g_registry.ended.Erase(id);
  if (Thread* running = FindLocked(id); running != nullptr) running->is_joinable = false;
  void** result = g_registry.results.Find(id);
  return result != nullptr ? *result : nullptr;
}

// Forgets a thread whose pthread_t may be reused by now: of results only `result`. (Of a new thread
// that has ended already it may forget that it is suspended.)
void ForgetUnjoined(pthread_t id, const void* result) {
  platform::LockGuard guard(g_threads_lock);
  ForgetEndedNamed(id);
  g_registry.ended.Erase(id);
  void** found = g_registry.results.Find(id);
  if (found != nullptr && *found == result) g_registry.results.Erase(id);
}

}  // namespace

void ForgetEndedThreads() {
  for (size_t i = g_registry.count; i-- > 0;) {
    auto* thread = ThreadAt(i);
    if (HasEnded(thread)) ForgetLocked(thread);
  }
}

bool Threads::Init() {
  platform::FindThreadSanitizer();
  // Room for the objects that an ordinary program has loaded: a collection without memory must not
  // miss roots.
  constexpr size_t kUsualObjects = 256;
  if (!g_registry.records.Reserve(kMaxThreads) || !g_registry.modules.Reserve(kMaxTlsModules) ||
      !g_registry.modules.EnsureCommitted(kUsualObjects) ||
      !g_registry.main_segments.Prepare(kUsualObjects) ||
      !g_registry.library_segments.Prepare(kUsualObjects)) {
    return false;
  }
  if (pthread_key_create(&g_registry.exit_key, OnThreadExit) != 0) return false;
  g_registry.tls_is_known = platform::TlsLayoutIsKnown();
  if (!g_registry.tls_is_known) {
    Complain(
        "unknown layout of thread-local storage: pointers in that of objects loaded at run "
        "time are not seen");
  }
  return true;
}

size_t Threads::count() {
  platform::LockGuard guard(g_threads_lock);
  return g_registry.count;
}

platform::Lock& Threads::lock() { return g_threads_lock; }

bool Threads::HasComeToRegister() { return t_came_to_register; }

Thread* Threads::Register(Addr stack_bottom) {
  const platform::UncancellableSection section;
  const int32_t tid = platform::CurrentThreadId();
  t_came_to_register = true;
  const Range stack = platform::CurrentStackBounds();
  const Range static_tls = platform::CurrentStaticTls();
  Thread* thread = nullptr;
  platform::BeginStallsOfThread(tid);
  {
    platform::LockGuard guard(g_threads_lock);
    if (!g_registry.records.EnsureCommitted(g_registry.count + 1) ||
        !g_registry.results.Reserve(g_registry.results.size() + g_registry.count + 1)) {
      return nullptr;
    }
    thread = g_registry.free;
    if (thread != nullptr) {
      g_registry.free = thread->next_free;
    } else {
      void* memory = alloc::MetaAllocate(sizeof(Thread));
      if (memory == nullptr) return nullptr;
      thread = static_cast<Thread*>(memory);
    }
    new (thread) Thread();
    ForgetEnded(tid);
    thread->heap = alloc::ThreadHeaps::Acquire();
    if (thread->heap == nullptr) {
      thread->next_free = g_registry.free;
      g_registry.free = thread;
      return nullptr;
    }
    gc::g_collector.pacer().OnThreads(g_registry.count + 1);
    thread->tid = tid;
    thread->id = pthread_self();
    // An earlier thread with this pthread_t, which GC_pthread_join has not joined, may have one.
    ForgetUnjoinedLocked(thread->id);
    thread->thread_pointer = platform::CurrentThreadPointer();
    thread->life.Take();
    thread->handshake = g_registry.handshake;
    thread->stack = stack;
    thread->static_tls = static_tls;
    thread->stack_bottom = stack_bottom != 0 ? stack_bottom : stack.end;
    // Not in the list yet: a stop under way does not wait for this thread, which waits here for the
    // lock.
    platform::AdoptRecord(thread);
    alloc::t_heap = thread->heap;
    thread->index = g_registry.count;
    g_registry.records[g_registry.count++] = thread;
  }
  platform::BeginTraceOfThread(platform::TraceRole::kMutator, nullptr);
  platform::UnblockSuspendSignal();
  platform::UnblockFaultSignal();
  pthread_setspecific(g_registry.exit_key, thread);
  return thread;
}

void Threads::Unregister() {
  const platform::UncancellableSection section;
  Thread* thread = Current();
  const bool has_result = IsObject(thread->result);
  RemoveFromList(thread);
  platform::EndStallsOfThread();
  platform::EndTraceOfThread();
  // Looked at after the removal: another thread that detaches this one now either finds the result
  // in the table, or has made the change that this thread sees.
  if (has_result && !CurrentThreadIsJoinable()) ForgetUnjoined(pthread_self());
}

void Threads::SetOwnStack(Range stack) {
  if (Current() == nullptr || stack.begin == 0) return;
  platform::LockGuard guard(g_threads_lock);
  Current()->stack = stack;
}

namespace {
int StartRegistered(pthread_t* thread, const pthread_attr_t* attributes, StartInfo* info,
                    Threads::PthreadCreate* create) {
  // The child uses `info`, which is on the caller's stack, so the caller must not be cancelled.
  const platform::UncancellableSection section;
  int detached = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) pthread_attr_getdetachstate(attributes, &detached);
  info->joinable = detached == PTHREAD_CREATE_JOINABLE;
  int error = create(thread, attributes, RunRegistered, info);
  if (error == EAGAIN) {  // a limit that has not been noticed may leave no room for the stack
    platform::NoticeAddressSpaceLimit();
    error = create(thread, attributes, RunRegistered, info);
  }
  if (error != 0) return error;
  // Until the child is registered, the caller's stack keeps the argument alive. Seq_cst: acquire is
  // enough; pairs with the store in RunRegistered.
  while (info->registration.Load(platform::memory_order_seq_cst) == kNotYet) {
    platform::FutexWait(&info->registration, kNotYet);
  }
  if (info->registration.Load(platform::memory_order_seq_cst) == kRegistered) return 0;
  // There was no memory to register the thread, which ends without having called the program.
  if (info->joinable) pthread_join(*thread, nullptr);
  return EAGAIN;
}
}  // namespace

int Threads::Create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                    void* argument, PthreadCreate* create) {
  StartInfo info{start, nullptr, argument};
  return StartRegistered(thread, attributes, &info, create);
}

int Threads::CreateC11(thrd_t* thread, int (*start)(void*), void* argument) {
  StartInfo info{nullptr, start, argument};
  switch (StartRegistered(thread, nullptr, &info, platform::CreateThread)) {
    case 0:
      return thrd_success;
    case ENOMEM:
      return thrd_nomem;
    default:
      return thrd_error;
  }
}

void Threads::Exit(void* result) {
  if (Current() != nullptr) Current()->result = result;
  pthread_exit(result);
}

int Threads::Join(pthread_t thread, void** result) {
  void* own;
  const int error = pthread_join(thread, &own);
  if (error != 0) return error;
  if (result != nullptr) *result = own;
  ForgetUnjoined(thread, own);
  return 0;
}

int Threads::Detach(pthread_t thread) {
  const void* result = ForgetAllButResult(thread);
  const int error = pthread_detach(thread);
  if (error == 0 && result != nullptr) ForgetUnjoined(thread, result);
  return error;
}

void Threads::Suspend(pthread_t id) {
  Stop();
  Thread* thread = FindLocked(id);
  if (thread != nullptr) platform::Suspend(thread);
  SetSuspendedIfEndedLocked(id, true);
  Resume();
}

void Threads::Unsuspend(pthread_t id) {
  platform::LockGuard guard(g_threads_lock);
  Thread* thread = FindLocked(id);
  if (thread != nullptr) platform::Unsuspend(thread);
  SetSuspendedIfEndedLocked(id, false);
}

bool Threads::IsSuspended(pthread_t id) {
  platform::LockGuard guard(g_threads_lock);
  const Thread* thread = FindLocked(id);
  if (thread != nullptr) return thread->suspended.Load(platform::memory_order_seq_cst) != 0;
  const bool* ended = g_registry.ended.Find(id);
  return ended != nullptr && *ended;
}

void Threads::ResetAfterFork() {
  platform::DistrustLoader();
  g_threads_lock.ResetAfterFork();
  Thread* survivor = Current();
  g_registry.count = 0;
  if (survivor != nullptr) {
    survivor->life.Take();
    survivor->index = 0;
    g_registry.records[g_registry.count++] = survivor;
  }
  Fibers::ResetAfterFork(survivor);
}

}  // namespace gleaner::runtime
