// Interposed functions by which the native library knows every thread of the program.
// pthread_create and thrd_create register the child. pthread_sigmask never blocks the suspend
// signal. The drop-in library does not have this file: it changes nothing for threads that libgc
// would not know either.
#include <dlfcn.h>
#include <pthread.h>
#include <threads.h>

#include <ctime>

#include "platform/mprotect/system_calls.h"
#include "runtime/process/runtime_state.h"
#include "runtime/threads/threads.h"

// A statically linked program gets of the C library what something refers to: with this function
// comes __pthread_create (platform/threads/thread.cc), since pthread_create is the one below.
[[gnu::used]] static constinit decltype(timer_create)* const g_uses_threads = timer_create;

extern "C" {

__attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                          const pthread_attr_t* attributes,
                                                          void* (*start)(void*), void* argument) {
  if (gleaner::platform::IsCreatingThread()) {
    return gleaner::platform::NextPthreadCreate(thread, attributes, start, argument);
  }
  gleaner::runtime::Init();
  return gleaner::runtime::Threads::Create(thread, attributes, start, argument,
                                           gleaner::platform::NextPthreadCreate);
}

__attribute__((visibility("default"))) int thrd_create(thrd_t* thread, thrd_start_t start,
                                                       void* argument) {
  gleaner::runtime::Init();
  return gleaner::runtime::Threads::CreateC11(thread, start, argument);
}

__attribute__((visibility("default"))) int pthread_sigmask(int how, const sigset_t* set,
                                                           sigset_t* old) {
  return gleaner::platform::SigmaskOfProgram(how, set, old, gleaner::platform::RealSigmask);
}

}  // extern "C"
