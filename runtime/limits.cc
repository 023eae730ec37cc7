// setrlimit, prlimit and mlockall, interposed. A limit on address space counts what the library has
// reserved, so the program's own malloc, fopen and pthread_create would fail. The replacements do
// what the originals do, and the library then gives up what it does not use (platform/memory.h). A
// limit set by another process or by the raw system call is noticed at the next collection.
#include "runtime/limits.h"

#include <cerrno>

#include "platform/memory.h"
#include "platform/next_call.h"

namespace {

using gleaner::platform::NextCall;

// Types as in <sys/resource.h> and <sys/mman.h>, which only the platform layer includes.
using SetLimit = int(int resource, const void* limit);
using ProcessLimit = int(int process, int resource, const void* limit, void* old);

constinit NextCall<SetLimit> g_setrlimit("setrlimit");
constinit NextCall<SetLimit> g_setrlimit64("setrlimit64");
constinit NextCall<ProcessLimit> g_prlimit("prlimit");
constinit NextCall<ProcessLimit> g_prlimit64("prlimit64");
constinit NextCall<int(int)> g_mlockall("mlockall");

}  // namespace

namespace gleaner::runtime {

void FindLimitFunctions() {
  (void)g_setrlimit.get();
  (void)g_setrlimit64.get();
  (void)g_prlimit.get();
  (void)g_prlimit64.get();
  (void)g_mlockall.get();
}

}  // namespace gleaner::runtime

// Not under ThreadSanitizer, which calls these functions before instrumented code may run.
#ifndef __SANITIZE_THREAD__

namespace {
int Noticing(int result, const void* limit) {
  if (result == 0 && limit != nullptr) gleaner::platform::NoticeAddressSpaceLimit();
  return result;
}
}  // namespace

#define GLEANER_REPLACED extern "C" __attribute__((visibility("default")))

GLEANER_REPLACED int setrlimit(int resource, const void* limit) noexcept {
  return Noticing(g_setrlimit.get()(resource, limit), limit);
}

GLEANER_REPLACED int setrlimit64(int resource, const void* limit) noexcept {
  return Noticing(g_setrlimit64.get()(resource, limit), limit);
}

GLEANER_REPLACED int prlimit(int process, int resource, const void* limit, void* old) noexcept {
  return Noticing(g_prlimit.get()(process, resource, limit, old), limit);
}

GLEANER_REPLACED int prlimit64(int process, int resource, const void* limit, void* old) noexcept {
  return Noticing(g_prlimit64.get()(process, resource, limit, old), limit);
}

GLEANER_REPLACED int mlockall(int flags) noexcept {
  const int result = g_mlockall.get()(flags);
  // ENOMEM: more is mapped than may be locked.
  if (result == 0 || errno != ENOMEM) return result;
  gleaner::platform::UnmapUncommitted();
  return g_mlockall.get()(flags);
}

#endif  // __SANITIZE_THREAD__
