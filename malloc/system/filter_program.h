// Handing data to another program and getting its answer, without malloc: for a process that ends.
#pragma once

#include "platform/base.h"

namespace gleaner::malloc_proxy {

// A file in memory, without a name.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Adds to the end. False if the file could not be made or there is no memory.
  bool Append(const void* data, size_t bytes);
  // All of it, writable and private to this process, followed by at least one zero byte; null if
  // that cannot be had. Stays mapped.
  char* Map(size_t* bytes);
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Runs a program with these arguments (the last is null), an empty environment, `input` from its
// beginning as standard input and `output` as standard output, what it complains of dropped, and
// waits for its end. True if it could be started; whether its answer is whole is for the caller to
// see, as the process may have arranged not to learn how its children end. Any thread; changes no
// handler of a signal.
bool RunFilter(const char* program, const char* const* arguments, const MemoryFile& input,
               const MemoryFile& output);

}  // namespace gleaner::malloc_proxy
