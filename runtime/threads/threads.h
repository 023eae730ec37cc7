// The registry of mutator threads.
//
// A thread is in the registry from its registration (by the pthread_create wrappers, explicitly, or
// by its first allocation) until the last round of its thread-specific data destructors. A thread
// that ends without unregistering, by the system call or because it registered in the last round of
// its destructors, is found and removed before the next stop (LifeMark). Until then the library
// does not touch the thread's stack and thread-local storage, which may be gone.
//
// The list is guarded by the threads lock. A collection holds that lock from the stop to the
// resume, so no thread comes or goes meanwhile.
#pragma once

#include <threads.h>

#include "alloc/thread_heap.h"
#include "gc/world.h"
#include "platform/threads/stop_world.h"
#include "platform/threads/thread.h"
#include "runtime/threads/fibers.h"

namespace gleaner::runtime {

// A thread's latest run of failed requests, which limits the collections made for such requests
// (MayCollectForRequest in hooks.cc). The thread only.
struct FailedRequests {
  uint32_t in_a_row = 0;
  uint32_t next = 0;              // number of the failed request that collects again
  size_t min_bytes = ~size_t{0};  // smallest of these requests
  // The thread's allocated plus freed bytes at the last failure; a change ends the run.
  uint64_t allocated_and_freed = 0;
  uint64_t collecting_ns = 0;  // of the collections for the last failed request
  uint64_t last_ns = 0;        // when the last one failed
};

struct Thread : platform::StopRecord {
  pthread_t id = 0;                   // constant while registered
  alloc::ThreadHeap* heap = nullptr;  // constant while registered
  platform::Range static_tls;         // constant while registered
  // Where scanning of the stack ends. Written by the thread (GC_set_stackbottom); read while it is
  // stopped.
  Addr stack_bottom = 0;
  // Bytes allocated since the dead part of the stack was last cleared. The thread only.
  size_t bytes_since_cleared = 0;
  // Of the first thread: its stack is known to be mapped from here to its end. Used by the thread,
  // and by others while it is stopped.
  Addr stack_mapped_from = ~Addr{0};
  // The fiber that the thread last switched to, null for its own stack. Written by the thread in a
  // critical section.
  Fiber* fiber = nullptr;
  // Lowest address in use when the own stack was last left for a fiber; 0: never. Written by the
  // thread in a critical section.
  Addr own_stack_pointer = 0;
  // By Create or CreateC11, and not detached. Guarded by the threads lock from the end of Create.
  bool is_joinable = false;
  bool is_main = false;             // the process's first thread; set at initialisation
  int exit_rounds = 0;              // destructor rounds seen; the thread only
  bool running_finalizers = false;  // the thread only
  FailedRequests failed_requests;   // the thread only
  // Nesting depth of program code that the thread runs while it holds the collector lock; no
  // collection can start then. The thread only.
  int under_lock = 0;
  bool in_collection = false;  // the program code is a callback of a collection; the thread only
  platform::LifeMark life;
  uint64_t handshake = 0;      // number of the thread's last handshake; guarded by the threads lock
  void* result = nullptr;      // the thread's result for pthread_join, once known; the thread only
  alloc::Placement placement;  // alloc::t_placement points here, if the thread has one; it only
  size_t index = 0;            // index in the list; guarded by the threads lock
  Thread* next_free = nullptr;  // link of the list of unused records; guarded by the threads lock
};

// Call order: Init once; then, for each thread, Register, the calls of a mutator, Unregister (or
// the end of the thread). A collection calls Stop or TryStop, then the calls for a stopped world,
// then Resume. A concurrent cycle calls BeginHandshakes, then Handshake and CopyRoots until each
// returns false.
class Threads {
 public:
  [[nodiscard]] static bool Init();

  // The calling thread's record; null if it is not registered.
  static Thread* Current() { return static_cast<Thread*>(platform::t_stop_record); }

  // Registers the calling thread; `stack_bottom` 0 means the end of its own stack. Null without
  // memory. pre: not registered.
  static Thread* Register(Addr stack_bottom = 0);
  // Whether the calling thread has entered Register, ever. Register calls functions of the C
  // library that may call malloc.
  static bool HasComeToRegister();
  // Removes the calling thread, which stops being a mutator. pre: registered.
  static void Unregister();

  static size_t count();
  static platform::Lock& lock();

  // Stops all threads but the caller, and holds the threads lock until Resume. No shared object is
  // loaded or unloaded at the instant of the stop. Waits until all have stopped. pre: the collector
  // lock is held.
  static void Stop();
  // Stop for a malloc (MallocSupport): false, with the world running, if some thread does not stop
  // within 150 to 300 ms. Does not ask the loader, and ignores loads of shared objects.
  [[nodiscard]] static bool TryStop();
  static void Resume();

  // Handshakes, while the world runs (gc::World): BeginHandshakes starts a round. Each call of
  // Handshake stops one thread that has not had its handshake, or treats the caller, and returns
  // false when none is left. A thread that registers after BeginHandshakes needs no handshake: it
  // has no runs, and it sees all that was decided before. pre for BeginHandshakes, Handshake and
  // CopyRoots: the collector lock is held.
  static void BeginHandshakes();
  static bool Handshake(Addr stack_pointer, gc::RootTasks* scratch, gc::RootBuffer* words);
  // Copies the next piece of static data or of suspended fibers' stacks; false if there is none
  // left.
  static bool CopyRoots(gc::RootPosition* position, gc::RootBuffer* words);

  // With the world stopped: adds stacks, registers, alternate stacks and thread-local storage of
  // all threads, fibers, thread results and static data.
  static void AddRoots(gc::RootTasks* roots);
  // Whether an address is on the thread's own stack. pre: the thread is the caller, or stopped.
  static bool IsOnOwnStack(Thread* thread, Addr address);

  // With the world stopped: calls f for the whole stack of each thread, used or not. The stack of
  // the process's first thread may begin anywhere in its mapping.
  static void ForEachStackWorldStopped(void (*f)(void* context, platform::Range stack,
                                                 bool is_main),
                                       void* context);

  // Calls f for each range of static data that is a root, as the last collection knew them. pre:
  // the collector lock is held.
  static void ForEachStaticRoot(void (*f)(void* context, platform::Range range), void* context);

  // Whether the range overlaps the stack of another thread, or the part of the caller's stack in
  // use, from `here` upwards. pre: the threads lock is held.
  static bool OverlapsStackLocked(platform::Range range, Addr here);

  // GC_register_altstack: sets the bounds of the calling thread's own stack. No effect if the range
  // is empty.
  static void SetOwnStack(platform::Range stack);

  // pthread_create that returns when the child is registered. EAGAIN also if there is no memory to
  // register it; otherwise the same contract.
  // `create` is platform::CreateThread or platform::NextPthreadCreate.
  using PthreadCreate = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static int Create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                    void* argument, PthreadCreate* create);

  // Create for thrd_create. The C library makes threads of both kinds alike.
  static int CreateC11(thrd_t* thread, int (*start)(void*), void* argument);

  // pthread_exit, pthread_join and pthread_detach for threads whose result may be an object: the
  // result is a root from the thread's end until it has been joined. Same contracts otherwise.
  [[noreturn]] static void Exit(void* result);
  static int Join(pthread_t thread, void** result);
  static int Detach(pthread_t thread);

  // Suspend stops one registered thread until Unsuspend, also while the world runs. The calling
  // thread stops at the end of its next blocking section. Of a thread of Create that has ended
  // and is not joined it is only noted. Other thread names are ignored. pre for Suspend: the
  // collector lock is held.
  static void Suspend(pthread_t thread);
  static void Unsuspend(pthread_t thread);
  static bool IsSuspended(pthread_t thread);

  // Whether the address is in writable data of the program or of a shared object. pre: the
  // collector lock is held.
  static bool IsDataOfLoadedObject(Addr address);

  // Part of the fork protocol (fork.h). Asks the loader for the loaded objects, since the child
  // must not. pre: the collector lock is held.
  static void PrepareFork();
  // In the child: removes all threads but the calling one.
  static void ResetAfterFork();
};

// Which static data count as roots: ranges that the program added or excluded, and whether
// GC_clear_roots removed the program's own data.
struct StaticRoots {
  gc::RangeSet added;     // GC_add_roots
  gc::RangeSet excluded;  // GC_exclude_static_roots
  bool main_data_cleared = false;
};
// Guarded by the collector lock.
extern StaticRoots g_static_roots;

}  // namespace gleaner::runtime
