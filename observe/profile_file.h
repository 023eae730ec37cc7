// Writing a file of text whose second line names the process that writes it, and which other
// processes leave alone while that one runs (docs/reference/heap.md). Nothing is kept open
// between two writings, as the program may close any descriptor.
//
// Used by one thread. Call order: Open, Append any number of times, Close.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

class ProfileFile {
 public:
  // What a profile begins with.
  static constexpr char kMagic[] = "heap profile:";

  enum class Opened : uint8_t {
    kYes,
    kInUse,    // a running process writes it, or this process has before it was another program
    kForeign,  // not empty and no heap profile, or no regular file
    kRefused,  // by the system: errno says why
  };
  // Opens and empties the file. `own`: this program has written it before, or the program's code
  // has named it: then this process is not in the way.
  Opened Open(const char* path, bool own);
  // Adds text. After a failure no effect.
  void Append(const char* text, size_t bytes);
  void Print(const char* format, ...) __attribute__((format(printf, 2, 3)));
  // The line that names this process.
  void PrintProcess();
  // Adds the text of a file of the system, as much as can be read. Returns 0, or the number of the
  // error of reading.
  int AppendFile(const char* path);
  // Returns 0, or the number of the first error since Open.
  int Close();
  // In a forked child, by its only thread: the file, if one is open, is the parent's.
  void LeaveAfterFork();

 private:
  void Flush();

  int fd_ = -1;  // of the open file
  int error_ = 0;
  size_t used_ = 0;
  char buffer_[16 * kKiB] = {};
};

}  // namespace gleaner::platform
