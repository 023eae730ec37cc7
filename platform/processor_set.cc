#include "platform/processor_set.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace gleaner::platform {

bool GetAffinity(int32_t thread, ProcessorSet* processors) {
  *processors = {};  // the system writes as many words as it has processors for
  return syscall(SYS_sched_getaffinity, thread, sizeof *processors, processors->words()) > 0;
}

bool SetAffinity(int32_t thread, const ProcessorSet& processors) {
  return syscall(SYS_sched_setaffinity, thread, sizeof processors, processors.words()) == 0;
}

}  // namespace gleaner::platform
