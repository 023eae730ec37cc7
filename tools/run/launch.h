// Checks that `gleaner run` and `gleaner record` make before they start a program with one of the
// library's shared objects.
#pragma once

#include <string>

// The exit status of every command when the command itself fails or is misused. No command returns
// it as a result, and programs seldom do. 126 and 127 are as in a shell.
inline constexpr int kCommandFailed = 125;

// Checks that the program can be run with `library` through `variable`, which the loader reads.
// Returns 0 and sets *folder to the library's folder, or returns the exit status after a message of
// `gleaner <command>`. `program` is null if none was given.
int CheckLaunch(const char* command, const char* program, const char* library, const char* variable,
                std::string* folder);

// Has the program, when this process executes it, run on its own copy of its text: preloads
// libgleaner_local_text.so. Returns 0 or the exit status after a message of `gleaner <command>`.
int UseLocalText(const char* command, const char* program);

// Prints a message that the program could not be executed for the reason `error` (errno); returns
// the exit status.
int CannotExecute(const char* command, const char* program, int error);
