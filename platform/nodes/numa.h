// Memory nodes (NUMA): on which node memory lies, and where it is to lie. The calls of the system
// alone; which node is near to which is in topology.h.
//
// All functions are thread-safe, allocate nothing and make system calls. Where the system has no
// memory nodes, or refuses the calls (seccomp), there is one node, number 0, and functions that
// place memory return the error: ENOSYS, EPERM or what else the system says.
#pragma once

#include "platform/nodes/node_set.h"

namespace gleaner::platform {

// The node of the processor that the calling thread runs on; 0 if the system does not tell. A few
// ns: no system call.
int CurrentNode();

// How the system chooses the node of a page that is touched first.
enum class NodePolicy : uint8_t {
  kLocal,       // that of the processor that touches it
  kPreferred,   // the first of the set, others if it is full
  kBind,        // one of the set; the system ends a process for which none has room
  kInterleave,  // those of the set in turn, OS page by OS page or huge page by huge page
};

// Sets the policy for pages of the range that are not resident yet. Returns 0 or an errno value.
// pre: whole OS pages; the set is not empty except for kLocal.
int SetNodePolicy(void* p, size_t bytes, NodePolicy policy, const NodeSet& nodes);

// The policy of the calling thread, for memory without a policy of its own, as numactl sets it for
// a program; `*nodes` are those that it names. kLocal if the system does not tell, or the policy is
// one that is not known here.
NodePolicy PolicyOfThread(NodeSet* nodes);

// The policy of the calling thread, for memory without a policy of its own, while the object lives.
class ThreadNodePolicy {
 public:
  ThreadNodePolicy();
  // Restores the thread's policy.
  ~ThreadNodePolicy();
  ThreadNodePolicy(const ThreadNodePolicy&) = delete;
  ThreadNodePolicy& operator=(const ThreadNodePolicy&) = delete;
  // Prefers the node from now on. Returns 0 or an errno value.
  int Prefer(int node);

 private:
  // The policy from before; error_, which is set last, says why it is not known, or 0.
  int mode_ = 0;
  NodeSet nodes_;
  int error_;
};

// The node of each of `count` OS pages, in `nodes`: -1 if the page is not resident, or the system
// does not tell. `addresses` are anywhere in the pages. Returns 0 or an errno value. Changes
// nothing.
int NodesOfPages(void* const* addresses, size_t count, int* nodes);

// Moves each of the OS pages to the node beside it, with its contents, while threads use it. Pages
// that cannot be moved stay (NodesOfPages tells). Returns 0 or an errno value: that of the first
// page that the system refuses to move, if there is one.
int MovePages(void* const* addresses, const int* nodes, size_t count);

// Makes the range consist of small pages, which can lie on nodes of their own: the contents stay.
// Advice only.
void UseSmallPages(void* p, size_t bytes);
// Splits the huge page that begins at p, if there is one, into small ones. Advice only.
void SplitHugePage(void* p);

}  // namespace gleaner::platform
