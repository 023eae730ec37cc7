// gleaner.h: heap snapshots.
#include "runtime/observe/snapshot.h"

#include <cerrno>

#include "gleaner.h"
#include "runtime/process/runtime.h"

int gleaner_heap_snapshot(const char* path) {
  if (!gleaner::runtime::AttachThread()) return ENOMEM;
  return gleaner::runtime::TakeSnapshot(path);
}
