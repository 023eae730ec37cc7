// What the objects and roots of a snapshot are called, for people.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "tools/common/json.h"
#include "tools/heap/heap_graph.h"
#include "tools/heap/process_image.h"
#include "tools/heap/snapshot_file.h"

namespace gleaner::tools {

class SnapshotNames {
 public:
  SnapshotNames(const SnapshotFile& file, const HeapGraph& graph, ProcessImage* image)
      : file_(file), graph_(graph), image_(*image) {}

  std::string Kind(uint32_t kind) const;
  // The class of a type of the graph; empty if it is not known.
  const std::string& Type(uint32_t type);
  // "normal", or "normal Session" for an object with a vtable.
  std::string KindAndType(uint32_t kind, uint32_t type);

  // Address, bytes, kind and type.
  Json JsonOf(ObjectId object);

  // Short, and the same in another snapshot of the program: "static variable g_map (server)",
  // "stack of thread worker, in Serve()".
  std::string Group(const RootReference& reference);
  // Where exactly: "static variable g_map (server) + 8, at 0x55...", "stack of thread 1234
  // (worker), in Serve() (serve.cc:12), at 0x7f...".
  std::string Word(const RootReference& reference);

 private:
  std::string GroupOfRoot(const RootReference& reference);
  std::string Static(const RootReference& reference, bool in_full);
  std::string Stack(const RootReference& reference, bool in_full);
  std::string Finalizer(const RootReference& reference, bool in_full);
  void IndexFinalizers();
  std::string Thread(const GraphRoot& root, bool in_full) const;

  const SnapshotFile& file_;
  const HeapGraph& graph_;
  ProcessImage& image_;
  std::vector<std::string> types_;
  // By the word of the finalizer's data, and by the object if it waits for its finalizer.
  std::unordered_map<uint64_t, const SnapshotFinalizer*> finalizer_of_word_;
  std::unordered_map<ObjectId, const SnapshotFinalizer*> finalizer_of_object_;
  bool has_finalizers_ = false;
};

}  // namespace gleaner::tools
