// A file in memory, for reading. While it is mapped, the library does not write another snapshot
// over it: the file is locked, where the file system has locks.
#pragma once

#include "platform/base.h"

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

 private:
  int fd_ = -1;
  const uint8_t* data_ = nullptr;
  uint64_t bytes_ = 0;
};

}  // namespace gleaner::tools
