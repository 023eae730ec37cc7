// BH over MPI: each rank has all bodies and a heap of its own, in which it builds the tree anew for
// each step; it computes the forces on its part of the bodies, and the ranks exchange what has
// moved. The tree depends on the positions alone, so the checksum is that of `bh --variant st`, for
// every number of ranks.
//
// With --collect-together the ranks look, before they exchange, whether one of them has used more
// than half of what it may allocate until its next collection; then all collect. So one does not
// wait for the collection of another one (docs/reference/commands.md).
#define GC_THREADS
#include <mpi.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "bench_util.h"
#include "bh_bodies.h"
#include "bh_tree.h"
#include "gc.h"
#include "gc_run.h"
#include "gleaner.h"

// Of Gleaner alone: the program runs on libgc as well.
extern "C" decltype(gleaner_get_stats) gleaner_get_stats __attribute__((weak));

namespace {

using bh::Body;
using bh::Vec3;

struct Parameters {
  uint64_t bodies;
  uint64_t steps;
  double theta;
  bool lists = false;
  bool collect_together = false;
  bench::RandomWork work;
};

// Collected memory is referred to from here.
Body** g_bodies;
bh::Node* g_root;

class Rank {
 public:
  explicit Rank(const Parameters& parameters) : parameters_(parameters) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    for (int rank = 0; rank <= ranks_; ++rank) first_.push_back(FirstOf(rank));
    exchanged_.resize(parameters.bodies);
  }

  void Run() {
    ComputeForces();
    ShareVelocities();
    before_ = bh::TotalsOf(g_bodies, parameters_.bodies);
    for (uint64_t step = 0; step < parameters_.steps; ++step) {
      bh::Advance(g_bodies, begin(), end());
      if (parameters_.collect_together) CollectIfOneIsNear();
      Share([](Body* body) -> Vec3& { return body->position; });
      ComputeForces();
      bh::Accelerate(g_bodies, begin(), end());
    }
    ShareVelocities();
  }

  int rank() const { return rank_; }
  int ranks() const { return ranks_; }
  const bh::Totals& before() const { return before_; }
  uint64_t collected_together() const { return collected_together_; }

 private:
  uint64_t FirstOf(int rank) const {
    return parameters_.bodies * static_cast<uint64_t>(rank) / static_cast<uint64_t>(ranks_);
  }
  uint64_t begin() const { return first_[static_cast<size_t>(rank_)]; }
  uint64_t end() const { return first_[static_cast<size_t>(rank_) + 1]; }

  // Gives all ranks what each has of its own bodies.
  template <class F>
  void Share(const F& of) {
    std::vector<int> counts, displacements;
    for (int rank = 0; rank < ranks_; ++rank) {
      const auto r = static_cast<size_t>(rank);
      displacements.push_back(static_cast<int>(3 * first_[r]));
      counts.push_back(static_cast<int>(3 * (first_[r + 1] - first_[r])));
    }
    for (uint64_t i = begin(); i < end(); ++i) exchanged_[i] = of(g_bodies[i]);
    MPI_Allgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, exchanged_.data(), counts.data(),
                   displacements.data(), MPI_DOUBLE, MPI_COMM_WORLD);
    bench::ForgetProgress();
    for (uint64_t i = 0; i < parameters_.bodies; ++i) of(g_bodies[i]) = exchanged_[i];
  }

  // And the potentials, which the energy is computed from.
  void ShareVelocities() {
    Share([](Body* body) -> Vec3& { return body->velocity; });
    std::vector<double> potentials(parameters_.bodies);
    for (uint64_t i = begin(); i < end(); ++i) potentials[i] = g_bodies[i]->potential;
    MPI_Allreduce(MPI_IN_PLACE, potentials.data(), static_cast<int>(parameters_.bodies), MPI_DOUBLE,
                  MPI_SUM, MPI_COMM_WORLD);
    for (uint64_t i = 0; i < parameters_.bodies; ++i) g_bodies[i]->potential = potentials[i];
  }

  void ComputeForces() {
    const bh::Cube cube = bh::CubeAround(bh::ReachOf(g_bodies, 0, parameters_.bodies));
    g_root = nullptr;
    for (uint64_t i = 0; i < parameters_.bodies; ++i) {
      g_root = bh::Insert(g_root, g_bodies[i], cube);
    }
    bh::Summarise(g_root);
    for (uint64_t i = begin(); i < end(); ++i) {
      bench::RecordProgress();
      bh::ComputeForce(g_bodies[i], g_root, cube.half, parameters_.theta, parameters_.lists);
    }
  }

  void CollectIfOneIsNear() {
    gleaner_stats stats = {};
    gleaner_get_stats(&stats, sizeof stats);
    int is_near = stats.allocated_bytes > stats.allowance_bytes / 2;
    MPI_Allreduce(MPI_IN_PLACE, &is_near, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    if (is_near == 0) return;
    GC_gcollect();
    ++collected_together_;
  }

  const Parameters& parameters_;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<uint64_t> first_;  // body of each rank, and the end
  std::vector<Vec3> exchanged_;
  bh::Totals before_;
  uint64_t collected_together_ = 0;
};
static_assert(sizeof(Vec3) == 3 * sizeof(double));

uint64_t OfAll(uint64_t value, MPI_Op op) {
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_UINT64_T, op, MPI_COMM_WORLD);
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  Parameters parameters;
  bench::Options options("bh_mpi", "Barnes-Hut N-body simulation over MPI: mpirun -np 4 bh_mpi");
  options.Number("bodies", &parameters.bodies, 30'000, 1'000, 2, 1 << 24, "bodies");
  options.Number("steps", &parameters.steps, 20, 3, 0, 1'000'000, "time steps");
  options.Real("theta", &parameters.theta, 1.0, 0.1, 1.5, "opening angle");
  options.Flag("lists", &parameters.lists, "collect interaction lists in collected memory");
  options.Flag("collect-together", &parameters.collect_together,
               "all ranks collect before an exchange if one is near its next collection");
  options.SeedAndScale(&parameters.work);
  options.Parse(argc, argv);
  parameters.steps = parameters.work.Scaled(parameters.steps);

  MPI_Init(&argc, &argv);
  if (parameters.collect_together && gleaner_get_stats == nullptr) {
    bench::Fail("--collect-together asks Gleaner what may be allocated; this is another library");
  }
  bench::InitGc(options);
  Rank rank(parameters);
  if (static_cast<uint64_t>(rank.ranks()) > parameters.bodies)
    bench::Fail("more ranks than bodies");
  g_bodies = bh::NewPlummerModel(parameters.bodies, parameters.work.seed);
  const bench::Measurement measurement = bench::RunThreads(1, [&](int) { rank.Run(); });

  const bh::Totals after = bh::TotalsOf(g_bodies, parameters.bodies);
  const double drift = bh::CheckedDrift(rank.before(), after);
  const uint64_t checksum = bh::HashOf(g_bodies, parameters.bodies);
  if (OfAll(checksum, MPI_MAX) != checksum || OfAll(checksum, MPI_MIN) != checksum) {
    bench::Fail("the ranks have different bodies");
  }
  const uint64_t collections = OfAll(measurement.collections, MPI_SUM);
  if (rank.rank() == 0) {
    bench::ResultLine result("bh_mpi");
    result.Count("ranks", static_cast<uint64_t>(rank.ranks()));
    result.Count("lists", parameters.lists);
    result.Real(
        "body_steps_per_second",
        static_cast<double>(parameters.bodies * (parameters.steps + 1)) / measurement.seconds);
    result.Real("energy_drift", drift);
    result.Count("collections_of_all", collections);
    result.Count("collected_together", rank.collected_together());
    result.Hex("checksum", checksum);
    bench::AddGcResult(measurement, &result);
    result.Print();
  }
  MPI_Finalize();
}
