// What would be freed without an object, or without a group of roots: its retained size.
//
// The dominator tree by the semi-NCA algorithm (Georgiadis, "Linear-Time Algorithms for Dominators
// and Related Problems", 2005), without recursion. Above the groups stands one node for the
// program. A node dominates what every path from the program goes through it for; the retained size
// of a node is the sum of what it dominates.
//
// Memory, in bytes for each object with r references to others, the graph's own 4 + 4r among them:
// up to 12 + 8r while the references are turned round, less 4 for each object, as the depth-first
// tree's references need no turning; then 16 + 4r, and 20 in the end.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "tools/heap/heap_graph.h"
#include "tools/heap/root_paths.h"

namespace gleaner::tools {

class Dominators {
 public:
  // `group_of`: the group that each root reference of the graph belongs to. `rounds`: of each
  // group, below kSearchRounds. Releases the graph's references.
  Dominators(HeapGraph* graph, const std::vector<uint32_t>& group_of,
             const std::vector<int>& rounds);

  bool IsReached(ObjectId object) const { return number_[object] != 0; }
  // 0 of an object that no root reaches.
  uint64_t RetainedBytes(ObjectId object) const {
    return IsReached(object) ? bytes_[number_[object]] : 0;
  }
  uint32_t RetainedObjects(ObjectId object) const {
    return IsReached(object) ? objects_[number_[object]] : 0;
  }
  uint64_t GroupRetainedBytes(uint32_t group) const { return bytes_[number_[size_ + group]]; }
  uint32_t GroupRetainedObjects(uint32_t group) const { return objects_[number_[size_ + group]]; }
  // All that roots reach.
  uint64_t ReachedBytes() const { return bytes_[0]; }
  uint32_t ReachedObjects() const { return objects_[0]; }
  // Whether the object's immediate dominator is an object that retains less than twice as much:
  // then that one says it as well. So it is with the nodes of a list.
  bool IsMostOfItsDominator(ObjectId object) const;
  // Whether it is a group that dominates the object immediately, and which; kNoObject otherwise.
  uint32_t GroupAbove(ObjectId object) const;

 private:
  // Turned references: of the nodes in descending order of their numbers, those of each in a row.
  struct Turned {
    std::vector<uint32_t> sources;  // and kLast at the last of a node
    std::vector<bool> has;          // whether a node has any
  };

  void FindGroupTargets(const std::vector<uint32_t>& group_of, uint32_t groups);
  void Number(const std::vector<int>& rounds);
  void Walk(uint32_t group);
  // Whether the node belongs to a later round than the other one. Both by number.
  bool IsLater(uint32_t source, uint32_t target) const;
  // f(uint32_t target node) for what a node refers to.
  template <class F>
  void ForEachTarget(uint32_t node, const F& f) const;
  Turned Turn() const;
  void FindDominators(Turned turned);
  void AddUp();

  HeapGraph& graph_;
  const uint32_t size_;                // objects; a group's node is size_ and its index
  std::vector<uint32_t> group_first_;  // of each group's targets, and the end
  std::vector<uint32_t> group_targets_;
  std::vector<uint32_t> number_;  // of each node, in the order of depth first; 0: not reached
  std::vector<uint32_t> above_;   // by number: the parent in that order, then the dominator
  std::vector<uint64_t> bytes_;   // by number
  std::vector<uint32_t> objects_;
  std::vector<std::pair<uint32_t, uint32_t>> group_at_;  // numbers and groups, ascending
  uint32_t round_begin_[kSearchRounds] = {};             // the first number of each round
};

}  // namespace gleaner::tools
