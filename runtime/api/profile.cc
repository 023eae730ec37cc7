// gleaner.h: the heap profile.
#include <cerrno>

#include "gleaner.h"
#include "runtime/observe/profiling.h"
#include "runtime/process/runtime.h"

extern "C" int gleaner_write_heap_profile(const char* path) {
  if (path == nullptr) return EINVAL;
  gleaner::runtime::Init();
  return gleaner::runtime::WriteHeapProfile(path);
}
