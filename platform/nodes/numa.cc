#include "platform/nodes/numa.h"

#include <linux/mempolicy.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>

#include "platform/nodes/topology.h"
#include "platform/os/os_page.h"

namespace gleaner::platform {
namespace {

// The number of bits in a mask, as the calls count them: one more than there are.
constexpr unsigned long kMaskBits = kMaxNodes + 1;

int ErrnoOf(long result) { return result == 0 ? 0 : errno; }

int ModeOf(NodePolicy policy) {
  switch (policy) {
    case NodePolicy::kLocal:
      return MPOL_DEFAULT;
    case NodePolicy::kPreferred:
      return MPOL_PREFERRED;
    case NodePolicy::kBind:
      return MPOL_BIND;
    case NodePolicy::kInterleave:
      return MPOL_INTERLEAVE;
  }
  return MPOL_DEFAULT;
}

}  // namespace

int CurrentNode() {
  unsigned cpu;
  unsigned node;
  return getcpu(&cpu, &node) == 0 && node < kMaxNodes ? static_cast<int>(node) : 0;
}

int SetNodePolicy(void* p, size_t bytes, NodePolicy policy, const NodeSet& nodes) {
  const bool has_nodes = policy != NodePolicy::kLocal;
  return ErrnoOf(syscall(SYS_mbind, p, bytes, ModeOf(policy), has_nodes ? nodes.words() : nullptr,
                         has_nodes ? kMaskBits : 0, 0));
}

NodePolicy PolicyOfThread(NodeSet* nodes) {
  int mode = MPOL_DEFAULT;
  if (syscall(SYS_get_mempolicy, &mode, nodes->words(), kMaskBits, nullptr, 0) != 0) {
    return NodePolicy::kLocal;
  }
  constexpr int kWeightedInterleave = 6;  // MPOL_WEIGHTED_INTERLEAVE, Linux 6.9
  switch (mode & ~MPOL_MODE_FLAGS) {
    case MPOL_BIND:
      return NodePolicy::kBind;
    case MPOL_INTERLEAVE:
    case kWeightedInterleave:
      return NodePolicy::kInterleave;
    case MPOL_PREFERRED:
      return nodes->IsEmpty() ? NodePolicy::kLocal : NodePolicy::kPreferred;
    default:
      return NodePolicy::kLocal;
  }
}

ThreadNodePolicy::ThreadNodePolicy()
    : error_(ErrnoOf(syscall(SYS_get_mempolicy, &mode_, nodes_.words(), kMaskBits, nullptr, 0))) {}

ThreadNodePolicy::~ThreadNodePolicy() {
  if (error_ != 0) return;
  // The set of a local policy must be left out, though it is empty.
  const bool has_nodes = !nodes_.IsEmpty();
  constexpr int kTries = 16;  // it needs a little memory
  for (int tries = 0; tries < kTries; ++tries) {
    if (syscall(SYS_set_mempolicy, mode_, has_nodes ? nodes_.words() : nullptr,
                has_nodes ? kMaskBits : 0) == 0) {
      return;
    }
  }
}

int ThreadNodePolicy::Prefer(int node) {
  if (error_ != 0) return error_;
  NodeSet nodes;
  nodes.Add(node);
  return ErrnoOf(syscall(SYS_set_mempolicy, MPOL_PREFERRED, nodes.words(), kMaskBits));
}

int NodesOfPages(void* const* addresses, size_t count, int* nodes) {
  const int error = ErrnoOf(syscall(SYS_move_pages, 0, count, addresses, nullptr, nodes, 0));
  for (size_t i = 0; i < count; ++i) {
    if (error != 0 || nodes[i] < 0) nodes[i] = -1;
  }
  return error;
}

int MovePages(void* const* addresses, const int* nodes, size_t count) {
  constexpr size_t kBatch = 256;
  constexpr int kMaxStops = 64;  // then only the begin of a batch is moved: few pages can be
  int status[kBatch];
  int error = 0;
  int stops = 0;
  const auto note = [&error](int why) {
    if (error == 0) error = why;
  };
  for (size_t first = 0; first < count;) {
    const size_t batch = count - first < kBatch ? count - first : kBatch;
    // The system stops at a page that is in use at the moment, leaves the status of the pages
    // behind it as it was, and says so by a positive result.
    for (size_t i = 0; i < batch; ++i) status[i] = INT_MIN;
    const long result =
        syscall(SYS_move_pages, 0, batch, addresses + first, nodes + first, status, MPOL_MF_MOVE);
    if (result < 0) {
      note(errno);
      if (errno == ENOSYS || errno == EPERM) return error;
      first += batch;
      continue;
    }
    size_t done = 0;
    for (; done < batch && status[done] != INT_MIN; ++done) {
      if (status[done] < 0 && status[done] != -ENOENT) note(-status[done]);
    }
    if (done == batch) {
      first += batch;
    } else {
      note(EBUSY);
      first += ++stops < kMaxStops ? done + 1 : batch;
    }
  }
  return error;
}

void UseSmallPages(void* p, size_t bytes) { madvise(p, bytes, MADV_NOHUGEPAGE); }

// The kernel splits a huge page of which a part only is called cold. It would take that part first
// if memory ran short, so it is one OS page.
void SplitHugePage(void* p) { madvise(p, OsPageBytes(), MADV_COLD); }

}  // namespace gleaner::platform
