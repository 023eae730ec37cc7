// Whether the runtime is started, and whether this process is a child whose fork was not prepared.
//
// Both are asked by all rooms. What follows, a start or a repair, concerns all of them: start/ does
// it, which is above them, and is called by way of kWholeRuntime.
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/process.h"

namespace gleaner::runtime {

struct WholeRuntime {
  void (*start)();                    // Init, where the runtime is not started
  void (*repair_unprepared_child)();  // RepairIfUnprepared, in such a child
};
extern const WholeRuntime kWholeRuntime;

// Starts the runtime and registers the calling thread; no effect if that is done. The first
// allocation calls it. Any thread. Aborts with a message if the system refuses the minimum of
// memory.
void Init();
bool IsInitialised();
// Whether Init has been called; true while it runs, too. A hint for other threads.
bool IsInitialisationCalled();

// --- For start/ ---

// Claims the start for the calling thread, after waiting for a start or a fork by another one.
// False if the runtime is started by then.
bool BeginStart();
// The calling thread's start has succeeded, or has left nothing behind.
void EndStart(bool is_done);
// Whether the calling thread has begun a start.
bool HasBegunStart();

// HoldStart waits for a start under way, and keeps other threads from starting the runtime until
// LetStart. Called by a thread that forks, before and after, in the child too.
void HoldStart();
void LetStart();

// --- After a fork ---

// This process is the child of a fork that was not prepared. Read and written by its only thread.
extern bool g_unprepared_child;
// The same, also if no handler of fork has run, in a child of _Fork or of a clone that is none of
// the C library's: its memory tells (platform/os/process.h). Some loads.
inline bool IsUnpreparedChild() { return g_unprepared_child || platform::MemoryIsCopy(); }
// Repairs such a child. pre: the call that was interrupted by the fork has returned.
inline void RepairIfUnprepared() {
  if (GLEANER_UNLIKELY(IsUnpreparedChild())) kWholeRuntime.repair_unprepared_child();
}

}  // namespace gleaner::runtime
