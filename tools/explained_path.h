// A path from a root to an object in words: what each word is, and whether it may be no pointer.
#pragma once

#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "tools/heap_graph.h"
#include "tools/root_paths.h"
#include "tools/snapshot_file.h"
#include "tools/snapshot_names.h"

namespace gleaner::tools {

struct ExplainedStep {
  ObjectId object;
  uint64_t address, bytes;
  std::string kind, type;
  uint64_t offset;   // of the word that refers to it, in the object before; or kNoOffset
  bool is_interior;  // the word points behind the object's beginning
  bool is_known;     // the program says that the word is a pointer
  bool is_only;      // no other word refers to the object
};

enum class Certainty : uint8_t {
  kKnown,     // the program says of each word that it is a pointer
  kProbable,  // each word points to a beginning, and none lies on a stack
  kDoubtful,  // at least one does not, or does
};

struct ExplainedPath {
  std::string group;  // of the root
  std::string root;   // its word in full
  bool is_stack;      // or registers
  std::vector<ExplainedStep> steps;
  Certainty certainty;
};

class PathExplainer {
 public:
  PathExplainer(SnapshotFile* file, const HeapGraph& graph, SnapshotNames* names)
      : file_(*file), graph_(graph), names_(*names) {}

  // pre: the path has steps.
  ExplainedPath Explain(const RootPath& path);

 private:
  void CountReferences(const RootPath& path);
  bool IsKnown(const PathStep& before, const PathStep& step);

  SnapshotFile& file_;
  const HeapGraph& graph_;
  SnapshotNames& names_;
  // Of the path's objects: words of other objects and roots that refer to them.
  std::unordered_map<ObjectId, uint64_t> counts_;
};

// Text in lines of at most 80 columns, `indent` blanks before each.
void PrintWrapped(const std::string& text, int indent, FILE* out);
// Lines of at most 80 columns where names allow it. Rows of objects that are alike, with words at
// the same offset, are shortened.
void PrintPath(const ExplainedPath& path, FILE* out);
// What the path's certainty means, in a sentence, and for a doubtful one which words are meant.
std::string CertaintyInWords(const ExplainedPath& path);
// An object of JSON.
std::string PathAsJson(const ExplainedPath& path);

}  // namespace gleaner::tools
