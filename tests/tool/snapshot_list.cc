// Lists what a heap snapshot holds, a line each, for snapshot_test.py.
//
// usage: snapshot_list FILE
#include <cinttypes>
#include <cstdio>
#include <vector>

#include "tools/heap/snapshot_file.h"

using namespace gleaner::tools;

namespace {

constexpr const char* kRootKinds[] = {"stack",      "registers",     "thread-local", "static",
                                      "registered", "uncollectable", "finalizer",    "other"};

// Prints a ! where the file and the graph do not agree. The file is asked for some 100 objects, and
// for those of which descriptors tell.
void PrintReferences(SnapshotFile* file, const HeapGraph& graph, ObjectId object) {
  const bool asks =
      object % (graph.size() / 100 + 1) == 0 || file->kinds()[graph.KindOf(object)].is_described;
  if (!asks) {
    graph.ForEachWord(object, [&](ObjectId target, bool is_interior, uint64_t offset) {
      printf(" %" PRIu64 ":%" PRIx64 "%s", offset, graph.AddressOf(target), is_interior ? "i" : "");
    });
    return;
  }
  const std::vector<SnapshotWord> words = file->WordsOf(graph.AddressOf(object));
  size_t i = 0;
  graph.ForEachWord(object, [&](ObjectId target, bool is_interior, uint64_t offset) {
    const bool agrees = i < words.size() && words[i].base == graph.AddressOf(target) &&
                        (words[i].offset == offset || words[i].offset == SnapshotWord::kNoOffset);
    printf(" %" PRIu64 ":%" PRIx64 "%s%s%s", offset, graph.AddressOf(target),
           is_interior ? "i" : "", i < words.size() && words[i].is_known ? "k" : "",
           agrees ? "" : "!");
    ++i;
  });
  if (i != words.size()) printf(" !");
}

// Objects that no root reaches.
size_t Unreached(const HeapGraph& graph) {
  std::vector<bool> seen(graph.size());
  std::vector<ObjectId> queue;
  const auto visit = [&](ObjectId object) {
    if (seen[object]) return;
    seen[object] = true;
    queue.push_back(object);
  };
  for (const RootReference& reference : graph.root_references()) visit(reference.target);
  for (size_t i = 0; i < queue.size(); ++i) {
    graph.ForEachReference(queue[i], [&](ObjectId target, bool) { visit(target); });
  }
  return graph.size() - queue.size();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  SnapshotFile file;
  HeapGraph graph;
  if (!file.Open(argv[1]) || !file.Fill(&graph)) {
    fprintf(stderr, "%s\n", file.error().c_str());
    return 1;
  }
  for (const auto& [key, value] : file.description())
    printf("is %s=%s\n", key.c_str(), value.c_str());
  for (const SnapshotModule& module : file.modules()) {
    printf("module %s %zu %zu\n", module.path.c_str(), module.build_id.size(),
           module.segments.size());
  }
  for (const SnapshotThread& thread : file.threads()) {
    size_t words = 0;
    for (const SnapshotStackWords& stack : thread.words) words += stack.count;
    printf("thread %u %d %d %zu %zu %s\n", thread.tid, thread.is_main, thread.took_snapshot,
           thread.registers.size(), words, thread.name.c_str());
  }
  graph.ForEachObject([&](ObjectId object, uint64_t bytes, uint32_t kind) {
    printf("object %" PRIx64 " %" PRIu64 " %s %" PRIx64, graph.AddressOf(object), bytes,
           file.kinds()[kind].name.c_str(), graph.vtables()[graph.TypeOf(object)]);
    PrintReferences(&file, graph, object);
    printf("\n");
  });
  for (const GraphRoot& root : graph.roots()) {
    printf("root %s %d %" PRIx64 " %" PRIx64 " %s\n", kRootKinds[static_cast<int>(root.kind)],
           root.thread == kNoThread ? -1 : static_cast<int>(root.thread), root.begin, root.end,
           root.name.c_str());
  }
  for (const RootReference& reference : graph.root_references()) {
    printf("from %u %" PRIx64 " %" PRIx64 "%s\n", reference.root, reference.word,
           graph.AddressOf(reference.target), reference.is_interior ? " i" : "");
  }
  for (const SnapshotFinalizer& finalizer : file.finalizers()) {
    printf("finalizer %" PRIx64 " %d\n", finalizer.object, finalizer.is_queued);
  }
  for (const SnapshotLink& link : file.links()) {
    printf("link %" PRIx64 " %" PRIx64 " %d\n", link.word, link.object, link.is_long);
  }
  printf("unreached %zu\n", Unreached(graph));
  return 0;
}
