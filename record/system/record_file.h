// What the recorder needs of the operating system: a file that is written through mappings, and a
// word by which a process finds out that it is a forked child. Used by the recorder alone, not by
// the library. Allocates nothing.
#pragma once

#include "platform/os/atomic.h"
#include "platform/os/base.h"

namespace gleaner::record {

// A file without an open descriptor, since programs close descriptors that they do not know. Each
// operation opens it by its path, and fails if the path leads to another file by then. Results are
// 0 or errno. Not thread-safe. Call order: Create, then the others.
class RecordFile {
 public:
  // Creates the file; EEXIST if there is one. pre: the path is absolute and outlives this object.
  int Create(const char* path);
  // Grow makes the file `bytes` long, with disk space reserved if the file system can do that (a
  // write to a mapping cannot fail then). Cut shortens it to `bytes`.
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

// A word that is 0 in every forked child with a memory of its own, by whichever call it was forked;
// a child that shares this memory (vfork) sees the parent's value. Null, with errno, if the system
// has no such thing.
platform::Atomic<uint32_t>* MapForkWord();

uint64_t ProcessNumber();

// Copies up to `bytes` bytes of this process's command line, arguments separated by zero bytes.
// Returns the number of bytes.
size_t ReadCommandLine(char* buffer, size_t bytes);

// Nanoseconds of wall-clock time since 1970.
uint64_t WallClockNs();
// Monotonic time in ms, with a resolution of a few ms; makes no system call.
uint64_t CoarseMs();

}  // namespace gleaner::record
