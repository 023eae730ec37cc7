#include "gc/mark/worker_nodes.h"

namespace gleaner::gc {

// Workers lie at equal distances on the row of all processors, node after node, worker 0 at its
// beginning: so a node has as many as fall to its part of the row, give or take one.
int NodeOfWorker(const platform::Topology& topology, int worker, int workers) {
  const platform::NodeSet& nodes = topology.processor_nodes;
  if (worker == 0 || nodes.Count() < 2) return -1;
  int64_t processors = 0;
  for (int node = nodes.First(); node >= 0; node = nodes.Next(node)) {
    processors += topology.ProcessorsOf(node).Count();
  }
  int64_t place = worker * processors / workers;
  for (int node = nodes.First(); node >= 0; node = nodes.Next(node)) {
    place -= topology.ProcessorsOf(node).Count();
    if (place < 0) return node;
  }
  return -1;
}

}  // namespace gleaner::gc
