#include "tools/report/report_ranks.h"

#include <algorithm>
#include <cmath>

#include "tools/common/text.h"
#include "tools/report/report_blocks.h"

namespace gleaner::tools {

namespace {

double Of(uint64_t number) { return static_cast<double>(number); }
double ShareOf(uint64_t a, uint64_t b) { return Ratio(Of(a), Of(b)); }

struct Sums {
  uint64_t run_ns = 0;  // of the longest trace
  uint64_t held_up_ns = 0;
  uint64_t by_collector_ns = 0;
  size_t slowest = 0;  // the rank that the others waited longest for
};

Sums SumsOf(const std::vector<RankTrace>& traces, const RunFigures& run) {
  Sums sums;
  for (size_t i = 0; i < traces.size(); ++i) {
    sums.run_ns = std::max(sums.run_ns, LengthOf({traces[i].time}));
    sums.held_up_ns += run.ranks[i].held_up_ns;
    sums.by_collector_ns += run.ranks[i].by_collector_ns;
    if (run.ranks[i].held_up_ns > run.ranks[sums.slowest].held_up_ns) sums.slowest = i;
  }
  return sums;
}

Json Summary(const std::vector<RankTrace>& traces, const RunFigures& run, const Sums& sums) {
  uint64_t min_ns = UINT64_MAX;
  uint64_t max_ns = 0;
  uint64_t longest_ns = 0;
  std::vector<Cells> files;
  for (const RankTrace& trace : traces) {
    min_ns = std::min(min_ns, trace.pause_ns);
    max_ns = std::max(max_ns, trace.pause_ns);
    longest_ns = std::max(longest_ns, trace.longest_pause_ns);
    files.push_back({NameOf(trace), std::to_string(trace.process), Duration(LengthOf({trace.time})),
                     Count(trace.exchanges.size()),
                     trace.path + (trace.is_whole ? "" : " (not whole)")});
  }
  return {
      Figures({
          {"Ranks", Count(traces.size())},
          {"Run", Duration(sums.run_ns)},
          {"Exchanges", Count(run.exchanges)},
          {"Held up by one rank", Duration(sums.held_up_ns)},
          {"Of it by collectors", Duration(sums.by_collector_ns)},
          {"Exchanges held up by collectors", Count(run.held_up_by_collector)},
          {"Waited for longest", sums.held_up_ns == 0 ? "none" : PhraseOf(traces[sums.slowest])},
          {"Pauses of a rank", Duration(min_ns) + " – " + Duration(max_ns)},
          {"Longest pause", Duration(longest_ns)},
      }),
      Table("The traces", {"Rank", "Process", "Run", "Exchanges", "Trace"}, files)};
}

// What deserves attention costs a twentieth of the run or more.
constexpr double kWorthSaying = 0.05;

Json Advice(const std::vector<RankTrace>& traces, const RunFigures& run, const Sums& sums) {
  Json boxes = Json::array();
  const double by_collectors = ShareOf(sums.by_collector_ns, sums.run_ns);
  if (by_collectors >= kWorthSaying) {
    boxes.push_back(AdviceBox(
        "collect-together", "Collections hold up the exchanges",
        "At " + Count(run.held_up_by_collector) + " of " + Count(run.exchanges) +
            " exchanges all ranks waited for one that its collector had held, for " +
            Duration(sums.by_collector_ns) + " in all, " + Share(by_collectors) + " of the run.",
        "Have all ranks collect at the same exchange, or make the pauses shorter by the "
        "concurrent mode.",
        "docs/reference/commands.md#collecting-together"));
  }
  const RankFigures& slowest = run.ranks[sums.slowest];
  const uint64_t by_itself_ns = slowest.held_up_ns - slowest.by_collector_ns;
  if (ShareOf(by_itself_ns, sums.run_ns) >= kWorthSaying && 2 * slowest.last > run.exchanges) {
    boxes.push_back(
        AdviceBox("slowest-rank", "One rank has more work than the others",
                  "Last at " + Count(slowest.last) + " of " + Count(run.exchanges) +
                      " exchanges was " + PhraseOf(traces[sums.slowest]) + "; the others waited " +
                      Duration(by_itself_ns) + " for its work, apart from its collector.",
                  "Give it less of the work. With more ranks than processors it may only "
                  "have had to wait for a processor.",
                  "docs/reference/commands.md#gleaner-ranks"));
  }
  if (boxes.empty()) boxes.push_back(Text("Nothing stands out."));
  return boxes;
}

Json Waiting(const std::vector<RankTrace>& traces, const RunFigures& run) {
  std::vector<BarRow> rows;
  for (size_t i = 0; i < traces.size(); ++i) {
    const RankFigures& rank = run.ranks[i];
    rows.push_back(
        {NameOf(traces[i]),
         {{Of(rank.by_collector_ns), "k1"}, {Of(rank.held_up_ns - rank.by_collector_ns), "k0"}},
         {Count(rank.last), Duration(rank.held_up_ns), Duration(rank.by_collector_ns),
          Duration(rank.waited_ns)}});
  }
  return {Soft("From the arrival of the last but one at an exchange to that of the rank itself. By "
               "its collector: of that, what pauses and stalls had held it since the exchange "
               "before."),
          Bars("How long the others waited for each rank alone",
               {{"by its collector", "k1"}, {"otherwise", "k0"}},
               {"Rank", "Last at", "Waited for", "By its collector", "Waited itself"}, rows)};
}

Json Pauses(const std::vector<RankTrace>& traces) {
  std::vector<BarRow> rows;
  rows.reserve(traces.size());
  for (const RankTrace& trace : traces) {
    rows.push_back(
        {NameOf(trace),
         {{Of(trace.pause_ns), "k1"}},
         {Count(trace.collections), Duration(trace.pause_ns), Duration(trace.longest_pause_ns),
          Share(ShareOf(trace.pause_ns, LengthOf({trace.time})))}});
  }
  return Json::array(
      {Bars("Pauses of each rank", {},
            {"Rank", "Collections", "Pauses", "Longest", "Share of its run"}, rows)});
}

// The share of each of some equal stretches of `all` that spans cover, in whole percent. What is
// there is seen, however small.
class Coverage {
 public:
  explicit Coverage(const Interval& all)
      : all_(all), width_ns_(std::max(1.0, Of(LengthOf({all})) / kColumns)) {}
  void Add(const Interval& span) {
    const double begin = Of(span.begin_ns - all_.begin_ns) / width_ns_;
    const double end = Of(span.end_ns - all_.begin_ns) / width_ns_;
    for (auto column = static_cast<size_t>(begin); column < kColumns; ++column) {
      const auto left = static_cast<double>(column);
      if (left >= end) break;
      covered_[column] += std::min(end, left + 1) - std::max(begin, left);
    }
  }
  std::vector<int> Percent() const {
    std::vector<int> all;
    for (const double covered : covered_) {
      all.push_back(static_cast<int>(std::ceil(100 * std::min(1.0, covered))));
    }
    return all;
  }

 private:
  static constexpr size_t kColumns = 600;
  const Interval all_;
  const double width_ns_;
  std::vector<double> covered_ = std::vector<double>(kColumns);
};

Json TimeLine(const std::vector<RankTrace>& traces) {
  Interval all = traces[0].time;
  for (const RankTrace& trace : traces) {
    all.begin_ns = std::min(all.begin_ns, trace.time.begin_ns);
    all.end_ns = std::max(all.end_ns, trace.time.end_ns);
  }
  Json rows = Json::array();
  for (const RankTrace& trace : traces) {
    Coverage held(all), waiting(all);
    for (const Interval& span : trace.held) held.Add(span);
    for (const Exchange& exchange : trace.exchanges) waiting.Add(exchange.time);
    rows.push_back({{"label", NameOf(trace)}, {"rest", waiting.Percent()}, {"k1", held.Percent()}});
  }
  const Pairs keys = {{"held by its collector", "k1"}, {"in an exchange", "rest"}};
  return {Soft("The height of a bar is the share of its stretch of time."),
          {{"strips",
            {{"label", "Pauses and waiting of each rank over time; the tables have the sums"},
             {"keys", keys},
             {"end", Duration(LengthOf({all}))},
             {"rows", rows}}}}};
}

std::vector<std::string> Missing(const std::vector<RankTrace>& traces, const RunFigures& run) {
  std::vector<std::string> notes;
  const auto parts = std::count_if(traces.begin(), traces.end(),
                                   [](const RankTrace& trace) { return !trace.is_whole; });
  if (parts != 0) {
    notes.push_back(Count(static_cast<uint64_t>(parts)) + " of the traces are not whole.");
  }
  const std::string missing = MissingRanks(traces);
  if (!missing.empty()) notes.push_back("There is no trace of rank " + missing + ".");
  if (!run.mismatch.empty()) notes.push_back("The traces do not match: " + run.mismatch + ".");
  if (run.exchanges == 0) {
    notes.emplace_back(
        "The traces have no exchange in common: link or preload gleaner_mpi.c "
        "(docs/reference/commands.md#gleaner-ranks).");
  }
  return notes;
}

}  // namespace

std::string MakeRanksPage(const std::vector<RankTrace>& traces, const RunFigures& run) {
  const Sums sums = SumsOf(traces, run);
  return PageOf({
      {"heading", "The collectors of " + Count(traces.size()) + " ranks"},
      {"command", traces[0].command},
      {"origin", "The figures are explained in docs/reference/commands.md#gleaner-ranks."},
      {"notes", Missing(traces, run)},
      {"sections",
       {
           Section("summary", "Summary", Summary(traces, run, sums)),
           Section("advice", "Advice", Advice(traces, run, sums)),
           Section("waiting", "Waiting", Waiting(traces, run)),
           Section("pauses", "Pauses", Pauses(traces)),
           Section("time", "Over time", TimeLine(traces)),
       }},
  });
}

}  // namespace gleaner::tools
