// The binary-trees program of the Computer Language Benchmarks Game: a stretch tree, a long-lived
// tree, and many short-lived trees of growing depth. Each thread does the whole work.
#define GC_THREADS
#include <cstdint>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

constexpr int kMinDepth = 4;

struct Node {
  Node* left;
  Node* right;
};

Node* Build(int depth) {
  bench::RecordProgress();
  auto* node = static_cast<Node*>(GC_malloc(sizeof(Node)));
  if (depth > 0) {
    node->left = Build(depth - 1);
    node->right = Build(depth - 1);
  }
  return node;
}

uint64_t CountNodes(const Node* node) {
  if (node->left == nullptr) return 1;
  return 1 + CountNodes(node->left) + CountNodes(node->right);
}

uint64_t TreeSize(int depth) { return (UINT64_C(2) << depth) - 1; }

uint64_t CountOfFresh(int depth) {
  const uint64_t nodes = CountNodes(Build(depth));
  if (nodes != TreeSize(depth)) bench::Fail("a tree of depth %d has %lu nodes", depth, nodes);
  return nodes;
}

struct Work {
  uint64_t allocated = 0;
  uint64_t checksum = 0;
};

Work RunAll(int max_depth, const bench::RandomWork& scaled) {
  Work work;
  const auto record = [&](uint64_t nodes) {
    work.allocated += nodes;
    work.checksum = bench::Mix64(work.checksum ^ nodes);
  };
  record(CountOfFresh(max_depth + 1));
  Node* long_lived = Build(max_depth);
  for (int depth = kMinDepth; depth <= max_depth; depth += 2) {
    const uint64_t iterations = scaled.Scaled(UINT64_C(1) << (max_depth - depth + kMinDepth));
    uint64_t nodes = 0;
    for (uint64_t i = 0; i < iterations; ++i) nodes += CountOfFresh(depth);
    record(nodes);
  }
  const uint64_t kept = CountNodes(long_lived);
  if (kept != TreeSize(max_depth)) bench::Fail("the long-lived tree has %lu nodes", kept);
  record(kept);
  return work;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t depth;
  bench::RandomWork scaled;
  bench::Options options("binary_trees", "binary trees, the whole work on each thread");
  options.Number("depth", &depth, 18, 10, kMinDepth, 30, "depth of the long-lived tree");
  options.SeedAndScale(&scaled);
  options.Parse(argc, argv);

  bench::InitGc(options);
  static Work work[bench::kMaxThreads];
  const bench::Measurement measurement = bench::RunThreads(
      options.threads(), [&](int t) { work[t] = RunAll(static_cast<int>(depth), scaled); });

  uint64_t allocated = 0;
  uint64_t checksum = 0;
  for (int t = 0; t < options.threads(); ++t) {
    allocated += work[t].allocated;
    checksum += work[t].checksum;
  }
  bench::ResultLine result("binary_trees");
  bench::PrintRun(options, measurement, static_cast<double>(allocated), checksum, &result);
}
