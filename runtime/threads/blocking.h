// Blocking sections of the program (GC_do_blocking): see Note [blocking].
#pragma once

#include "alloc/thread_heap.h"

namespace gleaner::runtime {

// Whether the calling thread is attached and in no blocking section.
inline bool HasHeap() { return alloc::t_heap != &alloc::g_no_heap; }

// Calls f(data) while the calling thread counts as blocked; f must not touch the heap. The section
// ends when f returns or the stack is unwound through it. After a longjmp out of f, it ends at the
// thread's next allocation, which takes the slow path because a blocked thread has no heap. An
// allocation inside f, which breaks its promise, ends the section too. An unregistered thread just
// calls f.
void* DoBlocking(void* (*f)(void*), void* data);
// Ends the calling thread's blocking section; no effect if it is in none.
void EndBlocking();
// Inside a blocking section, calls f(data) while the calling thread counts as running. Outside one,
// a plain call.
void* CallWithGcActive(void* (*f)(void*), void* data);

}  // namespace gleaner::runtime
