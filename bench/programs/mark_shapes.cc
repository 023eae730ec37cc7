// Times full collections of a heap that holds one structure (shapes.h). The number of markers is
// chosen outside, by GC_MARKERS. With --threads N, N - 1 further threads are registered and asleep
// during the collections. The heap is built with collection off, so that its layout is the
// allocator's alone. Afterwards fresh objects are written over whatever was freed, and the
// structure is checked.
#define GC_THREADS
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
  const size_t bytes = bench::SizeOf(g_shape.kind).object_bytes;
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
  bench::ShapeOptions asked;
  bench::Options options("mark_shapes", "full collections of one structure");
  asked.Parse(&options, argc, argv);

  bench::InitGc(options);
  Build(asked.kind(), asked.objects);
  bench::ClearDeadStack();

  std::vector<double> milliseconds;
  bench::Measurement measurement = bench::RunThreads(options.threads(), [&](int t) {
    if (t == 0) milliseconds = TimeCollections(asked.repeats);
    bench::WaitForAll();
  });
  OverwriteFreed();

  measurement.seconds = bench::Median(milliseconds) * 1e-3;
  bench::ResultLine result("mark_shapes");
  asked.AddTo(&result, milliseconds);
  bench::PrintRun(options, measurement, static_cast<double>(asked.objects),
                  bench::CheckShape(g_shape), &result);
}
