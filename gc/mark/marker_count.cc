#include "gc/mark/marker_count.h"

namespace gleaner::gc {

namespace {

constexpr double kLn2 = 0.693147;

// Exact for powers of two, and linear between them: at most 0.09 too low.
double Log2(int n) {
  const int whole = 31 - __builtin_clz(static_cast<unsigned>(n));
  return whole + static_cast<double>(n) / (1 << whole) - 1;
}

}  // namespace

int MarkersAtStart(const MarkingTimes& last, int max) {
  if (last.workers < 2 || max < 2) return 1;
  const double parallelism = last.Parallelism();
  if (parallelism < 2 / (1 + kLn2)) return last.workers > 2 ? 2 : 1;
  const double lost = 1 - parallelism / last.workers;
  const double wanted = kLn2 * Log2(last.workers) * parallelism;
  return wanted >= max * lost ? max : static_cast<int>(wanted / lost);
}

}  // namespace gleaner::gc
