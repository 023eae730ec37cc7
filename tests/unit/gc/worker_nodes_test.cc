#include "gc/mark/worker_nodes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <vector>

#include "tests/support/child.h"

namespace gleaner::gc {
namespace {

// In a child, since hwloc reads the environment.
template <class F>
void WithSynthetic(const char* text, F f) {
  EXPECT_CHILD_OK([&] {
    setenv("HWLOC_SYNTHETIC", text, 1);
    f(*platform::LoadTopology());
  });
}

std::vector<int> NodesOf(const platform::Topology& topology, int workers) {
  std::vector<int> nodes;
  for (int worker = 0; worker < workers; ++worker) {
    nodes.push_back(NodeOfWorker(topology, worker, workers));
  }
  return nodes;
}

TEST(WorkerNodesTest, TheFirstIsNotBound) {
  WithSynthetic("node:2 pu:4", [](const platform::Topology& topology) {
    EXPECT_EQ(NodesOf(topology, 1), (std::vector{-1}));
    EXPECT_EQ(NodesOf(topology, 2), (std::vector{-1, 1}));
    EXPECT_EQ(NodesOf(topology, 4), (std::vector{-1, 0, 1, 1}));
    EXPECT_EQ(NodesOf(topology, 8), (std::vector{-1, 0, 0, 0, 1, 1, 1, 1}));
  });
}

TEST(WorkerNodesTest, EachNodeHasItsShare) {
  WithSynthetic("node:4 core:8 pu:1", [](const platform::Topology& topology) {
    for (int workers = 1; workers <= 64; ++workers) {
      std::map<int, int> count;
      for (const int node : NodesOf(topology, workers)) ++count[node < 0 ? 0 : node];
      for (int node = 0; node < 4; ++node) {
        EXPECT_GE(count[node], workers / 4) << workers;
        EXPECT_LE(count[node], (workers + 3) / 4) << workers;
      }
    }
  });
}

TEST(WorkerNodesTest, SharesFollowTheProcessors) {
  // Of the second node three processors in four are not allowed.
  static platform::Topology topology;
  for (const int node : {0, 5}) topology.processor_nodes.Add(node);
  for (int p = 0; p < 8; ++p) topology.processors_of[0].Add(p);
  for (int p = 8; p < 10; ++p) topology.processors_of[5].Add(p);
  EXPECT_EQ(NodesOf(topology, 5), (std::vector{-1, 0, 0, 0, 5}));
  EXPECT_EQ(NodesOf(topology, 10), (std::vector{-1, 0, 0, 0, 0, 0, 0, 0, 5, 5}));
}

TEST(WorkerNodesTest, WithoutProcessorsOfSeveralNodesNoneIsBound) {
  static platform::Topology topology;
  EXPECT_EQ(NodesOf(topology, 3), (std::vector{-1, -1, -1}));
  topology.processor_nodes.Add(0);
  topology.processors_of[0].Add(0);
  EXPECT_EQ(NodesOf(topology, 3), (std::vector{-1, -1, -1}));
}

}  // namespace
}  // namespace gleaner::gc
