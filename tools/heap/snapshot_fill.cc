// From a snapshot's records of objects and roots to a HeapGraph.
#include <algorithm>
#include <utility>
#include <vector>

#include "tools/heap/snapshot_file.h"
#include "tools/heap/snapshot_records.h"

namespace gleaner::tools {

using gc::SnapshotBlock;

namespace {

// Gives the objects of a snapshot to a graph.
struct ObjectAdder {
  HeapGraph* graph;
  size_t kinds;

  bool Page(uint64_t begin, uint64_t bytes, uint64_t kind, const uint8_t* live, uint64_t slots) {
    return kind < kinds &&
           graph->AddObjects(begin, bytes, static_cast<uint32_t>(kind), live, slots);
  }
  bool Object(uint64_t, uint64_t) { return true; }
  bool Root(const GraphRoot&) { return false; }
  bool Reference(uint64_t, uint64_t, uint64_t, bool) { return true; }
  bool End() { return true; }
};

// A word of the snapshot as HeapGraph takes it.
struct GraphWord {
  uint64_t address;
  WordTraits traits;
};
GraphWord WordFor(const HeapGraph& graph, uint64_t base, uint64_t value, bool is_known) {
  const bool is_past_end = value != base && graph.Find(value) != graph.Find(base);
  return {is_past_end ? base : value, {is_known, is_past_end}};
}

// Gives the references of a snapshot's objects to a graph that has the objects.
class ReferenceAdder {
 public:
  ReferenceAdder(HeapGraph* graph, const std::vector<SnapshotKind>& kinds)
      : graph_(*graph), kinds_(kinds) {}

  bool Page(uint64_t, uint64_t, uint64_t kind, const uint8_t* live, uint64_t slots) {
    object_ = next_;
    // Mark procedures may tell of references in any order.
    sorts_ = slots == 1 && kinds_[kind].is_described;
    for (uint64_t slot = 0; slot < slots; ++slot) next_ += live[slot / 8] >> (slot % 8) & 1;
    return true;
  }
  bool Object(uint64_t, uint64_t type) {
    current_ = object_++;
    if (current_ >= next_) return false;
    if (type != 0) graph_.SetVtable(current_, type);
    return true;
  }
  bool Root(const GraphRoot&) { return false; }
  bool Reference(uint64_t offset, uint64_t base, uint64_t value, bool is_known) {
    if (offset == SnapshotWord::kNoOffset) offset = 0;
    const GraphWord word = WordFor(graph_, base, value, is_known);
    if (!sorts_) return graph_.AddReference(current_, offset, word.address, word.traits);
    sorted_.emplace_back(offset, word);
    return true;
  }
  bool End() {
    std::stable_sort(sorted_.begin(), sorted_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [offset, word] : sorted_) {
      if (!graph_.AddReference(current_, offset, word.address, word.traits)) return false;
    }
    sorted_.clear();
    return true;
  }

 private:
  HeapGraph& graph_;
  const std::vector<SnapshotKind>& kinds_;
  ObjectId object_ = 0;  // the next one of the page
  ObjectId next_ = 0;    // the first one behind the page
  ObjectId current_ = 0;
  bool sorts_ = false;
  std::vector<std::pair<uint64_t, GraphWord>> sorted_;  // by offset
};

// Gives the roots of a snapshot to a graph. `names`: of the memory that static roots lie in.
class RootAdder {
 public:
  RootAdder(HeapGraph* graph, const SnapshotFile& file) : graph_(*graph), file_(file) {}

  bool Page(uint64_t, uint64_t, uint64_t, const uint8_t*, uint64_t) { return false; }
  bool Object(uint64_t, uint64_t) { return false; }
  bool Root(GraphRoot root) {
    if (root.kind == SnapshotRoot::kStatic) root.name = ModuleOf(root.begin);
    if (root.thread != kNoThread && root.thread >= file_.threads().size()) return false;
    begin_ = root.begin;
    root_ = graph_.AddRoot(std::move(root));
    return true;
  }
  bool Reference(uint64_t offset, uint64_t base, uint64_t value, bool is_known) {
    const uint64_t at = offset == SnapshotWord::kNoOffset ? 0 : begin_ + offset;
    const GraphWord word = WordFor(graph_, base, value, is_known);
    return graph_.AddRootReference(root_, at, word.address, word.traits);
  }
  bool End() { return true; }

 private:
  const std::string& ModuleOf(uint64_t address) const {
    static const std::string none;
    for (const SnapshotModule& module : file_.modules()) {
      for (const SnapshotSegment& segment : module.segments) {
        if (address - segment.begin < segment.end - segment.begin) return module.path;
      }
    }
    return none;
  }

  HeapGraph& graph_;
  const SnapshotFile& file_;
  uint64_t begin_ = 0;
  uint32_t root_ = 0;
};

// Objects of uncollectable kinds are roots themselves.
void AddUncollectable(const std::vector<SnapshotKind>& kinds, HeapGraph* graph) {
  uint32_t root = kNoThread;
  graph->ForEachObject([&](ObjectId object, uint64_t, uint32_t kind) {
    if (!kinds[kind].is_uncollectable) return;
    if (root == kNoThread) {
      root =
          graph->AddRoot({SnapshotRoot::kUncollectable, kNoThread, 0, 0, "uncollectable objects"});
    }
    (void)graph->AddRootReference(root, 0, graph->AddressOf(object));
  });
}

}  // namespace

bool SnapshotFile::Fill(HeapGraph* graph) {
  const auto decode = [this](SnapshotBlock type, auto* handler) {
    SnapshotRecords records(handler);
    file_.Rewind();
    for (const Block& block : blocks_) {
      if (block.type != type) continue;
      file_.ForgetBelow(block.offset);
      SnapshotCursor cursor(data_ + block.offset, block.bytes);
      if (!records.Block(&cursor)) {
        return Damaged(block.offset + cursor.offset(),
                       cursor.ok() ? "what it says contradicts itself" : "no record");
      }
    }
    return !records.is_open() || Damaged(bytes_, "references are missing");
  };
  ObjectAdder objects{graph, kinds_.size()};
  if (!decode(SnapshotBlock::kObjects, &objects)) return false;
  graph->FinishObjects();
  // Each reference takes a byte of the file.
  graph->ReserveReferences(totals_.references < bytes_ ? totals_.references : bytes_);
  ReferenceAdder references(graph, kinds_);
  if (!decode(SnapshotBlock::kObjects, &references)) return false;
  RootAdder roots(graph, *this);
  if (!decode(SnapshotBlock::kRoots, &roots)) return false;
  AddUncollectable(kinds_, graph);
  graph->FinishReferences();
  if (graph->size() != totals_.objects || graph->reference_count() != totals_.references) {
    return Damaged(bytes_, "the totals");
  }
  return true;
}

}  // namespace gleaner::tools
