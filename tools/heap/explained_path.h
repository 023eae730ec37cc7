// A path from a root to an object in words: what each word is, and whether it may be no pointer.
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "tools/common/json.h"
#include "tools/heap/heap_graph.h"
#include "tools/heap/root_paths.h"
#include "tools/heap/snapshot_file.h"
#include "tools/heap/snapshot_names.h"

namespace gleaner::tools {

struct ExplainedStep {
  PathStep step;
  bool is_known;  // the program says that the word which refers to the object is a pointer
  bool is_only;   // no other word refers to it
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
  bool is_past_end;   // the root's word is one past the end of the first object
  std::vector<ExplainedStep> steps;
  Certainty certainty;
};

class PathExplainer {
 public:
  PathExplainer(SnapshotFile* file, const HeapGraph& graph, SnapshotNames* names)
      : file_(*file), graph_(graph), names_(*names) {}

  // pre: the path has steps.
  ExplainedPath Explain(const RootPath& path);

  // Lines of at most 80 columns where names allow it. Rows of one to four objects that are
  // repeated, with words at the same offsets, are shortened; so is the middle of a long path.
  void Print(const ExplainedPath& path, FILE* out);
  // What the path's certainty means, in a sentence, and for a doubtful one which words are meant.
  std::string CertaintyInWords(const ExplainedPath& path) const;
  Json JsonOf(const ExplainedPath& path);

 private:
  // Steps of a path: one, or a row of `period` of them that is repeated.
  struct Part {
    size_t begin, end;
    size_t period;  // 0: no repetition
  };

  // Where the row of `period` steps from `begin` on is repeated no more.
  size_t EndOfRepetition(const ExplainedPath& path, size_t begin, size_t period) const;
  std::vector<Part> PartsOf(const ExplainedPath& path) const;
  void PrintPart(const ExplainedPath& path, const Part& part, FILE* out);
  bool IsKnown(const PathStep& before, const PathStep& step);
  bool AreAlike(const ExplainedStep& a, const ExplainedStep& b) const;
  void PrintStep(const PathStep& step, FILE* out);

  SnapshotFile& file_;
  const HeapGraph& graph_;
  SnapshotNames& names_;
};

// Text, made printable, in lines of at most 80 columns, `indent` blanks before each; `is_begun`:
// the first line has as many columns already.
void PrintWrapped(const std::string& raw, int indent, FILE* out, bool is_begun = false);

}  // namespace gleaner::tools
