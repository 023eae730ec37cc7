// GCBench, after the artificial benchmark of John Ellis and Pete Kovac as modified by Hans Boehm:
// a long-lived tree and a long-lived array of doubles, while short-lived trees of growing depth
// are built top-down and bottom-up. Each thread does the whole work.
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
  int32_t i, j;
};

struct Parameters {
  int max_depth;
  int stretch_depth;
  uint64_t array_length;
  bench::RandomWork work;
};

uint64_t TreeSize(int depth) { return (UINT64_C(2) << depth) - 1; }

Node* NewNode(Node* left, Node* right) {
  bench::RecordProgress();
  auto* node = static_cast<Node*>(GC_malloc(sizeof(Node)));
  node->left = left;
  node->right = right;
  return node;
}

// Top-down: a node is written to after younger ones were allocated.
void Populate(int depth, Node* node) {
  if (depth <= 0) return;
  node->left = NewNode(nullptr, nullptr);
  node->right = NewNode(nullptr, nullptr);
  Populate(depth - 1, node->left);
  Populate(depth - 1, node->right);
}

// Bottom-up: a node is written to only when it is made.
Node* MakeTree(int depth) {
  if (depth <= 0) return NewNode(nullptr, nullptr);
  Node* left = MakeTree(depth - 1);
  Node* right = MakeTree(depth - 1);
  return NewNode(left, right);
}

uint64_t CountNodes(const Node* node) {
  return node == nullptr ? 0 : 1 + CountNodes(node->left) + CountNodes(node->right);
}

struct Work {
  uint64_t allocated = 0;
  uint64_t checksum = 0;
};

void Construct(const Parameters& parameters, int depth, Work* work) {
  const uint64_t iterations =
      parameters.work.Scaled(2 * TreeSize(parameters.stretch_depth) / TreeSize(depth));
  Node* last = nullptr;
  for (uint64_t i = 0; i < iterations; ++i) {
    last = NewNode(nullptr, nullptr);
    Populate(depth, last);
  }
  uint64_t nodes = CountNodes(last);
  for (uint64_t i = 0; i < iterations; ++i) last = MakeTree(depth);
  nodes += CountNodes(last);
  if (nodes != 2 * TreeSize(depth)) bench::Fail("trees of depth %d have %lu nodes", depth, nodes);
  work->allocated += 2 * iterations * TreeSize(depth);
  work->checksum = bench::Mix64(work->checksum ^ nodes);
}

Work RunAll(const Parameters& parameters) {
  Work work;
  // A tree that stretches the heap and dies at once.
  work.allocated += CountNodes(MakeTree(parameters.stretch_depth));

  Node* long_lived = NewNode(nullptr, nullptr);
  Populate(parameters.max_depth, long_lived);
  auto* array = static_cast<double*>(GC_malloc_atomic(parameters.array_length * sizeof(double)));
  for (uint64_t i = 0; i < parameters.array_length; ++i) {
    array[i] = 1.0 / static_cast<double>(i + 1);
  }

  for (int depth = kMinDepth; depth <= parameters.max_depth; depth += 2) {
    Construct(parameters, depth, &work);
  }

  const uint64_t kept = CountNodes(long_lived);
  if (kept != TreeSize(parameters.max_depth)) {
    bench::Fail("the long-lived tree has %lu nodes", kept);
  }
  for (uint64_t i = 0; i < parameters.array_length; ++i) {
    if (array[i] != 1.0 / static_cast<double>(i + 1)) bench::Fail("array[%lu] changed", i);
  }
  work.checksum = bench::Mix64(work.checksum ^ kept ^ work.allocated);
  return work;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t depth, array_length;
  bench::Options options("gcbench", "Boehm, Ellis and Kovac's GCBench on each thread");
  options.Number("depth", &depth, 16, 8, kMinDepth, 28, "depth of the long-lived tree");
  options.Number("array", &array_length, 500'000, 5'000, 1, UINT64_C(1) << 32,
                 "doubles in the long-lived array");
  bench::RandomWork work_size;
  options.SeedAndScale(&work_size);
  options.Parse(argc, argv);
  const Parameters parameters{static_cast<int>(depth), static_cast<int>(depth) + 2, array_length,
                              work_size};

  bench::InitGc(options);
  static Work work[bench::kMaxThreads];
  const bench::Measurement measurement =
      bench::RunThreads(options.threads(), [&](int t) { work[t] = RunAll(parameters); });

  uint64_t allocated = 0;
  uint64_t checksum = 0;
  for (int t = 0; t < options.threads(); ++t) {
    allocated += work[t].allocated;
    checksum += work[t].checksum;
  }
  bench::ResultLine result("gcbench");
  bench::PrintRun(options, measurement, static_cast<double>(allocated), checksum, &result);
}
