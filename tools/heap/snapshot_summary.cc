#include "tools/heap/snapshot_summary.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>

#include "tools/heap/dominators.h"
#include "tools/heap/heap_graph.h"
#include "tools/heap/process_image.h"
#include "tools/heap/root_paths.h"
#include "tools/heap/snapshot_file.h"
#include "tools/heap/snapshot_names.h"

namespace gleaner::tools {

namespace {

// Objects that retain less than one such part of the heap are not among the largest.
constexpr uint64_t kMinShare = 1000;

void SortByBytes(std::vector<SummaryRow>* rows) {
  std::sort(rows->begin(), rows->end(), [](const SummaryRow& a, const SummaryRow& b) {
    return std::tie(b.bytes, a.root, a.kind, a.type, a.object_bytes) <
           std::tie(a.bytes, b.root, b.kind, b.type, b.object_bytes);
  });
}

void CountKinds(const HeapGraph& graph, SnapshotNames* names, std::vector<SummaryRow>* rows) {
  using Key = std::tuple<uint64_t, uint32_t, uint32_t>;  // bytes, kind, type
  std::map<Key, uint64_t> counts;
  // Objects in a row mostly are of one key.
  Key last_key;
  uint64_t* last = nullptr;
  graph.ForEachObject([&](ObjectId object, uint64_t bytes, uint32_t kind) {
    const Key key = {bytes, kind, graph.TypeOf(object)};
    if (last == nullptr || key != last_key) {
      last = &counts[key];
      last_key = key;
    }
    ++*last;
  });
  for (const auto& [key, count] : counts) {
    const auto [bytes, kind, type] = key;
    rows->push_back({names->Kind(kind), names->Type(type), bytes, "", count, count * bytes});
  }
  SortByBytes(rows);
}

// Of each root reference the group of its name; of the groups their names and rounds.
std::vector<uint32_t> GroupRoots(const HeapGraph& graph, SnapshotNames* names,
                                 std::vector<std::string>* groups, std::vector<int>* rounds) {
  std::unordered_map<std::string, uint32_t> numbers;
  std::vector<uint32_t> group_of;
  group_of.reserve(graph.root_references().size());
  for (const RootReference& reference : graph.root_references()) {
    const std::string name = names->Group(reference);
    const auto [found, is_new] = numbers.try_emplace(name, static_cast<uint32_t>(groups->size()));
    if (is_new) {
      groups->push_back(name);
      rounds->push_back(SearchRound(graph, reference));
    }
    group_of.push_back(found->second);
  }
  return group_of;
}

std::vector<ObjectId> LargestObjects(const HeapGraph& graph, const Dominators& dominators,
                                     size_t top) {
  std::vector<ObjectId> largest;
  const auto retains_more = [&](ObjectId a, ObjectId b) {
    return std::tuple(dominators.RetainedBytes(b), a) < std::tuple(dominators.RetainedBytes(a), b);
  };
  const uint64_t min_bytes = graph.total_bytes() / kMinShare;
  // A heap whose first is the one that retains least.
  for (ObjectId object = 0; object < graph.size(); ++object) {
    if (!dominators.IsReached(object) || dominators.RetainedBytes(object) < min_bytes ||
        dominators.IsMostOfItsDominator(object)) {
      continue;
    }
    if (largest.size() == top) {
      if (top == 0 || !retains_more(object, largest.front())) continue;
      std::pop_heap(largest.begin(), largest.end(), retains_more);
      largest.pop_back();
    }
    largest.push_back(object);
    std::push_heap(largest.begin(), largest.end(), retains_more);
  }
  std::sort_heap(largest.begin(), largest.end(), retains_more);
  return largest;
}

std::string NameOf(const SummaryRow& row) {
  return row.root + '\0' + row.kind + '\0' + row.type + '\0' + std::to_string(row.object_bytes);
}

}  // namespace

bool Summarize(const std::string& path, size_t top, SnapshotSummary* summary, std::string* error) {
  SnapshotFile file;
  HeapGraph graph(false);
  if (!file.Open(path) || !file.Fill(&graph)) {
    *error = file.error();
    return false;
  }
  ProcessImage image(file.modules());
  SnapshotNames names(file, graph, &image);
  summary->path = path;
  summary->description = file.description();
  summary->warnings = image.warnings();
  summary->objects = graph.size();
  summary->bytes = graph.total_bytes();
  summary->references = graph.reference_count();
  CountKinds(graph, &names, &summary->kinds);

  std::vector<std::string> groups;
  std::vector<int> rounds;
  const std::vector<uint32_t> group_of = GroupRoots(graph, &names, &groups, &rounds);
  RootPaths paths(graph);
  paths.Search();
  const Dominators dominators(&graph, group_of, rounds);
  summary->reached_objects = dominators.ReachedObjects();
  summary->reached_bytes = dominators.ReachedBytes();
  summary->shared_objects = summary->reached_objects;
  summary->shared_bytes = summary->reached_bytes;
  for (uint32_t group = 0; group < groups.size(); ++group) {
    const uint64_t objects = dominators.GroupRetainedObjects(group);
    const uint64_t bytes = dominators.GroupRetainedBytes(group);
    if (objects == 0) continue;  // others keep the same
    summary->roots.push_back({"", "", 0, groups[group], objects, bytes});
    summary->shared_objects -= objects;
    summary->shared_bytes -= bytes;
  }
  SortByBytes(&summary->roots);
  for (const ObjectId object : LargestObjects(graph, dominators, top)) {
    ObjectId first = object;
    for (ObjectId each = object; each != kNoObject; each = paths.Before(each)) first = each;
    summary->largest.push_back(
        {graph.AddressOf(object), graph.BytesOf(object), names.Kind(graph.KindOf(object)),
         names.Type(graph.TypeOf(object)), dominators.RetainedBytes(object),
         dominators.RetainedObjects(object), groups[group_of[paths.RootReferenceOf(first)]]});
  }
  return true;
}

std::vector<GrowthRow> Growth(const std::vector<SummaryRow>& before,
                              const std::vector<SummaryRow>& after) {
  std::map<std::string, GrowthRow> by_name;
  for (const SummaryRow& row : before) {
    GrowthRow& both = by_name[NameOf(row)];
    both.before = row;
    both.after = row;
    both.after.objects = both.after.bytes = 0;
  }
  for (const SummaryRow& row : after) {
    const auto [found, is_new] = by_name.try_emplace(NameOf(row));
    if (is_new) {
      found->second.before = row;
      found->second.before.objects = found->second.before.bytes = 0;
    }
    found->second.after = row;
  }
  std::vector<GrowthRow> rows;
  for (const auto& [name, row] : by_name) {
    if (row.grown_bytes() != 0 || row.grown_objects() != 0) rows.push_back(row);
  }
  std::stable_sort(rows.begin(), rows.end(), [](const GrowthRow& a, const GrowthRow& b) {
    return a.grown_bytes() > b.grown_bytes();
  });
  return rows;
}

}  // namespace gleaner::tools
