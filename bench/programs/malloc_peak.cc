// The peak rate of GC_malloc of a small size with nothing kept (Endo's thesis: the 16-byte
// allocation peak of the LPS allocator). The function is called, never an inline macro.
// Every 64th object must arrive zeroed and is then dirtied, so that a cell reused without being
// cleared is noticed.
#define GC_THREADS
#include <cstdint>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

// Returns the number of objects that were non-null, aligned and (where looked at) zero.
uint64_t Allocate(uint64_t count, uint64_t size) {
  uint64_t good = 0;
  for (uint64_t i = 0; i < count; ++i) {
    auto* words = static_cast<uint64_t*>((GC_malloc)(size));
    asm volatile("" : "+r"(words) : : "memory");
    const auto address = reinterpret_cast<uintptr_t>(words);
    bool ok = address != 0 && address % 16 == 0;
    if (i % 64 == 0 && ok) {
      ok = words[0] == 0 && words[size / 8 - 1] == 0;
      words[0] = words[size / 8 - 1] = i | 1;
    }
    good += ok;
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t count, size;
  bench::RandomWork work;
  bench::Options options("malloc_peak", "GC_malloc of one size in a loop, nothing kept");
  options.Number("count", &count, 50'000'000, 200'000, 1, UINT64_C(1) << 40,
                 "allocations per thread");
  options.Number("size", &size, 16, 16, 8, 4096, "bytes of each, a multiple of 8");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  count = work.Scaled(count);
  if (size % 8 != 0) bench::Fail("--size %lu is not a multiple of 8", size);

  bench::InitGc(options);
  static uint64_t good[bench::kMaxThreads];
  const bench::Measurement measurement =
      bench::RunThreads(options.threads(), [&](int t) { good[t] = Allocate(count, size); });

  uint64_t total = 0;
  for (int t = 0; t < options.threads(); ++t) total += good[t];
  const uint64_t expected = count * static_cast<uint64_t>(options.threads());
  if (total != expected) {
    bench::Fail("%lu of %lu objects were null, misaligned or not zero", expected - total, expected);
  }
  bench::ResultLine result("malloc_peak");
  bench::PrintRun(options, measurement, static_cast<double>(total), total, &result);
}
