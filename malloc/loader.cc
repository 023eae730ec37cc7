// dlopen, dlmopen and dlclose.
//
// A library that is opened with RTLD_DEEPBIND would have the C library's malloc and free, while the
// C library and the program have these, and blocks go from one to the other. So the flag is
// dropped.
//
// After dlclose, for reports of leaks and heap profiles: recorded stacks may have addresses in the
// unloaded object, and another object may get these addresses. Else it only calls the C library's.
#include <dlfcn.h>

#include "alloc/sampler.h"
#include "malloc/collecting.h"
#include "malloc/leak_report.h"
#include "malloc/next.h"
#include "malloc/process.h"
#include "malloc/symbols.h"
#include "platform/unwind/unwind.h"

namespace proxy = gleaner::malloc_proxy;

#define GLEANER_MALLOC_API extern "C" __attribute__((visibility("default")))

namespace {
constinit proxy::NextCall<void*(const char*, int)> g_open("dlopen");
constinit proxy::NextCall<void*(Lmid_t, const char*, int)> g_open_in("dlmopen");
constinit proxy::NextCall<int(void*)> g_close("dlclose");
}  // namespace

// The calls are jumps (CMakeLists.txt), since the C library takes the search path and the name
// space from the return address.
GLEANER_MALLOC_API void* dlopen(const char* file, int mode) noexcept {
  proxy::Collecting::TurnOffFor(file);
  return g_open.get()(file, mode & ~RTLD_DEEPBIND);
}
GLEANER_MALLOC_API void* dlmopen(Lmid_t space, const char* file, int mode) noexcept {
  return g_open_in.get()(space, file, space == LM_ID_BASE ? mode & ~RTLD_DEEPBIND : mode);
}

GLEANER_MALLOC_API int dlclose(void* handle) noexcept {
  if (proxy::ReportsLeaks()) proxy::Symbols::RecordObjects();
  const int result = g_close.get()(handle);
  if (proxy::ReportsLeaks() || gleaner::alloc::g_sample_mean_bytes != 0) {
    gleaner::platform::ForgetUnwindRules();
  }
  return result;
}
