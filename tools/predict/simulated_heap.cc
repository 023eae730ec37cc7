#include "tools/predict/simulated_heap.h"

#include <algorithm>
#include <utility>

namespace gleaner::tools {

namespace {

constexpr uint64_t kWordBytes = 8;
constexpr uint64_t kMaxBytes = uint64_t{1} << 40;
// Of a range's address (gc::PackedRange) 30 bits are for the number of a cell.
constexpr uint64_t kMaxCells = uint64_t{1} << 30;
// As gc::RootTasks cuts roots.
constexpr uint64_t kRootTaskBytes = uint64_t{64} << 10;
constexpr uint64_t kUncollectableTaskBytes = uint64_t{16} << 20;

}  // namespace

SimulatedHeap::SimulatedHeap(const HeapGraph& graph, const std::vector<SnapshotKind>& kinds) {
  uint64_t cells = 1;
  graph.ForEachObject([&](ObjectId, uint64_t bytes, uint32_t) {
    cells += bytes / kCellBytes + 1;
    scanned_bytes_ += bytes;
  });
  if (scanned_bytes_ > kMaxBytes || cells > kMaxCells) {
    error_ = "the heap is larger than 1 TiB: that takes too long to simulate";
    cells_.push_back({});
    return;
  }
  std::vector<uint32_t> cell_of(graph.size());
  AddObjects(graph, kinds, &cell_of);
  AddReferences(graph, cell_of);
  AddRoots(graph, cell_of, kinds);
}

// Only a heap with objects of more than 256 KiB has more cells than objects.
void SimulatedHeap::AddObjects(const HeapGraph& graph, const std::vector<SnapshotKind>& kinds,
                               std::vector<uint32_t>* cell_of) {
  objects_ = graph.size();
  scanned_bytes_ = 0;
  cells_.reserve(graph.size() + 1);
  addresses_.reserve(graph.size());
  graph.ForEachObject([&](ObjectId object, uint64_t exact_bytes, uint32_t kind) {
    const auto first = static_cast<uint32_t>(cells_.size());
    (*cell_of)[object] = first;
    const uint64_t bytes = AlignUp(exact_bytes, uint64_t{alloc::kGranuleBytes});
    uint8_t flags = 0;
    if (kind < kinds.size()) {
      if (kinds[kind].is_pointer_free) flags |= kPointerFree;
      if (kinds[kind].is_described) flags |= kDescribed;
    }
    if ((flags & kPointerFree) == 0) scanned_bytes_ += bytes;
    if (bytes > kCellBytes) {
      flags |= kLong;
      long_[first] = bytes;
    }
    const uint64_t address = graph.AddressOf(object);
    for (uint64_t at = 0; at < bytes; at += kCellBytes) {
      const uint64_t in_cell = std::min(bytes - at, kCellBytes);
      cells_.push_back({0, 0, static_cast<uint16_t>(in_cell / alloc::kGranuleBytes), flags});
      addresses_.push_back(address + at);
      flags = static_cast<uint8_t>((flags & ~kLong) | kRest);
    }
  });
  if (!addresses_.empty()) heap_begin_ = addresses_[0];
  cells_.push_back({});
}

void SimulatedHeap::AddReferences(const HeapGraph& graph, const std::vector<uint32_t>& cell_of) {
  targets_.reserve(graph.reference_count());
  words_.reserve(graph.reference_count());
  for (ObjectId object = 0; object < graph.size(); ++object) {
    const uint32_t first = cell_of[object];
    uint32_t cell = first;
    cells_[cell].first_reference = static_cast<uint32_t>(targets_.size());
    graph.ForEachWord(object, [&](ObjectId target, bool, uint64_t offset) {
      // A procedure tells of it; or so does a file that is no snapshot of ours.
      if (offset >= graph.BytesOf(object)) {
        cells_[first].flags |= kDescribed;
        offset = 0;
      }
      const uint64_t to = first + (offset >> kCellShift);
      while (cell < to) cells_[++cell].first_reference = static_cast<uint32_t>(targets_.size());
      targets_.push_back(cell_of[target]);
      words_.push_back(static_cast<uint16_t>(offset % kCellBytes / kWordBytes));
    });
    const uint32_t end = EndOf(first);
    while (++cell < end) cells_[cell].first_reference = static_cast<uint32_t>(targets_.size());
  }
  cells_.back().first_reference = static_cast<uint32_t>(targets_.size());
}

void SimulatedHeap::Reorder(const std::vector<uint32_t>& order) {
  constexpr uint32_t kNone = ~uint32_t{0};
  std::vector<uint32_t> new_of(size(), kNone);
  std::vector<uint32_t> old_of;
  old_of.reserve(size());
  const auto append = [&](uint32_t first) {
    if (new_of[first] != kNone || (cells_[first].flags & kRest) != 0) return;
    const uint64_t count =
        (cells_[first].flags & kLong) == 0 ? 1 : (long_.at(first) + kCellBytes - 1) / kCellBytes;
    for (uint64_t i = 0; i < count; ++i) {
      new_of[first + i] = static_cast<uint32_t>(old_of.size());
      old_of.push_back(static_cast<uint32_t>(first + i));
    }
  };
  for (const uint32_t cell : order) append(cell);
  for (uint32_t cell = 0; cell < size(); ++cell) append(cell);

  HugeVector<Cell> cells;
  cells.reserve(cells_.size());
  HugeVector<uint32_t> targets;
  targets.reserve(targets_.size());
  HugeVector<uint16_t> words;
  words.reserve(words_.size());
  HugeVector<uint64_t> addresses;
  addresses.reserve(addresses_.size());
  for (const uint32_t old : old_of) {
    cells.push_back(cells_[old]);
    cells.back().first_reference = static_cast<uint32_t>(targets.size());
    addresses.push_back(addresses_[old]);
    for (uint32_t i = cells_[old].first_reference; i < cells_[old + 1].first_reference; ++i) {
      targets.push_back(new_of[targets_[i]]);
      words.push_back(words_[i]);
    }
  }
  cells.push_back({});
  cells.back().first_reference = static_cast<uint32_t>(targets.size());
  cells_ = std::move(cells);
  targets_ = std::move(targets);
  words_ = std::move(words);
  addresses_ = std::move(addresses);
  std::unordered_map<uint32_t, uint64_t> all_long;
  for (const auto& [cell, bytes] : long_) all_long[new_of[cell]] = bytes;
  long_ = std::move(all_long);
  for (RootTask& task : root_tasks_) {
    for (uint32_t& cell : task.cells) cell = new_of[cell];
  }
}

// Roots with memory are cut as gc::RootTasks cuts them, whether they refer to objects or not; words
// that were copied before they are read, and others without memory, lie side by side.
void SimulatedHeap::AddRoots(const HeapGraph& graph, const std::vector<uint32_t>& cell_of,
                             const std::vector<SnapshotKind>& kinds) {
  const std::vector<GraphRoot>& roots = graph.roots();
  std::vector<size_t> first_task;  // of each root
  first_task.reserve(roots.size());
  uint64_t all_bytes = 0;
  for (const GraphRoot& root : roots) {
    first_task.push_back(root_tasks_.size());
    const uint64_t bytes = root.end > root.begin ? root.end - root.begin : 0;
    if (bytes > kMaxBytes || (all_bytes += bytes) > kMaxBytes) {
      error_ = "the roots are larger than 1 TiB: that takes too long to simulate";
      return;
    }
    for (uint64_t at = 0; at < bytes; at += kRootTaskBytes) {
      root_tasks_.push_back(
          {root.begin + at, std::min(bytes - at, kRootTaskBytes) / kWordBytes, 0, {}});
    }
  }
  size_t copied =
      root_tasks_.size();  // the task that takes words without memory, once there is one
  for (const RootReference& reference : graph.root_references()) {
    const uint32_t kind = graph.KindOf(reference.target);
    const GraphRoot& root = roots[reference.root];
    if (root.kind == SnapshotRoot::kUncollectable && kind < kinds.size() &&
        kinds[kind].is_uncollectable) {
      continue;  // below
    }
    size_t task = copied;
    if (reference.word >= root.begin && reference.word < root.end) {
      task = first_task[reference.root] + (reference.word - root.begin) / kRootTaskBytes;
    } else if (copied == root_tasks_.size()) {
      root_tasks_.push_back({0, 0, 0, {}});
    } else if (root_tasks_[copied].words == kRootTaskBytes / kWordBytes) {
      task = ++copied;
      root_tasks_.push_back({0, 0, 0, {}});
    }
    if (task == copied) ++root_tasks_[task].words;
    root_tasks_[task].cells.push_back(cell_of[reference.target]);
  }
  uint64_t task_end = 0;
  graph.ForEachObject([&](ObjectId object, uint64_t, uint32_t kind) {
    if (kind >= kinds.size() || !kinds[kind].is_uncollectable) return;
    const uint64_t address = graph.AddressOf(object);
    if (address >= task_end) {
      task_end = address + kUncollectableTaskBytes;
      root_tasks_.push_back({0, 0, 0, {}});
    }
    root_tasks_.back().cells.push_back(cell_of[object]);
  });
}

}  // namespace gleaner::tools
