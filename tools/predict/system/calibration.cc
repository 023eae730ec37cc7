#include "tools/predict/system/calibration.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <system_error>
#include <thread>
#include <vector>

#include "gc.h"
#include "gc/mark/mark_clock.h"
#include "gleaner.h"
#include "platform/threads/thread.h"
#include "tools/predict/branch_guess.h"

namespace gleaner::tools {

namespace {

using Clock = std::chrono::steady_clock;
using gc::RealClock;

constexpr uint64_t kLine = 64;
constexpr uint64_t kKiB = 1024;
constexpr uint64_t kMiB = 1024 * kKiB;
constexpr int kRepeats = 7;

constexpr uint64_t kMaxCacheBytes = 256 * kMiB;
constexpr uint64_t kFarBytes = 512 * kMiB;  // no cache holds much of that
constexpr uint64_t kWays = 8;
// No system call tells. Processors of the last ten years have 1,024 to 2,048 for small pages.
constexpr uint64_t kUsualTlbEntries = 1536;

double NsSince(Clock::time_point begin) {
  return std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
}

// The least of several measurements: whatever disturbs makes it longer.
template <class F>
double Least(int repeats, const F& f) {
  double min = f();
  for (int i = 1; i < repeats; ++i) min = std::min(min, f());
  return min;
}

// Memory of whole pages, of the size asked for as far as the system gives it.
class Region {
 public:
  Region(uint64_t bytes, bool huge_pages) : bytes_(bytes + 2 * kHuge) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    memory_ = static_cast<char*>(p);
    begin_ = memory_ + (kHuge - reinterpret_cast<uintptr_t>(memory_) % kHuge) % kHuge;
    madvise(memory_, bytes_, huge_pages ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    memset(begin_, 1, bytes);
  }
  ~Region() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
  }
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;
  char* begin() const { return begin_; }

 private:
  static constexpr uint64_t kHuge = 2 * kMiB;
  uint64_t bytes_;
  char* memory_ = nullptr;
  char* begin_ = nullptr;  // null: there is no memory
};

std::vector<uint32_t> RandomOrder(uint64_t count) {
  std::vector<uint32_t> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
  return order;
}

// Lines of memory, once in each way in which the marker reads them.
class Lines {
 public:
  Lines(uint64_t bytes, bool huge_pages)
      : region_(bytes, huge_pages), order_(RandomOrder(bytes / kLine)) {}
  bool ok() const { return region_.begin() != nullptr; }

  // Each line holds the address of the next.
  double DependentNs() {
    for (size_t i = 0; i < order_.size(); ++i) {
      Next(At(order_[i])) = At(order_[(i + 1) % order_.size()]);
    }
    const size_t count = std::clamp<size_t>(order_.size(), 1 << 15, 1 << 20);
    char* at = At(order_[0]);
    return Least(kRepeats, [&] {
      const auto begin = Clock::now();
      for (size_t i = 0; i < count; ++i) at = Next(at);
      const double ns = NsSince(begin) / static_cast<double>(count);
      if (at == nullptr) std::abort();  // so that the loads are needed
      return ns;
    });
  }
  // As the marker fetches objects: as far ahead as its scan ring is long.
  double AheadNs() {
    constexpr size_t kAhead = 16;
    return Least(kRepeats, [&] {
      uint64_t sum = 0;
      size_t read = 0;
      const auto begin = Clock::now();
      do {
        for (size_t i = 0; i + kAhead < order_.size(); ++i, ++read) {
          __builtin_prefetch(At(order_[i + kAhead]));
          sum += static_cast<unsigned char>(*At(order_[i]));
        }
      } while (read < (1 << 16));
      const double ns = NsSince(begin) / static_cast<double>(read);
      return sum == 0 ? 1e9 : ns;
    });
  }
  // As the marker fetches mark bytes: some at once, to be written if they have a certain value.
  double BatchNs() {
    constexpr size_t kBatch = 32;
    return Least(kRepeats, [&] {
      size_t read = 0;
      const auto begin = Clock::now();
      do {
        for (size_t i = 0; i + kBatch <= order_.size(); i += kBatch, read += kBatch) {
          for (size_t k = i; k < i + kBatch; ++k) __builtin_prefetch(At(order_[k]), 1, 3);
          for (size_t k = i; k < i + kBatch; ++k) {
            volatile char* const mark = At(order_[k]);
            if (*mark != kNoMark) *mark = 1;
          }
        }
      } while (read < (1 << 16));
      return NsSince(begin) / static_cast<double>(read);
    });
  }
  double StreamNs() {
    return Least(kRepeats, [&] {
      uint64_t sum = 0;
      size_t read = 0;
      const auto begin = Clock::now();
      do {
        for (size_t i = 0; i < order_.size(); ++i, ++read) {
          sum += static_cast<unsigned char>(*At(static_cast<uint32_t>(i)));
        }
      } while (read < (1 << 16));
      const double ns = NsSince(begin) / static_cast<double>(read);
      return sum == 0 ? 1e9 : ns;
    });
  }

 private:
  static constexpr char kNoMark = 0x55;
  static char*& Next(char* line) { return *reinterpret_cast<char**>(line); }
  char* At(uint32_t line) const { return region_.begin() + line * kLine; }
  Region region_;
  std::vector<uint32_t> order_;
};

AccessTimes TimesOf(Lines* lines, const AccessTimes& nearest) {
  return {std::max(0.0, lines->DependentNs() - nearest.dependent_ns),
          std::max(0.0, lines->AheadNs() - nearest.ahead_ns),
          std::max(0.0, lines->BatchNs() - nearest.batch_ns),
          std::max(0.0, lines->StreamNs() - nearest.stream_ns)};
}

uint64_t Sysconf(int name, uint64_t otherwise) {
  const long value = sysconf(name);
  return value > 0 ? static_cast<uint64_t>(value) : otherwise;
}

// How much of the last cache one gets: others may use it, too, and a virtual machine may not say
// how large it is. The largest region whose accesses are nearer to the cache before it than to
// memory. 0: there is none.
uint64_t MeasureLastCache(uint64_t above_bytes, double memory_ns) {
  uint64_t found = 0;
  for (uint64_t bytes = 2 * above_bytes; bytes <= kMaxCacheBytes; bytes *= 2) {
    Lines lines(bytes, true);
    if (!lines.ok() || lines.DependentNs() > memory_ns / 2) break;
    found = bytes;
  }
  return found;
}

// Whether the system gives huge pages as quickly as the heap demands (alloc/address_space.cc).
bool HasHugePages() {
  constexpr uint64_t kHuge = 2 * kMiB;
  constexpr uint64_t kPages = 32;
  constexpr double kSlowNs = 300'000;
  std::string modes;
  std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), modes);
  if (modes.empty() || modes.find("[never]") != std::string::npos) return false;
  const uint64_t bytes = (kPages + 1) * kHuge;
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) return false;
  madvise(p, bytes, MADV_HUGEPAGE);
  const uint64_t past = reinterpret_cast<uintptr_t>(p) % kHuge;
  char* const first = static_cast<char*>(p) + (kHuge - past) % kHuge;
  uint64_t slow = 0;
  for (uint64_t i = 0; i < kPages; ++i) {
    const auto begin = Clock::now();
    *static_cast<volatile char*>(first + i * kHuge) = 1;
    if (NsSince(begin) > kSlowNs) ++slow;
  }
  munmap(p, bytes);
  return slow <= kPages / 8;
}

bool MeasureMemory(Machine* machine) {
  AccessTimes nearest;
  const auto add = [&](uint64_t bytes, uint64_t ways, bool is_shared, uint64_t region_bytes) {
    Lines lines(region_bytes, true);
    if (!lines.ok()) return false;
    AccessTimes times;
    if (machine->caches.empty()) {
      nearest = {lines.DependentNs(), lines.AheadNs(), lines.BatchNs(), lines.StreamNs()};
    } else {
      times = TimesOf(&lines, nearest);
    }
    machine->caches.push_back({bytes, kLine, static_cast<uint32_t>(ways), is_shared, times});
    return true;
  };
  const uint64_t first = Sysconf(_SC_LEVEL1_DCACHE_SIZE, 32 * kKiB);
  const uint64_t second = std::max(2 * first, Sysconf(_SC_LEVEL2_CACHE_SIZE, 512 * kKiB));
  if (!add(first, kWays, false, first / 2) || !add(second, kWays, false, second / 2)) return false;

  {
    Lines far(kFarBytes, true);
    if (!far.ok()) return false;
    machine->memory = TimesOf(&far, nearest);
  }
  const uint64_t last =
      MeasureLastCache(second, nearest.dependent_ns + machine->memory.dependent_ns);
  if (last != 0 && !add(last, 2 * kWays, true, last / 2)) return false;

  // The same memory in small pages: nearly each line misses the translation buffer, too.
  Lines small(kFarBytes, false);
  if (!small.ok()) return false;
  const AccessTimes with_misses = TimesOf(&small, nearest);
  machine->has_huge_pages = HasHugePages();
  machine->tlb_entries = kUsualTlbEntries;
  machine->tlb_page_bytes = Sysconf(_SC_PAGESIZE, 4096);
  machine->tlb_miss = {std::max(0.0, with_misses.dependent_ns - machine->memory.dependent_ns),
                       std::max(0.0, with_misses.ahead_ns - machine->memory.ahead_ns),
                       std::max(0.0, with_misses.batch_ns - machine->memory.batch_ns), 0};
  machine->one_way_ns = machine->memory.dependent_ns / 2;
  machine->one_way_remote_ns = machine->one_way_ns;
  return true;
}

// How long memory is busy with a line when all processors read: each its own.
double OccupancyNs(int processors) {
  constexpr uint64_t kBytes = 64 * kMiB;
  constexpr int kMaxReaders = 64;
  const int wanted = std::min(processors, kMaxReaders);
  std::atomic<int> readers{wanted};  // fewer once the system has refused threads
  std::atomic<int> ready{0};
  std::vector<double> ns(static_cast<size_t>(wanted));
  const auto read = [&](int reader) {
    std::unique_ptr<Lines> own;
    try {
      own = std::make_unique<Lines>(kBytes, true);
    } catch (const std::bad_alloc&) {  // it does not count
    }
    ready.fetch_add(1);
    while (ready.load() < readers.load()) std::this_thread::yield();
    if (own != nullptr && own->ok()) ns[static_cast<size_t>(reader)] = own->StreamNs();
  };
  std::vector<std::thread> others;
  try {
    for (int reader = 1; reader < wanted; ++reader) others.emplace_back(read, reader);
  } catch (const std::exception&) {
    readers.store(static_cast<int>(others.size()) + 1);
  }
  read(0);
  for (std::thread& other : others) other.join();
  double per_ns = 0;
  for (const double each : ns) per_ns += each > 0 ? 1 / each : 0;
  return per_ns > 0 ? 1 / per_ns : 0;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

// A line that two threads write in turn.
double TransferNs() {
  constexpr uint32_t kTurns = 4000;
  struct alignas(2 * kLine) {
    std::atomic<uint32_t> turn{0};
  } line;
  return Least(3, [&] {
    line.turn.store(0);
    std::thread other([&] {
      for (uint32_t i = 1; i < kTurns; i += 2) {
        while (line.turn.load() != i) platform::CpuRelax();
        line.turn.store(i + 1);
      }
    });
    const auto begin = Clock::now();
    for (uint32_t i = 0; i < kTurns; i += 2) {
      while (line.turn.load() != i) platform::CpuRelax();
      line.turn.store(i + 1);
    }
    other.join();
    return NsSince(begin) / kTurns;
  });
}

// The call that wakes a sleeper.
double WakeCallNs() {
  constexpr uint32_t kRounds = 200;
  platform::Atomic<uint32_t> word{0};
  std::atomic<uint32_t> woken{0};
  std::thread sleeper([&] {
    for (uint32_t round = 0; round < kRounds; ++round) {
      while (word.Load(platform::memory_order_seq_cst) == round) RealClock::Wait(&word, round);
      woken.store(round + 1);
    }
  });
  std::vector<double> calls;
  for (uint32_t round = 0; round < kRounds; ++round) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    const auto begin = Clock::now();
    word.FetchAdd(1, platform::memory_order_seq_cst);
    RealClock::Wake(&word, 1);
    calls.push_back(NsSince(begin));
    while (woken.load() == round) platform::CpuRelax();
  }
  sleeper.join();
  // And at most a millisecond; a quota of processor time makes it longer.
  return std::min(1e6, Median(calls));
}

void MeasureThreads(Machine* machine) {
  constexpr int kCount = 10000;
  std::atomic<uint64_t> count{0};
  const auto each = [&](const auto& f) {
    return Least(kRepeats, [&] {
      const auto begin = Clock::now();
      for (int i = 0; i < kCount; ++i) f();
      return NsSince(begin) / kCount;
    });
  };
  machine->atomic_ns = each([&] { count.fetch_add(1); });
  machine->load_ns = each([&] { (void)count.load(); });
  machine->transfer_ns = machine->processors > 1 ? TransferNs() : 100;
  machine->wake_call_ns = WakeCallNs();
}

// --- The marker, on heaps that differ in one thing each, in a process of its own ---

// An array of pointers to objects of `bytes`, to each in the order of their addresses, and again.
struct LeafHeap {
  size_t words;
  size_t objects;
  size_t bytes;
  bool pointer_free = false;
  // The array is in another order at each collection: processors learn thousands of branches.
  bool is_shuffled = false;
  bool is_list = false;  // each object refers to the next one, and the array to the first alone
};

// The least time that some collections mark, in ns.
double MarkNs(const LeafHeap& heap, int collections) {
  void** array = nullptr;
  if (heap.words != 0) {
    array = static_cast<void**>(GC_malloc(heap.words * sizeof(void*)));
    void** objects = static_cast<void**>(GC_malloc(heap.objects * sizeof(void*)));
    GC_disable();
    for (size_t i = 0; i < heap.objects; ++i) {
      objects[i] = heap.pointer_free ? GC_malloc_atomic(heap.bytes) : GC_malloc(heap.bytes);
    }
    if (heap.is_list) {
      for (size_t i = 1; i < heap.objects; ++i) *static_cast<void**>(objects[i - 1]) = objects[i];
      array[0] = objects[0];
    } else {
      for (size_t i = 0; i < heap.words; ++i) array[i] = objects[i % heap.objects];
    }
    GC_enable();
    GC_free(objects);
  }
  std::mt19937_64 random(1);
  const double ns = Least(collections, [&] {
    if (heap.is_shuffled) std::shuffle(array, array + heap.words, random);
    GC_gcollect();
    gleaner_stats stats;
    return gleaner_get_stats(&stats, sizeof stats) == sizeof stats
               ? static_cast<double>(stats.mark_ns)
               : 0.0;
  });
  if (array != nullptr) {
    GC_reachable_here(array);
    memset(array, 0, heap.words * sizeof(void*));
  }
  return ns;
}

enum HeapName {
  kNothing,
  // In order, so that memory costs next to nothing.
  kLeaves,
  kLong,
  kPointerFree,
  kRepeated,
  kList,
  // In the nearest caches.
  kOrdered,
  kShuffled,
  // In random order: their mark bytes are in the second cache, or in the third; then objects of a
  // line each in memory, which are marked, and which are scanned, too; and of eight lines.
  kMarksNear,
  kMarksFar,
  kMarkedLines,
  kScannedLines,
  kMarkedLong,
  kScannedLong,
  kHeapCount
};
constexpr size_t kFew = 1500;
constexpr size_t kSome = size_t{1} << 15;
constexpr size_t kMany = size_t{1} << 20;
constexpr size_t kRepeatedWords = 4;
constexpr size_t kLongLines = 8;
constexpr size_t kLongBytes = kLongLines * kLine;
constexpr size_t kManyLong = kMany / kLongLines;
constexpr LeafHeap kHeaps[kHeapCount] = {
    {0, 0, 0},
    {kSome, kSome, 32},
    {kSome, kSome, 64},
    {kSome, kSome, 32, true},
    {kRepeatedWords * kSome, kSome, 32},
    {kSome, kSome, 32, false, false, true},
    {kRepeatedWords * kFew, kFew, 32},
    {kRepeatedWords * kFew, kFew, 32, false, true},
    {4 * kSome, 4 * kSome, 32, true, true},
    {2 * kMany, 2 * kMany, 32, true, true},
    {kMany, kMany, 64, true, true},
    {kMany, kMany, 64, false, true},
    {kManyLong, kManyLong, kLongBytes, true, true},
    {kManyLong, kManyLong, kLongBytes, false, true},
};
// A busy machine is quiet once in that time.
constexpr double kMarkerSeconds = 12;

using HeapTimes = std::array<double, kHeapCount>;  // in ns

[[noreturn]] void MeasureMarkerAndExit(int to) {
  HeapTimes ns;
  clearenv();
  setenv("GC_MARKERS", "1", 1);
  setenv("GLEANER_HUGE_PAGES", "0", 1);           // which come and go
  setenv("GLEANER_MARK_BATCH", "1000000000", 1);  // what is in random order stays so
  GC_init();
  ns.fill(1e12);
  // In turns, so that a busy moment disturbs all of them.
  const auto begin = Clock::now();
  do {
    for (size_t i = 0; i < kHeapCount; ++i) {
      ns[i] = std::min(
          ns[i], MarkNs(kHeaps[i], kHeaps[i].objects * kHeaps[i].bytes >= kMany * kLine ? 2 : 10));
    }
  } while (NsSince(begin) < kMarkerSeconds * 1e9);
  _exit(write(to, &ns, sizeof ns) == sizeof ns ? 0 : 1);
}

// How often a processor that marks kShuffled is surprised that an object is marked, or is not.
double SurprisesOfShuffled() {
  std::vector<bool> marked(kFew);
  BranchGuess is_white;
  double surprises = 0;
  for (const uint32_t i : RandomOrder(kFew * kRepeatedWords)) {
    if (is_white.IsWrong(!marked[i % kFew])) ++surprises;
    marked[i % kFew] = true;
  }
  return surprises;
}

// What is left of a measurement without what is known of it.
double Rest(double ns) { return std::max(ns, 0.05); }

void SetMarkerTimes(const HeapTimes& ns, Machine* machine) {
  const double n = kSome;
  const double line_ns = machine->caches.back().times.stream_ns;
  // Lines of the objects of 32 bytes, and of the array.
  const double object_lines_ns = 32.0 / kLine * line_ns;
  const double array_ns = sizeof(void*) / static_cast<double>(kLine) * line_ns;
  machine->start_ns = ns[kNothing];
  machine->word_ns = Rest(((ns[kLong] - ns[kLeaves]) / n - object_lines_ns) / 4);
  machine->reference_ns = Rest((ns[kRepeated] - ns[kLeaves]) / (n * (kRepeatedWords - 1)) -
                               machine->word_ns - array_ns);
  const double words_ns = 4 * machine->word_ns + object_lines_ns;
  machine->range_ns = Rest((ns[kLeaves] - ns[kPointerFree]) / n - words_ns);
  machine->chain_ns = Rest((ns[kList] - ns[kNothing]) / n - words_ns);
  machine->object_ns = Rest((ns[kPointerFree] - ns[kNothing]) / n - machine->reference_ns -
                            machine->word_ns - array_ns);
  machine->surprise_ns = Rest((ns[kShuffled] - ns[kOrdered]) / SurprisesOfShuffled());
}

// What memory costs the marker is measured by the marker where it can be: between its accesses it
// does more than a loop that measures memory does.
void SetMemoryTimes(const HeapTimes& ns, Machine* machine) {
  const double known = machine->word_ns + machine->reference_ns + machine->object_ns;
  const auto marks_ns = [&](HeapName heap, double line_ns) {
    const double array_ns = sizeof(void*) / static_cast<double>(kLine) * line_ns;
    return Rest((ns[heap] - machine->start_ns) / static_cast<double>(kHeaps[heap].objects) - known -
                array_ns);
  };
  const double near_ns = marks_ns(kMarksNear, machine->caches.back().times.stream_ns);
  machine->caches[1].times.batch_ns = near_ns;
  // The descriptors of so many pages are in the second cache.
  if (machine->caches.size() > 2) {
    machine->caches[2].times.batch_ns =
        Rest(marks_ns(kMarksFar, machine->memory.stream_ns) - near_ns);
  }
  // Each object is on another page.
  machine->memory.ahead_ns =
      Rest((ns[kScannedLines] - ns[kMarkedLines]) / kMany - machine->range_ns -
           8 * machine->word_ns - machine->tlb_miss.ahead_ns);
  const double two_lines_ns = 2 * machine->memory.ahead_ns + machine->tlb_miss.ahead_ns;
  const double long_ns = (ns[kScannedLong] - ns[kMarkedLong]) / kManyLong;
  machine->further_ns =
      Rest((long_ns - machine->range_ns - 8 * kLongLines * machine->word_ns - two_lines_ns) /
           (kLongLines - 2));
}

bool MeasureMarker(Machine* machine) {
  int ends[2];
  if (pipe(ends) != 0) return false;
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // it takes a processor for seconds
    MeasureMarkerAndExit(ends[1]);
  }
  close(ends[1]);
  HeapTimes ns = {};
  const bool got = child > 0 && read(ends[0], &ns, sizeof ns) == sizeof ns;
  close(ends[0]);
  int status = 1;
  if (child > 0) waitpid(child, &status, 0);
  if (!got || status != 0) return false;
  SetMarkerTimes(ns, machine);
  SetMemoryTimes(ns, machine);
  return true;
}

}  // namespace

bool Calibrate(Machine* machine, std::string* error) try {
  machine->processors = platform::UsableCpuCount();
  if (!MeasureMemory(machine)) {
    *error = "there is not enough memory";
    return false;
  }
  if (!MeasureMarker(machine)) {
    *error = "the marker cannot be measured: no process can be started, or it has no memory";
    return false;
  }
  machine->occupancy_ns = OccupancyNs(machine->processors);
  MeasureThreads(machine);
  return true;
} catch (const std::bad_alloc&) {
  *error = "there is not enough memory";
  return false;
} catch (const std::system_error&) {
  *error = "the system refuses threads";
  return false;
}

}  // namespace gleaner::tools
