// Where messages for people go.
#pragma once

namespace gleaner {

// Descriptor 2, or -1 if that is none of theirs. It is theirs as long as it stands for the file
// that it stood for when the library started (NoteStandardError). A program that closes it and
// opens a file gets the number for that, and nothing but its own data may get there. What takes the
// place of it for good, by dup2, is mostly a terminal, /dev/null or a pipe: these are taken, too,
// unless the descriptor is closed by exec, which dup2 never says. So is any file that descriptor 1
// shares with it, such as a log: no open() makes the two share. Async-signal-safe; keeps errno.
int StandardError();

// To be called at the start of the library. A further call does nothing.
void NoteStandardError();

}  // namespace gleaner
