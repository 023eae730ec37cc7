// The allocators that a trace can be replayed on, behind one interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

class ReplayHeap {
 public:
  virtual ~ReplayHeap() = default;

  // Null if there is no memory. `alignment` is a power of two, or 0 for what malloc gives.
  virtual void* Allocate(size_t size, size_t alignment) = 0;
  virtual void* AllocateZeroed(size_t size) = 0;
  virtual void Free(void* p) = 0;
  // Null if there is no memory: the block stays as it is.
  virtual void* Resize(void* p, size_t old_size, size_t size) = 0;
  // The most addresses it has used so far; 0 if only the process as a whole tells.
  virtual uint64_t PeakAddressSpace() const { return 0; }
  // Those it uses now.
  virtual uint64_t AddressSpace() const { return 0; }
};

// The names that MakeReplayHeap knows.
std::vector<std::string> ReplayHeapNames();
// Null for an unknown name, and if the system refuses what the heap needs. `bytes` bounds what will
// be live at a time.
std::unique_ptr<ReplayHeap> MakeReplayHeap(const std::string& name, uint64_t bytes);
