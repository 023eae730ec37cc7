#include "tools/heap/dominators.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace gleaner::tools {

namespace {

constexpr uint32_t kLast = uint32_t{1} << 31;

template <class T>
void Release(std::vector<T>* values) {
  std::vector<T>().swap(*values);
}

// The forest of nodes above `least`, each linked to its parent: the least label among a node and
// its ancestors in the forest. What it passes is linked to the first ancestor outside, which
// shortens later ways. On the way up a link leads back down, so that no stack is needed.
uint32_t LeastLabel(uint32_t node, uint32_t least, std::vector<uint32_t>* links,
                    std::vector<uint32_t>* labels) {
  if (node <= least) return node;
  uint32_t* const link = links->data();
  uint32_t* const label = labels->data();
  uint32_t below = 0;  // the node that the way came from; 0: none, as that is the program's
  while (link[node] > least) {
    const uint32_t next = link[node];
    link[node] = below;
    below = node;
    node = next;
  }
  const uint32_t outside = link[node];
  uint32_t found = label[node];
  while (below != 0) {
    node = below;
    below = link[node];
    found = std::min(found, label[node]);
    label[node] = found;
    link[node] = outside;
  }
  return found;
}

}  // namespace

Dominators::Dominators(HeapGraph* graph, const std::vector<uint32_t>& group_of,
                       const std::vector<int>& rounds)
    : graph_(*graph), size_(static_cast<uint32_t>(graph->size())) {
  FindGroupTargets(group_of, static_cast<uint32_t>(rounds.size()));
  Number(rounds);
  Turned turned = Turn();
  graph_.ReleaseReferences();
  Release(&group_first_);
  Release(&group_targets_);
  FindDominators(std::move(turned));
  AddUp();
}

void Dominators::FindGroupTargets(const std::vector<uint32_t>& group_of, uint32_t groups) {
  const auto& references = graph_.root_references();
  group_first_.assign(groups + size_t{1}, 0);
  for (const uint32_t group : group_of) ++group_first_[group + size_t{1}];
  for (size_t i = 1; i <= groups; ++i) group_first_[i] += group_first_[i - 1];
  group_targets_.resize(references.size());
  std::vector<uint32_t> next(group_first_.begin(), group_first_.end() - 1);
  for (size_t i = 0; i < references.size(); ++i) {
    group_targets_[next[group_of[i]]++] = references[i].target;
  }
}

void Dominators::Number(const std::vector<int>& rounds) {
  number_.assign(size_ + rounds.size(), 0);
  above_.reserve(size_ + rounds.size() + 1);
  above_.push_back(0);  // the program
  for (int round = 0; round < kSearchRounds; ++round) {
    round_begin_[round] = static_cast<uint32_t>(above_.size());
    for (uint32_t group = 0; group < rounds.size(); ++group) {
      if (rounds[group] != round) continue;
      number_[size_ + group] = static_cast<uint32_t>(above_.size());
      group_at_.emplace_back(number_[size_ + group], group);
      above_.push_back(0);
      Walk(group);
    }
  }
}

bool Dominators::IsLater(uint32_t source, uint32_t target) const {
  return std::any_of(std::begin(round_begin_), std::end(round_begin_),
                     [=](uint32_t begin) { return target < begin && begin <= source; });
}

// Numbers what a group reaches and no group before it, depth first.
void Dominators::Walk(uint32_t group) {
  struct Place {
    uint32_t node;
    uint32_t next;  // number of its reference that comes next
  };
  std::vector<Place> way = {{size_ + group, group_first_[group]}};
  while (!way.empty()) {
    Place& place = way.back();
    const bool is_group = place.node >= size_;
    const uint32_t end =
        is_group ? group_first_[place.node - size_ + size_t{1}] : graph_.EndReference(place.node);
    uint32_t target = kNoObject;
    while (place.next < end && target == kNoObject) {
      const uint32_t each = is_group ? group_targets_[place.next] : graph_.TargetOf(place.next);
      if (number_[each] == 0) target = each;
      ++place.next;
    }
    if (target == kNoObject) {
      way.pop_back();
      continue;
    }
    number_[target] = static_cast<uint32_t>(above_.size());
    above_.push_back(number_[place.node]);
    // A node whose references are used up needs no place: nobody comes back to it.
    if (place.next >= end) way.pop_back();
    way.push_back({target, graph_.FirstReference(target)});
  }
}

template <class F>
void Dominators::ForEachTarget(uint32_t node, const F& f) const {
  if (node < size_) {
    graph_.ForEachReference(node, [&f](ObjectId target, bool) { f(target); });
    return;
  }
  const uint32_t group = node - size_;
  for (uint32_t i = group_first_[group]; i < group_first_[group + size_t{1}]; ++i) {
    f(group_targets_[i]);
  }
}

Dominators::Turned Dominators::Turn() const {
  const auto nodes = static_cast<uint32_t>(number_.size());
  // Without those of the depth-first tree, which above_ has, and those of objects to themselves.
  const auto for_each = [&](const auto& f) {
    for (uint32_t node = 0; node < nodes; ++node) {
      const uint32_t source = number_[node];
      if (source == 0) continue;
      ForEachTarget(node, [&](uint32_t target_node) {
        const uint32_t target = number_[target_node];
        if (source != target && source != above_[target] && !IsLater(source, target)) {
          f(source, target);
        }
      });
    }
  };
  Turned turned;
  std::vector<uint32_t> next(above_.size() + 1, 0);
  for_each([&](uint32_t, uint32_t target) { ++next[target]; });
  turned.has.resize(above_.size());
  uint32_t total = 0;
  for (size_t i = above_.size(); i-- > 0;) {
    turned.has[i] = next[i] != 0;
    total += next[i];
    next[i] = total - next[i];
  }
  turned.sources.resize(total);
  for_each([&](uint32_t source, uint32_t target) { turned.sources[next[target]++] = source; });
  for (size_t i = 0; i < above_.size(); ++i) {
    if (turned.has[i]) turned.sources[next[i] - size_t{1}] |= kLast;
  }
  return turned;
}

void Dominators::FindDominators(Turned turned) {
  const size_t count = above_.size();
  std::vector<uint32_t> semi(count, 0);
  {
    std::vector<uint32_t> links = above_;
    std::vector<uint32_t> labels(count);
    size_t at = 0;
    for (auto node = static_cast<uint32_t>(count); node-- > 1;) {
      uint32_t least = above_[node];
      for (bool more = turned.has[node]; more;) {
        const uint32_t source = turned.sources[at++];
        least = std::min(least, LeastLabel(source & ~kLast, node, &links, &labels));
        more = (source & kLast) == 0;
      }
      semi[node] = least;
      labels[node] = least;
    }
  }
  for (size_t node = 1; node < count; ++node) {
    uint32_t dominator = above_[node];
    while (dominator > semi[node]) dominator = above_[dominator];
    above_[node] = dominator;
  }
}

void Dominators::AddUp() {
  bytes_.assign(above_.size(), 0);
  objects_.assign(above_.size(), 0);
  graph_.ForEachObject([&](ObjectId object, uint64_t bytes, uint32_t) {
    if (number_[object] == 0) return;
    bytes_[number_[object]] = bytes;
    objects_[number_[object]] = 1;
  });
  for (size_t node = above_.size(); node-- > 1;) {
    bytes_[above_[node]] += bytes_[node];
    objects_[above_[node]] += objects_[node];
  }
}

bool Dominators::IsMostOfItsDominator(ObjectId object) const {
  if (!IsReached(object)) return false;
  const uint32_t above = above_[number_[object]];
  return above != 0 && GroupAbove(object) == kNoObject &&
         bytes_[above] / 2 < bytes_[number_[object]];
}

uint32_t Dominators::GroupAbove(ObjectId object) const {
  if (!IsReached(object)) return kNoObject;
  const std::pair<uint32_t, uint32_t> above = {above_[number_[object]], 0};
  const auto found = std::lower_bound(group_at_.begin(), group_at_.end(), above);
  return found != group_at_.end() && found->first == above.first ? found->second : kNoObject;
}

}  // namespace gleaner::tools
