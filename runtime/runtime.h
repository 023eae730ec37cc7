// Life of the runtime: initialisation, the hooks of the layers below, fork, statistics lines.
#pragma once

#include "gc/collector.h"
#include "runtime/options.h"
#include "runtime/printing.h"
#include "runtime/threads.h"

namespace gleaner::runtime {

// For a runtime that serves malloc. Set before Init, constant afterwards.
struct MallocSupport {
  // Allocation may be called with locks of the C library held that other threads need on their way
  // to a stop: a thread whose allocation finds a collection due does not wait long for one that is
  // under way. The loader is not asked for anything, and no collection waits long for a thread that
  // does not stop.
  bool never_wait = false;
  // Asked with the world stopped, before marking: false gives the collection up. May be null.
  bool (*find_roots)() = nullptr;
  // Adds further roots, after all others. May be null.
  void (*add_roots)(gc::RootTasks* roots) = nullptr;
  // After a collection, under its lock; also after one that was given up. May be null.
  void (*collected)(bool done) = nullptr;
  // With the world stopped, when everything reachable is marked: as gc::World::inspect. May be
  // null.
  void (*inspect)(const gc::Marker& marker) = nullptr;
  // Leaks are looked for: what only a dead part of a stack refers to, or a pointer one past an
  // object's end, is to be found.
  bool strict_roots = false;
};
extern MallocSupport g_malloc_support;

// Initialises the runtime and registers the calling thread; a further call does nothing. The first
// allocation does it too. Aborts with a message if the system refuses the minimum.
void Init();
// The same, but without an end: false, and nothing is usable, if the system refuses the minimum
// of address space. The first call of all.
[[nodiscard]] bool TryInit();
bool IsInitialised();
// Also while Init runs.
bool IsInitialisationCalled();

// Makes the calling thread a mutator with a heap, initialising the runtime first if need be. False
// without memory. Cheap if it is one already.
bool AttachThread();
// The same, for who is about to use the heap: a blocking section ends (see DoBlocking).
bool AttachToHeap();
// Whether the calling thread is attached, and in no blocking section.
inline bool HasHeap() { return alloc::t_heap != &alloc::g_no_heap; }

// Collects, then runs or announces finalizers as the client's variables say. False if collection is
// disabled, `give_up` said so, or another thread did the work meanwhile.
bool Collect(gc::Cause cause, int (*give_up)() = nullptr);
// The same for a caller that has its registers on the stack: that counts from there on
// (platform::WithRegistersOnStack).
bool CollectFrom(Addr stack_pointer, gc::Cause cause, int (*give_up)() = nullptr);

// For a runtime that serves malloc: collects, whatever the client says of that, with the caller's
// stack counting from `stack_pointer` on. False if threads do not stop, or the roots cannot be
// read. pre: the calling thread is attached, outside callbacks of the collector.
[[nodiscard]] bool CollectForMallocFrom(Addr stack_pointer);

// Clears what earlier calls left in the stack below the caller's frame.
void ClearDeadStack(size_t bytes);
// The same, of a part that is enough, if the thread has allocated much since the last time.
void ClearDeadStackIfDue();

// The program registered something that a collection would let go of: counts like that many bytes
// allocated, and collects if that is due.
void NotePressure(size_t bytes);

// Bounds the heap; callable before Init. 0 is no limit.
void SetMaxHeap(size_t bytes);

// Starts a collection beside the program if one is due or `start` says so, or goes on with it a
// little. Whether one is under way then.
bool CollectALittle(bool start);

// Runs all finalizers that are ready, on the calling thread; returns how many. Not under the
// collector lock.
int InvokeFinalizers();

// The collector lock for a call that the program may also make where it holds it: after
// GC_alloc_lock, and in callbacks.
class CollectorLockGuard {
 public:
  CollectorLockGuard();
  ~CollectorLockGuard();
  CollectorLockGuard(const CollectorLockGuard&) = delete;
  CollectorLockGuard& operator=(const CollectorLockGuard&) = delete;

 private:
  const bool taken_;
};

// What is registered for the object that begins at `object` goes, or is so for the `bytes` at `to`,
// to which its contents have been copied. Nothing if no object begins there. Takes the lock above,
// if anything may be registered.
void ForgetRegistered(const void* object);
void MoveRegistered(const void* object, const void* to, size_t bytes);

// Calls f(data) while the calling thread counts as blocked: it must not touch the heap. However f
// is left, the thread is not blocked afterwards: when the stack is unwound, that is seen. After a
// jump the thread's next allocation shows it: in the section it has no heap, so that it takes the
// slow path. So a thread that allocates in the section, against its promise, ends it, too.
void* DoBlocking(void* (*f)(void*), void* data);
// Ends the section that the calling thread is in, if any.
void EndBlocking();
// The opposite, inside such a section.
void* CallWithGcActive(void* (*f)(void*), void* data);

// The fork protocol; installed with pthread_atfork unless the client says otherwise.
void PrepareFork();
void ParentAfterFork();
void ChildAfterFork();
// Installs handlers, once, that follow this protocol unless the client does it, and hold the arenas
// still in any case. False without memory. Any thread, without locks.
bool InstallForkHandlers();

// Runs out of memory: calls the client's procedure and returns what it returns.
void* OutOfMemory(size_t bytes);

// Memory for the API's allocation functions: initialises, attaches the thread, collects and calls
// the out-of-memory procedure as needed.
void* Allocate(alloc::Kind kind, size_t bytes, size_t alignment = alloc::kGranuleBytes,
               bool ignore_off_page = false);

}  // namespace gleaner::runtime
