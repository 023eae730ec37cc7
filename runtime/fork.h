// fork() in a program with several threads.
//
// Before the fork the forking thread takes every lock that guards shared structures, in rank order,
// so no other thread is inside one of them when the process is copied. A thread heap's free lists
// are the exception: their owners may be inside, and the child rebuilds them
// (ThreadHeaps::ResetAfterFork). In the child only the forking thread exists; the others' heaps are
// abandoned, and their stacks no longer count as roots.
//
// A signal handler that has interrupted the library may fork, too. Then no lock is taken: it may be
// the thread's own, or that of a thread which waits for this one to stop. In the child the
// interrupted call goes on, and what the other threads have left is put right before the next
// collection. If one of them was inside the library as well, the collector's own included, the
// child can do no more than what is async-signal-safe, as POSIX has it.
#pragma once

#include "platform/atomic.h"

namespace gleaner::runtime {

// The fork protocol; installed with pthread_atfork unless the client says otherwise.
void PrepareFork();
void ParentAfterFork();
void ChildAfterFork();
// Installs handlers, once, that follow this protocol unless the client does it, and hold the arenas
// still in any case. False without memory. Any thread, without locks.
bool InstallForkHandlers();

// The process is the child of a fork that was not prepared. Of its only thread.
extern bool g_child_is_stale;
// Puts such a child right. pre: no call is interrupted in it.
void RefreshStaleChild();
inline void RefreshIfStale() {
  if (GLEANER_UNLIKELY(g_child_is_stale)) RefreshStaleChild();
}

}  // namespace gleaner::runtime
