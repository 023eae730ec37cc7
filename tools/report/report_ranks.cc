#include "tools/report/report_ranks.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "tools/common/text.h"
#include "tools/report/report_drawing.h"
#include "tools/report/report_frame.h"

namespace gleaner::tools {

namespace {

double Ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

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

std::string Summary(const std::vector<RankTrace>& traces, const RunFigures& run, const Sums& sums) {
  const auto [least, most] = std::minmax_element(
      traces.begin(), traces.end(),
      [](const RankTrace& a, const RankTrace& b) { return a.pause_ns < b.pause_ns; });
  uint64_t longest_ns = 0;
  for (const RankTrace& trace : traces) longest_ns = std::max(longest_ns, trace.longest_pause_ns);
  return FigureList({
      {"Ranks", Count(traces.size())},
      {"Run", Duration(sums.run_ns)},
      {"Exchanges", Count(run.exchanges)},
      {"Held up by one rank", Duration(sums.held_up_ns)},
      {"Of it by collectors", Duration(sums.by_collector_ns)},
      {"Exchanges held up by collectors", Count(run.held_up_by_collector)},
      {"Waited for longest", sums.held_up_ns == 0 ? "none" : PhraseOf(traces[sums.slowest])},
      {"Pauses of a rank", Duration(least->pause_ns) + " – " + Duration(most->pause_ns)},
      {"Longest pause", Duration(longest_ns)},
  });
}

// What deserves attention costs a twentieth of the run or more.
constexpr double kWorthSaying = 0.05;

std::string Advice(const std::vector<RankTrace>& traces, const RunFigures& run, const Sums& sums) {
  std::string out;
  if (Ratio(sums.by_collector_ns, sums.run_ns) >= kWorthSaying) {
    out +=
        AdviceBox("collect-together", "Collections hold up the exchanges",
                  "At " + Count(run.held_up_by_collector) + " of " + Count(run.exchanges) +
                      " exchanges all ranks waited for one that its collector had held, for " +
                      Duration(sums.by_collector_ns) + " in all, " +
                      Share(Ratio(sums.by_collector_ns, sums.run_ns)) + " of the run.",
                  "Have all ranks collect at the same exchange, or make the pauses shorter by the "
                  "concurrent mode.",
                  "docs/reference/tracing.md");
  }
  const RankFigures& slowest = run.ranks[sums.slowest];
  const uint64_t by_itself_ns = slowest.held_up_ns - slowest.by_collector_ns;
  if (Ratio(by_itself_ns, sums.run_ns) >= kWorthSaying && 2 * slowest.last > run.exchanges) {
    out +=
        AdviceBox("slowest-rank", "One rank has more work than the others",
                  "Last at " + Count(slowest.last) + " of " + Count(run.exchanges) +
                      " exchanges was " + PhraseOf(traces[sums.slowest]) + "; the others waited " +
                      Duration(by_itself_ns) + " for its work, apart from its collector.",
                  "Give it less of the work. With more ranks than processors it may only "
                  "have had to wait for a processor.",
                  "docs/reference/tracing.md");
  }
  return out.empty() ? Paragraph("Nothing stands out.") : out;
}

std::string Waiting(const std::vector<RankTrace>& traces, const RunFigures& run) {
  BarTable table = {"How long the others waited for each rank alone",
                    {"Rank", "Last at", "Waited for", "By its collector", "Waited itself"},
                    {},
                    0};
  for (size_t i = 0; i < traces.size(); ++i) {
    const RankFigures& rank = run.ranks[i];
    table.rows.push_back({NameOf(traces[i]),
                          {{static_cast<double>(rank.by_collector_ns), "k1"},
                           {static_cast<double>(rank.held_up_ns - rank.by_collector_ns), "k0"}},
                          {Count(rank.last), Duration(rank.held_up_ns),
                           Duration(rank.by_collector_ns), Duration(rank.waited_ns)}});
  }
  return Soft(
             "From the arrival of the last but one at an exchange to that of the rank itself. By "
             "its collector: of that, what pauses and stalls had held it since the exchange "
             "before.") +
         DrawnKeys({{"by its collector", "k1"}, {"otherwise", "k0"}}) + Drawn(table);
}

std::string Pauses(const std::vector<RankTrace>& traces) {
  BarTable table = {"Pauses of each rank",
                    {"Rank", "Collections", "Pauses", "Longest", "Share of its run"},
                    {},
                    0};
  for (const RankTrace& trace : traces) {
    table.rows.push_back(
        {NameOf(trace),
         {{static_cast<double>(trace.pause_ns), "k1"}},
         {Count(trace.collections), Duration(trace.pause_ns), Duration(trace.longest_pause_ns),
          Share(Ratio(trace.pause_ns, LengthOf({trace.time})))}});
  }
  return Drawn(table);
}

// The share of each of `columns` equal stretches of [begin, end) that the spans cover.
class Coverage {
 public:
  Coverage(size_t columns, const Interval& all)
      : all_(all),
        width_ns_(
            std::max(1.0, static_cast<double>(LengthOf({all})) / static_cast<double>(columns))),
        covered_(columns) {}
  void Add(const Interval& span) {
    const double begin = static_cast<double>(span.begin_ns - all_.begin_ns) / width_ns_;
    const double end = static_cast<double>(span.end_ns - all_.begin_ns) / width_ns_;
    for (auto column = static_cast<size_t>(begin); column < covered_.size(); ++column) {
      const auto left = static_cast<double>(column);
      if (left >= end) break;
      covered_[column] += std::min(end, left + 1) - std::max(begin, left);
    }
  }
  // A path of bars that stand at `bottom` and are `height` high where all is covered.
  std::string Path(const char* colour, double bottom, double height) const {
    std::string out = std::string("<path class=\"") + colour + "\" d=\"";
    char text[64];
    for (size_t i = 0, end; i < covered_.size(); i = end) {
      end = i + 1;
      if (covered_[i] <= 0) continue;
      const double high = Height(covered_[i], height);
      while (end < covered_.size() && Height(covered_[end], height) == high) ++end;
      snprintf(text, sizeof text, "M%zu %.0fv-%.0fh%zuv%.0fz", i, bottom, high, end - i, high);
      out += text;
    }
    return out + "\"/>\n";
  }

 private:
  // In whole units of the picture; what is there is seen, however small.
  static double Height(double covered, double height) {
    return covered <= 0 ? 0 : std::max(1.0, std::round(std::min(1.0, covered) * height));
  }

  const Interval all_;
  const double width_ns_;
  std::vector<double> covered_;
};

std::string TimeLine(const std::vector<RankTrace>& traces) {
  constexpr size_t kColumns = 600;
  constexpr double kRow = 24;
  constexpr double kBar = 18;
  Interval all = traces[0].time;
  for (const RankTrace& trace : traces) {
    all.begin_ns = std::min(all.begin_ns, trace.time.begin_ns);
    all.end_ns = std::max(all.end_ns, trace.time.end_ns);
  }
  const double height = kRow * static_cast<double>(traces.size());
  char size[160];
  snprintf(size, sizeof size,
           "<svg class=\"strips\" viewBox=\"-60 0 %zu %.0f\" role=\"img\" aria-label=\"",
           kColumns + 60, height + 20);
  std::string out = std::string(size) +
                    "Pauses and waiting of each rank over time; the tables have the sums\">\n";
  for (size_t i = 0; i < traces.size(); ++i) {
    const double bottom = kRow * static_cast<double>(i + 1);
    Coverage held(kColumns, all), waiting(kColumns, all);
    for (const Interval& span : traces[i].held) held.Add(span);
    for (const Exchange& exchange : traces[i].exchanges) waiting.Add(exchange.time);
    out += "<text text-anchor=\"end\" x=\"-6\" y=\"" +
           std::to_string(static_cast<int>(bottom) - 4) + "\">" + Escaped(NameOf(traces[i])) +
           "</text>" + waiting.Path("rest", bottom, kBar) + held.Path("k1", bottom, kBar);
  }
  out += "<text x=\"0\" y=\"" + std::to_string(static_cast<int>(height) + 16) +
         "\">0</text><text text-anchor=\"end\" x=\"600\" y=\"" +
         std::to_string(static_cast<int>(height) + 16) + "\">" +
         Escaped(Duration(LengthOf({all}))) + "</text></svg>\n";
  return Soft("The height of a bar is the share of its stretch of time.") +
         DrawnKeys({{"held by its collector", "k1"}, {"in an exchange", "rest"}}) +
         "<figure class=\"scroll\" tabindex=\"0\" role=\"region\" "
         "aria-label=\"Ranks over time\">" +
         out + "</figure>\n";
}

std::string Files(const std::vector<RankTrace>& traces) {
  PlainTable table = {{"Rank", "Process", "Run", "Exchanges", "Trace"}, {}};
  for (const RankTrace& trace : traces) {
    table.rows.push_back({NameOf(trace), std::to_string(trace.process),
                          Duration(LengthOf({trace.time})), Count(trace.exchanges.size()),
                          trace.path + (trace.is_whole ? "" : " (not whole)")});
  }
  return DrawnFolded(table, "The traces");
}

std::string Missing(const std::vector<RankTrace>& traces, const RunFigures& run) {
  std::string out;
  const auto parts = std::count_if(traces.begin(), traces.end(),
                                   [](const RankTrace& trace) { return !trace.is_whole; });
  if (parts != 0) {
    out += MissingNote(Count(static_cast<uint64_t>(parts)) + " of the traces are not whole.");
  }
  const std::string missing = MissingRanks(traces);
  if (!missing.empty()) out += MissingNote("There is no trace of rank " + missing + ".");
  if (!run.mismatch.empty()) out += MissingNote("The traces do not match: " + run.mismatch + ".");
  if (run.exchanges == 0) {
    out += MissingNote(
        "The traces have no exchange in common: link or preload gleaner_mpi.c "
        "(docs/reference/tracing.md).");
  }
  return out;
}

}  // namespace

std::string MakeRanksPage(const std::vector<RankTrace>& traces, const RunFigures& run) {
  const Sums sums = SumsOf(traces, run);
  return Drawn(Page{
      "The collectors of " + Count(traces.size()) + " ranks",
      traces[0].command,
      "The figures are explained in docs/reference/tracing.md.",
      Missing(traces, run),
      {
          {"summary", "Summary", Summary(traces, run, sums) + Files(traces)},
          {"advice", "Advice", Advice(traces, run, sums)},
          {"waiting", "Waiting", Waiting(traces, run)},
          {"pauses", "Pauses", Pauses(traces)},
          {"time", "Over time", TimeLine(traces)},
      },
      "",
  });
}

}  // namespace gleaner::tools
