// The objects of a heap snapshot, as the simulated marker scans them.
//
// An object begins at the address of its number, in a space of its own: each number stands for
// 256 KiB of addresses, and an object that is longer takes several numbers in a row. So ranges of
// objects, and parts of them, are what they are in the marker (gc::PackedRange), and where an
// address leads is a shift.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "gc/mark/range_stack.h"
#include "tools/heap/heap_graph.h"
#include "tools/heap/snapshot_file.h"
#include "tools/predict/huge_pages.h"

namespace gleaner::tools {

class SimulatedHeap {
 public:
  static constexpr unsigned kCellShift = 18;
  static constexpr uint64_t kCellBytes = uint64_t{1} << kCellShift;

  struct Cell {
    uint32_t first_reference;  // those of the next cell begin where its own end
    uint32_t memory_ps;        // time that scanning it waits for memory, its mark byte included
    uint16_t granules;         // of the cell, 16 bytes each
    uint8_t flags;
  };
  static constexpr uint8_t kPointerFree = 1;
  static constexpr uint8_t kDescribed = 2;  // its references are those that a procedure tells
  static constexpr uint8_t kLong = 4;       // has more cells, which follow
  static constexpr uint8_t kRest = 8;       // is not the first cell of its object

  // Some of the roots, which one worker reads.
  struct RootTask {
    uint64_t begin;               // of the memory that is read, in the process
    uint64_t words;               // of it
    uint64_t memory_ps;           // time that reading it waits for memory
    std::vector<uint32_t> cells;  // of the objects that they refer to
  };

  // Takes objects, references and roots; `kinds` are those of the snapshot. The graph keeps words.
  SimulatedHeap(const HeapGraph& graph, const std::vector<SnapshotKind>& kinds);

  // What keeps the heap from being simulated; empty if nothing does. Else there are no objects.
  const std::string& error() const { return error_; }

  size_t size() const { return cells_.size() - 1; }  // cells
  size_t objects() const { return objects_; }
  size_t references() const { return targets_.size(); }
  Cell& cell(size_t i) { return cells_[i]; }
  const Cell& cell(size_t i) const { return cells_[i]; }
  uint32_t target(size_t reference) const { return targets_[reference]; }
  // Where the word of a reference stands in its cell, in words.
  uint16_t word(size_t reference) const { return words_[reference]; }
  // Of the object that begins with the cell.
  uint64_t BytesOf(uint32_t cell) const {
    return (cells_[cell].flags & kLong) == 0 ? cells_[cell].granules * uint64_t{16}
                                             : long_.at(cell);
  }
  // The cell behind the last one of the object that begins with the cell.
  uint32_t EndOf(uint32_t cell) const {
    return cell + static_cast<uint32_t>((BytesOf(cell) + kCellBytes - 1) / kCellBytes);
  }
  // In the process.
  uint64_t AddressOf(uint32_t cell) const { return addresses_[cell]; }
  uint64_t heap_begin() const { return heap_begin_; }  // of the first object
  // What a run reads of the cell for the first time when it marks the object, unless cells are in
  // the order of the run.
  void PrefetchCell(uint32_t cell) const {
    __builtin_prefetch(&cells_[cell]);
    __builtin_prefetch(&addresses_[cell]);
  }
  void PrefetchReferences(const Cell& cell) const {
    __builtin_prefetch(targets_.data() + cell.first_reference);
  }

  // The range of memory that cells stand for.
  static Addr BeginOf(uint32_t cell) { return static_cast<Addr>(cell) << kCellShift; }
  static uint32_t CellAt(Addr address) { return static_cast<uint32_t>(address >> kCellShift); }

  // Renumbers the cells: those of `order` come first, in this order, then the others. Later runs
  // that meet the objects in nearly the same order find them side by side.
  void Reorder(const std::vector<uint32_t>& order);

  std::vector<RootTask>& root_tasks() { return root_tasks_; }
  const std::vector<RootTask>& root_tasks() const { return root_tasks_; }
  uint64_t scanned_bytes() const { return scanned_bytes_; }  // of objects that may have references

 private:
  void AddObjects(const HeapGraph& graph, const std::vector<SnapshotKind>& kinds,
                  std::vector<uint32_t>* cell_of);
  void AddReferences(const HeapGraph& graph, const std::vector<uint32_t>& cell_of);
  void AddRoots(const HeapGraph& graph, const std::vector<uint32_t>& cell_of,
                const std::vector<SnapshotKind>& kinds);

  std::string error_;
  size_t objects_ = 0;
  uint64_t heap_begin_ = 0;
  uint64_t scanned_bytes_ = 0;
  HugeVector<Cell> cells_;  // one more for the end
  HugeVector<uint32_t> targets_;
  HugeVector<uint16_t> words_;
  HugeVector<uint64_t> addresses_;
  std::unordered_map<uint32_t, uint64_t> long_;  // bytes of objects with several cells
  std::vector<RootTask> root_tasks_;
};

}  // namespace gleaner::tools
