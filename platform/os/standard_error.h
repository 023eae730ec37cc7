// Messages to people: the descriptor, and what may stand in one.
#pragma once

#include <cstddef>

namespace gleaner {

// Descriptor 2 if it is standard error, else -1. A program that closes descriptor 2 and opens a
// file gets this number for the file, and only the program's own data may be written there. So
// descriptor 2 counts as standard error in these cases. It stands for the same file as when the
// library started (RecordStandardError). It is a terminal, /dev/null or a pipe, as dup2 mostly puts
// there, without close-on-exec, which dup2 never sets. Or it shares its file, such as a log, with
// descriptor 1, without close-on-exec: no open() makes the two share. Async-signal-safe; keeps
// errno.
int StandardError();

// Makes question marks of control characters but newlines and tabs: names and paths may have some,
// and a terminal would obey them. In UTF-8 there are such of two bytes, up to U+009F.
// Async-signal-safe.
void HideControls(char* text, size_t bytes);

// Notes the file of descriptor 2. Called at the start of the library; a further call does nothing.
void RecordStandardError();

}  // namespace gleaner
