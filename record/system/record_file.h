// What the recorder asks of the operating system: a file that is written by way of mappings, and a
// word by which a process knows that it is the child of a fork. Of the recorder alone: not part of
// the library. Allocates nothing.
#pragma once

#include "platform/atomic.h"
#include "platform/base.h"

namespace gleaner::record {

// A file that no descriptor is held of: programs close descriptors they do not know. It is opened
// by its path for each operation, and refused if the path leads to another file by then. Results
// are 0 or errno. Not thread-safe.
class RecordFile {
 public:
  // Creates the file; EEXIST if there is one. pre: the path is absolute and outlives this object.
  int Create(const char* path);
  // Makes the file `bytes` long, with the space on the disk reserved if the file system can do that
  // (writing to a mapping can then not fail), or cuts it off.
  int Grow(uint64_t bytes);
  int Cut(uint64_t bytes);
  // Maps part of the file, shared and writable; null with errno.
  void* Map(uint64_t offset, size_t bytes);
  static void Unmap(void* p, size_t bytes);

 private:
  int Open() const;  // -1 with errno

  const char* path_ = nullptr;
  uint64_t device_ = 0;
  uint64_t inode_ = 0;
};

// The largest file this process may write, in bytes (RLIMIT_FSIZE), or UINT64_MAX.
uint64_t FileSizeLimit();

// A word that is 0 in every child of this process that has a memory of its own, however it was
// forked; not in one that shares this memory (vfork). Null if the system has no such thing.
platform::Atomic<uint32_t>* MapForkWord();

uint64_t ProcessNumber();

// The first bytes of this process's command line, arguments separated by zero bytes.
size_t ReadCommandLine(char* buffer, size_t bytes);

// Nanoseconds of wall-clock time since 1970.
uint64_t WallClockNs();
// Monotonic time in ms, a few ms coarse, without a system call.
uint64_t CoarseMs();

}  // namespace gleaner::record
