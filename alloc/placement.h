// Where memory is to lie on machines with several memory nodes, and putting it there.
//
// A placement is a pattern over nodes. What it says of a page:
//
//   kLocal        the node of the processor that touches the page first
//   kInterleave   OS page number n (address / 4,096) is on node n mod N of the set
//   kBlockCyclic  block number b (from the range's begin) is on node b mod N of the set; the
//                 distribution of a parallel loop whose threads take a block each in turn
//   kBind         a node of the set, and no other
//   kPreferred    the first node of the set, another if it is full
//
// How. Patterns that the system has are given to the range as its policy, so that pages touched
// later, or dropped and touched again, follow. Block-cyclic is none of them: a policy for each
// block would make each block a mapping of its own, of which a process has some 65,000. There all
// pages become resident at once, node by node, while the calling thread prefers the node. Pages
// that are resident already are moved. A pattern whose pieces are smaller than a huge page gets
// small pages. At the end the system is asked where the pages are: the result says what did not
// take.
//
// All of that changes no contents, and other threads may use the memory meanwhile. Thread-safe; no
// locks. Costs system calls, some for each block and each 256 resident pages.
#pragma once

#include "platform/nodes/numa.h"
#include "platform/os/os_page.h"

namespace gleaner::alloc {

enum class Pattern : uint8_t { kLocal, kInterleave, kBlockCyclic, kBind, kPreferred };

struct Placement {
  Pattern pattern = Pattern::kLocal;
  platform::NodeSet nodes;  // empty: all nodes that the process may use
  size_t block_bytes = 0;   // of kBlockCyclic: a multiple of the OS page
};

// OS pages that lie in the range as a whole.
struct PlacementResult {
  size_t pages = 0;
  size_t placed = 0;     // resident where the placement says
  size_t elsewhere = 0;  // resident on another node
  size_t absent = 0;     // not resident: they follow the placement when they are touched
  bool reduced = false;  // the process may not use some of the nodes; the others are used
  int error = 0;         // errno of what the system refused first, or 0
};

inline constexpr size_t kDefaultBlockBytes = 64 * kKiB;

// Puts the memory of the range where the placement says. Returns 0; EINVAL, and nothing is changed,
// if the process may use none of the nodes or the block size is none. What the system refuses is in
// the result.
int Place(void* p, size_t bytes, const Placement& placement, PlacementResult* result);

// Gives the range the policy for pages touched from now on, without moving any. For ranges that are
// just committed. Returns 0 or an errno value. pre: not kBlockCyclic, which the system does not
// know; whole OS pages.
int PlaceUntouched(void* p, size_t bytes, const Placement& placement);

// What the system says to PlaceUntouched, tried on memory of its own: 0 or an errno value.
int TryPlacement(const Placement& placement);

// Calls f(address, node) for the OS pages that lie in the range as a whole, with -1 for those that
// are not resident. Returns 0, or the errno value of the system's first refusal; the nodes are -1
// then.
template <class F>
int ForEachPageWithNode(const void* p, size_t bytes, F f);

// The nodes of the placement that the process may use.
platform::NodeSet UsableNodes(const Placement& placement);

template <class F>
int ForEachPageWithNode(const void* p, size_t bytes, F f) {
  constexpr size_t kBatch = 256;
  void* addresses[kBatch];
  int nodes[kBatch];
  const size_t os_page = platform::OsPageBytes();
  const Addr end = AlignDown(AddressOf(p) + bytes, os_page);
  int error = 0;
  for (Addr page = AlignUp(AddressOf(p), os_page); page < end;) {
    size_t count = 0;
    for (; count < kBatch && page < end; page += os_page) {
      addresses[count++] = PointerAt<void>(page);
    }
    const int refused = platform::NodesOfPages(addresses, count, nodes);
    if (error == 0) error = refused;
    for (size_t i = 0; i < count; ++i) f(AddressOf(addresses[i]), nodes[i]);
  }
  return error;
}

}  // namespace gleaner::alloc
