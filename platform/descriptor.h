// A file descriptor of ours in a process whose program may close or replace any descriptor.
#pragma once

#include "platform/base.h"

namespace gleaner::platform {

class OwnDescriptor {
 public:
  constexpr OwnDescriptor() = default;
  OwnDescriptor(const OwnDescriptor&) = delete;
  OwnDescriptor& operator=(const OwnDescriptor&) = delete;

  // Takes `fd`, moves it to a number that programs do not count on, with close-on-exec, and
  // remembers which file it is. False if fd is negative or the file cannot be told from others.
  [[nodiscard]] bool Take(int fd);
  // Closes it, unless the program has done so, or put something else in its place.
  void Close();
  // Whether the number still stands for the file. A system call.
  bool IsOwn() const;
  int fd() const { return fd_; }

 private:
  int fd_ = -1;
  uint64_t device_ = 0, inode_ = 0;
};

}  // namespace gleaner::platform
