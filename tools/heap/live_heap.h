// The figures of a heap in a running process (runtime/observe/live_figures.h), read from outside.
#pragma once

#include <elf.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime/observe/live_figures.h"
#include "tools/system/process_memory.h"

namespace gleaner::tools {

// One look at a heap. Numbers of different kinds are of instants some microseconds apart, but of
// the same time between two collections.
struct HeapSample {
  uint64_t time_ns = 0;   // CLOCK_MONOTONIC
  bool is_whole = false;  // false: some of it may be of the time before a collection, some after
  uint64_t heap_bytes = 0;
  uint64_t metadata_bytes = 0;
  uint64_t live_bytes = 0;  // at the end of the last collection
  uint64_t live_objects = 0;
  uint64_t allocated_bytes = 0;  // since the start
  uint64_t allocated_since_bytes = 0;
  uint64_t freed_since_bytes = 0;  // by GC_free
  uint64_t free_bytes = 0;
  // What is charged against the allowance; the next collection comes when it is used up. An
  // allowance of 0: there is none.
  uint64_t charged_bytes = 0;
  uint64_t allowance_bytes = 0;
  uint64_t threads = 0;
  uint64_t markers = 0;
  gc::CycleState cycle_state = gc::CycleState::kIdle;
  bool is_concurrent = false;
  bool is_generational = false;
  uint64_t collections = 0;
  uint64_t causes[gc::kCauses] = {};
  uint64_t kinds[4] = {};
  uint64_t pause_ns = 0;  // of all collections
  uint64_t longest_pause_ns = 0;
  // The last collection, if there has been one.
  gc::Cause cause = gc::Cause::kAllocation;
  gc::CollectionKind kind = gc::CollectionKind::kStopParallel;
  uint64_t end_ns = 0;
  uint64_t last_pause_ns = 0;
  uint64_t freed_bytes = 0;
  uint64_t steals = 0;
  uint64_t finalizable = 0;
  struct Pause {
    uint64_t begin_ns;
    uint64_t end_ns;
  };
  std::vector<Pause> pauses;  // the last ones, in their order
  uint64_t stall_ns[platform::kStallCauses] = {};
  uint64_t longest_stall_ns[platform::kStallCauses] = {};
};

// The segments of the object file of 64 bits with this head, that is mapped at `address`, and where
// its addresses count from. False if they cannot be read, or none begins the file.
[[nodiscard]] bool ReadSegments(const ProcessMemory& memory, uint64_t address,
                                const Elf64_Ehdr& head, std::vector<Elf64_Phdr>* segments,
                                uint64_t* bias);
// False if no object file is mapped there.
[[nodiscard]] bool ReadHead(const ProcessMemory& memory, uint64_t address, Elf64_Ehdr* head);

class LiveHeap {
 public:
  // The heaps of the process, used or not: a process may have several copies of the library.
  // `has_32_bits`: whether the process runs a program of 32 bits.
  static std::vector<LiveHeap> Find(const ProcessMemory& memory, bool* has_32_bits);

  enum class Found : uint8_t {
    kYes,
    kUnused,        // the program has not used the heap yet
    kUncollected,   // the heap has no collector: libgleaner_malloc.so without GLEANER_COLLECT
    kOtherVersion,  // what is there is of another version of Gleaner
    kUnreadable,
  };
  Found Read(const ProcessMemory& memory, HeapSample* sample);
  const std::string& file() const { return file_; }        // the library's, or the program's
  const std::string& version() const { return version_; }  // of the library, once read
  // Null until they are read, which they are also of a heap without a collector.
  const runtime::HeapTables* tables() const {
    return tables_.magic == runtime::HeapTables::kMagic ? &tables_ : nullptr;
  }

 private:
  LiveHeap(std::string file, uint64_t pointer) : file_(std::move(file)), pointer_(pointer) {}
  // All but what a sample takes from `figures_`. False if something cannot be read.
  [[nodiscard]] bool ReadOnce(const ProcessMemory& memory, uint64_t address, HeapSample* sample);
  [[nodiscard]] bool ReadPlaces(const ProcessMemory& memory, HeapSample* sample) const;
  [[nodiscard]] bool ReadAllocation(const ProcessMemory& memory, HeapSample* sample) const;
  [[nodiscard]] bool ReadStalls(const ProcessMemory& memory, HeapSample* sample) const;
  void TakeCollections(HeapSample* sample) const;

  std::string file_;
  uint64_t pointer_;  // where g_live_figures is
  std::string version_;
  runtime::HeapTables tables_ = {};
  std::unique_ptr<runtime::LiveFigures> figures_;  // a copy
};

}  // namespace gleaner::tools
