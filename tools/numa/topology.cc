#include "tools/numa/topology.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <iterator>
#include <string>
#include <vector>

#include "gc/mark/termination.h"
#include "gc/mark/worker_nodes.h"
#include "platform/nodes/topology.h"
#include "platform/os/control_group.h"
#include "platform/threads/thread.h"
#include "tools/common/json.h"

namespace {

using gleaner::platform::Topology;
using gleaner::tools::Json;

template <class Set>
std::string List(const Set& set) {
  char none = 0;
  std::string text(set.Format(&none, 1) + 1, 0);
  set.Format(text.data(), text.size());
  text.pop_back();
  return text;
}

template <class Set>
std::vector<int> Numbers(const Set& set) {
  std::vector<int> numbers;
  for (int n = set.First(); n >= 0; n = set.Next(n)) numbers.push_back(n);
  return numbers;
}

struct Marker {
  int node = -1;             // -1: not bound
  std::vector<int> victims;  // markers, in the order in which it looks for work at them
};

// What the command shows.
struct Plan {
  const Topology& topology;
  int quota;  // processors that the control group's quota comes to; INT_MAX: none
  std::vector<Marker> markers;
};

// As many as the library starts by itself, on the machine of the topology.
int UsualMarkers(const Topology& topology) {
  if (topology.is_this_machine) return gleaner::platform::UsableCpuCount();
  return std::max(1, topology.processors.Count());
}

std::vector<Marker> PlanMarkers(const Topology& topology, size_t count) {
  std::vector<Marker> markers(count);
  std::vector<int> nodes(count);
  for (size_t i = 0; i < count; ++i) {
    nodes[i] = markers[i].node =
        gleaner::gc::NodeOfWorker(topology, static_cast<int>(i), static_cast<int>(count));
  }
  std::vector<uint16_t> order(count);
  for (size_t i = 0; i < count; ++i) {
    gleaner::platform::NearestFirst(topology, nodes[i], nodes.data(), count, i + 1, order.data());
    std::copy_if(order.begin(), order.end(), std::back_inserter(markers[i].victims),
                 [i](uint16_t victim) { return victim != i; });
  }
  return markers;
}

const char* MemoryOf(const Topology& topology, int node) {
  if (!topology.machine_memory_nodes.Has(node)) return "none";
  return topology.nodes.Has(node) ? "yes" : "not allowed";
}

std::vector<int> DistancesFrom(const Topology& topology, int from) {
  std::vector<int> distances;
  for (const int to : Numbers(topology.machine_nodes)) {
    distances.push_back(topology.distance(from, to));
  }
  return distances;
}

void PrintRestrictions(const Plan& plan) {
  const Topology& t = plan.topology;
  auto nodes = t.machine_memory_nodes;
  nodes.Subtract(t.nodes);
  if (!nodes.IsEmpty()) {
    printf("not allowed, by a control group: memory of nodes %s\n", List(nodes).c_str());
  }
  auto processors = t.machine_processors;
  processors.Subtract(t.processors);
  if (!processors.IsEmpty()) {
    printf("not allowed, by affinity or a control group: processors %s\n",
           List(processors).c_str());
  }
  if (plan.quota != INT_MAX) {
    printf("quota of the control group: %d %s\n", plan.quota,
           plan.quota == 1 ? "processor" : "processors");
  }
}

void PrintText(const Plan& plan) {
  const Topology& t = plan.topology;
  printf("memory nodes of %s, by %s\n\n",
         t.is_this_machine ? "this machine" : "a machine that is not this one",
         t.from_hwloc ? "hwloc" : "the kernel");
  printf("%6s  %-11s  %-20s  distances\n", "node", "memory", "processors");
  for (const int node : Numbers(t.machine_nodes)) {
    std::string own = List(t.ProcessorsOf(node));
    if (own.empty()) own = "none";
    printf("%6d  %-11s  %-20s ", node, MemoryOf(t, node), own.c_str());
    for (const int distance : DistancesFrom(t, node)) printf(" %3d", distance);
    printf("\n");
  }
  PrintRestrictions(plan);
  if (t.problem[0] != 0) printf("problem: %s\n", t.problem);
  printf("\n%6s  %-8s  looks for work at\n", "marker", "node");
  for (size_t i = 0; i < plan.markers.size(); ++i) {
    const Marker& marker = plan.markers[i];
    printf("%6zu  %-8s ", i, marker.node < 0 ? "any" : std::to_string(marker.node).c_str());
    for (const int victim : marker.victims) printf(" %d", victim);
    printf("\n");
  }
}

void PrintJson(const Plan& plan) {
  const Topology& t = plan.topology;
  Json all = {{"source", t.from_hwloc ? "hwloc" : "kernel"},
              {"is_this_machine", t.is_this_machine},
              {"problem", t.problem[0] == 0 ? Json() : Json(t.problem)},
              {"has_several_nodes", gleaner::platform::HasSeveralNodes()},
              {"memory_nodes", Numbers(t.nodes)},
              {"machine_memory_nodes", Numbers(t.machine_memory_nodes)},
              {"processors", Numbers(t.processors)},
              {"machine_processors", Numbers(t.machine_processors)},
              {"quota_processors", plan.quota == INT_MAX ? Json() : Json(plan.quota)},
              {"nodes", Json::array()},
              {"markers", Json::array()}};
  for (const int node : Numbers(t.machine_nodes)) {
    all["nodes"].push_back({{"node", node},
                            {"processors", Numbers(t.ProcessorsOf(node))},
                            {"distances", DistancesFrom(t, node)}});
  }
  for (const Marker& marker : plan.markers) {
    all["markers"].push_back(
        {{"node", marker.node < 0 ? Json() : Json(marker.node)}, {"victims", marker.victims}});
  }
  gleaner::tools::Print(all);
}

}  // namespace

int ShowTopology(const TopologyOptions& options) {
  const Topology* topology = gleaner::platform::LoadTopology();
  if (topology == nullptr) {
    fprintf(stderr, "gleaner topology: no memory\n");
    return 1;
  }
  // Of another machine nothing is known about a quota.
  const int quota =
      topology->is_this_machine ? gleaner::platform::ControlGroupProcessors() : INT_MAX;
  const int markers = std::min(options.markers != 0 ? options.markers : UsualMarkers(*topology),
                               gleaner::gc::kMaxWorkers);
  const Plan plan = {*topology, quota, PlanMarkers(*topology, static_cast<size_t>(markers))};
  options.json ? PrintJson(plan) : PrintText(plan);
  return 0;
}
