// fork() in a program with several threads.
//
// Before the fork the forking thread takes every lock that guards shared structures, in rank order,
// so no other thread is inside one of them when the process is copied. A thread heap's free lists
// are the exception: their owners may be inside, and the child rebuilds them
// (ThreadHeaps::ResetAfterFork). In the child only the forking thread exists; the others' heaps are
// abandoned, and their stacks no longer count as roots.
//
// A signal handler that has interrupted the library may fork, too. Then no lock is taken: it may be
// held by this thread, or by a thread that waits for this one to stop. In the child the interrupted
// call goes on, and the state that the other threads left is repaired before the next collection
// (RepairIfUnprepared). If another thread, collector threads included, was inside the library as
// well, the child is limited to async-signal-safe functions, as POSIX says.
#pragma once

namespace gleaner::runtime {

// The fork protocol; installed with pthread_atfork unless the client disables that. Called by the
// forking thread.
void PrepareFork();
void ParentAfterFork();
void ChildAfterFork();
// Installs fork handlers, once. They follow this protocol unless the client does it itself, and in
// any case lock the arenas. False without memory. Any thread, without locks.
bool InstallForkHandlers();

// RepairIfUnprepared (process/runtime_state.h), in such a child.
void RepairUnpreparedChild();

}  // namespace gleaner::runtime
