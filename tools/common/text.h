// Text for JSON, for HTML and for people.
#pragma once

#include <cstdint>
#include <string>

namespace gleaner::tools {

// A string of JSON. Bytes that are no UTF-8 become U+FFFD: names of threads may be cut anywhere.
std::string Quoted(const std::string& text);
// For the text of an element or an attribute in quotes. Bytes that are no UTF-8, and control
// characters but the end of a line and the tab, become U+FFFD.
std::string Escaped(const std::string& text);

// For terminals: bytes that are no UTF-8, and control characters, as \ and three octal digits.
std::string ForTerminal(const std::string& text);

// Prints a message of `gleaner COMMAND` on standard error, ForTerminal.
void Tell(const char* command, const std::string& message);

// For people: "12.3 ms", "4.56 MB" (10^6 bytes), "12.3 %", "12,345".
std::string Duration(uint64_t ns);
std::string Bytes(double bytes);
std::string Share(double share);
std::string Count(uint64_t count);

}  // namespace gleaner::tools
