// File descriptors of the library in a process whose program may close or replace any descriptor,
// and fork at any time. Not thread-safe.
#pragma once

#include "platform/os/base.h"

namespace gleaner::platform {

// Calls open with close-on-exec. The descriptor never has the number of a standard stream: a
// program that has closed one may go on writing to it.
int OpenAboveStandard(const char* path, int flags, unsigned mode);
// Opens a file to read it and add to it; -1 with errno. A file that does not exist is made with the
// permissions `mode`, or not at all for 0.
int OpenToAppend(const char* path, unsigned mode);
// False if another process has the file locked. A file system without locks has none.
bool LockFile(int fd);
// Ends the lock and closes the descriptor. A child that was forked meanwhile has a copy of the
// descriptor, with which the lock would go on. Returns 0 or the number of the error.
int UnlockAndClose(int fd);

class OwnDescriptor {
 public:
  constexpr OwnDescriptor() = default;
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;

  // Takes `fd` over: moves it to a number that programs do not use, with close-on-exec, and
  // remembers its file. False, with `fd` closed, if `fd` is negative or fstat fails.
  [[nodiscard]] bool Take(int fd);
  // Closes the descriptor, unless the program has closed or replaced it. Its lock goes on as long
  // as another process has a copy of the descriptor.
  void Close();
  // Ends the lock for all copies, and closes the descriptor.
  void UnlockAndClose();
  // Whether the number still stands for the file. Makes a system call.
  bool IsOwn() const;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace gleaner::platform
