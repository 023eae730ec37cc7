// Sets of processors, by their numbers in the system, and on which of them threads may run.
#pragma once

#include "platform/common/number_set.h"

namespace gleaner::platform {

// As many as a kernel can have; a cpu_set_t of fixed size has room for 1,024.
inline constexpr int kMaxProcessors = 8192;

using ProcessorSet = NumberSet<kMaxProcessors>;

// Both are for a thread by its number; 0 is the caller. They are false, with errno, if the system
// refuses. Async-signal-safe.
//
// Gets the processors on which the thread may run: its affinity, within what its control group
// allows.
[[nodiscard]] bool GetAffinity(int32_t thread, ProcessorSet* processors);
[[nodiscard]] bool SetAffinity(int32_t thread, const ProcessorSet& processors);

// Gets the processors that the process may use: those of its first thread when
// RecordAffinityOfProcess was first called, or now if it was not. Programs bind threads of theirs
// to single processors later on, the first one too. False, with errno, if the system refuses.
[[nodiscard]] bool GetAffinityOfProcess(ProcessorSet* processors);
// pre: one thread at a time, before others ask.
void RecordAffinityOfProcess();

}  // namespace gleaner::platform
