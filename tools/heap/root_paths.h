// Why an object of a snapshot is there: a shortest path to it from a root.
//
// A breadth-first search in three rounds: from static data, registered roots, thread-local data and
// uncollectable objects; for what these do not reach, from stacks and registers; for the rest, from
// finalizers and others, and by words of roots one past the end of an object, which as a rule are
// meant for the object that begins there. So a stack is named only for an object that nothing
// better leads to: the words of ended calls lie there. Within a round the path is a shortest one;
// of those of equal length one without doubtful words (HeapGraph::IsDoubtful) is preferred to
// others, and then one from the root that is named first above.
//
// Takes 4 bytes an object, and 4 more at most while it searches.
#pragma once

#include <cstdint>
#include <unordered_set>
#include <vector>

#include "tools/heap/heap_graph.h"

namespace gleaner::tools {

// The round in which the word of a root is followed.
inline constexpr int kSearchRounds = 3;
int SearchRound(const HeapGraph& graph, const RootReference& reference);

struct PathStep {
  ObjectId object;
  uint64_t offset;   // of the word that refers to it, in the object before; 0 for the first step
  bool is_interior;  // that word does not point to the object's beginning
};

struct RootPath {
  uint32_t root_reference;      // index into graph.root_references()
  std::vector<PathStep> steps;  // the last one is the object asked for; empty: no path
};

class RootPaths {
 public:
  // pre: `graph` keeps words, and outlives this.
  explicit RootPaths(const HeapGraph& graph);

  // Searches until `target` is reached, or for all objects. `sure`: only by words that are not
  // doubtful, and from no stack or register.
  void Search(ObjectId target = kNoObject, bool sure = false);
  bool IsReached(ObjectId object) const { return from_[object] != kNowhere; }
  RootPath PathTo(ObjectId object) const;
  // The object before on the path, or kNoObject at the first one and where there is no path.
  ObjectId Before(ObjectId object) const;
  // The word of the root that the object's path begins with. pre: Before(object) is kNoObject, and
  // IsReached(object).
  uint32_t RootReferenceOf(ObjectId object) const { return from_[object] & ~kRoot; }
  // Searches from then on use no word of the path.
  void Exclude(const RootPath& path);

 private:
  // Of an object: the one before, or kRoot and the index of a root reference.
  static constexpr uint32_t kNowhere = ~uint32_t{0};
  static constexpr uint32_t kRoot = uint32_t{1} << 31;

  struct Frontier {
    std::vector<ObjectId> sure;    // reached by words alone that are not doubtful
    std::vector<ObjectId> unsure;  // by others
  };

  bool Visit(ObjectId object, uint32_t from, std::vector<ObjectId>* next);
  void SearchFrom(const std::vector<uint32_t>& references);
  void Expand(const std::vector<ObjectId>& level, bool doubtful, std::vector<ObjectId>* next);
  bool IsExcluded(ObjectId source, ObjectId target) const;

  const HeapGraph& graph_;
  std::vector<uint32_t> from_;
  ObjectId target_ = kNoObject;
  bool sure_ = false;
  bool found_ = false;
  std::unordered_set<uint32_t> excluded_references_;
  std::unordered_set<ObjectId> excluded_sources_;
  std::unordered_set<uint64_t> excluded_edges_;  // source and target
};

}  // namespace gleaner::tools
