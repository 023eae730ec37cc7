// prctl and syscall, interposed in the program: a filter of system calls is noted before it is
// installed (filters.h), and a lower limit on address space after it is set (memory.h). By way of
// syscall programs fork, too, for flags that fork() has not (namespaces): the handlers of fork()
// are called around such a call. Otherwise both do what the C library's functions do.
#pragma once

namespace gleaner::platform {

// What is called around a system call that forks, by the thread that makes it.
struct ForkHandlers {
  void (*before)();
  void (*after_in_parent)();
  void (*after_in_child)();
};
// The handlers are never destroyed.
void SetForkHandlers(const ForkHandlers* handlers);

}  // namespace gleaner::platform
