// dlclose, for reports of leaks: recorded stacks may have addresses in the unloaded object, and
// another object may get these addresses. Without GLEANER_LEAKS it only calls the C library's.
#include "malloc/leak_report.h"
#include "malloc/next.h"
#include "malloc/symbols.h"
#include "platform/unwind.h"

namespace proxy = gleaner::malloc_proxy;

namespace {
constinit proxy::NextCall<int(void*)> g_next("dlclose");
}

extern "C" __attribute__((visibility("default"))) int dlclose(void* handle) noexcept {
  if (!proxy::ReportsLeaks()) return g_next.get()(handle);
  proxy::Symbols::NoteObjects();
  const int result = g_next.get()(handle);
  gleaner::platform::ForgetUnwindRules();
  return result;
}
