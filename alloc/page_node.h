// On which memory node pages lie, on machines with several: a byte a page (AddressSpace::nodes).
//
// [inv.page-node] The byte of a page says where its memory was when a thread last asked, or which
// node's processor touched it first; kNoNode if neither is known. It is written by the thread that
// holds the page, before the page gets objects, and by the thread that holds the lock of the page
// space. kPlaced is also written by a thread that places a large object, which others may place and
// markers may look at meanwhile. Memory may move without a word (the system balances nodes), so the
// byte is a hint: it decides who gets a page first, and nothing else.
#pragma once

#include "alloc/address_space.h"
#include "platform/nodes/numa.h"

namespace gleaner::alloc {

// kNoNode: the node is not known. kPlaced: the page is in a span that has a placement of its own.
// Else 1 + the node's number.
using NodeMark = uint8_t;
inline constexpr NodeMark kNoNode = 0;
inline constexpr NodeMark kPlaced = 255;
inline constexpr int kMarkedNodes = kPlaced - 1;  // nodes with higher numbers are kNoNode

constexpr NodeMark NodeMarkOf(int node) {
  return node >= 0 && node < kMarkedNodes ? static_cast<NodeMark>(node + 1) : kNoNode;
}
constexpr bool IsNode(NodeMark mark) { return mark != kNoNode && mark != kPlaced; }

// pre, for both: g_space.by_node.
// Relaxed, both: a hint, and what depends on kPlaced comes later in the order of the page's states.
inline NodeMark NodeOfPage(PageNumber page) {
  return __atomic_load_n(&g_space.nodes[page], __ATOMIC_RELAXED);
}
inline void SetNodeOfPage(PageNumber page, NodeMark node) {
  __atomic_store_n(&g_space.nodes[page], node, __ATOMIC_RELAXED);
}

// How far the nodes are from each other: 10 within a node; kFarthest if one is not known.
inline constexpr uint16_t kFarthest = UINT16_MAX;
uint16_t DistanceBetween(NodeMark one, NodeMark other);

// Asks the system where the memory of the pages is, by their first OS pages, and records it. Pages
// that are not resident, or of which the system does not tell, get `otherwise`. pre: count <= 8.
void LookUpNodes(const PageNumber* pages, PageNumber count, NodeMark otherwise);

}  // namespace gleaner::alloc
