#include "platform/os/processor_set.h"

#include <sys/syscall.h>
#include <unistd.h>

namespace gleaner::platform {

namespace {
// Constant once there are several threads that ask; empty: not noted.
constinit ProcessorSet g_of_process;
}  // namespace

bool GetAffinity(int32_t thread, ProcessorSet* processors) {
  *processors = {};  // the system writes as many words as it has processors for
  return syscall(SYS_sched_getaffinity, thread, sizeof *processors, processors->words()) > 0;
}

bool SetAffinity(int32_t thread, const ProcessorSet& processors) {
  return syscall(SYS_sched_setaffinity, thread, sizeof processors, processors.words()) == 0;
}

bool GetAffinityOfProcess(ProcessorSet* processors) {
  if (g_of_process.IsEmpty()) return GetAffinity(getpid(), processors);
  *processors = g_of_process;
  return true;
}

void RecordAffinityOfProcess() {
  if (g_of_process.IsEmpty() && !GetAffinity(getpid(), &g_of_process)) g_of_process = {};
}

}  // namespace gleaner::platform
