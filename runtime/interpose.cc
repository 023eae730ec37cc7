// The native library knows every thread of the program: pthread_create registers the child, and no
// thread can block the suspend signal by accident. Not part of the drop-in, which changes nothing
// for threads that libgc would not know either.
#include <dlfcn.h>
#include <pthread.h>

#include "platform/system_calls.h"
#include "runtime/runtime.h"

extern "C" {

__attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                          const pthread_attr_t* attributes,
                                                          void* (*start)(void*), void* argument) {
  gleaner::runtime::Init();
  return gleaner::runtime::Threads::Create(thread, attributes, start, argument);
}

__attribute__((visibility("default"))) int pthread_sigmask(int how, const sigset_t* set,
                                                           sigset_t* old) {
  return gleaner::platform::SigmaskOfProgram(how, set, old);
}

}  // extern "C"
