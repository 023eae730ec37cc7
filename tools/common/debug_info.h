// What the tools that name addresses share: libdw's session, and names of C++.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <string>

namespace gleaner::tools {

// For dwfl_begin: debug information where the system keeps it. Modules are reported by path.
extern const Dwfl_Callbacks kDebugInfoCallbacks;

// The name as the source has it, if it is one of C++; itself otherwise. Empty for null.
std::string Demangle(const char* name);

// An address for people.
std::string Hexadecimal(uint64_t number);

}  // namespace gleaner::tools
