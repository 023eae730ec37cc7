// The thread that loads the topology of a machine with several memory nodes, for the markers.
#pragma once

namespace gleaner::runtime {

// Starts the thread, in the first call on a machine with several nodes that has helpers to divide
// over them. It ends when the topology is loaded, some 100 ms later; markers use the topology from
// then on. pre: the collector lock is held.
void LoadTopologyForMarkers();
// In the child of a fork, where the thread does not exist.
void ForgetTopologyThread();

}  // namespace gleaner::runtime
