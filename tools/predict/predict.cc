#include "tools/predict/predict.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <memory>
#include <new>
#include <set>
#include <system_error>
#include <vector>

#include "gc/mark/mark_clock.h"
#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/heap/explained_path.h"
#include "tools/heap/snapshot_file.h"
#include "tools/predict/machine_files.h"
#include "tools/predict/prediction.h"

using namespace gleaner::tools;

namespace {

constexpr uint64_t kMaxMarkNs = uint64_t{1} << 50;  // two weeks

int Fail(const std::string& message) {
  fprintf(stderr, "gleaner predict: %s\n", ForTerminal(message).c_str());
  return 1;
}

bool ReadNumber(const char** at, const char* end, int* number) {
  const auto [rest, error] = std::from_chars(*at, end, *number);
  *at = rest;
  return error == std::errc() && *number >= 1 && *number <= VirtualClock::kMaxWorkers;
}

// Of a range, its ends and the powers of two between them.
bool ReadMarkers(const std::string& text, std::vector<int>* markers) {
  std::set<int> numbers;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    int first;
    if (!ReadNumber(&at, end, &first)) return false;
    int last = first;
    if (at != end && *at == '-' && (!ReadNumber(&++at, end, &last) || last < first)) return false;
    numbers.insert({first, last});
    for (int n = 1; n < last; n *= 2) {
      if (n > first) numbers.insert(n);
    }
    if (at == end) break;
    if (*at++ != ',') return false;
  }
  markers->assign(numbers.begin(), numbers.end());
  return true;
}

// The processors' time of a marking as a bar: each part by its letter.
std::string Bar(const PredictedMarking& m) {
  constexpr int kWidth = 40;
  const struct {
    char letter;
    double share;
  } parts[] = {{'#', m.work},       {'m', m.added_misses}, {'q', m.waiting},
               {'c', m.contention}, {'i', m.idle},         {'w', m.waking}};
  std::string bar;
  double sum = 0;
  for (const auto& part : parts) {
    sum += part.share;
    bar.resize(static_cast<size_t>(std::clamp(std::lround(sum * kWidth), 0L, long{kWidth})),
               part.letter);
  }
  return bar;
}

// In ASCII, for terminals of any kind.
std::string Time(uint64_t ns) {
  std::string text = Duration(ns);
  if (const size_t micro = text.find("µ"); micro != std::string::npos) text.replace(micro, 2, "u");
  return text;
}

void PrintText(const std::string& snapshot, const PredictedHeap& heap) {
  const Machine& machine = heap.machine;
  const Prediction& p = heap.prediction;
  printf("marking the heap of %s\non %s (%s)\n\n", ForTerminal(snapshot).c_str(),
         ForTerminal(machine.name).c_str(), ForTerminal(machine.description).c_str());
  printf(
      "%s objects, %s to scan, %s references; a marker of its own needs %s, of which %s waits "
      "for memory\n\n",
      Count(p.objects).c_str(), Bytes(static_cast<double>(p.scanned_bytes)).c_str(),
      Count(p.references).c_str(), Time(static_cast<uint64_t>(p.serial_ns)).c_str(),
      Share(p.memory_ns / std::max(1.0, p.processor_ns + p.memory_ns)).c_str());
  printf("markers       time    +-   speed-up   processors' time\n");
  for (const PredictedMarking& m : p.markings) {
    printf("%7d %10s %4.0f %% %9.2f   %s\n", m.markers,
           Time(static_cast<uint64_t>(m.mark_ns)).c_str(), 100 * m.uncertainty, m.speed_up,
           Bar(m).c_str());
  }
  if (p.markings.size() > 1) {
    printf("%7s %10s %4.0f %% %9.2f   %s\n", "auto",
           Time(static_cast<uint64_t>(p.adaptive.mark_ns)).c_str(), 100 * p.adaptive.uncertainty,
           p.adaptive.speed_up, Bar(p.adaptive).c_str());
  }
  if (heap.measured.workers > 0) {
    printf("%7s %10s   (%d %s, when the snapshot was taken)\n", "was",
           Time(heap.measured.elapsed_ns).c_str(), heap.measured.workers,
           heap.measured.workers == 1 ? "marker" : "markers");
  }
  printf(
      "\n# marking   m added misses   q waiting for memory   c contention   i no work   "
      "w waking\n\n");
  for (const std::string& sentence : AdviceOf(p, machine)) {
    PrintWrapped(sentence, 0, stdout);
  }
}

Json JsonOf(const PredictedMarking& m) {
  return {{"markers", m.markers},
          {"mark_ns", std::round(m.mark_ns)},
          {"uncertainty", m.uncertainty},
          {"speed_up", m.speed_up},
          {"work", m.work},
          {"added_misses", m.added_misses},
          {"waiting", m.waiting},
          {"contention", m.contention},
          {"idle", m.idle},
          {"waking", m.waking},
          {"steals", m.steals}};
}

void PrintJson(const std::string& snapshot, const PredictedHeap& heap) {
  const Machine& machine = heap.machine;
  const Prediction& p = heap.prediction;
  Json all = {{"snapshot", snapshot},
              {"machine", machine.name},
              {"description", machine.description},
              {"objects", p.objects},
              {"scanned_bytes", p.scanned_bytes},
              {"references", p.references},
              {"serial_ns", std::round(p.serial_ns)},
              {"processor_ns", std::round(p.processor_ns)},
              {"memory_ns", std::round(p.memory_ns)},
              {"accesses", p.served},
              {"tlb_misses", p.tlb_misses},
              {"live_lines", p.live_lines},
              {"levels", p.levels},
              {"width", p.width},
              {"best_markers", p.markings[p.best].markers},
              {"markings", Json::array()}};
  for (const PredictedMarking& m : p.markings) all["markings"].push_back(JsonOf(m));
  if (p.markings.size() > 1) all["adaptive"] = JsonOf(p.adaptive);
  if (heap.measured.workers > 0) {
    all["measured"] = {{"markers", heap.measured.workers},
                       {"mark_ns", heap.measured.elapsed_ns},
                       {"busy_ns", heap.measured.busy_ns}};
  }
  all["advice"] = AdviceOf(p, machine);
  Print(all);
}

}  // namespace

bool PredictHeap(const std::string& snapshot, const std::string& machine,
                 const std::vector<int>& markers, PredictedHeap* heap, std::string* error) {
  SnapshotFile file;
  auto graph = std::make_unique<HeapGraph>();
  if (!file.Open(snapshot)) {
    *error = file.error();
    return false;
  }
  if (!(machine.empty() ? ThisMachine(&heap->machine, error)
                        : FindMachine(machine, &heap->machine, error))) {
    return false;
  }
  if (!file.Fill(graph.get())) {
    *error = file.error();
    return false;
  }
  SimulatedHeap simulated(*graph, file.kinds());
  graph.reset();
  const SnapshotTotals& totals = file.totals();
  // What no collector writes is not shown.
  if (totals.markers <= gleaner::gc::kMaxWorkers && totals.mark_ns < kMaxMarkNs &&
      totals.mark_busy_ns <= totals.markers * totals.mark_ns) {
    heap->measured = {totals.mark_ns, totals.mark_busy_ns, static_cast<int>(totals.markers)};
  }
  if (!simulated.error().empty()) {
    *error = snapshot + ": " + simulated.error();
    return false;
  }
  heap->prediction = PredictMarking(&simulated, heap->machine, markers);
  if (heap->prediction.has_room) return true;
  *error = "there is not enough memory for the simulation";
  return false;
}

int Predict(const PredictOptions& options) {
  std::vector<int> markers;
  if (!ReadMarkers(options.markers, &markers)) {
    return Fail("--markers " + options.markers +
                ": numbers from 1 to 1024 are expected, as 8, 1-64 or 1,2,8-16");
  }
  PredictedHeap heap;
  std::string error;
  try {
    if (!PredictHeap(options.snapshot, options.machine, markers, &heap, &error)) return Fail(error);
  } catch (const std::bad_alloc&) {
    return Fail(options.snapshot + ": there is not enough memory to read it");
  }
  options.json ? PrintJson(options.snapshot, heap) : PrintText(options.snapshot, heap);
  return 0;
}
