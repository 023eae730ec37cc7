// A large stable heap and short-lived objects: what generational collectors are for. The heap is
// trees of nodes of 64 bytes that are built first, which is not measured. Each operation then looks
// some of the trees' nodes up, builds a short list that is garbage at its end, and once in so many
// operations hangs a new node into a random tree in place of what hung there before.
#define GC_THREADS
#include <cstdint>
#include <cstring>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

constexpr int kDepth = 12;
constexpr uint64_t kTreeBytes = (uint64_t{64} << (kDepth + 1)) - 64;
constexpr int kListLength = 40;

struct Node {
  Node* child[2];
  Node* extra;
  uint64_t number;
  uint64_t data[4];
};
static_assert(sizeof(Node) == 64);

struct Item {
  Item* next;
  uint64_t data[4];
};

// Owner thread only. In static data, so that the trees are rooted.
struct alignas(128) Forest {
  Node** trees;
  uint64_t count;
  uint64_t checksum;
};
Forest g_forests[bench::kMaxThreads];

Node* NewNode(uint64_t number) {
  auto* node = static_cast<Node*>(GC_malloc(sizeof(Node)));
  node->number = number;
  return node;
}

Node* Build(int depth, uint64_t number) {
  Node* node = NewNode(number);
  if (depth > 0) {
    node->child[0] = Build(depth - 1, 2 * number);
    node->child[1] = Build(depth - 1, 2 * number + 1);
  }
  return node;
}

void Plant(Forest* forest, uint64_t trees) {
  forest->trees = static_cast<Node**>(GC_malloc(trees * sizeof(Node*)));
  forest->count = trees;
  for (uint64_t i = 0; i < trees; ++i) forest->trees[i] = Build(kDepth, 1);
}

// A leaf of a random tree, by a random way.
Node* FindLeaf(const Forest& forest, uint64_t random) {
  Node* node = forest.trees[(random >> 32) % forest.count];
  uint64_t number = 1;
  for (int i = 0; i < kDepth; ++i) {
    const uint64_t way = random >> i & 1;
    node = node->child[way];
    number = 2 * number + way;
  }
  if (node->number != number) bench::Fail("node %lu of a tree is damaged", number);
  return node;
}

uint64_t UseList(uint64_t seed) {
  Item* list = nullptr;
  for (int i = 0; i < kListLength; ++i) {
    auto* item = static_cast<Item*>(GC_malloc(sizeof(Item)));
    item->next = list;
    item->data[0] = seed + static_cast<uint64_t>(i);
    list = item;
  }
  uint64_t sum = 0;
  for (const Item* item = list; item != nullptr; item = item->next) sum += item->data[0];
  return sum;
}

void Run(Forest* forest, uint64_t seed, uint64_t operations, uint64_t store_every) {
  bench::Rng rng(seed);
  for (uint64_t i = 0; i < operations; ++i) {
    const uint64_t random = rng.Next();
    Node* leaf = FindLeaf(*forest, random);
    forest->checksum += UseList(random >> 8);
    if (store_every != 0 && i % store_every == 0) {
      if (leaf->extra != nullptr && leaf->extra->number >= i) bench::Fail("a new node is damaged");
      leaf->extra = NewNode(i);
    }
    bench::RecordProgress();
  }
}

// As programs do that embed a runtime with a heap of one size. Without GC_set_dont_expand, libgc
// gives up at this limit when less than its own share of the heap is free.
void FixHeap(uint64_t bytes) {
  GC_set_max_heap_size(bytes);
  if (GC_expand_hp(bytes - GC_get_heap_size()) == 0) bench::Fail("no heap of %lu bytes", bytes);
  GC_set_dont_expand(1);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t live_mb;
  uint64_t operations;
  uint64_t store_every;
  uint64_t heap_percent;
  bench::RandomWork work;
  bench::Options options("stable_heap", "a large stable heap and short-lived objects");
  options.Number("live-mb", &live_mb, 400, 4, 1, 1 << 20, "MB of trees, over all threads");
  options.Number("operations", &operations, 2'000'000, 20'000, 1, UINT64_MAX,
                 "lists that are made, by each thread");
  options.Number("store-every", &store_every, 100, 100, 0, UINT64_MAX,
                 "operations between two stores into a tree; 0 for none");
  options.Number(
      "heap-percent", &heap_percent, 0, 0, 0, 10'000,
      "size that the heap is fixed at from the start, in percent of the trees; 0 for any");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  operations = work.Scaled(operations);
  bench::InitGc(options);

  const auto threads = static_cast<uint64_t>(options.threads());
  const uint64_t trees = (live_mb * 1'000'000 / threads + kTreeBytes - 1) / kTreeBytes;
  if (heap_percent != 0) FixHeap(trees * kTreeBytes * threads * heap_percent / 100);
  bench::RunThreads(options.threads(), [&](int t) { Plant(&g_forests[t], trees); });
  const bench::Measurement measurement = bench::RunThreads(options.threads(), [&](int t) {
    const uint64_t seed = work.SeedOffset() + static_cast<uint64_t>(t);
    Run(&g_forests[t], seed, operations, store_every);
  });

  uint64_t checksum = 0;
  for (uint64_t t = 0; t < threads; ++t) checksum += g_forests[t].checksum;
  bench::ResultLine result("stable_heap");
  result.Real("collecting_ms", measurement.pause_mean_ms * static_cast<double>(measurement.pauses));
  bench::PrintRun(options, measurement, static_cast<double>(operations * threads), checksum,
                  &result);
}
