// The functions by which a program limits its own address space, replaced.
#pragma once

namespace gleaner::runtime {

// Looks up the functions behind them. A program calls them where nothing may be looked up: in the
// forked child of a process with threads.
void FindLimitFunctions();

}  // namespace gleaner::runtime
