// Times full collections of a heap that holds one structure (shapes.h). The number of markers is
// chosen outside, by GC_MARKERS. With --threads N, N - 1 further threads are registered and asleep
// during the collections. The heap is built with collection off, so that its layout is the
// allocator's alone. Afterwards fresh objects are written over whatever was freed, and the
// structure is checked.
#define GC_THREADS
#include <pthread.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"
#include "shapes.h"

namespace {

// The only root of the structure.
bench::Shape g_shape;

struct GcAllocator {
  void* Allocate(size_t bytes) {
    void* memory = GC_malloc(bytes);
    if (memory == nullptr) bench::Fail("GC_malloc(%zu) returned null", bytes);
    return memory;
  }
};

__attribute__((noinline)) void Build(bench::ShapeKind kind, uint64_t objects) {
  GcAllocator allocator;
  GC_disable();
  g_shape = bench::BuildShape(allocator, kind, objects);
  GC_enable();
}

// Fills at most 4 MB of new objects of the structure's own size with ones.
__attribute__((noinline)) void OverwriteFreed() {
  const size_t bytes = bench::ObjectBytes(g_shape.kind);
  const uint64_t count = std::min<uint64_t>(g_shape.objects, (4u << 20) / bytes);
  GC_disable();
  for (uint64_t i = 0; i < count; ++i) std::memset(GC_malloc(bytes), 0xff, bytes);
  GC_enable();
}

__attribute__((noinline)) std::vector<double> TimeCollections(uint64_t count) {
  std::vector<double> milliseconds;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t began = bench::NowNs();
    GC_gcollect();
    milliseconds.push_back(static_cast<double>(bench::NowNs() - began) * 1e-6);
  }
  return milliseconds;
}

}  // namespace

int main(int argc, char** argv) {
  int shape;
  uint64_t objects, repeats;
  double scale;
  bench::Options options("mark_shapes", "full collections of one structure");
  options.Choice("shape", &shape, bench::kShapeWords, "the structure");
  options.Number("objects", &objects, 0, 2'000, 0, UINT64_C(1) << 34,
                 "its objects (huge: elements); 0 is the full size");
  options.Real("scale", &scale, 1, 1e-6, 1e3, "multiplies the objects");
  options.Number("repeats", &repeats, 7, 3, 1, 1'000'000, "collections timed");
  options.Parse(argc, argv);
  const auto kind = static_cast<bench::ShapeKind>(shape);
  if (objects == 0) objects = bench::DefaultObjects(kind);
  objects = std::max<uint64_t>(1, static_cast<uint64_t>(static_cast<double>(objects) * scale));

  bench::InitGc(options);
  Build(kind, objects);
  bench::ClearDeadStack();

  std::vector<double> milliseconds;
  pthread_barrier_t done;
  pthread_barrier_init(&done, nullptr, static_cast<unsigned>(options.threads()));
  bench::Measurement measurement = bench::RunThreads(options.threads(), [&](int t) {
    if (t == 0) milliseconds = TimeCollections(repeats);
    pthread_barrier_wait(&done);
  });
  pthread_barrier_destroy(&done);
  OverwriteFreed();

  const double median = bench::Median(milliseconds);
  measurement.seconds = median * 1e-3;
  bench::ResultLine result("mark_shapes");
  result.Text("shape", bench::kShapeWords[static_cast<size_t>(shape)]);
  result.Count("objects", objects);
  result.Count("threads", static_cast<uint64_t>(options.threads()));
  result.Real("collect_ms_median", median);
  result.Real("collect_ms_min", *std::min_element(milliseconds.begin(), milliseconds.end()));
  result.Real("collect_ms_max", *std::max_element(milliseconds.begin(), milliseconds.end()));
  result.Real("ops_per_second", static_cast<double>(objects) / measurement.seconds);
  result.Hex("checksum", bench::CheckShape(g_shape));
  bench::AddGcResult(measurement, &result);
  result.Print();
}
