// Text for people.
#pragma once

#include <cstdint>
#include <string>

namespace gleaner::tools {

// For terminals: bytes that are no UTF-8, and control characters, as \ and three octal digits.
std::string ForTerminal(const std::string& text);

// Prints a message of `gleaner COMMAND` on standard error, ForTerminal.
void Tell(const char* command, const std::string& message);

// For people: "12.3 ms", "4.56 MB" (10^6 bytes), "12.3 %", "12,345".
std::string Duration(uint64_t ns);
std::string Bytes(double bytes);
// For tables: "4.6 MB", with one decimal.
std::string SizeText(double bytes);
std::string SizeText(uint64_t bytes);
std::string Share(double share);
std::string Count(uint64_t count);

}  // namespace gleaner::tools
