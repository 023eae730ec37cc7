// A file in memory, for reading. While it is mapped, the library does not write another snapshot
// over it: the file is locked, where the file system has locks.
#pragma once

#include "platform/os/base.h"

namespace gleaner::tools {

class MappedFile {
 public:
  MappedFile() = default;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  // Returns 0 or the number of the error; EINVAL for what is no regular file, EBUSY for a file that
  // is being written. Once.
  int Map(const char* path);
  const uint8_t* data() const { return data_; }  // null for an empty file
  uint64_t bytes() const { return bytes_; }
  // Gives back the memory of the bytes below `offset` that are read again from the file if need be.
  void ForgetBelow(uint64_t offset);
  // Nothing is given back so far: for a reader that begins anew.
  void Rewind() { forgotten_ = 0; }

 private:
  int fd_ = -1;
  const uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t forgotten_ = 0;
};

}  // namespace gleaner::tools
