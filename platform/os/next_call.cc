#include "platform/os/next_call.h"

#include <dlfcn.h>
#include <pthread.h>

#include "platform/os/base.h"

extern "C" {
// The C library's own name for its pthread_create, in statically linked programs only. Hidden, so
// that no library that exports such a name is meant.
__attribute__((weak, visibility("hidden"))) int __pthread_create(  // NOLINT
    pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
    void* argument) noexcept;
}

namespace gleaner::platform {

bool IsStaticProgram() { return &__pthread_create != nullptr; }

void* NextFunction(const char* name, void* in_static_program) {
  if (IsStaticProgram()) {
    GLEANER_CHECK(in_static_program != nullptr, "no function %s in a static program", name);
    return in_static_program;
  }
  if (void* next = dlsym(RTLD_NEXT, name); next != nullptr) return next;
  // The C library comes before this library, and perhaps another library's function before both.
  void* function = dlsym(RTLD_DEFAULT, name);
  GLEANER_CHECK(function != nullptr, "the C library has no function %s", name);
  return function;
}

}  // namespace gleaner::platform
