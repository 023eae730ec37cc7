// gleaner.h: heap snapshots, the heap profile, and the program's own spans in the collector's
// trace.
#include "runtime/api/api.h"
#include "runtime/observe/profiling.h"
#include "runtime/observe/snapshot.h"
#include "runtime/observe/tracing.h"

extern "C" {

int gleaner_heap_snapshot(const char* path) {
  return runtime::AttachThread() ? runtime::TakeSnapshot(path) : ENOMEM;
}

int gleaner_write_heap_profile(const char* path) {
  if (path == nullptr) return EINVAL;
  runtime::Init();
  return runtime::WriteHeapProfile(path);
}

uint64_t gleaner_trace_begin(void) { return platform::IsTracing() ? platform::NowNs() : 0; }

void gleaner_trace_end(const char* name, uint64_t begin) {
  if (begin == 0 || !platform::IsTracing()) return;
  if (RejectNull("gleaner_trace_end", "the name", name)) return;
  const uint64_t now = platform::NowNs();
  if (begin > now) return;
  uint64_t words[3] = {};
  memcpy(words, name, strnlen(name, sizeof words));
  platform::EmitTrace(platform::TraceEvent::kProgram, begin,
                      {now - begin, words[0], words[1], words[2]});
  runtime::ContinueTracing();
}

}  // extern "C"
