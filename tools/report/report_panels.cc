#include "tools/report/report_panels.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tools/common/text.h"
#include "tools/report/report_advice.h"
#include "tools/report/report_drawing.h"
#include "tools/report/report_figures.h"
#include "tools/report/report_frame.h"

namespace gleaner::tools {

namespace {

const char* const kKindColours[] = {"k0", "k2", "k1", "k3"};

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }
double Ratio(uint64_t a, uint64_t b) {
  return Ratio(static_cast<double>(a), static_cast<double>(b));
}
std::string ByteCount(uint64_t bytes) { return Bytes(static_cast<double>(bytes)); }

std::string Decimal(double value) {
  char text[32];
  snprintf(text, sizeof text, "%.2f", value);
  return text;
}

std::vector<uint64_t> PauseTimes(const ReportModel& model) {
  std::vector<uint64_t> times;
  for (const CollectionRow& row : model.collections) times.push_back(row.pause_ns);
  return times;
}

std::vector<Key> KindKeys() {
  std::vector<Key> keys;
  keys.reserve(kCollectionKinds);
  for (int kind = 0; kind < kCollectionKinds; ++kind) {
    keys.push_back({NameOf(static_cast<gc::CollectionKind>(kind)), kKindColours[kind]});
  }
  return keys;
}

// The place of a chart that the script draws.
std::string ChartPlace(const std::string& id, const std::string& label) {
  return "<figure><div class=\"legend\" id=\"" + id + "-legend\"></div><div class=\"chart\" id=\"" +
         id + "\" tabindex=\"0\" role=\"application\" aria-label=\"" + Escaped(label) +
         "; arrow keys read values, plus and minus zoom, 0 shows all\"></div>"
         "<div class=\"values\" id=\"" +
         id + "-values\" aria-live=\"polite\"></div></figure>\n";
}

std::string Histogram(const ReportModel& model) {
  const std::vector<uint64_t>& bounds = DurationBounds();
  std::vector<std::array<uint64_t, kCollectionKinds>> counts(bounds.size() + 1);
  for (const CollectionRow& row : model.collections) {
    ++counts[DurationBucketOf(row.pause_ns)][static_cast<size_t>(row.kind)];
  }
  const auto total = [](const auto& of) {
    return std::accumulate(of.begin(), of.end(), uint64_t{0});
  };
  BarTable table = {"Pauses by how long they took", {"From, below", "Pauses"}, {}, 0};
  const auto any = [&](const auto& of) { return total(of) != 0; };
  const auto first = std::find_if(counts.begin(), counts.end(), any);
  const auto last = std::find_if(counts.rbegin(), counts.rend(), any).base();
  for (auto it = first; it < last; ++it) {
    const auto i = static_cast<size_t>(it - counts.begin());
    BarRow row = {(i == 0 ? "0" : Duration(bounds[i - 1])) + " – " +
                      (i < bounds.size() ? Duration(bounds[i]) : "…"),
                  {},
                  {Count(total(*it))}};
    for (int kind = 0; kind < kCollectionKinds; ++kind) {
      row.parts.push_back(
          {static_cast<double>((*it)[static_cast<size_t>(kind)]), kKindColours[kind]});
    }
    table.rows.push_back(std::move(row));
  }
  return Drawn(table);
}

std::string PauseParts(const ReportModel& model) {
  BarTable table = {"Where the time of pauses goes", {"Part", "Time", "Share"}, {}, 0};
  const uint64_t all = std::accumulate(model.parts_ns.begin(), model.parts_ns.end(), uint64_t{0});
  for (size_t i = 0; i < model.parts_ns.size(); ++i) {
    const uint64_t ns = model.parts_ns[i];
    table.rows.push_back({NameOf(static_cast<gc::PausePart>(i)),
                          {{static_cast<double>(ns), "k0"}},
                          {Duration(ns), Share(Ratio(ns, all))}});
  }
  return Drawn(table);
}

std::string LongestPauses(const ReportModel& model) {
  std::vector<CollectionRow> rows = model.collections;
  std::stable_sort(rows.begin(), rows.end(), [](const CollectionRow& a, const CollectionRow& b) {
    return a.pause_ns > b.pause_ns;
  });
  constexpr size_t kRows = 20;
  if (rows.size() > kRows) rows.resize(kRows);
  PlainTable table = {
      {"Collection", "At", "Pause", "Expected", "Kind", "Reason", "Cause", "Live", "Freed"}, {}};
  for (const CollectionRow& row : rows) {
    table.rows.push_back({Count(row.number), Duration(row.at_ns), Duration(row.pause_ns),
                          Duration(row.expected_ns), NameOf(row.kind), NameOf(row.reason),
                          NameOf(row.cause), ByteCount(row.live_bytes),
                          ByteCount(row.freed_bytes)});
  }
  return DrawnFolded(table, "The longest pauses");
}

std::string Threads(const ReportModel& model) {
  PlainTable table = {{"Thread", "Number", "Role", "Begins", "Stalls", "Stalled"}, {}};
  constexpr size_t kMost = 1000;
  for (const auto& [number, thread] : model.threads) {
    if (table.rows.size() == kMost) break;
    table.rows.push_back({thread.name, std::to_string(thread.tid), NameOf(thread.role),
                          Duration(thread.life.begin_ns), Count(thread.stalls.size()),
                          Duration(LengthOf(thread.stalls))});
  }
  return DrawnFolded(table, "Threads");
}

}  // namespace

std::string SummaryPanel(const ReportModel& model) {
  const std::vector<uint64_t> times = PauseTimes(model);
  const uint64_t paused_ns = std::accumulate(times.begin(), times.end(), uint64_t{0});
  uint64_t freed = 0;
  for (const CollectionRow& row : model.collections) freed += row.freed_bytes;
  const auto mutators = static_cast<uint64_t>(std::count_if(
      model.threads.begin(), model.threads.end(),
      [](const auto& entry) { return entry.second.role == platform::TraceRole::kMutator; }));
  const uint64_t live = model.collections.empty() ? 0 : model.collections.back().live_bytes;
  const std::string tracking =
      !model.tracking.is_known ? "not known" : platform::TraitsOf(model.tracking.kind).name;
  std::vector<std::pair<const char*, std::string>> figures = {
      {"Run", Duration(model.run_ns)},
      {"Collections", Count(model.collections.size())},
      {"Paused", Duration(paused_ns) + " (" + Share(Ratio(paused_ns, model.run_ns)) + ")"},
      {"Longest pause", Duration(Quantile(times, 1))},
      {"Median pause", Duration(Quantile(times, 0.5))},
      {"99 % of pauses within", Duration(Quantile(times, 0.99))},
      {"Longest stall", Duration(Quantile(model.stall_ns, 1))},
      {"99.9 % of stalls within", Duration(Quantile(model.stall_ns, 0.999))},
      {"Live at the last collection", ByteCount(live)},
      {"Most resident", ByteCount(model.most_resident_bytes)},
      {"Freed", ByteCount(freed)},
      {"Threads of the program", Count(mutators)},
      {"Markers", model.Text("markers")},
      {"Mode", model.Text("mode")},
      {"Page policy", model.Text("policy")},
      {"Write tracking", tracking},
  };
  if (!model.inspections.empty()) {
    figures.push_back({"Stopped for snapshots and reports of leaks",
                       Duration(LengthOf(model.inspections)) + ", in no other figure"});
  }
  return FigureList(figures) + Threads(model);
}

std::string AdvicePanel(const ReportModel& model) {
  std::string out;
  for (const Advice& advice : Advise(model)) {
    out += AdviceBox(advice.rule, advice.title, advice.evidence, advice.action, advice.document);
  }
  return out.empty() ? Paragraph("Nothing stands out.") : out;
}

std::string PausesPanel(const ReportModel& model) {
  if (model.collections.empty()) return Paragraph("There was no collection.");
  return Soft(
             "One point for each collection, at its end; both scales can be zoomed. Where there "
             "are more points than columns of the picture, the shortest and the longest pause of "
             "each column are kept.") +
         ChartPlace("pauses-chart", "Pauses over time") + LongestPauses(model) +
         "<h3>Histogram</h3>\n" + DrawnKeys(KindKeys()) + Histogram(model) + "<h3>Parts</h3>\n" +
         PauseParts(model);
}

std::string UtilisationPanel(const ReportModel& model) {
  const std::vector<UtilisationPoint> curve = UtilisationCurve(model);
  if (curve.empty()) return Paragraph("The trace is too short.");
  const auto scale = [](uint64_t ns) { return std::log10(static_cast<double>(ns)); };
  Plot plot = {"Minimum mutator utilisation by window",
               {{"pauses", {}}, {"stalls", {}}},
               scale(curve.front().window_ns),
               scale(curve.back().window_ns),
               {},
               "window"};
  PlainTable table = {{"Window", "Without pauses", "Without stalls"}, {}};
  for (const UtilisationPoint& point : curve) {
    plot.curves[0].points.push_back({scale(point.window_ns), point.of_pauses});
    plot.curves[1].points.push_back({scale(point.window_ns), point.of_stalls});
    table.rows.push_back(
        {Duration(point.window_ns), Share(point.of_pauses), Share(point.of_stalls)});
  }
  for (uint64_t decade = 100'000; decade <= curve.back().window_ns; decade *= 10) {
    const bool whole = decade < 1'000'000;
    plot.x_ticks.push_back({scale(decade), whole ? "0.1 ms"
                                           : decade < 1'000'000'000
                                               ? std::to_string(decade / 1'000'000) + " ms"
                                               : std::to_string(decade / 1'000'000'000) + " s"});
  }
  return Soft(
             "The least share of time that the program had in any window of that length: time in "
             "which the world was not stopped, and, of the thread that had least, time in which "
             "the thread was not stalled.") +
         DrawnKeys({{"without pauses", "k0"}, {"without stalls (dashed)", "k1"}}) + "<figure>" +
         Drawn(plot) + "</figure>\n" + DrawnFolded(table, "The curves as a table");
}

std::string HeapPanel(const ReportModel& model) {
  if (model.levels.empty()) return Paragraph("The trace has no levels of the heap.");
  PlainTable table = {{"At", "Resident", "Free pages", "Metadata", "Growth limit"}, {}};
  constexpr size_t kRows = 20;
  const size_t step = std::max<size_t>(1, (model.levels.size() + kRows - 1) / kRows);
  for (size_t i = 0; i < model.levels.size(); i += step) {
    const LevelRow& row = model.levels[i];
    table.rows.push_back(
        {Duration(row.at_ns), ByteCount(row.resident_bytes), ByteCount(row.free_bytes),
         ByteCount(row.metadata_bytes),
         row.growth_limit_bytes == 0 ? "none" : ByteCount(row.growth_limit_bytes)});
  }
  return Soft(
             "Live: what a collection found reachable. Free pages are resident and hold no "
             "object. Unswept: pages that a concurrent sweep has still to come to. Returned: "
             "given back to the system after collections, all together.") +
         ChartPlace("heap-chart", "The heap over time") +
         DrawnFolded(table, "Levels of the heap as a table");
}

std::string OccupancyPanel(const ReportModel& model) {
  if (model.classes.empty()) return Paragraph("The trace has no sample of the heap’s pages.");
  std::vector<SizeClassRow> rows = model.classes;
  std::stable_sort(rows.begin(), rows.end(), [](const SizeClassRow& a, const SizeClassRow& b) {
    return a.slot_bytes - 1 < b.slot_bytes - 1;  // 0, the large objects, comes last
  });
  BarTable table = {"Pages by size of slot, at the last sample",
                    {"Slot", "In use", "In pages", "Filled", "Without pointers"},
                    {},
                    0};
  for (const SizeClassRow& row : rows) {
    const auto pages = static_cast<double>(row.pages * model.page_bytes());
    const bool is_large = row.slot_bytes == 0;
    const double used =
        is_large ? pages : std::min(pages, static_cast<double>(row.used_slots * row.slot_bytes));
    table.rows.push_back({is_large ? "large objects" : Count(row.slot_bytes) + " B",
                          {{used, "k0"}, {pages - used, "rest"}},
                          {Bytes(used), Bytes(pages), is_large ? "" : Share(Ratio(used, pages)),
                           Share(Ratio(row.pointer_free_pages, row.pages))}});
  }
  return Soft(
             "A sample of 4,096 pages at most, weighed up; slots in use include dead objects that "
             "no collection has found yet.") +
         DrawnKeys({{"in use", "k0"}, {"free slots", "rest"}}) + Drawn(table);
}

std::string OwnersPanel(const ReportModel& model) {
  if (model.owners.empty()) return Paragraph("The trace has no sample of the heap’s pages.");
  BarTable table = {"Pages of small objects by the heap that owns them, at the last sample",
                    {"Heap", "In use", "In pages", "Filled"},
                    {},
                    0};
  for (const HeapPagesRow& row : model.owners) {
    const auto pages = static_cast<double>(row.pages * model.page_bytes());
    const double used = std::min(pages, static_cast<double>(row.used_bytes));
    table.rows.push_back({(row.owner == 63 ? "63 and more" : Count(row.owner)),
                          {{used, "k2"}, {pages - used, "rest"}},
                          {Bytes(used), Bytes(pages), Share(Ratio(used, pages))}});
  }
  const std::string policy = model.Text("policy");
  return Soft("Policy " + policy + (policy == "lps" ? ", k = " + model.Text("k") : "") +
              ". Each thread has a heap of its own; when it ends, the next thread that starts goes "
              "on with it.") +
         DrawnKeys({{"in use", "k2"}, {"free slots", "rest"}}) + Drawn(table);
}

std::string NodesPanel(const ReportModel& model) {
  if (model.nodes.empty()) {
    return Paragraph("The machine has one memory node, or the run did not come to its end.");
  }
  BarTable table = {"Memory of the process by memory node, at its end",
                    {"Node", "Heap", "Files", "Other"},
                    {},
                    0};
  for (const NodeMemoryRow& row : model.nodes) {
    table.rows.push_back(
        {Count(row.node),
         {{static_cast<double>(row.heap_bytes), "k2"},
          {static_cast<double>(row.file_bytes), "k1"},
          {static_cast<double>(row.other_bytes), "rest"}},
         {ByteCount(row.heap_bytes), ByteCount(row.file_bytes), ByteCount(row.other_bytes)}});
  }
  return Soft(
             "Files are text and data of the program and its libraries. They are where they were "
             "first read, whatever the process is bound to; gleaner numa shows which they are, and "
             "moves them.") +
         DrawnKeys({{"heap", "k2"}, {"files", "k1"}, {"other", "rest"}}) + Drawn(table);
}

std::string MarkersPanel(const ReportModel& model) {
  if (model.markers.empty()) return Paragraph("Nothing was marked.");
  BarTable table = {"Time of each marker while any marked",
                    {"Marker", "Busy", "Looking for work", "Absent", "Steals", "Scanned"},
                    {},
                    0};
  for (const auto& [worker, marker] : model.markers) {
    const uint64_t looking = std::min(marker.looking_ns, marker.mark_ns);
    const uint64_t busy = marker.mark_ns - looking;
    const uint64_t absent =
        model.marking_ns > marker.mark_ns ? model.marking_ns - marker.mark_ns : 0;
    table.rows.push_back({Count(worker),
                          {{static_cast<double>(busy), "k2"},
                           {static_cast<double>(looking), "k1"},
                           {static_cast<double>(absent), "rest"}},
                          {Duration(busy), Duration(looking), Duration(absent),
                           Count(marker.steals), ByteCount(marker.scanned_bytes)}});
  }
  return Soft(
             "Busy: scanning. Looking for work: taking segments from other markers, or waiting "
             "for one. Absent: others marked, and this one had not been woken or had gone.") +
         DrawnKeys({{"busy", "k2"}, {"looking for work", "k1"}, {"absent", "rest"}}) + Drawn(table);
}

std::string PredictionPanel(const PredictedHeap* predicted) {
  if (predicted == nullptr) {
    return Paragraph("No heap snapshot was given: --snapshot.");
  }
  const Prediction& p = predicted->prediction;
  BarTable table = {"The processors' time of a marking, by what it goes into",
                    {"Markers", "Marking", "Speed-up"},
                    {},
                    1};
  for (const PredictedMarking& m : p.markings) {
    table.rows.push_back({std::to_string(m.markers),
                          {{m.work, "k0"},
                           {m.added_misses, "k1"},
                           {m.waiting, "k2"},
                           {m.contention, "k3"},
                           {m.idle, "rest"},
                           {m.waking, "k4"}},
                          {Duration(static_cast<uint64_t>(m.mark_ns)), Decimal(m.speed_up)}});
  }
  std::string out =
      Paragraph("Predicted for the snapshot's " + Count(p.objects) + " objects on " +
                predicted->machine.name + " (" + predicted->machine.description + ").") +
      DrawnKeys({{"marking", "k0"},
                 {"misses that steals add", "k1"},
                 {"waiting for memory", "k2"},
                 {"contention", "k3"},
                 {"no work", "rest"},
                 {"waking", "k4"}}) +
      Drawn(table);
  for (const std::string& sentence : AdviceOf(p, predicted->machine)) out += Paragraph(sentence);
  return out;
}

std::string StallsPanel(const ReportModel& model) {
  BarTable table = {
      "Stalls of the program’s threads", {"Cause", "Total", "Stalls", "Mean", "Longest"}, {}, 0};
  for (size_t i = 0; i < model.stalls.size(); ++i) {
    const StallSums& sums = model.stalls[i];
    table.rows.push_back(
        {NameOf(static_cast<platform::StallCause>(i)),
         {{static_cast<double>(sums.total_ns), "k1"}},
         {Duration(sums.total_ns), Count(sums.count),
          Duration(sums.count == 0 ? 0 : sums.total_ns / sums.count), Duration(sums.longest_ns)}});
  }
  const std::vector<uint64_t>& bounds = DurationBounds();
  std::vector<uint64_t> counts(bounds.size() + 1);
  for (const uint64_t ns : model.stall_ns) ++counts[DurationBucketOf(ns)];
  PlainTable histogram = {{"From, below", "Stalls"}, {}};
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] == 0) continue;
    histogram.rows.push_back({(i == 0 ? "0" : Duration(bounds[i - 1])) + " – " +
                                  (i < bounds.size() ? Duration(bounds[i]) : "…"),
                              Count(counts[i])});
  }
  return Soft(
             "A stall is one stretch of time in which one thread worked for the collector or "
             "waited for it, under the weightiest of its causes.") +
         Drawn(table) + DrawnFolded(histogram, "Stalls by how long they took");
}

std::string SitesPanel(const HeapProfile* profile) {
  return profile == nullptr
             ? Paragraph(
                   "There is no heap profile: run with GLEANER_PROFILE=FILE, and give the "
                   "file with --profile.")
             : DrawnProfile(*profile);
}

}  // namespace gleaner::tools
