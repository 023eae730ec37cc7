// BH, the N-body program of Endo's thesis: each step builds a tree of collected cells, computes the
// forces with it, and moves the bodies by a leapfrog step.
//   pt  tree and forces in parallel; the tree by spatial partition: the bodies are sorted into the
//       cubes of level kPartitionLevel, each cube's subtree is built by one thread, and one thread
//       joins them
//   st  one thread builds the tree by insertion, all compute forces
// Both give the same tree (bh_tree.h), hence the same checksum. The run fails if the energy drifts.
#define GC_THREADS
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>

#include "bench_util.h"
#include "bh_bodies.h"
#include "bh_tree.h"
#include "gc.h"
#include "gc_run.h"

namespace {

using bh::Body;
using bh::Cell;
using bh::Cube;
using bh::Node;

constexpr int kPartitionLevel = 4;
constexpr uint64_t kBuckets = UINT64_C(1) << (3 * kPartitionLevel);
constexpr uint64_t kForceBatch = 64;

enum Variant { kPt, kSt };

struct Parameters {
  Variant variant;
  uint64_t bodies;
  uint64_t steps;
  double theta;
  bool lists;
  int threads;
};

// Static, so that everything is rooted. Between two barriers a field is written by one thread
// only, or in disjoint parts; the barriers order the accesses.
struct State {
  Body** bodies;
  Body** sorted;     // The bodies in the order of their buckets.
  Node** subtrees;   // The root of each bucket.
  uint64_t* counts;  // [thread][bucket]: at first how many, then where its part begins.
  uint64_t bucket_begin[kBuckets + 1];
  double reach[bench::kMaxThreads];
  Cube cube;
  Node* root;
  std::atomic<uint64_t> next_bucket;
  std::atomic<uint64_t> next_body;
  bh::Totals before;
};
State g_state;

uint64_t BucketOf(const bh::Vec3& point, Cube cube) {
  uint64_t bucket = 0;
  for (int level = 0; level < kPartitionLevel; ++level) {
    const int octant = cube.OctantOf(point);
    bucket = bucket * 8 + static_cast<uint64_t>(octant);
    cube = cube.Octant(octant);
  }
  return bucket;
}

Cube CubeOf(uint64_t bucket, Cube cube) {
  for (int level = kPartitionLevel - 1; level >= 0; --level) {
    cube = cube.Octant(static_cast<int>(bucket >> (3 * level) & 7));
  }
  return cube;
}

// Joins subtrees[first] ... subtrees[first + 8^levels - 1], which are summarised, into one.
Node* Join(Node* const* subtrees, uint64_t first, int levels) {
  if (levels == 0) return subtrees[first];
  Node* children[8];
  Node* last = nullptr;
  int present = 0;
  for (uint64_t octant = 0; octant < 8; ++octant) {
    Node* child = Join(subtrees, first + (octant << (3 * (levels - 1))), levels - 1);
    children[octant] = child;
    if (child != nullptr) {
      last = child;
      ++present;
    }
  }
  if (present == 0 || (present == 1 && last->kind == Node::Kind::kBody)) return last;
  Cell* cell = bh::NewCell();
  std::copy(children, children + 8, cell->children);
  bh::SummariseCell(cell);
  return cell;
}

// One thread's view of the run.
class Thread {
 public:
  Thread(const Parameters& parameters, int index)
      : parameters_(parameters),
        index_(index),
        begin_(parameters.bodies * static_cast<uint64_t>(index) /
               static_cast<uint64_t>(parameters.threads)),
        end_(parameters.bodies * static_cast<uint64_t>(index + 1) /
             static_cast<uint64_t>(parameters.threads)) {}

  void Run() {
    BuildTree();
    ComputeForces();
    if (index_ == 0) g_state.before = bh::TotalsOf(g_state.bodies, parameters_.bodies);
    bench::WaitForAll();
    for (uint64_t step = 0; step < parameters_.steps; ++step) {
      bh::Advance(g_state.bodies, begin_, end_);
      BuildTree();
      ComputeForces();
      bh::Accelerate(g_state.bodies, begin_, end_);
    }
  }

 private:
  // Afterwards every thread sees the summarised tree and the counters are reset.
  void BuildTree() {
    g_state.reach[index_] = bh::ReachOf(g_state.bodies, begin_, end_);
    bench::WaitForAll();
    if (index_ == 0) {
      const double reach = *std::max_element(g_state.reach, g_state.reach + parameters_.threads);
      g_state.cube = bh::CubeAround(reach);
      g_state.next_bucket = 0;
      g_state.next_body = 0;
      if (parameters_.variant == kPt) NewTables();
    }
    bench::WaitForAll();
    if (parameters_.variant == kPt) {
      BuildInParallel();
    } else if (index_ == 0) {
      BuildAlone();
    }
    bench::WaitForAll();
  }

  void BuildAlone() {
    Node* root = nullptr;
    for (uint64_t i = 0; i < parameters_.bodies; ++i) {
      root = bh::Insert(root, g_state.bodies[i], g_state.cube);
    }
    bh::Summarise(root);
    g_state.root = root;
  }

  void NewTables() {
    g_state.sorted = static_cast<Body**>(GC_malloc(parameters_.bodies * sizeof(Body*)));
    g_state.subtrees = static_cast<Node**>(GC_malloc(kBuckets * sizeof(Node*)));
    g_state.counts = static_cast<uint64_t*>(
        GC_malloc_atomic(kBuckets * static_cast<uint64_t>(parameters_.threads) * sizeof(uint64_t)));
  }

  uint64_t* CountsOf(int thread) {
    return g_state.counts + static_cast<uint64_t>(thread) * kBuckets;
  }

  void BuildInParallel() {
    uint64_t* counts = CountsOf(index_);
    std::fill(counts, counts + kBuckets, 0);
    for (uint64_t i = begin_; i < end_; ++i) {
      ++counts[BucketOf(g_state.bodies[i]->position, g_state.cube)];
    }
    bench::WaitForAll();
    if (index_ == 0) TurnCountsIntoPositions();
    bench::WaitForAll();
    for (uint64_t i = begin_; i < end_; ++i) {
      Body* body = g_state.bodies[i];
      g_state.sorted[counts[BucketOf(body->position, g_state.cube)]++] = body;
    }
    bench::WaitForAll();
    for (uint64_t b; (b = g_state.next_bucket++) < kBuckets;) BuildBucket(b);
    bench::WaitForAll();
    if (index_ == 0) g_state.root = Join(g_state.subtrees, 0, kPartitionLevel);
  }

  void TurnCountsIntoPositions() {
    uint64_t position = 0;
    for (uint64_t b = 0; b < kBuckets; ++b) {
      g_state.bucket_begin[b] = position;
      for (int t = 0; t < parameters_.threads; ++t) {
        const uint64_t count = CountsOf(t)[b];
        CountsOf(t)[b] = position;
        position += count;
      }
    }
    g_state.bucket_begin[kBuckets] = position;
  }

  void BuildBucket(uint64_t bucket) {
    const uint64_t begin = g_state.bucket_begin[bucket];
    const uint64_t end = g_state.bucket_begin[bucket + 1];
    if (begin == end) return;
    const Cube cube = CubeOf(bucket, g_state.cube);
    Node* subtree = nullptr;
    for (uint64_t i = begin; i < end; ++i) subtree = bh::Insert(subtree, g_state.sorted[i], cube);
    bh::Summarise(subtree);
    g_state.subtrees[bucket] = subtree;
  }

  void ComputeForces() {
    Body** order = parameters_.variant == kPt ? g_state.sorted : g_state.bodies;
    const double half = g_state.cube.half;
    for (;;) {
      const uint64_t begin = g_state.next_body.fetch_add(kForceBatch);
      if (begin >= parameters_.bodies) break;
      const uint64_t end = std::min(begin + kForceBatch, parameters_.bodies);
      for (uint64_t i = begin; i < end; ++i) {
        bench::RecordProgress();
        bh::ComputeForce(order[i], g_state.root, half, parameters_.theta, parameters_.lists);
      }
    }
    bench::WaitForAll();
  }

  const Parameters& parameters_;
  const int index_;
  const uint64_t begin_;
  const uint64_t end_;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters parameters;
  int variant;
  bench::RandomWork work;
  bench::Options options("bh", "Barnes-Hut N-body simulation with a collected tree");
  options.Choice("variant", &variant, {"pt", "st"}, "parallel or single-threaded tree");
  options.Number("bodies", &parameters.bodies, 30'000, 1'000, 2, 1 << 28, "bodies");
  options.Number("steps", &parameters.steps, 20, 3, 0, 1'000'000, "time steps");
  options.Real("theta", &parameters.theta, 1.0, 0.1, 1.5, "opening angle");
  parameters.lists = false;
  options.Flag("lists", &parameters.lists, "collect interaction lists in collected memory");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  if (parameters.steps != 0) parameters.steps = work.Scaled(parameters.steps);
  parameters.variant = static_cast<Variant>(variant);
  parameters.threads = options.threads();

  bench::InitGc(options);
  g_state.bodies = bh::NewPlummerModel(parameters.bodies, work.seed);
  const bench::Measurement measurement =
      bench::RunThreads(parameters.threads, [&](int t) { Thread(parameters, t).Run(); });

  const bh::Totals after = bh::TotalsOf(g_state.bodies, parameters.bodies);
  const double drift = bh::CheckedDrift(g_state.before, after);
  bench::ResultLine result("bh");
  result.Text("variant", variant == kPt ? "pt" : "st");
  result.Count("lists", parameters.lists);
  result.Count("threads", static_cast<uint64_t>(parameters.threads));
  result.Real(
      "body_steps_per_second",
      static_cast<double>(parameters.bodies * (parameters.steps + 1)) / measurement.seconds);
  result.Real("energy", after.energy());
  result.Real("energy_drift", drift);
  result.Real("momentum", std::sqrt(bh::Dot(after.momentum, after.momentum)));
  result.Hex("checksum", bh::HashOf(g_state.bodies, parameters.bodies));
  bench::AddGcResult(measurement, &result);
  result.Print();
}
