// dlclose, for reports of leaks and heap profiles: recorded stacks may have addresses in the
// unloaded object, and another object may get these addresses. Else it only calls the C library's.
#include "malloc/leak_report.h"
#include "malloc/next.h"
#include "malloc/symbols.h"
#include "platform/unwind.h"
#include "runtime/profiling.h"

namespace proxy = gleaner::malloc_proxy;

namespace {
constinit proxy::NextCall<int(void*)> g_next("dlclose");
}

extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
  if (proxy::ReportsLeaks()) proxy::Symbols::NoteObjects();
  const int result = g_next.get()(handle);
  if (proxy::ReportsLeaks()) {
    gleaner::platform::ForgetUnwindRules();
  } else {
    gleaner::runtime::ForgetUnloadedCode();
  }
  return result;
}
