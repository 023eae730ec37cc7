// The file of one heap snapshot (docs/reference/heap.md): private to the user, as it holds
// words of the program's stacks.
//
// Used by one thread. Call order: Open, Append any number of times, Close.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

class SnapshotFile {
 public:
  // What a snapshot begins with. The checksum is that of the three words before it.
  struct Head {
    uint64_t magic = 0;
    uint64_t process = 0;        // its number
    uint64_t process_start = 0;  // when it began, in ticks since the machine's start; 0: unknown
    uint64_t checksum = 0;
  };
  enum class Opened : uint8_t {
    kYes,
    kInUse,    // a running process has written it
    kForeign,  // not empty and no snapshot, or no regular file
    kRefused,  // by the system: errno says why
  };
  // Opens and empties the file. `head`: of this process, its magic that of all snapshots that may
  // be replaced. `own`: the program has named the file, and may replace its own.
  Opened Open(const char* path, const Head& head, bool own);
  // Adds `bytes`. Returns 0 or the number of the error.
  int Append(const void* data, size_t bytes);
  // `keep`: false empties the file, so that half a snapshot takes no space. Returns 0 or the number
  // of the error.
  int Close(bool keep);
  // In a forked child, by its only thread: the file, if one is open, is the parent's.
  void LeaveAfterFork();

 private:
  int fd_ = -1;
};

}  // namespace gleaner::platform
