// Running a program for `gleaner run` and `gleaner record`. Used by the tools alone, not by the
// library.
#pragma once

#include <functional>
#include <string>

#include "platform/os/base.h"

namespace gleaner::tools {

// The directory of the running program's file, links resolved; empty if unknown.
std::string DirectoryOfThisProgram();
bool IsReadableFile(const std::string& path);

// What the loader will do with LD_LIBRARY_PATH for a program.
enum class LoaderPath : uint8_t {
  kCounts,
  kNotFound,       // there is no such program
  kNotExecutable,  // the program exists but cannot be executed
  kNoInterpreter,  // a script for an interpreter that does not exist
  kStatic,         // statically linked: it has no loader
  // The program gets rights that its caller does not have: the loader ignores the variable.
  kElevated,
  kOtherMachine,  // the program is for a machine that this library is not built for
};
struct Inspection {
  LoaderPath result;
  std::string file;  // the file that decided: the program's, or that of its script's interpreter
};
// `search_path` is used for names without a slash, as execvp does; null is the system's default.
Inspection InspectProgram(const char* program, const char* search_path);

// Replaces this process by the program. Returns only if that fails: errno.
int Execute(char* const* arguments);

// Creates memory that another process of the same user can map by `path` while this process lives.
// Null if the system refuses.
void* CreateSharedMemory(size_t bytes, std::string* path);

struct Ended {
  int error = 0;   // errno if the program could not be started
  int status = 0;  // as wait() gives it
  uint64_t wall_ns = 0;
  // The larger of the program's peak and those of the children it waited for.
  uint64_t peak_resident_bytes = 0;
};
// A look at a program while it runs, or at its end, when its memory is still there.
struct Observer {
  double after_seconds =
      -1;  // how long the program runs before; -1: to the end of its first thread
  std::function<void(int process)> look;
  bool has_looked = false;  // not if the program ends before, or by SIGKILL
  int error = 0;            // errno of ptrace, if the end could not be observed
};

// Runs the program in a child process until it ends. The child calls `note(process, context)`, with
// its process number, before the program starts. Signals that reach this process are passed on,
// except those of the terminal, which reach both processes. If SIGSTOP stops the child, this
// process stops, too. If this process is killed, so is the child. `observer` may be null; to look
// at the end, this process traces the child (ptrace), which no debugger can do then.
Ended RunAndWait(char* const* arguments, void (*note)(uint64_t process, void* context),
                 void* context, Observer* observer = nullptr);

// Ends this process as the other process ended: with its exit status, or by the same signal.
[[noreturn]] void EndLike(int status);

}  // namespace gleaner::tools
