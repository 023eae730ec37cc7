// Objects grouped by how they are kept: paths whose roots have the same name, and whose objects
// have the same sizes, kinds and types in the same order, with the words at the same offsets.
// Objects that are alike in a row count as one, so that the nodes of a list are one group. So do
// rows of two to four that are repeated, as where each node has its link in an object of its own,
// and the words of an object with many, which is taken for an array.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/heap/heap_graph.h"
#include "tools/heap/root_paths.h"

namespace gleaner::tools {

class PathShapes {
 public:
  struct Group {
    uint64_t objects = 0;
    uint64_t bytes = 0;
    ObjectId example = kNoObject;  // one with a short path
    // Of the example: whether it stands behind one of the group, and how long its path is.
    std::pair<bool, uint32_t> example_length = {true, ~uint32_t{0}};
  };
  // Says how a root's word is called.
  using NameOfRoot = std::function<std::string(const RootReference&)>;

  // pre: all three outlive this, and `paths` has searched for all objects.
  PathShapes(const HeapGraph& graph, const RootPaths& paths, NameOfRoot name_of_root);

  void Add(ObjectId object, uint64_t bytes);
  uint64_t objects() const { return objects_; }
  uint64_t bytes() const { return bytes_; }
  size_t count() const { return groups_.size(); }
  // At most `count` groups; those with the most bytes, in descending order.
  std::vector<Group> Largest(size_t count) const;

 private:
  using Shape = uint32_t;
  static constexpr Shape kUnreached = 0;
  static constexpr Shape kUnknown = ~Shape{0};
  using What = std::tuple<uint64_t, uint32_t, uint32_t>;  // bytes, kind, type
  // At which offset an object is referred to, and what it is.
  using Link = std::pair<uint64_t, What>;

  Shape ShapeOf(ObjectId object);
  // Whether one of the same shape is nearby on the object's path.
  bool IsBehindItsLike(ObjectId object, Shape shape) const;
  // The shape of a path of that shape with one more object; kUnknown unless that ends a repetition.
  Shape RepeatedShape(Shape shape, const What& what) const;
  uint32_t LengthOf(ObjectId object) const;
  Shape ShapeOfRoot(uint32_t root_reference);
  uint64_t OffsetOf(ObjectId source, ObjectId target) const;

  const HeapGraph& graph_;
  const RootPaths& paths_;
  const NameOfRoot name_of_root_;
  std::vector<Shape> shapes_;  // of objects
  // Of shapes: the last object, and the shape without it; kUnreached for that of a root.
  std::vector<What> last_;
  std::vector<Shape> before_;
  std::map<std::pair<Shape, Link>, Shape> longer_;
  std::map<std::string, Shape> root_names_;
  std::unordered_map<uint32_t, Shape> roots_;  // by root reference
  std::unordered_map<Shape, Group> groups_;
  uint64_t objects_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace gleaner::tools
