#include "tools/top/top_frame.h"

#include <algorithm>
#include <cinttypes>
#include <cmath>
#include <cstdarg>
#include <cstdio>

#include "tools/common/text.h"

namespace gleaner::tools {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;
constexpr uint64_t kWindowNs = 100'000'000;

__attribute__((format(printf, 2, 3))) void Append(std::string* text, const char* format, ...) {
  va_list arguments;
  va_list again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string added(static_cast<size_t>(vsnprintf(nullptr, 0, format, arguments)), '\0');
  vsnprintf(added.data(), added.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  *text += added;
}

double Ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

// How long the program was stopped between two times, as far as the sample knows.
uint64_t PausedNs(const HeapSample& sample, uint64_t begin_ns, uint64_t end_ns) {
  uint64_t paused = 0;
  for (const HeapSample::Pause& pause : sample.pauses) {
    const uint64_t begin = std::max(begin_ns, pause.begin_ns);
    const uint64_t end = std::min(end_ns, pause.end_ns);
    if (end > begin) paused += end - begin;
  }
  return paused;
}

// Of the last second, or of the time that the known pauses are from if that is shorter.
double PausedShare(const HeapSample& sample) {
  uint64_t begin = sample.time_ns - kSecondNs;
  if (sample.collections > sample.pauses.size()) {
    begin = std::max(begin, sample.pauses.front().begin_ns);
  }
  if (begin >= sample.time_ns) return 0;
  return static_cast<double>(PausedNs(sample, begin, sample.time_ns)) /
         static_cast<double>(sample.time_ns - begin);
}

// The share of the worst 100 ms that the pauses left to the program: minimum mutator utilisation.
// A window is among the worst when it begins or ends with a pause.
double MinUtilisation(const HeapSample& sample) {
  uint64_t max_ns = 0;
  for (const HeapSample::Pause& pause : sample.pauses) {
    max_ns = std::max({max_ns, PausedNs(sample, pause.begin_ns, pause.begin_ns + kWindowNs),
                       PausedNs(sample, pause.end_ns - kWindowNs, pause.end_ns)});
  }
  return 1 - static_cast<double>(max_ns) / static_cast<double>(kWindowNs);
}

// Of the time since the look before; without one, since the last collection; else -1.
double AllocationRate(const HeapSample& now, const HeapSample& before) {
  const uint64_t since = before.time_ns != 0 ? before.time_ns : now.end_ns;
  const uint64_t bytes =
      before.time_ns != 0
          ? now.allocated_bytes - std::min(now.allocated_bytes, before.allocated_bytes)
          : now.allocated_since_bytes;
  if (since == 0 || now.time_ns <= since) return -1;
  return static_cast<double>(bytes) * 1e9 / static_cast<double>(now.time_ns - since);
}

const char* ModeOf(const HeapSample& sample) {
  return sample.is_concurrent ? (sample.is_generational ? "concurrent, generational" : "concurrent")
         : sample.is_generational ? "generational"
                                  : "stop-parallel";
}

// The name and, where the sample has one, the figure of each member of an enum.
template <class Enum, class F>
Json ByName(int count, const F& figure) {
  Json all = Json::object();
  for (int i = 0; i < count; ++i) all[NameOf(static_cast<Enum>(i))] = figure(i);
  return all;
}

double Millionths(double value) { return std::round(value * 1e6) / 1e6; }

void AppendBar(std::string* text, uint64_t part, uint64_t whole) {
  constexpr uint64_t kWidth = 20;
  const uint64_t filled =
      whole == 0 ? 0
                 : static_cast<uint64_t>(
                       std::min(1.0, static_cast<double>(part) / static_cast<double>(whole)) *
                       static_cast<double>(kWidth));
  *text += "[" + std::string(filled, '#') + std::string(kWidth - filled, '-') + "]";
}

void AppendCollections(std::string* out, const HeapSample& now) {
  Append(out, "collections %" PRIu64, now.collections);
  const char* separator = ": ";
  for (int i = 0; i < gc::kCauses; ++i) {
    if (now.causes[i] == 0) continue;
    Append(out, "%s%s %" PRIu64, separator, NameOf(static_cast<gc::Cause>(i)), now.causes[i]);
    separator = ", ";
  }
  separator = "\n            ";
  for (int i = 0; i < 4; ++i) {
    if (now.kinds[i] == 0) continue;
    Append(out, "%s%s %" PRIu64, separator, NameOf(static_cast<gc::CollectionKind>(i)),
           now.kinds[i]);
    separator = ", ";
  }
  *out += '\n';
  if (now.collections == 0) return;
  Append(out, "last        %.1f s ago, %s, %s: pause %.3f ms, freed %s\n",
         static_cast<double>(now.time_ns - std::min(now.time_ns, now.end_ns)) / 1e9,
         NameOf(now.cause), NameOf(now.kind), Ms(now.last_pause_ns),
         SizeText(now.freed_bytes).c_str());
  Append(out, "pauses      longest %.3f ms, total %.3f s; %.1f %% of the last second\n",
         Ms(now.longest_pause_ns), static_cast<double>(now.pause_ns) / 1e9, 100 * PausedShare(now));
  Append(out, "            of the worst 100 ms %.0f %% were left to the program\n",
         100 * MinUtilisation(now));
}

void AppendStalls(std::string* out, const HeapSample& now) {
  for (int c = 0; c < platform::kStallCauses; ++c) {
    Append(out, "%-12s%-12s total %10.3f ms, longest %10.3f ms\n", c == 0 ? "stalls" : "",
           NameOf(static_cast<platform::StallCause>(c)), Ms(now.stall_ns[c]),
           Ms(now.longest_stall_ns[c]));
  }
}

}  // namespace

std::string Printable(const std::string& text) {
  std::string out = text;
  std::replace_if(
      out.begin(), out.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return out;
}

TopFrame::TopFrame(int process, const std::string& name)
    : process_(process), name_(Printable(name)) {}

void TopFrame::Add(const LiveHeap& heap, const HeapSample& now, const HeapSample& before) {
  std::string* out = &text_;
  Append(out, "\n%s, Gleaner %s\n", Printable(heap.file()).c_str(),
         Printable(heap.version()).c_str());
  Append(out, "heap        %s, free %s; metadata %s\n", SizeText(now.heap_bytes).c_str(),
         SizeText(now.free_bytes).c_str(), SizeText(now.metadata_bytes).c_str());
  Append(out, "live        %s in %" PRIu64 " objects after the last collection\n",
         SizeText(now.live_bytes).c_str(), now.live_objects);
  Append(out, "allocated   %s since then", SizeText(now.allocated_since_bytes).c_str());
  const double rate = AllocationRate(now, before);
  if (rate >= 0) Append(out, ", %s a second", SizeText(rate).c_str());
  *out += '\n';
  if (now.allowance_bytes != 0) {
    *out += "next        ";
    AppendBar(out, now.charged_bytes, now.allowance_bytes);
    Append(out, " %s of %s until the next collection\n", SizeText(now.charged_bytes).c_str(),
           SizeText(now.allowance_bytes).c_str());
  }
  Append(out, "threads     %" PRIu64 ", markers %" PRIu64 "; mode %s, cycle %s\n", now.threads,
         now.markers, ModeOf(now), NameOf(now.cycle_state));
  AppendCollections(out, now);
  AppendStalls(out, now);
  if (!now.is_whole) *out += "a collection's figures may be half those of the one before\n";

  Json heap_json = {
      {"file", Printable(heap.file())},
      {"version", Printable(heap.version())},
      {"whole", now.is_whole},
      {"time_ns", now.time_ns},
      {"heap_bytes", now.heap_bytes},
      {"free_bytes", now.free_bytes},
      {"metadata_bytes", now.metadata_bytes},
      {"live_bytes", now.live_bytes},
      {"live_objects", now.live_objects},
      {"allocated_bytes", now.allocated_bytes},
      {"allocated_since_bytes", now.allocated_since_bytes},
      {"freed_since_bytes", now.freed_since_bytes},
      {"charged_bytes", now.charged_bytes},
      {"allowance_bytes", now.allowance_bytes},
  };
  if (rate >= 0) heap_json["allocated_bytes_per_second"] = Millionths(rate);
  heap_json.update({
      {"threads", now.threads},
      {"markers", now.markers},
      {"mode", ModeOf(now)},
      {"cycle", NameOf(now.cycle_state)},
      {"collections", now.collections},
      {"causes", ByName<gc::Cause>(gc::kCauses, [&](int i) { return now.causes[i]; })},
      {"kinds", ByName<gc::CollectionKind>(4, [&](int i) { return now.kinds[i]; })},
      {"pause_ns", now.pause_ns},
      {"longest_pause_ns", now.longest_pause_ns},
      {"paused_share", now.pauses.empty() ? 0 : Millionths(PausedShare(now))},
      {"least_utilisation", Millionths(MinUtilisation(now))},
  });
  if (now.collections != 0) {
    heap_json["last"] = {
        {"cause", NameOf(now.cause)},     {"kind", NameOf(now.kind)},       {"end_ns", now.end_ns},
        {"pause_ns", now.last_pause_ns},  {"freed_bytes", now.freed_bytes}, {"steals", now.steals},
        {"finalizable", now.finalizable},
    };
  }
  heap_json["stalls"] = ByName<platform::StallCause>(platform::kStallCauses, [&](int c) {
    return Json{{"total_ns", now.stall_ns[c]}, {"longest_ns", now.longest_stall_ns[c]}};
  });
  heaps_.push_back(std::move(heap_json));
}

std::string TopFrame::Text() const {
  std::string out;
  Append(&out, "gleaner top: process %d (%s)\n", process_, name_.c_str());
  return out + text_;
}

std::string TopFrame::JsonText() const {
  return TextOf({{"process", process_}, {"name", name_}, {"heaps", heaps_}}) + "\n";
}

}  // namespace gleaner::tools
