// The reason why the system refuses something.
#pragma once

namespace gleaner::platform {

struct Refusal {
  const char* what = nullptr;  // a clause for a message; null: nothing was refused
  int error = 0;               // errno; 0 if the call succeeded without the effect
};

}  // namespace gleaner::platform
