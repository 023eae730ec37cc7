// The allocators that a trace can be replayed on, behind one interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

// Any thread may call at any time; a block is used by one thread at a time.
class ReplayHeap {
 public:
  virtual ~ReplayHeap() = default;

  // Null if there is no memory. `alignment` is a power of two, or 0 for malloc's own.
  virtual void* Allocate(size_t size, size_t alignment) = 0;
  virtual void* AllocateZeroed(size_t size) = 0;
  virtual void Free(void* p) = 0;
  // Null if there is no memory; the block is unchanged then.
  virtual void* Resize(void* p, size_t old_size, size_t size) = 0;
  // Largest address space used so far, in bytes; 0 if only the whole process can be measured.
  virtual uint64_t PeakAddressSpace() const { return 0; }
  // Address space used now, in bytes; 0 if only the whole process can be measured.
  virtual uint64_t AddressSpace() const { return 0; }
};

// The names that MakeReplayHeap knows.
std::vector<std::string> ReplayHeapNames();
// Makes the heap of that name. Null for an unknown name, and if the system refuses the memory.
// `bytes` is an upper bound of what is live at a time.
std::unique_ptr<ReplayHeap> MakeReplayHeap(const std::string& name, uint64_t bytes);
