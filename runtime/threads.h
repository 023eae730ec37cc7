// The registry of mutator threads.
//
// A thread is known from its registration (by the pthread_create wrappers, by hand, or by its first
// allocation) until its thread-specific data are destroyed. One that ends without that, by the
// system call, or because it was registered in the last round of its destructors, is noticed and
// forgotten before the next stop (LifeMark). Until then nothing that was the thread's is touched:
// its stack and thread-local storage may be gone. The list is guarded by the threads
// lock, which a collection holds from the stop to the resume: no thread comes or goes meanwhile.
#pragma once

#include <threads.h>

#include "alloc/thread_heap.h"
#include "gc/world.h"
#include "platform/stop_world.h"
#include "platform/thread.h"
#include "runtime/fibers.h"

namespace gleaner::runtime {

// A thread's last requests in a row that failed, and what it knows of those for which it collected.
struct FailedRequests {
  uint32_t in_a_row = 0;
  uint32_t next = 0;  // the one from which on it collects again
  size_t least_bytes = ~size_t{0};
  uint64_t allocated_and_freed = 0;  // bytes, by the thread until then: it has done neither since
  uint64_t collecting_ns = 0;        // for the last
  uint64_t last_ns = 0;
};

struct Thread : platform::StopRecord {
  pthread_t id = 0;                   // constant while registered
  alloc::ThreadHeap* heap = nullptr;  // likewise
  platform::Range static_tls;         // constant while registered
  // Where scanning ends: the thread's own to move (GC_set_stackbottom); read while it is stopped.
  Addr stack_bottom = 0;
  // Allocated since the dead part of the stack was last cleared. The thread only.
  size_t bytes_since_cleared = 0;
  // The first thread's stack is known to be mapped from here to its end. The thread's own; others'
  // while it is stopped.
  Addr stack_mapped_from = ~Addr{0};
  // The fiber that the thread last switched to, null for its own stack. The thread only; in a
  // critical section.
  Fiber* fiber = nullptr;
  // Where the own stack was left for a fiber the last time; 0: never. Likewise.
  Addr own_stack_pointer = 0;
  bool is_main = false;
  int exit_rounds = 0;              // destructor rounds seen; the thread only
  bool running_finalizers = false;  // the thread only
  FailedRequests failed_requests;   // likewise
  // Levels at which the thread runs code of the program's under the collector lock, which it holds:
  // no collection can start. The thread only.
  int under_lock = 0;
  bool in_collection = false;  // it is in a collection's callback then; the thread only
  platform::LifeMark life;
  uint64_t handshake = 0;       // the last one's number; guarded by the threads lock
  void* result = nullptr;       // what a joiner will get, once known; the thread only
  size_t index = 0;             // in the list; guarded by the threads lock
  Thread* next_free = nullptr;  // in the list of unused records; likewise
};

class Threads {
 public:
  [[nodiscard]] static bool Init();

  // The calling thread's record; null if it is not registered.
  static Thread* Current() { return static_cast<Thread*>(platform::t_stop_record); }

  // Registers the calling thread; `stack_bottom` 0 means its own. Null without memory.
  // pre: not registered.
  static Thread* Register(Addr stack_bottom = 0);
  // Whether the calling thread is about to, for which it asks the C library, which may call malloc;
  // or has been registered once.
  static bool HasComeToRegister();
  // The calling thread stops being a mutator. pre: registered.
  static void Unregister();

  static size_t count();
  static platform::Lock& lock();

  // pre: the collector lock is held. Stops all but the caller, with the threads lock held until
  // Resume; no shared object comes or goes at the instant of the stop.
  static void Stop();
  // The same, unless some thread does not stop within a quarter of a second. Does not need the
  // loader, and looks at no shared objects: for a malloc (MallocSupport).
  [[nodiscard]] static bool TryStop();
  static void Resume();

  // Handshakes with one thread after the other, while the world runs (gc::World): a thread that is
  // registered after BeginHandshakes needs none, since it has no runs, and knows what its caller
  // has decided before. pre, for all three: the collector lock is held.
  static void BeginHandshakes();
  static bool Handshake(Addr stack_pointer, gc::RootTasks* scratch, gc::RootBuffer* words);
  // Static data, and the stacks of fibers that nobody is on.
  static bool CopyRoots(gc::RootPosition* position, gc::RootBuffer* words);

  // With the world stopped: stacks, registers, alternate stacks and TLS of all threads.
  static void AddRoots(gc::RootTasks* roots);
  // Whether an address is on the thread's own stack. pre: the thread is the caller, or stopped.
  static bool IsOnOwnStack(Thread* thread, Addr address);

  // With the world stopped. Calls f for the stack of each thread, used or not; that of the first
  // thread of the process may begin anywhere in its mapping.
  static void ForEachStackWorldStopped(void (*f)(void* context, platform::Range stack,
                                                 bool is_main),
                                       void* context);

  // pre: the collector lock is held. Calls f for each range of static data that is a root, as far
  // as the last collection knew.
  static void ForEachStaticRoot(void (*f)(void* context, platform::Range range), void* context);

  // Whether the range overlaps the stack of another thread, or what is in use of the caller's, from
  // `here` on. pre: the threads lock is held.
  static bool OverlapsStackLocked(platform::Range range, Addr here);

  // GC_register_altstack: where the calling thread's own stack is. Nothing if the range is empty.
  static void NoteOwnStack(platform::Range stack);

  // pthread_create that returns when the child is registered. Same contract otherwise.
  static int Create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                    void* argument);

  // The same for thrd_create. The C library makes its threads and those of pthread_create alike.
  static int CreateC11(thrd_t* thread, int (*start)(void*), void* argument);

  // pthread_exit, pthread_join and pthread_detach for threads whose result may be an object: it is
  // kept from the thread's end until it has been joined. Same contracts otherwise.
  [[noreturn]] static void Exit(void* result);
  static int Join(pthread_t thread, void** result);
  static int Detach(pthread_t thread);

  // Stops one registered thread, also while the world runs, and lets it go on; others are ignored.
  // The calling thread stops at the end of its next blocking section. pre: the collector lock is
  // held.
  static void Suspend(pthread_t thread);
  static void Unsuspend(pthread_t thread);
  static bool IsSuspended(pthread_t thread);

  // Whether the address is in writable data of the program or of a shared object. pre: the
  // collector lock is held.
  static bool IsDataOfLoadedObject(Addr address);

  // Of the fork protocol (runtime.cc). The child may not ask the loader what is loaded, so the
  // parent does before. pre: the collector lock is held.
  static void PrepareFork();
  // In the child the calling thread alone remains.
  static void ResetAfterFork();
};

// Memory of loaded objects and of the program's own making that counts as roots.
struct StaticRoots {
  gc::RangeSet added;     // GC_add_roots
  gc::RangeSet excluded;  // GC_exclude_static_roots
  bool main_data_cleared = false;
};
// Guarded by the collector lock.
extern StaticRoots g_static_roots;

}  // namespace gleaner::runtime
