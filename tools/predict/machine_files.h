// Where descriptions of machines are found.
#pragma once

#include <string>

#include "tools/predict/machine.h"

namespace gleaner::tools {

// A file if `name` has a slash or ends with .machine, else one of the descriptions that come with
// Gleaner. False, with the reason in *error.
[[nodiscard]] bool FindMachine(const std::string& name, Machine* machine, std::string* error);

// Measures this machine. False, with the reason in *error.
[[nodiscard]] bool MeasureThisMachine(Machine* machine, std::string* error);
// As it was measured before, if that was with the same processor and as many of them; else measures
// it and, where that is possible, keeps the result for the next time. Says so on standard error.
[[nodiscard]] bool ThisMachine(Machine* machine, std::string* error);
// The file in which ThisMachine keeps it; empty if no folder is known.
std::string FileOfThisMachine();
// Writes the description, making the folders above. False with errno.
[[nodiscard]] bool KeepMachine(const Machine& machine, const std::string& path);

}  // namespace gleaner::tools
