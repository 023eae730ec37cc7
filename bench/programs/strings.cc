// Pointer-free strings of pseudo-random length, the youngest of which are kept in rings. The first
// eight bytes of a string are written when it is made and verified when it leaves its ring.
#define GC_THREADS
#include <algorithm>
#include <cstdint>
#include <cstring>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

constexpr uint64_t kMinLength = 8;

// Static roots of the rings, one per thread.
char** g_rings[bench::kMaxThreads];

uint64_t Tag(int thread, uint64_t sequence) {
  return bench::Mix64((static_cast<uint64_t>(thread) << 48) ^ sequence);
}

uint64_t ReadTag(const char* string) {
  uint64_t tag;
  std::memcpy(&tag, string, sizeof tag);
  return tag;
}

// Returns a checksum of all lengths and of all tags read back.
uint64_t RunStrings(int thread, uint64_t seed, uint64_t count, uint64_t kept, uint64_t max_length) {
  auto** ring = static_cast<char**>(GC_malloc(kept * sizeof(char*)));
  g_rings[thread] = ring;
  bench::Rng rng(seed);
  uint64_t checksum = 0;
  uint64_t slot = 0;
  for (uint64_t i = 0; i < count; ++i) {
    if (i >= kept) {
      const uint64_t tag = ReadTag(ring[slot]);
      if (tag != Tag(thread, i - kept)) bench::Fail("string %lu was overwritten", i - kept);
      checksum += tag;
    }
    const uint64_t length = kMinLength + rng.Below(max_length - kMinLength + 1);
    auto* string = static_cast<char*>(GC_malloc_atomic(length));
    const uint64_t tag = Tag(thread, i);
    std::memcpy(string, &tag, sizeof tag);
    ring[slot] = string;
    slot = slot + 1 == kept ? 0 : slot + 1;
    checksum += length;
  }
  const uint64_t last = std::min(count, kept);
  for (uint64_t i = count - last; i < count; ++i) {
    const uint64_t tag = ReadTag(ring[i % kept]);
    if (tag != Tag(thread, i)) bench::Fail("string %lu was overwritten", i);
    checksum += tag;
  }
  g_rings[thread] = nullptr;
  return checksum;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t count, kept, max_length;
  bench::RandomWork work;
  bench::Options options("strings", "atomic strings, the youngest ones kept in rings");
  options.Number("count", &count, 10'000'000, 200'000, 1, UINT64_C(1) << 40, "strings per thread");
  options.Number("kept", &kept, 20'000, 2'000, bench::kMaxThreads, UINT64_C(1) << 32,
                 "strings kept in all, shared out among the threads");
  options.Number("max-length", &max_length, 2'000, 2'000, kMinLength, 1 << 24,
                 "longest string in bytes; the shortest has 8");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  count = work.Scaled(count);
  const uint64_t share = kept / static_cast<uint64_t>(options.threads());

  bench::InitGc(options);
  static uint64_t sums[bench::kMaxThreads];
  const bench::Measurement measurement = bench::RunThreads(options.threads(), [&](int t) {
    const uint64_t seed = work.SeedOffset() + static_cast<uint64_t>(t);
    sums[t] = RunStrings(t, seed, count, share, max_length);
  });

  uint64_t checksum = 0;
  for (int t = 0; t < options.threads(); ++t) checksum += sums[t];
  const uint64_t total = count * static_cast<uint64_t>(options.threads());
  bench::ResultLine result("strings");
  bench::PrintRun(options, measurement, static_cast<double>(total), checksum, &result);
}
