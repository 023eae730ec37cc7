// Tree-fit with bins against the single tree of the paper.
//
// As in SWAlloc's experiment with resident blocks: N blocks of sizes uniform up to 8 MB stay
// allocated; one operation frees a random one and allocates another. Arguments: policy (0 bins,
// 1 plain tree), resident blocks, largest size in units (32,768 units of 256 bytes as in the arena,
// 512 units of 16 KiB as in the large-object space). The pool holds 1.5 times the mean need.
//
//   tree_fit_bench [--smoke] [Google Benchmark's options]
#include <benchmark/benchmark.h>

#include <cstring>
#include <vector>

#include "alloc/fits/tree_fit.h"

namespace gleaner::alloc {
namespace {

class Random {
 public:
  uint64_t Below(uint64_t bound) {
    state_ += 0x9e3779b97f4a7c15u;
    return (Mix64(state_) >> 32) * bound >> 32;
  }

 private:
  uint64_t state_ = 20240601;
};

void BM_Replace(benchmark::State& state) {
  const auto policy = static_cast<FitPolicy>(state.range(0));
  const auto residents = static_cast<size_t>(state.range(1));
  const auto max_units = static_cast<uint64_t>(state.range(2));
  TreeFit space;
  if (!space.Init(policy, 1u << 20) || !space.Extend(0, residents * max_units / 4 * 3)) {
    state.SkipWithError("no memory for the metadata");
    return;
  }
  Random random;
  std::vector<BlockId> blocks(residents, TreeFit::kNone);
  const auto replace = [&] {
    BlockId& block = blocks[random.Below(residents)];
    if (block != TreeFit::kNone) space.Free(block);
    block = space.Allocate(1 + random.Below(max_units));
  };
  for (size_t i = 0; i < residents * 10; ++i) replace();  // to the steady state
  const uint64_t steps = space.TreeStepsForTesting();
  for (auto _ : state) replace();
  state.counters["tree_steps"] = static_cast<double>(space.TreeStepsForTesting() - steps) /
                                 static_cast<double>(state.iterations());
  state.counters["blocks"] = space.block_count();
  space.Destroy();
}
BENCHMARK(BM_Replace)
    ->ArgNames({"plain", "residents", "max_units"})
    ->ArgsProduct({{0, 1}, {256, 1024, 4096, 16384}, {512, 32768}});

}  // namespace
}  // namespace gleaner::alloc

int main(int argc, char** argv) {
  static char quick[] = "--benchmark_min_time=0.001";
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--smoke") == 0) argv[i] = quick;
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
