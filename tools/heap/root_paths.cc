#include "tools/heap/root_paths.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace gleaner::tools {

namespace {

constexpr int kStackRound = 1;

struct Rank {
  int round;
  int order;  // within the round
};

Rank RankOf(SnapshotRoot kind) {
  switch (kind) {
    case SnapshotRoot::kStatic:
      return {0, 0};
    case SnapshotRoot::kRegistered:
      return {0, 1};
    case SnapshotRoot::kThreadLocal:
      return {0, 2};
    case SnapshotRoot::kUncollectable:
      return {0, 3};
    case SnapshotRoot::kStack:
      return {kStackRound, 0};
    case SnapshotRoot::kRegisters:
      return {kStackRound, 1};
    case SnapshotRoot::kFinalizer:
      return {2, 0};
    case SnapshotRoot::kOther:
      break;
  }
  return {2, 1};
}

// Where a root's word comes in its round. Of a stack the outermost frame comes first: inner ones
// have copies of its variables.
std::pair<int, uint64_t> Place(const HeapGraph& graph, const RootReference& reference) {
  if (reference.is_past_end) return {std::numeric_limits<int>::max(), 0};
  const SnapshotRoot kind = graph.roots()[reference.root].kind;
  return {RankOf(kind).order, kind == SnapshotRoot::kStack ? ~reference.word : 0};
}

uint64_t Edge(ObjectId source, ObjectId target) { return uint64_t{source} << 32 | target; }

}  // namespace

int SearchRound(const HeapGraph& graph, const RootReference& reference) {
  return reference.is_past_end ? kSearchRounds - 1
                               : RankOf(graph.roots()[reference.root].kind).round;
}

RootPaths::RootPaths(const HeapGraph& graph) : graph_(graph) {}

void RootPaths::Search(ObjectId target, bool sure) {
  from_.assign(graph_.size(), kNowhere);
  target_ = target;
  sure_ = sure;
  found_ = false;
  std::vector<uint32_t> references[kSearchRounds];
  const auto& all = graph_.root_references();
  for (uint32_t i = 0; i < all.size(); ++i) {
    const int round = SearchRound(graph_, all[i]);
    const bool is_unsure = all[i].is_doubtful || round == kStackRound;
    if (!(sure && is_unsure)) references[round].push_back(i);
  }
  for (std::vector<uint32_t>& round : references) {
    std::stable_sort(round.begin(), round.end(), [&](uint32_t a, uint32_t b) {
      return Place(graph_, all[a]) < Place(graph_, all[b]);
    });
    if (!found_) SearchFrom(round);
  }
}

bool RootPaths::Visit(ObjectId object, uint32_t from, std::vector<ObjectId>* next) {
  if (from_[object] != kNowhere) return false;
  from_[object] = from;
  next->push_back(object);
  found_ = found_ || object == target_;
  return true;
}

void RootPaths::SearchFrom(const std::vector<uint32_t>& references) {
  Frontier level;
  for (const bool doubtful : {false, true}) {
    for (const uint32_t i : references) {
      const RootReference& reference = graph_.root_references()[i];
      if (reference.is_doubtful != doubtful || excluded_references_.count(i) != 0) continue;
      Visit(reference.target, kRoot | i, doubtful ? &level.unsure : &level.sure);
    }
  }
  while (!found_ && !(level.sure.empty() && level.unsure.empty())) {
    Frontier next;
    Expand(level.sure, false, &next.sure);
    if (!sure_) Expand(level.sure, true, &next.unsure);
    Expand(level.unsure, false, &next.unsure);
    Expand(level.unsure, true, &next.unsure);
    level = std::move(next);
  }
}

// Follows the words of a level's objects that are doubtful, or those that are not.
void RootPaths::Expand(const std::vector<ObjectId>& level, bool doubtful,
                       std::vector<ObjectId>* next) {
  for (const ObjectId source : level) {
    if (found_) return;
    const bool has_excluded = !excluded_sources_.empty() && excluded_sources_.count(source) != 0;
    for (uint32_t i = graph_.FirstReference(source); i < graph_.EndReference(source); ++i) {
      const ObjectId target = graph_.TargetOf(i);
      if (graph_.IsDoubtful(i) != doubtful || (has_excluded && IsExcluded(source, target))) {
        continue;
      }
      Visit(target, source, next);
    }
  }
}

bool RootPaths::IsExcluded(ObjectId source, ObjectId target) const {
  return excluded_edges_.count(Edge(source, target)) != 0;
}

ObjectId RootPaths::Before(ObjectId object) const {
  // kNowhere has the bit, too.
  return (from_[object] & kRoot) != 0 ? kNoObject : from_[object];
}

RootPath RootPaths::PathTo(ObjectId object) const {
  RootPath path = {0, {}};
  if (!IsReached(object)) return path;
  for (ObjectId each = object; each != kNoObject; each = Before(each)) {
    path.steps.push_back({each, 0, false});
  }
  std::reverse(path.steps.begin(), path.steps.end());
  path.root_reference = RootReferenceOf(path.steps[0].object);
  path.steps[0].is_interior = graph_.root_references()[path.root_reference].is_interior;
  for (size_t i = 1; i < path.steps.size(); ++i) {
    PathStep& step = path.steps[i];
    const ObjectId before = path.steps[i - 1].object;
    int best = 3;
    uint32_t reference = graph_.FirstReference(before);
    graph_.ForEachWord(before, [&](ObjectId target, bool is_interior, uint64_t offset) {
      const bool is_doubtful = graph_.IsDoubtful(reference++);
      // The first that points to the beginning, else the first that is not doubtful.
      const int rank = is_doubtful ? 2 : is_interior ? 1 : 0;
      if (target != step.object || rank >= best) return;
      best = rank;
      step.offset = offset;
      step.is_interior = is_interior;
    });
  }
  return path;
}

void RootPaths::Exclude(const RootPath& path) {
  if (path.steps.empty()) return;
  excluded_references_.insert(path.root_reference);
  for (size_t i = 1; i < path.steps.size(); ++i) {
    excluded_sources_.insert(path.steps[i - 1].object);
    excluded_edges_.insert(Edge(path.steps[i - 1].object, path.steps[i].object));
  }
}

}  // namespace gleaner::tools
