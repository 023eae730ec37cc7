// A signal by which the user asks the library for something. The handler does no more than note
// that it came.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

// The number of a signal by its name, with or without SIG, or by its number; 0: there is none, or
// it is one of those for errors of the program, or no handler can be installed for it.
int SignalNumber(const char* text);

// Installs the handler. Returns 0 or the number of an error: EBUSY if the program or the library
// has one for the signal. Once.
[[nodiscard]] int InstallRequestHandler(int number);

// Whether the signal came since the last call that said so. Any thread.
bool TakeRequest();
// Whether it came; a hint.
bool IsRequested();

}  // namespace gleaner::platform
