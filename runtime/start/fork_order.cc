// The order of fork handlers. In the library's own shared objects alone: a static program has the C
// library's function from where that defines others, too.
#include "platform/os/next_call.h"
#include "runtime/process/malloc_support.h"
#include "runtime/start/fork.h"

namespace {

using Handler = void();
constinit gleaner::platform::NextCall<int(Handler*, Handler*, Handler*, void*)> g_register_atfork(
    "__register_atfork");

}  // namespace

// What pthread_atfork calls. The handlers of the library come before those of all others, which so
// are called before the locks are taken and after they are given back: they may allocate, and wait
// for threads that do. That is as with the C library's malloc.
extern "C" __attribute__((visibility("default"))) int __register_atfork(Handler* prepare,
                                                                        Handler* parent,
                                                                        Handler* child,
                                                                        void* object) noexcept {
  if (&gleaner::runtime::g_start_malloc != nullptr) {
    gleaner::runtime::g_start_malloc();
  } else {
    (void)gleaner::runtime::InstallForkHandlers();  // or Init does it
  }
  return g_register_atfork.get()(prepare, parent, child, object);
}
