// What `gleaner run` and `gleaner record` do before they start a program with a library of ours.
#pragma once

#include <string>

// The exit status when the command itself fails or is not used as it should be, in all commands: no
// result of theirs, and seldom one of a program. 126 and 127 are as in a shell.
inline constexpr int kCommandFailed = 125;

// Whether the program can be run with `library` by way of `variable`, which the loader reads. 0,
// and the folder of the library; or the exit status, after a message of `gleaner <command>`.
// `program` is null if none was given.
int CheckLaunch(const char* command, const char* program, const char* library, const char* variable,
                std::string* folder);

// The exit status for a program that could not be executed for the reason `error` (errno), after a
// message.
int CannotExecute(const char* command, const char* program, int error);
