// A file descriptor of the library in a process whose program may close or replace any descriptor.
// Not thread-safe.
#pragma once

#include "platform/base.h"

namespace gleaner::platform {

class OwnDescriptor {
 public:
  constexpr OwnDescriptor() = default;
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;

  // Takes `fd` over: moves it to a number that programs do not use, with close-on-exec, and
  // remembers its file. False, with `fd` closed, if `fd` is negative or fstat fails.
  [[nodiscard]] bool Take(int fd);
  // Closes the descriptor, unless the program has closed or replaced it.
  void Close();
  // Whether the number still stands for the file. Makes a system call.
  bool IsOwn() const;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace gleaner::platform
