#include "tools/predict/prediction.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <exception>
#include <iterator>
#include <limits>
#include <new>
#include <thread>

#include "tools/common/text.h"
#include "tools/predict/simulated_marker.h"

namespace gleaner::tools {

namespace {

// How far a measured time is from the predicted one at most (docs/design/predictor.md,
// "Uncertainty").
constexpr double kUncertainty = 0.40;
constexpr double kWorthWhile = 1.05;
// From alloc/address_space.cc.
constexpr uint64_t kHugePagesFromBytes = 16 * kMiB;
constexpr int kMaxThreads = 4;

// Of all nodes' memory, what the busiest one has.
double ShareOfBusiest(const Machine& machine) {
  return machine.concentration + (1 - machine.concentration) / machine.nodes;
}

// How long an access waits in the mean at nodes that serve one line at a time, each as long as
// `occupancy_ns`, when `lines` are asked for in `ns` (M/D/1). Beyond what they can serve: infinite.
double WaitingNs(const Machine& machine, double lines, double ns) {
  const double busiest = ShareOfBusiest(machine);
  const double others = machine.nodes == 1 ? 0 : (1 - busiest) / (machine.nodes - 1);
  double sum = 0;
  for (int node = 0; node < machine.nodes; ++node) {
    const double share = node == 0 ? busiest : others;
    const double load = lines * share * machine.occupancy_ns / ns;
    if (load >= 1) return std::numeric_limits<double>::infinity();
    sum += share * machine.occupancy_ns * load / (2 * (1 - load));
  }
  return sum;
}

// What a marking takes when `lines` from memory wait for each other, and come from all nodes:
// the solution t of  t = alone_ns + lines * (waiting(t) + remote) * overlap / parallelism.
double WithWaiting(const Machine& machine, double alone_ns, double lines, double parallelism) {
  // A processor has several accesses under way: that part of each is seen.
  const double overlap = machine.memory.ahead_ns < machine.memory.dependent_ns
                             ? machine.memory.ahead_ns / machine.memory.dependent_ns
                             : 1;
  const double remote_ns =
      machine.nodes == 1
          ? 0
          : 2 * (machine.one_way_remote_ns - machine.one_way_ns) * (1 - 1.0 / machine.nodes);
  const auto right_side = [&](double ns) {
    return alone_ns + lines * (WaitingNs(machine, lines, ns) + remote_ns) * overlap / parallelism;
  };
  // The right side falls while the left one grows.
  double low = alone_ns;
  double high = 2 * (alone_ns + lines * (machine.occupancy_ns + remote_ns));
  while (right_side(high) > high) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (right_side(middle) > middle ? low : high) = middle;
  }
  return high;
}

double Ns(uint64_t ps) { return static_cast<double>(ps) / 1000; }

PredictedMarking Evaluate(const Machine& machine, const Prediction& p, int markers,
                          const SimulationResult& r) {
  const double length_ns = std::max(1.0, Ns(r.length_ps));  // there may be nothing to mark
  const double marking_ns = Ns(r.processor_ps + r.memory_ps + r.added_ps);
  const double lines = p.served.back() + r.added_lines;
  const double busy = std::max(1.0, marking_ns / length_ns);
  PredictedMarking m;
  m.markers = markers;
  m.steals = r.steals;
  const double stretched_ns = WithWaiting(machine, length_ns, lines, busy);
  m.mark_ns = stretched_ns + machine.start_ns;
  const double all = stretched_ns * markers;
  m.work = Ns(r.processor_ps + r.memory_ps) / all;
  m.added_misses = Ns(r.added_ps) / all;
  m.waiting = (stretched_ns - length_ns) * busy / all;
  m.contention = Ns(r.contention_ps) / all;
  m.waking = Ns(r.absent_ps) / all;
  m.idle = std::max(0.0, 1 - m.work - m.added_misses - m.waiting - m.contention - m.waking);
  m.uncertainty = kUncertainty;
  return m;
}

// A breadth-first search from the roots. Sets levels and width.
void MeasureWidth(const SimulatedHeap& heap, Prediction* prediction) {
  std::vector<bool> reached(heap.size());
  std::vector<uint32_t> level, next;
  uint64_t objects = 0;
  const auto visit = [&](uint32_t cell) {
    if (reached[cell]) return;
    reached[cell] = true;
    ++objects;
    next.push_back(cell);
  };
  for (const SimulatedHeap::RootTask& task : heap.root_tasks()) {
    for (const uint32_t cell : task.cells) visit(cell);
  }
  while (!next.empty()) {
    ++prediction->levels;
    level.swap(next);
    next.clear();
    for (const uint32_t cell : level) {
      const uint32_t end = heap.EndOf(cell);
      for (size_t i = heap.cell(cell).first_reference; i < heap.cell(end).first_reference; ++i) {
        visit(heap.target(i));
      }
    }
  }
  if (prediction->levels != 0) {
    prediction->width = static_cast<double>(objects) / static_cast<double>(prediction->levels);
  }
}

SimulationResult Simulate(const SimulatedMarker& marker, const SimulationOptions& options) {
  try {
    return marker.Run(options);
  } catch (const std::bad_alloc&) {
    SimulationResult none;
    none.overflowed = true;
    return none;
  }
}

// A fixed number of markers: all begin, unless the last collection had no work for helpers.
SimulationResult SimulateFixed(const SimulatedMarker& marker, int markers) {
  SimulationOptions options;
  options.workers = markers;
  const SimulationResult all = Simulate(marker, options);
  if (all.overflowed || all.steals != 0) return all;
  options.at_start = 1;
  return Simulate(marker, options);
}

// Each number of markers, on several threads.
std::vector<SimulationResult> SimulateAll(const SimulatedMarker& marker,
                                          const std::vector<int>& markers) {
  std::vector<SimulationResult> results(markers.size());
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < markers.size();) {
      results[i] = SimulateFixed(marker, markers[i]);
    }
  };
  const size_t count = std::min<size_t>(
      {markers.size(), kMaxThreads, std::max(1u, std::thread::hardware_concurrency())});
  std::vector<std::thread> threads;
  try {
    for (size_t i = 1; i < count; ++i) threads.emplace_back(work);
  } catch (const std::exception&) {  // those that there are do the work
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return results;
}

// What takes the largest part of the processors' time besides work.
struct Loss {
  const char* text;
  double share;
};

Loss LargestLoss(const PredictedMarking& m) {
  const Loss losses[] = {
      {"markers without work: the graph is too narrow, or what there is is not shared fast enough",
       m.idle},
      {"waking helpers: the heap is too small for so many", m.waking},
      {"memory that other markers keep busy, or that is on another node", m.waiting},
      {"lines that a stolen part of the graph needs from another processor's caches",
       m.added_misses},
      {"lines that markers write in turn", m.contention},
  };
  return *std::max_element(std::begin(losses), std::end(losses),
                           [](const Loss& a, const Loss& b) { return a.share < b.share; });
}

}  // namespace

Prediction PredictMarking(SimulatedHeap* heap, const Machine& machine,
                          const std::vector<int>& markers) {
  Prediction p;
  SimulatedMarker marker(heap, machine);
  SimulationResult serial;
  {
    CacheSimulation caches(machine,
                           !machine.has_huge_pages || heap->scanned_bytes() <= kHugePagesFromBytes);
    serial = marker.RunSerial(&caches);
    p.served = caches.Served();
    p.tlb_misses = caches.tlb_misses();
    p.live_lines = caches.live_lines();
  }
  p.objects = serial.objects;
  p.scanned_bytes = serial.bytes_scanned;
  p.references = heap->references();
  p.processor_ns = Ns(serial.processor_ps);
  p.memory_ns = Ns(serial.memory_ps);
  p.has_room = !serial.overflowed;
  PredictedMarking one = Evaluate(machine, p, 1, serial);
  p.serial_ns = one.mark_ns;
  p.markings.push_back(one);
  MeasureWidth(*heap, &p);

  std::vector<int> several;
  std::copy_if(markers.begin(), markers.end(), std::back_inserter(several),
               [](int n) { return n > 1; });
  const std::vector<SimulationResult> results = SimulateAll(marker, several);
  for (size_t i = 0; i < several.size(); ++i) {
    if (results[i].overflowed) p.has_room = false;
    p.markings.push_back(Evaluate(machine, p, several[i], results[i]));
    p.markings.back().speed_up = p.serial_ns / p.markings.back().mark_ns;
  }
  if (!several.empty()) {
    // What the marker comes to after some collections of which all that there are began the first.
    SimulationOptions options;
    options.workers = std::min(several.back(), gc::kMaxWorkers);
    SimulationResult last =
        options.workers == several.back() ? results.back() : Simulate(marker, options);
    for (int i = 0; i < 4; ++i) {
      options.at_start = gc::MarkersAtStart(last.times(), options.workers);
      if (options.at_start == last.workers) break;
      last = Simulate(marker, options);
    }
    if (last.overflowed) p.has_room = false;
    p.adaptive = Evaluate(machine, p, options.workers, last);
    p.adaptive.markers = last.workers;
    p.adaptive.speed_up = p.serial_ns / p.adaptive.mark_ns;
  }
  double shortest = p.serial_ns;
  for (const PredictedMarking& m : p.markings) shortest = std::min(shortest, m.mark_ns);
  while (p.markings[p.best].mark_ns > kWorthWhile * shortest) ++p.best;
  return p;
}

std::vector<std::string> AdviceOf(const Prediction& p, const Machine& machine) {
  std::vector<std::string> advice;
  if (p.objects == 0) return {"There are no objects that the roots reach: nothing is marked."};
  const PredictedMarking& best = p.markings[p.best];
  const PredictedMarking& most = p.markings.back();
  const auto times = [](double factor) {
    char text[32];
    snprintf(text, sizeof text, "%.2f", factor);
    return std::string(text);
  };
  if (p.markings.size() == 1) return {"Only one marker was asked for."};
  if (best.markers == 1) {
    advice.push_back("One marker is as fast as several: GC_MARKERS=1 saves their wake-ups.");
  } else {
    advice.push_back(std::to_string(best.markers) + " markers mark " + times(best.speed_up) +
                     " times as fast as one (GC_MARKERS=" + std::to_string(best.markers) + ")" +
                     (best.markers == most.markers ? "." : "; more gain less than 5 %."));
  }
  if (most.markers > machine.processors) {
    advice.push_back("The machine has " + std::to_string(machine.processors) +
                     (machine.processors == 1 ? " processor" : " processors") +
                     "; for more markers it is taken to have more of the same, and the same "
                     "memory.");
  }
  if (const Loss loss = LargestLoss(most); loss.share > 0.05) {
    advice.push_back("With " + std::to_string(most.markers) + " markers the largest loss, " +
                     Share(loss.share) + " of the processors' time, is due to " + loss.text + ".");
  }
  if (p.width < 8 * most.markers) {
    advice.push_back("The nearest root is up to " + Count(p.levels) + " references away, with " +
                     times(p.width) +
                     " objects for each: long lists are marked one object after the other. Trees "
                     "or arrays of parts can be shared.");
  }
  if (most.waiting > 0.1 && machine.nodes > 1) {
    advice.push_back("Spread the heap over the memory nodes: GLEANER_NUMA=interleave.");
  }
  return advice;
}

}  // namespace gleaner::tools
