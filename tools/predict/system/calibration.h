// Measures this machine for the predictor: docs/design/predictor.md, "Machines".
#pragma once

#include <string>

#include "tools/predict/machine.h"

namespace gleaner::tools {

// Takes some seconds. False, with the reason in *error, if something cannot be measured. Starts a
// process and threads; not thread-safe.
[[nodiscard]] bool Calibrate(Machine* machine, std::string* error);

}  // namespace gleaner::tools
