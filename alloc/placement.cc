#include "alloc/placement.h"

#include <cerrno>

#include "platform/costs/machine_costs.h"
#include "platform/nodes/topology.h"
#include "platform/os/memory.h"

namespace gleaner::alloc {

using platform::NodePolicy;
using platform::NodeSet;

namespace {

using platform::kHugePageBytes;

// Where the pages of a range are to be.
class Target {
 public:
  Target(Addr begin, const Placement& placement, const NodeSet& nodes)
      : begin_(begin), pattern_(placement.pattern), nodes_(nodes) {
    for (int node = nodes.First(); node >= 0; node = nodes.Next(node)) {
      in_turn_[count_++] = static_cast<int16_t>(node);
    }
    piece_bytes_ = pattern_ == Pattern::kBlockCyclic  ? placement.block_bytes
                   : pattern_ == Pattern::kInterleave ? platform::OsPageBytes()
                                                      : 0;
  }
  // Bytes of one node after which those of another follow; 0: all are alike.
  size_t piece_bytes() const { return count_ == 1 ? 0 : piece_bytes_; }
  bool FitsHugePages() const {
    const size_t piece = piece_bytes();
    return piece == 0 || (piece % kHugePageBytes == 0 && begin_ % kHugePageBytes == 0);
  }
  // The one node on which the page should be; -1 if it may be on several.
  int NodeOf(Addr page) const {
    switch (pattern_) {
      case Pattern::kInterleave:
        return in_turn_[page / platform::OsPageBytes() % count_];
      case Pattern::kBlockCyclic:
        return in_turn_[(page - begin_) / piece_bytes_ % count_];
      case Pattern::kPreferred:
        return in_turn_[0];
      default:
        return count_ == 1 && pattern_ == Pattern::kBind ? in_turn_[0] : -1;
    }
  }
  bool IsRight(Addr page, int node) const {
    if (pattern_ == Pattern::kLocal) return true;
    const int one = NodeOf(page);
    return one < 0 ? nodes_.Has(node) : one == node;
  }
  // Where to move a page that is not right.
  int Destination(Addr page) const {
    const int one = NodeOf(page);
    return one < 0 ? in_turn_[page / platform::OsPageBytes() % count_] : one;
  }
  const NodeSet& nodes() const { return nodes_; }

 private:
  Addr begin_;
  Pattern pattern_;
  NodeSet nodes_;
  size_t piece_bytes_ = 0;
  size_t count_ = 0;
  int16_t in_turn_[platform::kMaxNodes];
};

// Moves resident pages that are not where they should be. Returns the first error, or 0.
int MoveMisplaced(Addr begin, Addr end, const Target& target) {
  constexpr size_t kBatch = 256;
  void* addresses[kBatch];
  int destinations[kBatch];
  size_t count = 0;
  int error = 0;
  const auto move = [&] {
    const int refused = platform::MovePages(addresses, destinations, count);
    if (error == 0) error = refused;
    count = 0;
  };
  ForEachPageWithNode(PointerAt<void>(begin), end - begin, [&](Addr page, int node) {
    if (node < 0 || target.IsRight(page, node)) return;
    addresses[count] = PointerAt<void>(page);
    destinations[count++] = target.Destination(page);
    if (count == kBatch) move();
  });
  if (count != 0) move();
  return error;
}

void SplitHugePages(Addr begin, Addr end) {
  for (Addr huge = AlignDown(begin, kHugePageBytes); huge < end; huge += kHugePageBytes) {
    platform::SplitHugePage(PointerAt<void>(huge < begin ? begin : huge));
  }
}

// Makes the pieces of block-cyclic memory resident, node by node: a piece that is resident already
// stays where it is. Returns 0 or an errno value.
int PopulateInTurn(Addr begin, Addr end, const Target& target) {
  platform::ThreadNodePolicy policy;
  size_t piece = target.piece_bytes();
  if (piece == 0 || piece > end - begin) piece = end - begin;  // larger products could wrap around
  const auto turns = static_cast<size_t>(target.nodes().Count());
  for (size_t turn = 0; turn < turns; ++turn) {
    const Addr first = begin + turn * piece;
    if (first >= end) break;
    int error = policy.Prefer(target.NodeOf(first));
    for (Addr at = first; error == 0; at += piece * turns) {
      error = platform::MakeResident(PointerAt<void>(at), end - at < piece ? end - at : piece);
      if (end - at <= piece * turns) break;
    }
    if (error != 0) return error;
  }
  return 0;
}

NodePolicy PolicyOf(Pattern pattern) {
  switch (pattern) {
    case Pattern::kInterleave:
      return NodePolicy::kInterleave;
    case Pattern::kBind:
      return NodePolicy::kBind;
    case Pattern::kPreferred:
      return NodePolicy::kPreferred;
    default:
      return NodePolicy::kLocal;
  }
}

}  // namespace

NodeSet UsableNodes(const Placement& placement) {
  NodeSet allowed;
  if (!platform::GetAllowedNodes(&allowed)) {
    // Refused since HasSeveralNodes asked: what is named may be usable.
    if (platform::HasSeveralNodes() && !placement.nodes.IsEmpty()) return placement.nodes;
    allowed.Add(0);
  }
  if (!placement.nodes.IsEmpty()) allowed.Intersect(placement.nodes);
  return allowed;
}

int PlaceUntouched(void* p, size_t bytes, const Placement& placement) {
  return platform::SetNodePolicy(p, bytes, PolicyOf(placement.pattern), UsableNodes(placement));
}

int TryPlacement(const Placement& placement) {
  const size_t bytes = platform::OsPageBytes();
  void* p = platform::Reserve(bytes, bytes);
  if (p == nullptr) return ENOMEM;
  const int error = PlaceUntouched(p, bytes, placement);
  platform::Release(p, bytes);
  return error;
}

int Place(void* p, size_t bytes, const Placement& placement, PlacementResult* result) {
  *result = {};
  const size_t os_page = platform::OsPageBytes();
  const bool is_cyclic = placement.pattern == Pattern::kBlockCyclic;
  if (is_cyclic && (placement.block_bytes == 0 || placement.block_bytes % os_page != 0)) {
    return EINVAL;
  }
  const Addr given = AddressOf(p);
  if (given + bytes < given) return EINVAL;
  const NodeSet nodes = UsableNodes(placement);
  if (nodes.IsEmpty()) return EINVAL;
  const Addr begin = AlignUp(given, os_page);
  const Addr end = AlignDown(given + bytes, os_page);
  if (begin >= end) return 0;
  result->reduced = !placement.nodes.IsEmpty() && !(nodes == placement.nodes);
  const Target target(begin, placement, nodes);
  void* const range = PointerAt<void>(begin);
  int refused = 0;  // to move pages; some moves are refused once the page is where it should be
  if (platform::HasSeveralNodes()) {
    if (!target.FitsHugePages()) {
      platform::UseSmallPages(range, end - begin);
      SplitHugePages(begin, end);
    }
    result->error = platform::SetNodePolicy(range, end - begin, PolicyOf(placement.pattern), nodes);
    if (is_cyclic) {
      const int error = PopulateInTurn(begin, end, target);
      if (result->error == 0) result->error = error;
    }
    if (placement.pattern != Pattern::kLocal) refused = MoveMisplaced(begin, end, target);
  }
  result->pages = (end - begin) / os_page;
  const int asked = ForEachPageWithNode(range, end - begin, [&](Addr page, int node) {
    ++(node < 0 ? result->absent : target.IsRight(page, node) ? result->placed : result->elsewhere);
  });
  if (result->error == 0) result->error = asked;
  if (result->error == 0 && result->elsewhere != 0) result->error = refused != 0 ? refused : EBUSY;
  return 0;
}

}  // namespace gleaner::alloc
