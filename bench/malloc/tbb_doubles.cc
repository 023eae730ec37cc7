// The test program of TBB's article on its malloc proxy: a million doubles are allocated in one
// parallel_for and freed in another.
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>

#include <vector>

#include "bench_util.h"

int main(int argc, char** argv) {
  uint64_t count, rounds;
  bench::Options options("tbb_doubles", "new double under parallel_for, delete under another");
  options.Number("count", &count, 1'000'000, 10'000, 1, 1 << 30, "doubles");
  options.Number("rounds", &rounds, 10, 2, 1, 1 << 20, "how often");
  options.Parse(argc, argv);
  const tbb::global_control threads(tbb::global_control::max_allowed_parallelism,
                                    static_cast<size_t>(options.threads()));
  std::vector<double*> doubles(count);
  std::vector<double> seconds;
  for (uint64_t round = 0; round < rounds; ++round) {
    const uint64_t begin = bench::NowNs();
    tbb::parallel_for(size_t{0}, doubles.size(),
                      [&](size_t i) { doubles[i] = new double(static_cast<double>(i)); });
    tbb::parallel_for(size_t{0}, doubles.size(), [&](size_t i) {
      if (*doubles[i] != static_cast<double>(i)) bench::Fail("a double has changed");
      delete doubles[i];
    });
    seconds.push_back(static_cast<double>(bench::NowNs() - begin) / 1e9);
  }
  bench::ResultLine result("tbb_doubles");
  result.Count("threads", static_cast<uint64_t>(options.threads()));
  result.Real("seconds", bench::Median(seconds));
  result.Real("first_seconds", seconds.front());
  result.Print();
}
