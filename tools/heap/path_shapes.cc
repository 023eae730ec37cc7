#include "tools/heap/path_shapes.h"

#include <algorithm>
#include <utility>

namespace gleaner::tools {

namespace {

// References of an object that is no array: which of its words it is makes a difference.
constexpr uint32_t kMaxFields = 32;
// Objects of a group that may become its example.
constexpr uint64_t kCompared = 1000;
// Of rows of objects that are repeated.
constexpr size_t kMaxPeriod = 4;

}  // namespace

PathShapes::PathShapes(const HeapGraph& graph, const RootPaths& paths, NameOfRoot name_of_root)
    : graph_(graph),
      paths_(paths),
      name_of_root_(std::move(name_of_root)),
      shapes_(graph.size(), kUnknown),
      last_(1),
      before_(1, kUnreached) {}

void PathShapes::Add(ObjectId object, uint64_t bytes) {
  const Shape shape = ShapeOf(object);
  Group& group = groups_[shape];
  const bool is_behind = IsBehindItsLike(object, shape);
  if (group.objects++ < kCompared || (group.example_length.first && !is_behind)) {
    const std::pair<bool, uint32_t> length = {is_behind, LengthOf(object)};
    if (length < group.example_length) {
      group.example = object;
      group.example_length = length;
    }
  }
  group.bytes += bytes;
  ++objects_;
  bytes_ += bytes;
}

bool PathShapes::IsBehindItsLike(ObjectId object, Shape shape) const {
  ObjectId before = object;
  for (size_t i = 0; i < kMaxPeriod && paths_.IsReached(before); ++i) {
    before = paths_.Before(before);
    if (before == kNoObject) return false;
    if (shapes_[before] == shape) return true;
  }
  return false;
}

// Up to a limit: beyond it no path is short.
uint32_t PathShapes::LengthOf(ObjectId object) const {
  constexpr uint32_t kMaxLength = 1000;
  uint32_t length = 0;
  while (object != kNoObject && length < kMaxLength) {
    object = paths_.Before(object);
    ++length;
  }
  return length;
}

std::vector<PathShapes::Group> PathShapes::Largest(size_t count) const {
  std::vector<Group> groups;
  for (const auto& [shape, group] : groups_) groups.push_back(group);
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) {
    return std::tie(b.bytes, b.objects, a.example) < std::tie(a.bytes, a.objects, b.example);
  });
  groups.resize(std::min(groups.size(), count));
  return groups;
}

uint64_t PathShapes::OffsetOf(ObjectId source, ObjectId target) const {
  if (graph_.EndReference(source) - graph_.FirstReference(source) > kMaxFields) return 0;
  uint64_t found = kNoOffset;
  graph_.ForEachWord(source, [&](ObjectId each, bool, uint64_t offset) {
    if (each == target && found == kNoOffset) found = offset;
  });
  return found;
}

PathShapes::Shape PathShapes::ShapeOfRoot(uint32_t root_reference) {
  const auto [found, is_new] = roots_.try_emplace(root_reference, kUnknown);
  if (is_new) {
    const std::string name = name_of_root_(graph_.root_references()[root_reference]);
    const auto [named, is_new_name] =
        root_names_.try_emplace(name, static_cast<Shape>(last_.size()));
    if (is_new_name) {
      last_.emplace_back();
      before_.push_back(kUnreached);
    }
    found->second = named->second;
  }
  return found->second;
}

PathShapes::Shape PathShapes::RepeatedShape(Shape shape, const What& what) const {
  // The last objects, the new one first, and the shapes that end with them.
  const What* objects[2 * kMaxPeriod] = {&what};
  Shape shapes[2 * kMaxPeriod] = {kUnknown};
  size_t count = 1;
  for (; count < 2 * kMaxPeriod && before_[shape] != kUnreached; ++count) {
    objects[count] = &last_[shape];
    shapes[count] = shape;
    shape = before_[shape];
  }
  for (size_t period = 2; 2 * period <= count; ++period) {
    const auto equal = [](const What* a, const What* b) { return *a == *b; };
    if (std::equal(objects, objects + period, objects + period, equal)) return shapes[period];
  }
  return kUnknown;
}

PathShapes::Shape PathShapes::ShapeOf(ObjectId object) {
  if (!paths_.IsReached(object)) return kUnreached;
  // Up to what is known already, then down again.
  std::vector<ObjectId> way;
  ObjectId at = object;
  while (at != kNoObject && shapes_[at] == kUnknown) {
    way.push_back(at);
    at = paths_.Before(at);
  }
  Shape shape = at != kNoObject ? shapes_[at] : ShapeOfRoot(paths_.RootReferenceOf(way.back()));
  ObjectId before = at;
  for (; !way.empty(); way.pop_back()) {
    const ObjectId next = way.back();
    const What what = {graph_.BytesOf(next), graph_.KindOf(next), graph_.TypeOf(next)};
    const bool goes_on = before != kNoObject && last_[shape] != what;
    const Shape repeated = goes_on ? RepeatedShape(shape, what) : kUnknown;
    if (repeated != kUnknown) {
      shape = repeated;
    } else if (before == kNoObject || goes_on) {
      const Link link = {before == kNoObject ? 0 : OffsetOf(before, next), what};
      const auto [found, is_new] =
          longer_.try_emplace({shape, link}, static_cast<Shape>(last_.size()));
      if (is_new) {
        last_.push_back(what);
        before_.push_back(shape);
      }
      shape = found->second;
    }
    shapes_[next] = shape;
    before = next;
  }
  return shape;
}

}  // namespace gleaner::tools
