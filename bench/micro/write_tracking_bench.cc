// The costs of each mechanism of write tracking: arming, the program's first writes, fetching. The
// table of docs/design/write_tracking.md is this program's output.
//
//   write_tracking_bench [--pages N] [--rounds N] [--huge] [--smoke]
//
// Every figure is the median of the rounds, in nanoseconds. Pages of 4 KiB, written to before, in
// small pages unless --huge. "scattered" writes go to every 64th page, so each in a granule of its
// own under mprotect; "dense" ones to all pages.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "bench_util.h"
#include "platform/os/clock.h"
#include "platform/os/memory.h"
#include "platform/tracking/write_tracking.h"

namespace gleaner::platform {
namespace {

constexpr size_t kPage = kTrackedPageBytes;

struct Settings {
  uint64_t pages = 0;
  uint64_t rounds = 0;
  bool huge = false;
};

class Samples {
 public:
  void Add(uint64_t ns, size_t divisor) {
    values_.push_back(static_cast<double>(ns) / static_cast<double>(divisor));
  }
  double Median() const { return bench::Median(values_); }

 private:
  std::vector<double> values_;
};

struct Heap {
  WriteTracking tracking;
  Addr base = 0;
  size_t bytes = 0;

  void Write(size_t page) {
    auto* slot = PointerAt<volatile uint64_t>(base + page * kPage);
    *slot = *slot + 1;
    tracking.MarkDirty(AddressOf(slot));
  }
  size_t Fetch() {
    const size_t found = tracking.FetchAndRearm(
        base, base + bytes, [](void*, Addr, Addr) {}, nullptr);
    tracking.FinishRound();
    return found;
  }
};

template <class F>
uint64_t Time(F f) {
  const uint64_t begin = NowNs();
  f();
  return NowNs() - begin;
}

bool Measure(TrackingKind kind, const Settings& settings) {
  Heap heap;
  heap.bytes = settings.pages * kPage;
  void* memory = Reserve(heap.bytes, 2 * kMiB);
  TrackingConfig config;
  config.base = heap.base = AddressOf(memory);
  config.bytes = heap.bytes;
  if (memory == nullptr || !Commit(memory, heap.bytes)) return false;
  if (settings.huge) AdviseHugePages(memory, heap.bytes);
  if (!heap.tracking.Open(kind, config) || !heap.tracking.CoverUpTo(heap.base + heap.bytes)) {
    return false;
  }
  for (size_t i = 0; i < settings.pages; ++i) heap.Write(i);

  constexpr size_t kSpacing = 64;
  const size_t scattered = settings.pages / kSpacing;
  Samples arm, clean, scattered_write, scattered_fetch, dense_write, dense_fetch, disarm;
  for (uint64_t round = 0; round < settings.rounds; ++round) {
    arm.Add(Time([&] {
              heap.tracking.Arm(heap.base, heap.base + heap.bytes);
              heap.tracking.FinishRound();
            }),
            settings.pages);
    clean.Add(Time([&] { heap.Fetch(); }), settings.pages);
    scattered_write.Add(Time([&] {
                          for (size_t i = 0; i < settings.pages; i += kSpacing) heap.Write(i);
                        }),
                        scattered);
    scattered_fetch.Add(Time([&] { heap.Fetch(); }), scattered);
    dense_write.Add(Time([&] {
                      for (size_t i = 0; i < settings.pages; ++i) heap.Write(i);
                    }),
                    settings.pages);
    dense_fetch.Add(Time([&] { heap.Fetch(); }), settings.pages);
    disarm.Add(Time([&] { heap.tracking.Disarm(heap.base, heap.base + heap.bytes); }),
               settings.pages);
    for (size_t i = 0; i < settings.pages; ++i) heap.Write(i);
  }
  printf("| %s | %.1f | %.0f | %.0f | %.1f | %.0f | %.1f | %.1f |\n", heap.tracking.traits().name,
         arm.Median(), scattered_write.Median(), dense_write.Median(), clean.Median(),
         scattered_fetch.Median(), dense_fetch.Median(), disarm.Median());
  heap.tracking.Close();
  Release(memory, heap.bytes);
  return true;
}

int Main(int argc, char** argv) {
  Settings settings;
  bench::Options options("write_tracking_bench", "what the ways to track writes cost");
  options.Number("pages", &settings.pages, 262'144, 4096, 64, uint64_t{1} << 32,
                 "OS pages that are tracked");
  options.Number("rounds", &settings.rounds, 7, 1, 1, 10'000, "rounds, of which the median counts");
  options.Flag("huge", &settings.huge, "huge pages");
  options.Parse(argc, argv);
  printf("%zu pages of 4 KiB%s, median of %zu rounds, ns\n", settings.pages,
         settings.huge ? " in huge pages" : "", settings.rounds);
  puts(
      "| | arm a page | first write, scattered | write a page, dense | fetch: look at a clean page "
      "| fetch: a scattered dirty page | fetch: a page, all dirty | disarm a page |");
  puts("|---|---|---|---|---|---|---|---|");
  bool ok = true;
  for (const TrackingKind kind : {TrackingKind::kUserfaultfd, TrackingKind::kSoftDirty,
                                  TrackingKind::kProtection, TrackingKind::kCards}) {
    if (WriteTracking::Works(kind)) {
      ok &= Measure(kind, settings);
    } else {
      printf("| %s | not to be had here |\n", TraitsOf(kind).name);
    }
  }
  return ok ? 0 : 1;
}

}  // namespace
}  // namespace gleaner::platform

int main(int argc, char** argv) { return gleaner::platform::Main(argc, argv); }
