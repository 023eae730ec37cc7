// Touching memory as the threads of a parallel loop would, so that it comes to their nodes.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

inline constexpr unsigned kMaxTouchingThreads = 4096;

// Makes the memory's OS pages resident without a change of contents. Thread t of `threads` touches
// the pages that begin in its pieces: the piece number t, t + threads, and so on, of `piece_bytes`
// each. It runs on a processor this process may use: the one at t / threads of all of them, in the
// order of the nodes. `threads` is 0 for one for each processor, `piece_bytes` 0 for one piece a
// thread. Other threads may use the memory meanwhile.
//
// Returns 0, or the first errno value: that of a thread that could not be started or kept on its
// processor, whose pages are touched from wherever another thread runs, or of memory that cannot be
// made resident (MakeResident), behind which some memory is not touched. Calls LoadTopology, so
// no lock may be held. Any thread that can be stopped meanwhile. pre: the range does not wrap
// around; threads <= kMaxTouchingThreads.
int FirstTouch(void* p, size_t bytes, size_t piece_bytes, unsigned threads);

}  // namespace gleaner::platform
