#include "tools/predict/machine.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

namespace gleaner::tools {

namespace {

uint64_t Ps(double ns) { return static_cast<uint64_t>(std::llround(ns * 1000)); }

constexpr double kMaxNumber = 1e15;
// So that sums over a heap's objects, in picoseconds, fit into 64 bits.
constexpr double kMaxTimeNs = 1e6;
constexpr uint64_t kMaxCacheBytes = uint64_t{64} << 30;

// A line of the file: what follows the name.
using Values = std::vector<double>;

// Each name and where its number is.
std::map<std::string, double*> NumbersOf(Machine* m) {
  return {
      {"one_way_ns", &m->one_way_ns},     {"one_way_remote_ns", &m->one_way_remote_ns},
      {"occupancy_ns", &m->occupancy_ns}, {"concentration", &m->concentration},
      {"range_ns", &m->range_ns},         {"word_ns", &m->word_ns},
      {"reference_ns", &m->reference_ns}, {"object_ns", &m->object_ns},
      {"chain_ns", &m->chain_ns},         {"surprise_ns", &m->surprise_ns},
      {"start_ns", &m->start_ns},         {"atomic_ns", &m->atomic_ns},
      {"load_ns", &m->load_ns},           {"transfer_ns", &m->transfer_ns},
      {"wake_call_ns", &m->wake_call_ns}, {"further_ns", &m->further_ns},
      {"doubtful", &m->doubtful},
  };
}

constexpr size_t kTimes = 4;

// Whether the numbers are as many, and four times.
bool EndInTimes(const Values& v, size_t others) {
  return v.size() == others + kTimes &&
         std::all_of(v.end() - kTimes, v.end(), [](double t) { return t <= kMaxTimeNs; });
}

AccessTimes TimesOf(const Values& v) {
  const double* times = v.data() + v.size() - kTimes;
  return {times[0], times[1], times[2], times[3]};
}

std::string FormatTimes(const AccessTimes& times) {
  char text[128];
  snprintf(text, sizeof text, "%.4g %.4g %.4g %.4g", times.dependent_ns, times.ahead_ns,
           times.batch_ns, times.stream_ns);
  return text;
}

bool IsWhole(double value, double min, double max) {
  return value >= min && value <= max && value == std::floor(value);
}

// What is wrong with the line, or nothing.
std::string TakeLine(const std::string& key, const Values& v, Machine* machine) {
  const auto numbers = NumbersOf(machine);
  if (const auto found = numbers.find(key); found != numbers.end()) {
    if (v.size() != 1) return "one number is expected";
    if ((key == "concentration" || key == "doubtful") && v[0] > 1) return "at most 1 is expected";
    if (v[0] > kMaxTimeNs) return "at most 1e6 is expected";
    *found->second = v[0];
    return "";
  }
  if (key == "huge_pages") {
    if (v.size() != 1 || !IsWhole(v[0], 0, 1)) return "0 or 1 is expected";
    machine->has_huge_pages = v[0] == 1;
    return "";
  }
  if (key == "processors" || key == "nodes") {
    if (v.size() != 1 || !IsWhole(v[0], 1, 4096)) return "a number from 1 to 4096 is expected";
    (key == "nodes" ? machine->nodes : machine->processors) = static_cast<int>(v[0]);
    return "";
  }
  if (key == "cache") {
    if (!EndInTimes(v, 4) || !IsWhole(v[0], 64, kMaxCacheBytes) || !IsWhole(v[1], 8, 4096) ||
        (static_cast<uint64_t>(v[1]) & (static_cast<uint64_t>(v[1]) - 1)) != 0 ||
        !IsWhole(v[2], 1, 1024) || !IsWhole(v[3], 0, 1) || v[0] < v[1] * v[2]) {
      return "eight numbers are expected: bytes, bytes of a line (a power of two), ways, 1 if it "
             "is shared, and four times in ns";
    }
    machine->caches.push_back({static_cast<uint64_t>(v[0]), static_cast<uint32_t>(v[1]),
                               static_cast<uint32_t>(v[2]), v[3] == 1, TimesOf(v)});
    return "";
  }
  if (key == "memory") {
    if (!EndInTimes(v, 0)) return "four times are expected, up to 1e6 ns";
    machine->memory = TimesOf(v);
    return "";
  }
  if (key == "tlb") {
    if (!EndInTimes(v, 2) || !IsWhole(v[0], 1, 1 << 20) || !IsWhole(v[1], 4096, 1 << 30) ||
        (static_cast<uint64_t>(v[1]) & (static_cast<uint64_t>(v[1]) - 1)) != 0) {
      return "six numbers are expected: entries, bytes of a page (a power of two from 4096 on), "
             "and four times in ns";
    }
    machine->tlb_entries = static_cast<uint64_t>(v[0]);
    machine->tlb_page_bytes = static_cast<uint64_t>(v[1]);
    machine->tlb_miss = TimesOf(v);
    return "";
  }
  // Descriptions may have what no prediction asks for.
  return key == "relax_ns" || key == "yield_ns" || key == "wake_ns" ? "" : "there is no such name";
}

bool TakeNumbers(const std::string& text, Values* values) {
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    double value = 0;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || rest != word.data() + word.size() || !(value >= 0) ||
        value > kMaxNumber) {
      return false;
    }
    values->push_back(value);
  }
  return true;
}

void AppendNumber(const char* key, double value, std::string* text) {
  char line[128];
  snprintf(line, sizeof line, "%s %.4g\n", key, value);
  *text += line;
}

}  // namespace

VirtualCosts Machine::Costs() const {
  // Twice as much or half of the last three changes no prediction by more than its schedule does by
  // chance. Short waits last some time, or those who wait would never come to the end of them.
  return {.atomic_ps = Ps(atomic_ns),
          .load_ps = Ps(load_ns),
          .transfer_ps = Ps(transfer_ns),
          .wake_call_ps = Ps(wake_call_ns),
          .relax_ps = Ps(500),
          .yield_ps = Ps(400),
          .wake_ps = Ps(10 * wake_call_ns / 3)};
}

bool ReadMachine(const std::string& path, Machine* machine, std::string* error) {
  std::ifstream file(path);
  if (!file) {
    *error = path + ": it cannot be read";
    return false;
  }
  *machine = Machine();
  std::string line;
  for (int number = 1; std::getline(file, line); ++number) {
    line.resize(std::min(line.size(), line.find('#')));
    const size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string::npos) continue;
    const size_t end = line.find_first_of(" \t\r", begin);
    const std::string key = line.substr(begin, end - begin);
    std::string rest = end == std::string::npos ? "" : line.substr(end);
    std::string wrong;
    Values values;
    if (key == "name" || key == "description") {
      rest.erase(0, rest.find_first_not_of(" \t\r"));
      (key == "name" ? machine->name : machine->description) = rest;
    } else if (!TakeNumbers(rest, &values)) {
      wrong = "numbers from 0 on are expected";
    } else {
      wrong = TakeLine(key, values, machine);
    }
    if (!wrong.empty()) {
      *error = path;
      for (const std::string& part : {":" + std::to_string(number), ": " + key, ": " + wrong}) {
        *error += part;
      }
      return false;
    }
  }
  const char* missing = machine->caches.empty()     ? "cache"
                        : machine->tlb_entries == 0 ? "tlb"
                        : machine->word_ns == 0     ? "word_ns"
                        : machine->object_ns == 0   ? "object_ns"
                                                    : nullptr;
  if (machine->one_way_remote_ns < machine->one_way_ns) {
    *error = path + ": one_way_remote_ns is less than one_way_ns";
    return false;
  }
  if (missing != nullptr) {
    *error = path + ": it says nothing about " + missing;
    return false;
  }
  return true;
}

std::string DoubtsOf(const Machine& machine) {
  constexpr double kFarthestNs = 400;
  constexpr double kSlowestTransferNs = 3000;
  constexpr double kSpread = 0.8;  // of measurements of the same
  const AccessTimes& memory = machine.memory;
  const AccessTimes& last = machine.caches.back().times;
  std::string doubts;
  const auto check = [&doubts](bool is_possible, const char* what) {
    if (!is_possible) doubts += (doubts.empty() ? "" : "; ") + std::string(what);
  };
  check(memory.dependent_ns >= kSpread * last.dependent_ns &&
            memory.ahead_ns >= kSpread * last.ahead_ns &&
            memory.batch_ns >= kSpread * last.batch_ns &&
            memory.stream_ns >= kSpread * last.stream_ns,
        "memory is nearer than the last cache");
  check(memory.dependent_ns <= kFarthestNs, "memory is too far");
  check(machine.transfer_ns <= kSlowestTransferNs, "processors do not see each other's writes");
  return doubts;
}

std::string FormatMachine(const Machine& machine) {
  std::string text = "name " + machine.name + "\ndescription " + machine.description + "\n";
  char line[256];
  AppendNumber("processors", machine.processors, &text);
  AppendNumber("nodes", machine.nodes, &text);
  text +=
      "# bytes, bytes of a line, ways, shared; ns of an access: dependent, ahead, batch, next\n";
  for (const CacheLevel& cache : machine.caches) {
    snprintf(line, sizeof line, "cache %llu %u %u %d ",
             static_cast<unsigned long long>(cache.bytes), cache.line_bytes, cache.ways,
             cache.is_shared ? 1 : 0);
    text += line + FormatTimes(cache.times) + "\n";
  }
  text += "memory " + FormatTimes(machine.memory) + "\n";
  snprintf(line, sizeof line, "tlb %llu %llu ",
           static_cast<unsigned long long>(machine.tlb_entries),
           static_cast<unsigned long long>(machine.tlb_page_bytes));
  text += line + FormatTimes(machine.tlb_miss) + "\n";
  AppendNumber("huge_pages", machine.has_huge_pages ? 1 : 0, &text);
  Machine copy = machine;
  for (const auto& [key, value] : NumbersOf(&copy)) AppendNumber(key.c_str(), *value, &text);
  return text;
}

}  // namespace gleaner::tools
