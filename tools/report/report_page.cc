#include "tools/report/report_page.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <numeric>

#include "tools/common/text.h"
#include "tools/report/report_advice.h"
#include "tools/report/report_blocks.h"
#include "tools/report/report_figures.h"

namespace gleaner::tools {

namespace {

const char* const kKindColours[] = {"k0", "k2", "k1", "k3"};
constexpr size_t kRows = 20;  // of the tables that show some

double Of(uint64_t number) { return static_cast<double>(number); }
std::string ByteCount(uint64_t bytes) { return Bytes(Of(bytes)); }
std::string ShareOf(uint64_t a, uint64_t b) { return Share(Ratio(Of(a), Of(b))); }

std::string Decimal(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.2f", value);
  return text;
}

// To the digits that a chart shows.
double Rounded(double value) {
  char text[64];
  snprintf(text, sizeof text, "%.6g", value);
  return strtod(text, nullptr);
}

Json Only(const std::string& text) { return Json::array({Text(text)}); }

const char* NameOfKind(int kind) { return NameOf(static_cast<gc::CollectionKind>(kind)); }

// `form` is "line", "step", "dashed" or "points". Without points it is null.
Json Series(const char* name, const char* colour, const char* form,
            const std::vector<Point>& points, bool hidden = false) {
  constexpr size_t kColumns = 1000;
  if (points.empty()) return {};
  std::vector<double> times;
  std::vector<double> values;
  for (const Point& point : Thin(points, kColumns)) {
    times.push_back(std::round(Of(point.at_ns) / 1e3) / 1e6);
    values.push_back(Rounded(point.value));
  }
  return {{"name", name},     {"colour", colour}, {"form", form},
          {"hidden", hidden}, {"t", times},       {"v", values}};
}

// Of the series that have points. Those over time, from 0 to `end_ns`, are zoomed together.
Json Chart(const char* id, const char* label, const char* unit, const char* form, double end_ns,
           std::vector<Json> series) {
  std::erase_if(series, [](const Json& each) { return each.empty(); });
  return {{"chart",
           {{"id", id},
            {"label", label},
            {"unit", unit},
            {"form", form},
            {"end", Rounded(end_ns / 1e9)},
            {"series", series}}}};
}

std::string Bucket(size_t i) {
  const std::vector<uint64_t>& bounds = DurationBounds();
  return (i == 0 ? "0" : Duration(bounds[i - 1])) + " – " +
         (i < bounds.size() ? Duration(bounds[i]) : "…");
}

Json Summary(const ReportModel& model) {
  std::vector<uint64_t> times;
  uint64_t freed = 0;
  for (const CollectionRow& row : model.collections) {
    times.push_back(row.pause_ns);
    freed += row.freed_bytes;
  }
  const uint64_t paused_ns = std::accumulate(times.begin(), times.end(), uint64_t{0});
  uint64_t mutators = 0;
  std::vector<Cells> threads;
  constexpr size_t kMaxThreads = 1000;
  for (const auto& [number, thread] : model.threads) {
    mutators += thread.role == platform::TraceRole::kMutator;
    if (threads.size() == kMaxThreads) continue;
    threads.push_back({thread.name, std::to_string(thread.tid), NameOf(thread.role),
                       Duration(thread.life.begin_ns), Count(thread.stalls.size()),
                       Duration(LengthOf(thread.stalls))});
  }
  const uint64_t live = model.collections.empty() ? 0 : model.collections.back().live_bytes;
  Pairs figures = {
      {"Run", Duration(model.run_ns)},
      {"Collections", Count(model.collections.size())},
      {"Paused", Duration(paused_ns) + " (" + ShareOf(paused_ns, model.run_ns) + ")"},
      {"Longest pause", Duration(Quantile(times, 1))},
      {"Median pause", Duration(Quantile(times, 0.5))},
      {"99 % of pauses within", Duration(Quantile(times, 0.99))},
      {"Longest stall", Duration(Quantile(model.stall_ns, 1))},
      {"99.9 % of stalls within", Duration(Quantile(model.stall_ns, 0.999))},
      {"Live at the last collection", ByteCount(live)},
      {"Most resident", ByteCount(model.max_resident_bytes)},
      {"Freed", ByteCount(freed)},
      {"Threads of the program", Count(mutators)},
      {"Markers", model.Text("markers")},
      {"Mode", model.Text("mode")},
      {"Page policy", model.Text("policy")},
      {"Write tracking",
       model.tracking.is_known ? platform::TraitsOf(model.tracking.kind).name : "not known"},
  };
  if (!model.inspections.empty()) {
    figures.emplace_back("Stopped for snapshots and reports of leaks",
                         Duration(LengthOf(model.inspections)) + ", in no other figure");
  }
  return {Figures(figures),
          Table("Threads", {"Thread", "Number", "Role", "Begins", "Stalls", "Stalled"}, threads)};
}

Json AdvicePanel(const ReportModel& model) {
  Json boxes = Json::array();
  for (const Advice& advice : Advise(model)) {
    boxes.push_back(
        AdviceBox(advice.rule, advice.title, advice.evidence, advice.action, advice.document));
  }
  if (boxes.empty()) boxes.push_back(Text("Nothing stands out."));
  return boxes;
}

Json PausesOverTime(const ReportModel& model) {
  static const char* const kColours[] = {"--c0", "--c2", "--c1", "--c3"};
  std::vector<Json> all;
  for (int kind = 0; kind < kCollectionKinds; ++kind) {
    std::vector<Point> points;
    for (const CollectionRow& row : model.collections) {
      if (static_cast<int>(row.kind) != kind || row.pause_ns == 0) continue;
      points.push_back({row.at_ns, Of(row.pause_ns) / 1e6});
    }
    all.push_back(Series(NameOfKind(kind), kColours[kind], "points", points));
  }
  if (model.tracking.goal_ns != 0) {
    const double goal = Of(model.tracking.goal_ns) / 1e6;
    all.push_back(Series("pause goal", "--soft", "dashed", {{0, goal}, {model.run_ns, goal}}));
  }
  return Chart("pauses-chart", "Pauses over time", "ms", "logarithmic", Of(model.run_ns), all);
}

Json LongestPauses(const ReportModel& model) {
  std::vector<CollectionRow> rows = model.collections;
  std::stable_sort(rows.begin(), rows.end(), [](const CollectionRow& a, const CollectionRow& b) {
    return a.pause_ns > b.pause_ns;
  });
  if (rows.size() > kRows) rows.resize(kRows);
  std::vector<Cells> cells;
  cells.reserve(rows.size());
  for (const CollectionRow& row : rows) {
    cells.push_back({Count(row.number), Duration(row.at_ns), Duration(row.pause_ns),
                     Duration(row.expected_ns), NameOf(row.kind), NameOf(row.reason),
                     NameOf(row.cause), ByteCount(row.live_bytes), ByteCount(row.freed_bytes)});
  }
  return Table(
      "The longest pauses",
      {"Collection", "At", "Pause", "Expected", "Kind", "Reason", "Cause", "Live", "Freed"}, cells);
}

Json Histogram(const ReportModel& model) {
  std::vector<std::array<uint64_t, kCollectionKinds>> counts(DurationBounds().size() + 1);
  size_t first = counts.size();
  size_t last = 0;
  for (const CollectionRow& row : model.collections) {
    const size_t bucket = DurationBucketOf(row.pause_ns);
    ++counts[bucket][static_cast<size_t>(row.kind)];
    first = std::min(first, bucket);
    last = std::max(last, bucket);
  }
  std::vector<BarRow> rows;
  for (size_t i = first; i <= last; ++i) {
    BarRow row = {
        Bucket(i), {}, {Count(std::accumulate(counts[i].begin(), counts[i].end(), uint64_t{0}))}};
    for (size_t kind = 0; kind < kCollectionKinds; ++kind) {
      row.parts.emplace_back(Of(counts[i][kind]), kKindColours[kind]);
    }
    rows.push_back(std::move(row));
  }
  Pairs keys;
  for (int kind = 0; kind < kCollectionKinds; ++kind) {
    keys.emplace_back(NameOfKind(kind), kKindColours[kind]);
  }
  return Bars("Pauses by how long they took", keys, {"From, below", "Pauses"}, rows);
}

Json PauseParts(const ReportModel& model) {
  const uint64_t all = std::accumulate(model.parts_ns.begin(), model.parts_ns.end(), uint64_t{0});
  std::vector<BarRow> rows;
  for (size_t i = 0; i < model.parts_ns.size(); ++i) {
    const uint64_t ns = model.parts_ns[i];
    rows.push_back({NameOf(static_cast<gc::PausePart>(i)),
                    {{Of(ns), "k0"}},
                    {Duration(ns), ShareOf(ns, all)}});
  }
  return Bars("Where the time of pauses goes", {}, {"Part", "Time", "Share"}, rows);
}

Json Pauses(const ReportModel& model) {
  if (model.collections.empty()) return Only("There was no collection.");
  return {Soft("One point for each collection, at its end; both scales can be zoomed. Where there "
               "are more points than columns of the picture, the shortest and the longest pause of "
               "each column are kept."),
          PausesOverTime(model),
          LongestPauses(model),
          Heading("Histogram"),
          Histogram(model),
          Heading("Parts"),
          PauseParts(model)};
}

Json Utilisation(const ReportModel& model) {
  const std::vector<UtilisationPoint> curve = UtilisationCurve(model);
  if (curve.empty()) return Only("The trace is too short.");
  std::vector<Point> of_pauses;
  std::vector<Point> of_stalls;
  std::vector<Cells> rows;
  for (const UtilisationPoint& point : curve) {
    of_pauses.push_back({point.window_ns, 100 * point.of_pauses});
    of_stalls.push_back({point.window_ns, 100 * point.of_stalls});
    rows.push_back({Duration(point.window_ns), Share(point.of_pauses), Share(point.of_stalls)});
  }
  return {Soft("The least share of time that the program had in any window of that length: time in "
               "which the world was not stopped, and, of the thread that had least, time in which "
               "the thread was not stalled."),
          Chart("utilisation-chart", "Minimum mutator utilisation by window", "%", "windows",
                Of(model.run_ns),
                {Series("without pauses", "--c0", "line", of_pauses),
                 Series("without stalls", "--c1", "dashed", of_stalls)}),
          Table("The curves as a table", {"Window", "Without pauses", "Without stalls"}, rows)};
}

Json HeapOverTime(const ReportModel& model) {
  constexpr double kMb = 1e6;
  std::vector<Point> live, resident, free, limit, unswept, returned;
  for (const CollectionRow& row : model.collections) {
    live.push_back({row.at_ns, Of(row.live_bytes) / kMb});
  }
  if (!live.empty()) live.push_back({model.run_ns, live.back().value});
  double highest_limit = 0;
  double max = 0;
  for (const LevelRow& row : model.levels) {
    resident.push_back({row.at_ns, Of(row.resident_bytes) / kMb});
    free.push_back({row.at_ns, Of(row.free_bytes) / kMb});
    max = std::max(max, resident.back().value);
    if (row.growth_limit_bytes == 0) continue;  // the heap may grow as it likes
    limit.push_back({row.at_ns, Of(row.growth_limit_bytes) / kMb});
    highest_limit = std::max(highest_limit, limit.back().value);
  }
  for (const Point& point : model.unswept) unswept.push_back({point.at_ns, point.value / kMb});
  for (const Point& point : model.returned) returned.push_back({point.at_ns, point.value / kMb});
  return Chart(
      "heap-chart", "The heap over time", "MB", "linear", Of(model.run_ns),
      {Series("live", "--c2", "step", live), Series("resident", "--c0", "line", resident),
       Series("free pages", "--c5", "line", free), Series("unswept", "--c1", "line", unswept),
       Series("growth limit", "--c3", "dashed", limit, highest_limit > 3 * max),
       Series("returned so far", "--c4", "step", returned, true)});
}

Json Heap(const ReportModel& model) {
  if (model.levels.empty()) return Only("The trace has no levels of the heap.");
  std::vector<Cells> rows;
  const size_t step = std::max<size_t>(1, (model.levels.size() + kRows - 1) / kRows);
  for (size_t i = 0; i < model.levels.size(); i += step) {
    const LevelRow& row = model.levels[i];
    rows.push_back({Duration(row.at_ns), ByteCount(row.resident_bytes), ByteCount(row.free_bytes),
                    ByteCount(row.metadata_bytes),
                    row.growth_limit_bytes == 0 ? "none" : ByteCount(row.growth_limit_bytes)});
  }
  return {Soft("Live: what a collection found reachable. Free pages are resident and hold no "
               "object. Unswept: pages that a concurrent sweep has still to come to. Returned: "
               "given back to the system after collections, all together."),
          HeapOverTime(model),
          Table("Levels of the heap as a table",
                {"At", "Resident", "Free pages", "Metadata", "Growth limit"}, rows)};
}

Json Occupancy(const ReportModel& model) {
  if (model.classes.empty()) return Only("The trace has no sample of the heap’s pages.");
  std::vector<SizeClassRow> classes = model.classes;
  std::stable_sort(classes.begin(), classes.end(), [](const auto& a, const auto& b) {
    return a.slot_bytes - 1 < b.slot_bytes - 1;  // 0, the large objects, comes last
  });
  std::vector<BarRow> rows;
  for (const SizeClassRow& row : classes) {
    const double pages = Of(row.pages * model.page_bytes());
    const bool is_large = row.slot_bytes == 0;
    const double used = is_large ? pages : std::min(pages, Of(row.used_slots * row.slot_bytes));
    rows.push_back({is_large ? "large objects" : Count(row.slot_bytes) + " B",
                    {{used, "k0"}, {pages - used, "rest"}},
                    {Bytes(used), Bytes(pages), is_large ? "" : Share(Ratio(used, pages)),
                     ShareOf(row.pointer_free_pages, row.pages)}});
  }
  return {
      Soft("A sample of 4,096 pages at most, weighed up; slots in use include dead objects that "
           "no collection has found yet."),
      Bars("Pages by size of slot, at the last sample", {{"in use", "k0"}, {"free slots", "rest"}},
           {"Slot", "In use", "In pages", "Filled", "Without pointers"}, rows)};
}

Json Owners(const ReportModel& model) {
  if (model.owners.empty()) return Only("The trace has no sample of the heap’s pages.");
  std::vector<BarRow> rows;
  for (const HeapPagesRow& row : model.owners) {
    const double pages = Of(row.pages * model.page_bytes());
    const double used = std::min(pages, Of(row.used_bytes));
    rows.push_back({row.owner == 63 ? "63 and more" : Count(row.owner),
                    {{used, "k2"}, {pages - used, "rest"}},
                    {Bytes(used), Bytes(pages), Share(Ratio(used, pages))}});
  }
  const std::string policy = model.Text("policy");
  return {Soft("Policy " + policy + (policy == "lps" ? ", k = " + model.Text("k") : "") +
               ". Each thread has a heap of its own; when it ends, the next thread that starts "
               "goes on with it."),
          Bars("Pages of small objects by the heap that owns them, at the last sample",
               {{"in use", "k2"}, {"free slots", "rest"}}, {"Heap", "In use", "In pages", "Filled"},
               rows)};
}

Json Nodes(const ReportModel& model) {
  if (model.nodes.empty()) {
    return Only("The machine has one memory node, or the run did not come to its end.");
  }
  std::vector<BarRow> rows;
  for (const NodeMemoryRow& row : model.nodes) {
    rows.push_back(
        {Count(row.node),
         {{Of(row.heap_bytes), "k2"}, {Of(row.file_bytes), "k1"}, {Of(row.other_bytes), "rest"}},
         {ByteCount(row.heap_bytes), ByteCount(row.file_bytes), ByteCount(row.other_bytes)}});
  }
  return {
      Soft("Files are text and data of the program and its libraries. They are where they were "
           "first read, whatever the process is bound to; gleaner numa shows which they are, and "
           "moves them."),
      Bars("Memory of the process by memory node, at its end",
           {{"heap", "k2"}, {"files", "k1"}, {"other", "rest"}}, {"Node", "Heap", "Files", "Other"},
           rows)};
}

Json Markers(const ReportModel& model) {
  if (model.markers.empty()) return Only("Nothing was marked.");
  std::vector<BarRow> rows;
  for (const auto& [worker, marker] : model.markers) {
    const uint64_t looking = std::min(marker.looking_ns, marker.mark_ns);
    const uint64_t busy = marker.mark_ns - looking;
    const uint64_t absent = model.marking_ns - std::min(model.marking_ns, marker.mark_ns);
    rows.push_back({Count(worker),
                    {{Of(busy), "k2"}, {Of(looking), "k1"}, {Of(absent), "rest"}},
                    {Duration(busy), Duration(looking), Duration(absent), Count(marker.steals),
                     ByteCount(marker.scanned_bytes)}});
  }
  return {Soft("Busy: scanning. Looking for work: taking segments from other markers, or waiting "
               "for one. Absent: others marked, and this one had not been woken or had gone."),
          Bars("Time of each marker while any marked",
               {{"busy", "k2"}, {"looking for work", "k1"}, {"absent", "rest"}},
               {"Marker", "Busy", "Looking for work", "Absent", "Steals", "Scanned"}, rows)};
}

Json MoreMarkers(const PredictedHeap* predicted) {
  if (predicted == nullptr) return Only("No heap snapshot was given: --snapshot.");
  const Prediction& p = predicted->prediction;
  std::vector<BarRow> rows;
  for (const PredictedMarking& m : p.markings) {
    rows.push_back({std::to_string(m.markers),
                    {{m.work, "k0"},
                     {m.added_misses, "k1"},
                     {m.waiting, "k2"},
                     {m.contention, "k3"},
                     {m.idle, "rest"},
                     {m.waking, "k4"}},
                    {Duration(static_cast<uint64_t>(m.mark_ns)), Decimal(m.speed_up)}});
  }
  Json blocks = {Text("Predicted for the snapshot's " + Count(p.objects) + " objects on " +
                      predicted->machine.name + " (" + predicted->machine.description + ")."),
                 Bars("The processors' time of a marking, by what it goes into",
                      {{"marking", "k0"},
                       {"misses that steals add", "k1"},
                       {"waiting for memory", "k2"},
                       {"contention", "k3"},
                       {"no work", "rest"},
                       {"waking", "k4"}},
                      {"Markers", "Marking", "Speed-up"}, rows, 1)};
  for (const std::string& sentence : AdviceOf(p, predicted->machine)) {
    blocks.push_back(Text(sentence));
  }
  return blocks;
}

Json Stalls(const ReportModel& model) {
  std::vector<BarRow> rows;
  for (size_t i = 0; i < model.stalls.size(); ++i) {
    const StallSums& sums = model.stalls[i];
    rows.push_back(
        {NameOf(static_cast<platform::StallCause>(i)),
         {{Of(sums.total_ns), "k1"}},
         {Duration(sums.total_ns), Count(sums.count),
          Duration(sums.count == 0 ? 0 : sums.total_ns / sums.count), Duration(sums.longest_ns)}});
  }
  std::vector<uint64_t> counts(DurationBounds().size() + 1);
  for (const uint64_t ns : model.stall_ns) ++counts[DurationBucketOf(ns)];
  std::vector<Cells> histogram;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] != 0) histogram.push_back({Bucket(i), Count(counts[i])});
  }
  return {Soft("A stall is one stretch of time in which one thread worked for the collector or "
               "waited for it, under the weightiest of its causes."),
          Bars("Stalls of the program’s threads", {},
               {"Cause", "Total", "Stalls", "Mean", "Longest"}, rows),
          Table("Stalls by how long they took", {"From, below", "Stalls"}, histogram)};
}

Json Sites(const ReportModel& model, const std::string& profile) {
  if (profile.empty()) {
    return Only("pprof draws the functions that allocate: run with GLEANER_PROFILE=FILE.");
  }
  // Up to the end of the program's name.
  const std::string& command = model.Text("command");
  return {Text("pprof draws the functions that allocate:"),
          Text("google-pprof --web " + command.substr(0, command.find(' ')) + " " + profile)};
}

std::string TimeOf(uint64_t wall_ns) {
  const auto seconds = static_cast<time_t>(wall_ns / 1'000'000'000);
  tm parts = {};
  char text[64];
  if (wall_ns == 0 || gmtime_r(&seconds, &parts) == nullptr ||
      strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0) {
    return "an unknown time";
  }
  return text;
}

std::vector<std::string> Missing(const ReportModel& model) {
  std::vector<std::string> notes;
  if (!model.error.empty()) {
    notes.push_back("The trace is damaged: " + model.error + ". What comes before is shown.");
  } else if (!model.is_complete) {
    notes.emplace_back(
        "The end of the trace is missing: the process goes on, was killed, called _exit or exec, "
        "or could not write. What there is is shown.");
  }
  notes.insert(notes.end(), model.strangers.begin(), model.strangers.end());
  if (model.dropped_events != 0 || model.untraced_threads != 0) {
    notes.push_back(Count(model.dropped_events) + " events found no room, and " +
                    Count(model.untraced_threads) +
                    " threads no ring: they are missing from all figures.");
  }
  return notes;
}

}  // namespace

std::string MakePage(const ReportModel& model, const std::string& profile,
                     const PredictedHeap* predicted) {
  return PageOf({
      {"heading", "What the collector did"},
      {"command", model.Text("command")},
      {"origin", "Process " + model.Text("process") + " on " + model.Text("host") + ", " +
                     TimeOf(model.Number("began_wall_ns", 0)) + ", Gleaner " +
                     model.Text("version") + "."},
      {"notes", Missing(model)},
      {"sections",
       {
           Section("summary", "Summary", Summary(model)),
           Section("advice", "Advice", AdvicePanel(model)),
           Section("pauses", "Pauses", Pauses(model)),
           Section("utilisation", "Mutator utilisation", Utilisation(model)),
           Section("heap", "Heap", Heap(model)),
           Section("occupancy", "Occupancy by size class", Occupancy(model)),
           Section("owners", "Pages by owner", Owners(model)),
           Section("nodes", "Memory nodes", Nodes(model)),
           Section("markers", "Markers", Markers(model)),
           Section("prediction", "More markers", MoreMarkers(predicted)),
           Section("stalls", "Stalls by cause", Stalls(model)),
           Section("sites", "Allocation sites", Sites(model, profile)),
       }},
  });
}

}  // namespace gleaner::tools
