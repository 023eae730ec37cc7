// On which memory nodes the marker's workers run, and whom they take work from first.
//
// Workers are divided over the nodes in proportion to the processors that this process may use
// there. A worker runs on all of its node's processors, and steals from the nearest workers first
// (platform::NearestFirst).
#pragma once

#include "platform/nodes/topology.h"

namespace gleaner::gc {

// The node of a worker out of `workers`; -1: it runs where it likes. Worker 0 does: it is the
// thread that collects. So do all where no processors are known. Meant for any topology; nothing is
// to be bound by one that is not of this machine. pre: 0 <= worker < workers.
int NodeOfWorker(const platform::Topology& topology, int worker, int workers);

}  // namespace gleaner::gc
