// setrlimit, prlimit and mlockall, interposed. A limit on address space counts what the library has
// reserved, so the program's own malloc, fopen and pthread_create would fail. The replacements do
// what the originals do, and the library then gives up what it does not use (platform/os/memory.h).
// A limit set by another process or by the raw system call is noticed at the next collection.
#include "runtime/process/limits.h"

#include <cerrno>
#include <iterator>

#include "platform/loader/imports.h"
#include "platform/os/memory.h"
#include "platform/os/next_call.h"
#include "platform/os/process.h"

namespace {

using gleaner::platform::NextCall;

// Types as in <sys/resource.h> and <sys/mman.h>, which only the platform layer includes.
using SetLimit = int(int resource, const void* limit);
using ProcessLimit = int(int process, int resource, const void* limit, void* old);

int StaticSetLimit(int resource, const void* limit) {
  return gleaner::platform::RawPrlimit(0, resource, limit, nullptr);
}

using gleaner::platform::RawPrlimit;
constinit NextCall<SetLimit> g_setrlimit("setrlimit", StaticSetLimit);
constinit NextCall<SetLimit> g_setrlimit64("setrlimit64", StaticSetLimit);
constinit NextCall<ProcessLimit> g_prlimit("prlimit", RawPrlimit);
constinit NextCall<ProcessLimit> g_prlimit64("prlimit64", RawPrlimit);
constinit NextCall<int(int)> g_mlockall("mlockall", gleaner::platform::RawMlockall);

int Noticing(int result, const void* limit) {
  if (result == 0 && limit != nullptr) gleaner::platform::NoticeAddressSpaceLimit();
  return result;
}

template <NextCall<SetLimit>& original>
int Replaced(int resource, const void* limit) {
  return Noticing(original.get()(resource, limit), limit);
}
template <NextCall<ProcessLimit>& original>
int Replaced(int process, int resource, const void* limit, void* old) {
  return Noticing(original.get()(process, resource, limit, old), limit);
}
int ReplacedMlockall(int flags) {
  const int result = g_mlockall.get()(flags);
  // ENOMEM: more is mapped than may be locked.
  if (result == 0 || errno != ENOMEM) return result;
  gleaner::platform::UnmapUncommitted();
  return g_mlockall.get()(flags);
}

}  // namespace

namespace gleaner::runtime {

namespace {

// Set by FindLimitFunctions, constant afterwards. Sorted by name.
constinit platform::ReplacedImport g_imports[5] = {};
constinit bool g_bypassed = false;

}  // namespace

void FindLimitFunctions() {
  const auto import = [](const char* name, auto* replacement, auto* original) {
    return platform::ReplacedImport{name, reinterpret_cast<void*>(replacement),
                                    reinterpret_cast<void*>(original)};
  };
  g_imports[0] = import("mlockall", ReplacedMlockall, g_mlockall.get());
  g_imports[1] = import("prlimit", Replaced<g_prlimit>, g_prlimit.get());
  g_imports[2] = import("prlimit64", Replaced<g_prlimit64>, g_prlimit64.get());
  g_imports[3] = import("setrlimit", Replaced<g_setrlimit>, g_setrlimit.get());
  g_imports[4] = import("setrlimit64", Replaced<g_setrlimit64>, g_setrlimit64.get());
  g_bypassed = platform::IsBypassed("setrlimit");
  ReplaceLimitsInNewObjects();
}

void ReplaceLimitsInNewObjects() {
  if (g_bypassed) platform::ReplaceImports(g_imports, std::size(g_imports));
}

}  // namespace gleaner::runtime

// Not under ThreadSanitizer, which calls these functions before instrumented code may run.
#ifndef __SANITIZE_THREAD__

#define GLEANER_REPLACED extern "C" __attribute__((visibility("default")))

GLEANER_REPLACED int setrlimit(int resource, const void* limit) noexcept {
  return Replaced<g_setrlimit>(resource, limit);
}
GLEANER_REPLACED int setrlimit64(int resource, const void* limit) noexcept {
  return Replaced<g_setrlimit64>(resource, limit);
}
GLEANER_REPLACED int prlimit(int process, int resource, const void* limit, void* old) noexcept {
  return Replaced<g_prlimit>(process, resource, limit, old);
}
GLEANER_REPLACED int prlimit64(int process, int resource, const void* limit, void* old) noexcept {
  return Replaced<g_prlimit64>(process, resource, limit, old);
}
GLEANER_REPLACED int mlockall(int flags) noexcept { return ReplacedMlockall(flags); }

#endif  // __SANITIZE_THREAD__
