// Blocking sections of the program (GC_do_blocking): see Note [blocking].
#pragma once

#include "alloc/thread_heap.h"

namespace gleaner::runtime {

// Whether the calling thread is attached, and in no blocking section.
inline bool HasHeap() { return alloc::t_heap != &alloc::g_no_heap; }

// Calls f(data) while the calling thread counts as blocked: it must not touch the heap. However f
// is left, the thread is not blocked afterwards: when the stack is unwound, that is seen. After a
// jump the thread's next allocation shows it: in the section it has no heap, so that it takes the
// slow path. So a thread that allocates in the section, against its promise, ends it, too.
void* DoBlocking(void* (*f)(void*), void* data);
// Ends the section that the calling thread is in, if any.
void EndBlocking();
// The opposite, inside such a section.
void* CallWithGcActive(void* (*f)(void*), void* data);

}  // namespace gleaner::runtime
