// Why something cannot be had of the system.
#pragma once

namespace gleaner::platform {

struct Refusal {
  const char* what = nullptr;  // a clause for a message; null: nothing is refused
  int error = 0;               // errno; 0 if the system agrees, and does not do it
};

}  // namespace gleaner::platform
