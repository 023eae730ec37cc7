// gleaner.h: the program's own spans in the collector's trace.
#include "runtime/observe/tracing.h"

#include <cstring>

#include "gleaner.h"
#include "runtime/api/api.h"

namespace platform = gleaner::platform;

extern "C" {

uint64_t gleaner_trace_begin(void) { return platform::IsTracing() ? platform::NowNs() : 0; }

void gleaner_trace_end(const char* name, uint64_t begin) {
  if (begin == 0 || !platform::IsTracing()) return;
  if (gleaner::runtime::RejectNull("gleaner_trace_end", "the name", name)) return;
  const uint64_t now = platform::NowNs();
  if (begin > now) return;
  uint64_t words[3] = {};
  memcpy(words, name, strnlen(name, sizeof words));
  platform::EmitTrace(platform::TraceEvent::kProgram, begin,
                      {now - begin, words[0], words[1], words[2]});
  gleaner::runtime::ContinueTracing();
}

}  // extern "C"
