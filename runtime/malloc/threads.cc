// The functions of the C library that a collecting malloc must see: threads start registered, and
// no thread blocks the signal that stops it. When nothing is collected, they do what they always
// do.
#include <pthread.h>

#include "platform/stop_world.h"
#include "platform/thread.h"
#include "runtime/malloc/collecting.h"
#include "runtime/malloc/process.h"

namespace proxy = gleaner::malloc_proxy;

#define GLEANER_MALLOC_API extern "C" __attribute__((visibility("default")))

GLEANER_MALLOC_API int pthread_create(pthread_t* thread, const pthread_attr_t* attributes,
                                      void* (*start)(void*), void* argument) {
  if (proxy::Start() && proxy::IsCollecting()) {
    return proxy::Collecting::CreateThread(thread, attributes, start, argument);
  }
  return gleaner::platform::RealPthreadCreate(thread, attributes, start, argument);
}

GLEANER_MALLOC_API int pthread_sigmask(int how, const sigset_t* set, sigset_t* old) noexcept {
  return proxy::IsCollecting() ? gleaner::platform::SigmaskKeepingSuspend(how, set, old)
                               : gleaner::platform::RealSigmask(how, set, old);
}
