// Descriptors 0 to 2 of a process that was started without some of them.
#pragma once

namespace gleaner::tools {

// Takes those that are closed, so that no file that is opened later gets their numbers, and
// messages with them. Reading and writing them fails as before, and a program that this process
// executes finds them closed. Before anything is opened.
void HoldClosedStandardDescriptors();

}  // namespace gleaner::tools
