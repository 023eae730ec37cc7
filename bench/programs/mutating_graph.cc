// A graph of nodes with four edges each that changes all the time. Nodes come in parts, trees with
// further edges that are reached from the part's head. Operations redirect or cut a random edge of
// a node that a random walk finds, or put a new part in place of an old one, of which only what
// other parts have edges to remains. An edge that leaves its part leads to a lower level, so that
// chains of old parts have an end.
// Each thread owns parts and changes its own nodes alone. In rounds, each exports some of its
// nodes, to which the others direct edges in the next round; what is done so depends on the seed
// alone. Each thread notes all edges in a model outside of the heap: arrays of numbers. Now and
// then, with the threads waiting, one traverses model and heap from the roots. Both traversals must
// find the same nodes, intact and with the same edges.
#define GC_THREADS
#include <cstdint>
#include <vector>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

constexpr int kEdges = 4;
constexpr uint64_t kLevels = 4;
constexpr uint64_t kMinPart = 4;
constexpr uint64_t kMaxPart = 48;
constexpr uint64_t kMaxWords = 9;
constexpr uint64_t kBytesPerPart = (kMinPart + kMaxPart) / 2 * (16 + 8 * kEdges + 4 * kMaxWords);
constexpr uint64_t kMaxSteps = 10;
constexpr uint64_t kExports = 256;
constexpr uint64_t kOperationsPerRound = 4'096;
constexpr uint64_t kPartEvery = 16;      // Operations, of which one makes a part.
constexpr uint64_t kCrossingEvery = 12;  // Nodes of a new part, of which one has an edge outside.

// Names a node of the model: the owner in the high 8 bits, and an index, which is not 0.
using Id = uint32_t;
constexpr int kIndexBits = 24;

struct Node {
  Id id;
  uint32_t part;
  uint32_t found;  // Number of the last check that has found it.
  uint16_t level;
  uint16_t length;
  Node* edges[kEdges];
  uint64_t words[1];
};

struct Record {
  Id edges[kEdges];
  bool found;
};

// Written by its owner; read by all while the owner waits.
struct alignas(128) Share {
  // In the heap. The share is in static data, so that they are roots.
  Node** heads;    // Part p has the level p % kLevels.
  Node** exports;  // Changes between rounds.
  // The model.
  std::vector<Id> head_ids;
  std::vector<Id> export_ids;
  std::vector<Record> records;  // Record 0 is unused.
  std::vector<uint32_t> unused;
  uint32_t parts_made;
  uint64_t nodes_made;
};
Share g_shares[bench::kMaxThreads];

struct Parameters {
  int threads;
  uint64_t parts;  // Of each thread.
  uint64_t rounds;
  uint64_t check_every;
};

struct Found {
  uint64_t nodes = 0;
  uint64_t sum = 0;
  void Add(Id id) {
    ++nodes;
    sum += bench::Mix64(id);
  }
  bool operator==(const Found&) const = default;
};

Id IdOf(const Node* node) { return node == nullptr ? 0 : node->id; }

Share* OwnerOf(Id id) { return &g_shares[id >> kIndexBits]; }

Record& RecordOf(Id id) { return OwnerOf(id)->records[id & ((1u << kIndexBits) - 1)]; }

uint64_t WordOf(const Node* node, uint64_t index) {
  return bench::Mix64((uint64_t{node->id} << 32 | node->part) * kMaxWords + index);
}

void Verify(const Node* node) {
  for (uint64_t i = 0; i < node->length; ++i) {
    if (node->words[i] != WordOf(node, i)) bench::Fail("node %x is damaged", node->id);
  }
}

void SetEdge(Node* from, int edge, Node* to) {
  from->edges[edge] = to;
  RecordOf(from->id).edges[edge] = IdOf(to);
}

Id NewId(int thread) {
  Share& share = g_shares[thread];
  uint32_t index;
  if (share.unused.empty()) {
    index = static_cast<uint32_t>(share.records.size());
    if (index >> kIndexBits != 0) bench::Fail("more nodes than the model has numbers for");
    share.records.emplace_back();
  } else {
    index = share.unused.back();
    share.unused.pop_back();
  }
  share.records[index] = {};
  return static_cast<uint32_t>(thread) << kIndexBits | index;
}

Node* NewNode(int thread, uint64_t level, uint64_t length) {
  auto* node = static_cast<Node*>(GC_malloc(offsetof(Node, words) + length * sizeof(uint64_t)));
  node->id = NewId(thread);
  node->part = g_shares[thread].parts_made;
  node->level = static_cast<uint16_t>(level);
  node->length = static_cast<uint16_t>(length);
  for (uint64_t i = 0; i < length; ++i) node->words[i] = WordOf(node, i);
  ++g_shares[thread].nodes_made;
  return node;
}

// A node that its owner reaches from `node`, by some random edges.
Node* Walk(Node* node, bench::Rng* rng) {
  uint64_t random = rng->Next();
  for (uint64_t steps = random % kMaxSteps; steps > 0; --steps) {
    random /= kEdges;
    Node* next = node->edges[random / 64 % kEdges];
    if (next != nullptr && OwnerOf(next->id) == OwnerOf(node->id)) node = next;
  }
  return node;
}

// A node below `level`, exported by another thread or of the own; null if none was found.
Node* FindBelow(int thread, const Parameters& parameters, uint64_t level, bench::Rng* rng) {
  if (level == 0) return nullptr;
  if (parameters.threads > 1 && rng->Below(2) == 0) {
    const uint64_t others = static_cast<uint64_t>(parameters.threads) - 1;
    const uint64_t other = (static_cast<uint64_t>(thread) + 1 + rng->Below(others)) % (others + 1);
    Node* node = g_shares[other].exports[rng->Below(kExports)];
    return node != nullptr && node->level < level ? node : nullptr;
  }
  const uint64_t part = rng->Below(parameters.parts / kLevels) * kLevels + rng->Below(level);
  return Walk(g_shares[thread].heads[part], rng);
}

void MakePart(int thread, const Parameters& parameters, uint64_t part, bench::Rng* rng) {
  Share& share = g_shares[thread];
  ++share.parts_made;
  const uint64_t level = part % kLevels;
  const uint64_t length = kMinPart + rng->Below(kMaxPart - kMinPart + 1);
  Node* nodes[kMaxPart];
  for (uint64_t i = 0; i < length; ++i) nodes[i] = NewNode(thread, level, rng->Below(kMaxWords));
  for (uint64_t i = 0; i < length; ++i) {
    if (2 * i + 1 < length) SetEdge(nodes[i], 0, nodes[2 * i + 1]);
    if (2 * i + 2 < length) SetEdge(nodes[i], 1, nodes[2 * i + 2]);
    SetEdge(nodes[i], 2, nodes[rng->Below(length)]);
    if (share.heads[parameters.parts - 1] != nullptr && rng->Below(kCrossingEvery) == 0) {
      SetEdge(nodes[i], 3, FindBelow(thread, parameters, level, rng));
    }
  }
  share.heads[part] = nodes[0];
  share.head_ids[part] = nodes[0]->id;
}

// An edge that would lead to another part of the same level is cut.
void Redirect(int thread, const Parameters& parameters, uint64_t part, bench::Rng* rng) {
  Node* head = g_shares[thread].heads[part];
  Node* from = Walk(head, rng);
  Verify(from);
  const uint64_t random = rng->Next();
  Node* to = random % 4 == 0 ? FindBelow(thread, parameters, from->level, rng) : Walk(head, rng);
  if (to != nullptr && to->part != from->part && to->level >= from->level) to = nullptr;
  SetEdge(from, static_cast<int>(random >> 32) & (kEdges - 1), to);
}

void Export(int thread, const Parameters& parameters, bench::Rng* rng) {
  Share& share = g_shares[thread];
  for (uint64_t i = 0; i < kExports; ++i) {
    Node* node = Walk(share.heads[rng->Below(parameters.parts)], rng);
    share.exports[i] = node;
    share.export_ids[i] = node->id;
  }
}

// Pointers in the heap, so that the collector sees them.
class NodeStack {
 public:
  bool empty() const { return size_ == 0; }
  Node* Pop() { return nodes_[--size_]; }
  void Push(Node* node) {
    if (size_ == capacity_) {
      capacity_ = capacity_ == 0 ? 1'024 : 2 * capacity_;
      nodes_ = static_cast<Node**>(GC_realloc(nodes_, capacity_ * sizeof(Node*)));
    }
    nodes_[size_++] = node;
  }

 private:
  Node** nodes_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

Found TraverseModel(int threads) {
  Found found;
  std::vector<Id> stack;
  const auto visit = [&](Id id) {
    if (id == 0 || RecordOf(id).found) return;
    RecordOf(id).found = true;
    found.Add(id);
    stack.push_back(id);
  };
  for (int t = 0; t < threads; ++t) {
    for (const Id id : g_shares[t].head_ids) visit(id);
    for (const Id id : g_shares[t].export_ids) visit(id);
  }
  while (!stack.empty()) {
    const Id id = stack.back();
    stack.pop_back();
    for (const Id edge : RecordOf(id).edges) visit(edge);
  }
  return found;
}

Found TraverseHeap(int threads, uint64_t parts, uint32_t check) {
  Found found;
  NodeStack stack;
  const auto visit = [&](Node* node) {
    if (node == nullptr || node->found == check) return;
    node->found = check;
    found.Add(node->id);
    stack.Push(node);
  };
  for (int t = 0; t < threads; ++t) {
    for (uint64_t i = 0; i < parts; ++i) visit(g_shares[t].heads[i]);
    for (uint64_t i = 0; i < kExports; ++i) visit(g_shares[t].exports[i]);
  }
  while (!stack.empty()) {
    const Node* node = stack.Pop();
    Verify(node);
    for (int i = 0; i < kEdges; ++i) {
      if (IdOf(node->edges[i]) != RecordOf(node->id).edges[i]) {
        bench::Fail("edge %d of node %x leads to node %x, not %x", i, node->id,
                    IdOf(node->edges[i]), RecordOf(node->id).edges[i]);
      }
      visit(node->edges[i]);
    }
  }
  return found;
}

Found Check(const Parameters& parameters, uint32_t check) {
  const Found heap = TraverseHeap(parameters.threads, parameters.parts, check);
  const Found model = TraverseModel(parameters.threads);
  if (heap == model) return heap;
  bench::Fail("%lu nodes of sum %lx are found, not %lu of %lx", heap.nodes, heap.sum, model.nodes,
              model.sum);
}

// What the model has not found is unreachable, and its records are of no use.
void ReuseRecords(Share* share) {
  share->unused.clear();
  for (uint32_t i = 1; i < share->records.size(); ++i) {
    if (!share->records[i].found) share->unused.push_back(i);
    share->records[i].found = false;
  }
}

void Build(int thread, const Parameters& parameters, uint64_t seed) {
  Share& share = g_shares[thread];
  share.heads = static_cast<Node**>(GC_malloc(parameters.parts * sizeof(Node*)));
  share.exports = static_cast<Node**>(GC_malloc(kExports * sizeof(Node*)));
  share.head_ids.resize(parameters.parts);
  share.export_ids.resize(kExports);
  share.records.resize(1);
  bench::Rng rng(seed);
  for (uint64_t part = 0; part < parameters.parts; ++part) {
    MakePart(thread, parameters, part, &rng);
  }
}

void Run(int thread, const Parameters& parameters, uint64_t seed) {
  bench::Rng rng(seed);
  for (uint64_t round = 1; round <= parameters.rounds; ++round) {
    for (uint64_t i = 0; i < kOperationsPerRound; ++i) {
      const uint64_t part = rng.Below(parameters.parts);
      if (i % kPartEvery == 0) {
        MakePart(thread, parameters, part, &rng);
      } else {
        Redirect(thread, parameters, part, &rng);
      }
      bench::RecordProgress();
    }
    bench::WaitForAll();
    Export(thread, parameters, &rng);
    bench::WaitForAll();
    if (round % parameters.check_every != 0) continue;
    if (thread == 0) Check(parameters, static_cast<uint32_t>(round / parameters.check_every));
    bench::WaitForAll();
    ReuseRecords(&g_shares[thread]);
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t rounds, megabytes, check_every;
  bench::RandomWork work;
  bench::Options options("mutating_graph", "a graph whose edges change all the time");
  options.Number("rounds", &rounds, 1'000, 24, 1, UINT64_C(1) << 32,
                 "of 4,096 operations of each thread");
  options.Number("megabytes", &megabytes, 30, 2, 1, 10'000,
                 "parts that have a head, over all threads");
  options.Number("check-every", &check_every, 100, 6, 1, UINT64_MAX,
                 "rounds between two traversals");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  const int threads = options.threads();
  const uint64_t parts = megabytes * 1'000'000 / kBytesPerPart / static_cast<uint64_t>(threads);
  const Parameters parameters{threads, parts / kLevels * kLevels, work.Scaled(rounds), check_every};
  if (parameters.parts == 0) {
    bench::Fail("--megabytes %lu is too little for %d threads", megabytes, threads);
  }

  bench::InitGc(options);
  bench::RunThreads(threads, [&](int t) { Build(t, parameters, work.SeedOf(t)); });
  const bench::Measurement measurement =
      bench::RunThreads(threads, [&](int t) { Run(t, parameters, ~work.SeedOf(t)); });
  const Found found = Check(parameters, UINT32_MAX);

  uint64_t nodes_made = 0;
  for (int t = 0; t < threads; ++t) nodes_made += g_shares[t].nodes_made;
  const auto total = static_cast<double>(parameters.rounds * kOperationsPerRound) * threads;
  bench::ResultLine result("mutating_graph");
  result.Count("nodes_made", nodes_made);
  result.Count("nodes_found", found.nodes);
  bench::PrintRun(options, measurement, total, bench::Mix64(found.sum) ^ bench::Mix64(nodes_made),
                  &result);
}
