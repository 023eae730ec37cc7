// Where the source declares a variable of static storage.
#pragma once

#include <elfutils/libdwfl.h>

#include <string>

namespace gleaner::tools {

// "FILE:LINE" of the variable that begins at the address in the process, by the module's debug
// information; empty if that does not say. Reads all of it: for single questions.
std::string LineOfVariable(Dwfl_Module* module, Dwarf_Addr address);

}  // namespace gleaner::tools
