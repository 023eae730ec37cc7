#include "alloc/page_node.h"

#include "platform/nodes/topology.h"

namespace gleaner::alloc {

uint16_t DistanceBetween(NodeMark one, NodeMark other) {
  constexpr uint16_t kHere = 10;
  constexpr uint16_t kAnywhereElse = 20;
  if (!IsNode(one) || !IsNode(other)) return kFarthest;
  if (one == other) return kHere;
  const platform::Topology* topology = platform::LoadedTopologyOfThisMachine();
  return topology == nullptr ? kAnywhereElse : topology->distance(one - 1, other - 1);
}

void LookUpNodes(const PageNumber* pages, PageNumber count, NodeMark otherwise) {
  constexpr PageNumber kMaxPages = 8;
  void* addresses[kMaxPages] = {};
  int nodes[kMaxPages] = {};
  for (PageNumber i = 0; i < count; ++i) {
    addresses[i] = PointerAt<void>(g_space.AddressOfPage(pages[i]));
  }
  (void)platform::NodesOfPages(addresses, count, nodes);
  for (PageNumber i = 0; i < count; ++i) {
    SetNodeOfPage(pages[i], nodes[i] < 0 ? otherwise : NodeMarkOf(nodes[i]));
  }
}

}  // namespace gleaner::alloc
