// Matmul, the dense matrix product of Endo's thesis: for each product three matrices are allocated
// anew, an array of pointers to rows each. Row i belongs to thread i mod threads, which allocates
// it, fills it and computes it.
// The entries are small integers, so that every sum is exact in any order and the checksum does
// not depend on the number of threads. Each product passes Freivalds' check with a random vector.
#define GC_THREADS
#include <algorithm>
#include <bit>
#include <cstdint>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

constexpr uint64_t kMaxSize = UINT64_C(1) << 15;
constexpr uint64_t kMaxEntry = 8;                     // Entries are -kMaxEntry ... kMaxEntry.
constexpr uint64_t kRandomBound = UINT64_C(1) << 16;  // Of the vector of Freivalds' check.
static_assert(kMaxSize * kMaxSize * kMaxEntry * kMaxEntry * kRandomBound <= UINT64_C(1) << 53,
              "Freivalds' check is exact in doubles");
// Rows of the right matrix that are multiplied before the next ones are looked at: half a megabyte
// at the default size.
constexpr uint64_t kBlock = 64;
constexpr uint64_t kUnroll = 4;
static_assert(kBlock % kUnroll == 0);

struct Parameters {
  uint64_t size;
  uint64_t products;
  bench::RandomWork work;
  uint64_t threads;
};

// Static, so that everything is rooted. Between two barriers each row and each element is written
// by one thread only; the barriers order the accesses.
struct State {
  double** left;
  double** right;
  double** product;
  double* random;        // The vector of Freivalds' check,
  double* right_random;  // and the right matrix times it.
};
State g_state;

double* NewRow(uint64_t size) {
  bench::RecordProgress();
  auto* row = static_cast<double*>(GC_malloc_atomic(size * sizeof(double)));
  if (row == nullptr) bench::Fail("no memory for a row of %lu doubles", size);
  return row;
}

double** NewMatrix(uint64_t size) {
  auto** rows = static_cast<double**>(GC_malloc(size * sizeof(double*)));
  if (rows == nullptr) bench::Fail("no memory for %lu pointers to rows", size);
  return rows;
}

double* NewRandomRow(uint64_t size, uint64_t seed) {
  double* row = NewRow(size);
  bench::Rng rng(seed);
  for (uint64_t i = 0; i < size; ++i) {
    row[i] = static_cast<double>(rng.Below(2 * kMaxEntry + 1)) - static_cast<double>(kMaxEntry);
  }
  return row;
}

double* NewRandomVector(uint64_t size, uint64_t seed) {
  double* vector = NewRow(size);
  bench::Rng rng(seed);
  for (uint64_t i = 0; i < size; ++i) vector[i] = static_cast<double>(rng.Below(kRandomBound));
  return vector;
}

double Dot(const double* a, const double* b, uint64_t size) {
  double sum = 0;
  for (uint64_t i = 0; i < size; ++i) sum += a[i] * b[i];
  return sum;
}

// sum += the combination of right[0] ... right[count - 1] with these factors.
void AddRows(double* __restrict sum, const double* factors, double* const* right, uint64_t count,
             uint64_t size) {
  uint64_t k = 0;
  for (; k + kUnroll <= count; k += kUnroll) {
    bench::RecordProgress();
    const double *r0 = right[k], *r1 = right[k + 1], *r2 = right[k + 2], *r3 = right[k + 3];
    const double f0 = factors[k], f1 = factors[k + 1], f2 = factors[k + 2], f3 = factors[k + 3];
    for (uint64_t j = 0; j < size; ++j) {
      sum[j] += f0 * r0[j] + f1 * r1[j] + f2 * r2[j] + f3 * r3[j];
    }
  }
  for (; k < count; ++k) {
    for (uint64_t j = 0; j < size; ++j) sum[j] += factors[k] * right[k][j];
  }
}

// One thread's view of the run.
class Thread {
 public:
  Thread(const Parameters& parameters, int index)
      : parameters_(parameters), index_(static_cast<uint64_t>(index)) {}

  // Returns the thread's part of the checksum, which is the sum of the parts.
  uint64_t Run() {
    uint64_t checksum = 0;
    for (uint64_t p = 0; p < parameters_.products; ++p) {
      const uint64_t seed = bench::Mix64(parameters_.work.seed + bench::Mix64(p + 1));
      Allocate(seed);
      Multiply();
      Verify(p);
      checksum += Checksum(seed);
    }
    return checksum;
  }

 private:
  template <class Function>
  void ForOwnRows(Function&& function) {
    for (uint64_t i = index_; i < parameters_.size; i += parameters_.threads) function(i);
  }

  void Allocate(uint64_t seed) {
    const uint64_t size = parameters_.size;
    bench::WaitForAll();  // All have read the matrices of the product before.
    if (index_ == 0) {
      g_state.left = NewMatrix(size);
      g_state.right = NewMatrix(size);
      g_state.product = NewMatrix(size);
      g_state.random = NewRandomVector(size, seed);
      g_state.right_random = NewRow(size);
    }
    bench::WaitForAll();
    ForOwnRows([&](uint64_t i) {
      g_state.left[i] = NewRandomRow(size, seed ^ bench::Mix64(2 * i + 1));
      g_state.right[i] = NewRandomRow(size, seed ^ bench::Mix64(2 * i + 2));
      g_state.product[i] = NewRow(size);
      std::fill_n(g_state.product[i], size, 0.0);
    });
    bench::WaitForAll();
  }

  // By blocks of rows of the right matrix, which stay in the cache for all rows of the left one.
  void Multiply() {
    const uint64_t size = parameters_.size;
    for (uint64_t k = 0; k < size; k += kBlock) {
      const uint64_t count = std::min(kBlock, size - k);
      ForOwnRows([&](uint64_t i) {
        AddRows(g_state.product[i], g_state.left[i] + k, g_state.right + k, count, size);
      });
    }
  }

  // Freivalds: the product times a random vector is the left matrix times (the right one times it).
  void Verify(uint64_t number) {
    const uint64_t size = parameters_.size;
    ForOwnRows(
        [&](uint64_t i) { g_state.right_random[i] = Dot(g_state.right[i], g_state.random, size); });
    bench::WaitForAll();
    ForOwnRows([&](uint64_t i) {
      const double is = Dot(g_state.product[i], g_state.random, size);
      const double expected = Dot(g_state.left[i], g_state.right_random, size);
      if (is != expected) {
        bench::Fail("row %lu of product %lu times the vector is %.17g, not %.17g", i, number, is,
                    expected);
      }
      bench::RecordProgress();
    });
  }

  // Of the thread's rows of this product.
  uint64_t Checksum(uint64_t seed) {
    uint64_t checksum = 0;
    ForOwnRows([&](uint64_t i) {
      uint64_t hash = seed ^ i;
      for (uint64_t j = 0; j < parameters_.size; ++j) {
        hash = bench::Mix64(hash ^ std::bit_cast<uint64_t>(g_state.product[i][j])) + j;
      }
      checksum += hash;
    });
    return checksum;
  }

  const Parameters& parameters_;
  const uint64_t index_;
};

}  // namespace

int main(int argc, char** argv) {
  Parameters parameters;
  bench::Options options("matmul", "dense matrix products, rows dealt to the threads cyclically");
  options.Number("size", &parameters.size, 1'000, 150, 1, kMaxSize, "rows and columns");
  options.Number("products", &parameters.products, 30, 4, 1, 1'000'000, "products");
  options.SeedAndScale(&parameters.work);
  options.Parse(argc, argv);
  parameters.products = parameters.work.Scaled(parameters.products);
  parameters.threads = static_cast<uint64_t>(options.threads());

  bench::InitGc(options);
  static uint64_t checksums[bench::kMaxThreads];
  const bench::Measurement measurement = bench::RunThreads(
      options.threads(), [&](int t) { checksums[t] = Thread(parameters, t).Run(); });

  uint64_t checksum = 0;
  for (uint64_t t = 0; t < parameters.threads; ++t) checksum += checksums[t];
  const double size = static_cast<double>(parameters.size);
  const double additions = size * size * size * static_cast<double>(parameters.products);
  bench::ResultLine result("matmul");
  result.Count("size", parameters.size);
  result.Count("products", parameters.products);
  bench::PrintRun(options, measurement, additions, checksum, &result);
}
