// Sends data to another program and reads its answer, without malloc: for a process that ends.
#pragma once

#include "platform/os/base.h"

namespace gleaner::malloc_proxy {

// A file in memory, without a name. One thread.
class MemoryFile {
 public:
  MemoryFile();
  ~MemoryFile();
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  // Adds to the end. False if the file could not be made or there is no memory.
  bool Append(const void* data, size_t bytes);
  // Maps the whole file, writable and private to this process, followed by at least one zero byte.
  // Null on failure. The mapping is never removed.
  char* Map(size_t* bytes);
  int fd() const { return fd_; }

 private:
  const int fd_;
};

// Runs a program and waits for its end. `arguments` ends with null; the environment is empty.
// Standard input is `input` from its beginning, standard output is `output`, standard error is
// discarded. True if the program was started. The caller has to check that the answer is complete:
// the process may be set up not to learn how its children end. Any thread; changes no signal
// handler.
bool RunFilter(const char* program, const char* const* arguments, const MemoryFile& input,
               const MemoryFile& output);

}  // namespace gleaner::malloc_proxy
