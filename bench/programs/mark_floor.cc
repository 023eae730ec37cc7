// The floor that marking is measured against: the structures of shapes.h, packed in mapped memory,
// traversed by one thread that knows every type, with an explicit stack and a ring of prefetched
// objects in front of it (Cher, Hosking, Vitek, "Software prefetching for mark-sweep garbage
// collection", ASPLOS 2004). A side table says what was seen, on discovery, so that an object is
// touched once: a bit for each node, but a byte for each leaf, which is faster while the table fits
// the cache. A list has nothing to prefetch and is simply followed.
// Uses no collector.
#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bench_util.h"
#include "shapes.h"

namespace {

// Objects packed in the order of allocation.
class MappedMemory {
 public:
  MappedMemory(size_t bytes, bool huge_pages) {
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) bench::Fail("cannot map %zu bytes", bytes);
    if (madvise(memory, bytes, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE) != 0 && huge_pages) {
      bench::Fail("MADV_HUGEPAGE is refused");
    }
    next_ = static_cast<char*>(memory);
    end_ = next_ + bytes;
  }

  void* Allocate(size_t bytes) {
    if (static_cast<size_t>(end_ - next_) < bytes) bench::Fail("the mapped memory is full");
    char* object = next_;
    next_ += bytes;
    return object;
  }

 private:
  char* next_;
  char* end_;
};

// Mark tables: Mark returns whether the object with this index was not yet marked.
class MarkBits {
 public:
  explicit MarkBits(uint64_t count) : words_((count + 63) / 64) {}
  void Reset() { std::fill(words_.begin(), words_.end(), 0); }
  bool Mark(uint64_t index) {
    uint64_t& word = words_[index / 64];
    const uint64_t bit = UINT64_C(1) << (index % 64);
    const bool fresh = (word & bit) == 0;
    word |= bit;
    return fresh;
  }

 private:
  std::vector<uint64_t> words_;
};

class MarkBytes {
 public:
  explicit MarkBytes(uint64_t count) : bytes_(count) {}
  void Reset() { std::fill(bytes_.begin(), bytes_.end(), 0); }
  bool Mark(uint64_t index) {
    const bool fresh = bytes_[index] == 0;
    bytes_[index] = 1;
    return fresh;
  }

 private:
  std::vector<uint8_t> bytes_;
};

// Marks objects of one type that lie in one array of `count`, starting at `base`.
template <typename T, typename Marks = MarkBits>
class Tracer {
 public:
  Tracer(T* base, uint64_t count) : base_(base), marks_(count), stack_(count + 1) {}

  // Returns the number of objects reached. `scan(object, discover)` calls discover(pointer) for
  // every pointer that an object holds.
  template <typename Scan>
  uint64_t Trace(T* root, Scan scan) {
    Reset();
    Discover(root);
    return Drain(scan);
  }

  void Reset() { marks_.Reset(); }

  // Returns whether the object was not yet marked.
  bool Mark(T* object) { return marks_.Mark(static_cast<uint64_t>(object - base_)); }

  void Discover(T* object) {
    if (object == nullptr) return;
    // Pushes always, and keeps what was pushed only if it is new: no branch to mispredict.
    stack_[depth_] = object;
    depth_ += Mark(object);
  }

  template <typename Scan>
  uint64_t Drain(Scan scan) {
    constexpr uint64_t kRing = 16;
    T* ring[kRing];
    uint64_t head = 0, tail = 0;
    uint64_t reached = 0;
    for (;;) {
      while (tail - head < kRing && depth_ > 0) {
        T* object = stack_[--depth_];
        Prefetch(object);
        ring[tail++ % kRing] = object;
      }
      if (head == tail) return reached;
      scan(ring[head++ % kRing], [this](T* object) { Discover(object); });
      ++reached;
    }
  }

 private:
  static void Prefetch(const T* object) {
    const auto* first = reinterpret_cast<const char*>(object);
    __builtin_prefetch(first);
    if constexpr (sizeof(T) > 8) __builtin_prefetch(first + std::min<size_t>(sizeof(T), 64) - 8);
  }

  T* base_;
  Marks marks_;
  bench::Index<T> stack_;  // The last element takes the push that Discover does not keep.
  uint64_t depth_ = 0;
};

// Runs `trace` and returns the milliseconds of each run; every run must reach `expected` objects,
// unless that is 0.
template <typename Trace>
std::vector<double> TimeTraces(uint64_t repeats, uint64_t expected, uint64_t* reached,
                               Trace trace) {
  std::vector<double> milliseconds;
  for (uint64_t i = 0; i < repeats; ++i) {
    const uint64_t began = bench::NowNs();
    const uint64_t count = trace();
    milliseconds.push_back(static_cast<double>(bench::NowNs() - began) * 1e-6);
    if ((expected != 0 && count != expected) || (i != 0 && count != *reached)) {
      bench::Fail("a traversal reached %lu objects", count);
    }
    *reached = count;
  }
  return milliseconds;
}

std::vector<double> TimeShape(const bench::Shape& shape, uint64_t repeats, uint64_t* reached) {
  using namespace bench;
  const uint64_t count = shape.objects;
  // Allocation is in this order: root, and for arrays and huge then the leaves, then the arrays.
  switch (shape.kind) {
    case ShapeKind::kGraph: {
      auto* root = static_cast<GraphNode*>(shape.root);
      Tracer<GraphNode> tracer(root, count);
      return TimeTraces(repeats, 0, reached, [&] {
        return tracer.Trace(root, [](GraphNode* node, auto discover) {
          for (GraphNode* edge : node->edges) discover(edge);
        });
      });
    }
    case ShapeKind::kTree: {
      auto* root = static_cast<TreeNode*>(shape.root);
      Tracer<TreeNode> tracer(root, count);
      return TimeTraces(repeats, count, reached, [&] {
        return tracer.Trace(root, [](TreeNode* node, auto discover) {
          discover(node->right);
          discover(node->left);
        });
      });
    }
    case ShapeKind::kList: {
      auto* root = static_cast<ListNode*>(shape.root);
      Tracer<ListNode> tracer(root, count);
      return TimeTraces(repeats, count, reached, [&] {
        tracer.Reset();
        uint64_t marked = 0;
        for (ListNode* node = root; node != nullptr && tracer.Mark(node); node = node->next) {
          ++marked;
        }
        return marked;
      });
    }
    case ShapeKind::kArrays: {
      auto** directory = static_cast<LeafArray**>(shape.root);
      const uint64_t leaves = LeavesOf(count * kArrayLength);
      auto* first_leaf = reinterpret_cast<Leaf*>(directory + count);
      Tracer<Leaf, MarkBytes> leaf_tracer(first_leaf, leaves);
      Tracer<LeafArray> tracer(reinterpret_cast<LeafArray*>(first_leaf + leaves), count);
      return TimeTraces(repeats, count + leaves, reached, [&] {
        tracer.Reset();
        leaf_tracer.Reset();
        for (uint64_t i = 0; i < count; ++i) tracer.Discover(directory[i]);
        const uint64_t arrays = tracer.Drain([&](LeafArray* array, auto) {
          for (Leaf* leaf : array->items) leaf_tracer.Discover(leaf);
        });
        return arrays + leaf_tracer.Drain([](Leaf*, auto) {});
      });
    }
    case ShapeKind::kHuge: {
      auto** array = static_cast<Leaf**>(shape.root);
      const uint64_t leaves = LeavesOf(count);
      Tracer<Leaf, MarkBytes> tracer(reinterpret_cast<Leaf*>(array + count), leaves);
      return TimeTraces(repeats, leaves, reached, [&] {
        tracer.Reset();
        for (uint64_t i = 0; i < count; ++i) tracer.Discover(array[i]);
        return tracer.Drain([](Leaf*, auto) {});
      });
    }
  }
  return {};
}

size_t PackedBytes(bench::ShapeKind kind, uint64_t objects) {
  using namespace bench;
  if (kind == ShapeKind::kArrays) {
    return objects * (sizeof(LeafArray*) + sizeof(LeafArray)) +
           LeavesOf(objects * kArrayLength) * sizeof(Leaf);
  }
  if (kind == ShapeKind::kHuge) return objects * sizeof(Leaf*) + LeavesOf(objects) * sizeof(Leaf);
  return objects * SizeOf(kind).object_bytes;
}

}  // namespace

int main(int argc, char** argv) {
  bool huge_pages = false;
  bench::ShapeOptions asked;
  bench::Options options("mark_floor", "exact traversal of one structure outside any collector");
  options.Flag("huge-pages", &huge_pages, "ask for transparent huge pages");
  asked.Parse(&options, argc, argv);

  MappedMemory memory(PackedBytes(asked.kind(), asked.objects), huge_pages);
  const bench::Shape shape = bench::BuildShape(memory, asked.kind(), asked.objects);
  uint64_t reached = 0;
  const std::vector<double> milliseconds = TimeShape(shape, asked.repeats, &reached);

  const double seconds = bench::Median(milliseconds) * 1e-3;
  bench::ResultLine result("mark_floor");
  asked.AddTo(&result, milliseconds);
  result.Count("reached", reached);
  result.Count("huge_pages", huge_pages);
  result.Real("seconds", seconds);
  result.Real("ops_per_second", static_cast<double>(reached) / seconds);
  result.Count("collections", 0);
  result.Hex("checksum", bench::CheckShape(shape));
  result.Print();
}
