// The file that a collector trace is written to, in a process whose program may close any
// descriptor, run others that write the same file, and come to its limits.
// docs/reference/formats.md says which files are replaced.
//
// Not thread-safe. Call order: Open, Append until it fails, Close.
#pragma once

#include "platform/os/descriptor.h"

namespace gleaner::platform {

// What a trace begins with.
struct TraceFileHead {
  static constexpr uint64_t kMagic = 0x314352544e4c47;  // "GLNTRC1"
  uint64_t magic = kMagic;
  uint64_t process = 0;        // its number
  uint64_t process_start = 0;  // when it began, in ticks since the machine's start; 0: unknown
  uint64_t text_bytes = 0;     // of the description that follows, a multiple of 8
};

class TraceFile {
 public:
  enum class Opened : uint8_t {
    kYes,
    kInUse,    // a running process writes it, or this process has before it was another program
    kForeign,  // not empty and no trace, or no regular file
    kRefused,  // by the system: errno says why
  };
  // Opens, locks and empties the file. `path`: absolute; it is copied.
  Opened Open(const char* path);
  // Adds `bytes`. Returns 0 or the number of the error.
  int Append(const void* data, size_t bytes);
  // Ends the file and its lock.
  void Close();
  // Gives up this process's hold of the file, which goes on to be another's: in a forked child.
  void Leave();

  bool is_open() const { return path_[0] != 0; }
  const char* path() const { return path_; }
  // Of this process; `text_bytes` is 0.
  static TraceFileHead OwnHead();

 private:
  [[nodiscard]] bool HasDescriptor();

  OwnDescriptor descriptor_;
  char path_[4096] = {};
};

}  // namespace gleaner::platform
