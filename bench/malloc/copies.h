// Running one piece of work on several threads at a time, each on its own.
#ifndef GLEANER_BENCH_MALLOC_COPIES_H_
#define GLEANER_BENCH_MALLOC_COPIES_H_

#include <thread>
#include <vector>

#include "bench_util.h"

namespace bench {

// Calls work() on so many threads, the caller's included, and returns the seconds until all have
// returned. Fails unless all results are equal; `*result` is that result.
template <class F, class Result>
double RunCopies(int threads, Result* result, F work) {
  std::vector<Result> results(static_cast<size_t>(threads));
  const uint64_t begin = NowNs();
  std::vector<std::thread> others;
  for (size_t t = 1; t < results.size(); ++t) {
    others.emplace_back([&results, &work, t] { results[t] = work(); });
  }
  results[0] = work();
  for (std::thread& other : others) other.join();
  const double seconds = static_cast<double>(NowNs() - begin) / 1e9;
  for (const Result& each : results) {
    if (each != results[0]) Fail("two threads have different results");
  }
  *result = results[0];
  return seconds;
}

}  // namespace bench

#endif  // GLEANER_BENCH_MALLOC_COPIES_H_
