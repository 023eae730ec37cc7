#include "tools/report/ranks.h"

#include <algorithm>
#include <charconv>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <iterator>

#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/report/collector_trace.h"

namespace gleaner::tools {

namespace {

constexpr int kFailed = 1;
constexpr int kIncomplete = 2;

// An exchange of one clock ends on no rank before it has begun on all. Wall clocks of several hosts
// may differ by this much, which NTP keeps even over the internet; two runs differ by more.
constexpr uint64_t kWallClocksDifferNs = 100'000'000;

// MPI_Alltoallv is none: two ranks that send each other nothing do not wait for each other.
bool IsExchange(const std::string& name) {
  static const char* const kNames[] = {
      "MPI_Barrier",  "MPI_Allreduce",      "MPI_Allgather",           "MPI_Allgatherv",
      "MPI_Alltoall", "MPI_Reduce_scatter", "MPI_Reduce_scatter_block"};
  return std::any_of(std::begin(kNames), std::end(kNames),
                     [&](const char* known) { return name == known; });
}

// How much of [begin, end) the spans, which are sorted and disjoint, cover.
uint64_t Covered(const std::vector<Interval>& spans, uint64_t begin, uint64_t end) {
  auto span = std::partition_point(spans.begin(), spans.end(),
                                   [&](const Interval& each) { return each.end_ns <= begin; });
  uint64_t covered = 0;
  for (; span != spans.end() && span->begin_ns < end; ++span) {
    covered += std::min(span->end_ns, end) - std::max(span->begin_ns, begin);
  }
  return covered;
}

// Sets the rank. False if there is one that is no number.
bool TakeRank(const std::string& text, RankTrace* out) {
  if (text.empty()) return true;
  uint64_t rank = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), rank);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  out->rank = std::to_string(rank);
  return true;
}

// Reads a trace. Its times become those of the wall clock if the processes of the run have
// different monotonic clocks. False if the file is no trace. What is wrong with it is in *error.
bool Read(const std::string& path, bool by_wall_clock, RankTrace* out, std::string* error) {
  CollectorTrace trace;
  if (!trace.Open(path)) {
    *error = trace.error();
    return false;
  }
  ReportModel model;
  ReadModel(&trace, &model);
  const uint64_t began_ns =
      std::min(trace.Number(by_wall_clock ? "began_wall_ns" : "began_ns"), UINT64_MAX / 2);
  const auto shared = [began_ns](const Interval& time) {
    return Interval{began_ns + time.begin_ns, began_ns + time.end_ns};
  };
  const bool has_rank = TakeRank(model.Text("rank"), out);
  out->path = path;
  out->command = model.Text("command");
  out->process = trace.Number("process");
  out->has_wall_clock = by_wall_clock;
  out->time = shared({0, model.run_ns});
  out->collections = model.collections.size();
  for (const Interval& pause : model.pauses) {
    out->held.push_back(shared(pause));
    out->pause_ns += LengthOf({pause});
    out->longest_pause_ns = std::max(out->longest_pause_ns, LengthOf({pause}));
  }
  uint32_t exchanging_thread = 0;
  for (const ProgramSpan& span : model.program) {
    if (!IsExchange(span.name)) continue;
    out->exchanges.push_back({span.name, shared(span.time)});
    exchanging_thread = span.thread;
  }
  for (const Interval& wait : model.threads[exchanging_thread].waits) {
    out->held.push_back(shared(wait));
  }
  out->held = Union(std::move(out->held));
  std::sort(out->exchanges.begin(), out->exchanges.end(),
            [](const Exchange& a, const Exchange& b) { return a.time.end_ns < b.time.end_ns; });
  out->is_whole = has_rank && model.error.empty() && model.is_complete && model.dropped_events == 0;
  if (!model.error.empty()) {
    *error = model.error + "; what comes before is used";
  } else if (!has_rank) {
    *error = path + ": the rank is no number; it is left out";
  } else if (!out->is_whole) {
    *error = path + ": the end is missing, or events were dropped; what there is is used";
  }
  return true;
}

// Whether the processes ran on one host, so that one monotonic clock is that of all.
bool HaveOneClock(const std::vector<std::string>& paths) {
  std::string first;
  for (const std::string& path : paths) {
    CollectorTrace trace;
    if (!trace.Open(path)) continue;  // said when it is read
    const auto found = trace.description().find("host");
    const std::string host = found == trace.description().end() ? "" : found->second;
    if (host.empty() || (!first.empty() && host != first)) return false;
    first = host;
  }
  return true;
}

double Ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

void PrintTable(const std::vector<RankTrace>& traces, const RunFigures& run) {
  printf("%-14s %9s %11s %9s %10s %8s %11s %11s %9s\n", "rank", "seconds", "collections",
         "pauses ms", "longest ms", "last at", "held up ms", "by gc ms", "waited ms");
  for (size_t i = 0; i < traces.size(); ++i) {
    const RankTrace& trace = traces[i];
    const RankFigures& rank = run.ranks[i];
    printf("%-14s %9.3f %11" PRIu64 " %9.2f %10.2f %8" PRIu64 " %11.2f %11.2f %9.2f\n",
           NameOf(trace).c_str(), Ms(trace.time.end_ns - trace.time.begin_ns) / 1e3,
           trace.collections, Ms(trace.pause_ns), Ms(trace.longest_pause_ns), rank.last,
           Ms(rank.held_up_ns), Ms(rank.by_collector_ns), Ms(rank.waited_ns));
  }
}

void PrintSummary(const std::vector<RankTrace>& traces, const RunFigures& run) {
  if (run.exchanges == 0) {
    printf(
        "No exchange that all ranks have in common is in the traces "
        "(docs/reference/commands.md#gleaner-ranks).\n");
    return;
  }
  const auto slowest = std::max_element(
      run.ranks.begin(), run.ranks.end(),
      [](const RankFigures& a, const RankFigures& b) { return a.held_up_ns < b.held_up_ns; });
  uint64_t held_up_ns = 0, by_collector_ns = 0;
  for (const RankFigures& rank : run.ranks) {
    held_up_ns += rank.held_up_ns;
    by_collector_ns += rank.by_collector_ns;
  }
  const auto [min, max] = std::minmax_element(
      traces.begin(), traces.end(),
      [](const RankTrace& a, const RankTrace& b) { return a.pause_ns < b.pause_ns; });
  printf("%" PRIu64 " exchanges. The others waited longest for %s: %.2f ms of %.2f ms.\n",
         run.exchanges, PhraseOf(traces[static_cast<size_t>(slowest - run.ranks.begin())]).c_str(),
         Ms(slowest->held_up_ns), Ms(held_up_ns));
  printf("Collections held up %" PRIu64
         " exchanges, by %.2f ms in all. Pauses of a rank add up to "
         "%.2f to %.2f ms.\n",
         run.held_up_by_collector, Ms(by_collector_ns), Ms(min->pause_ns), Ms(max->pause_ns));
}

void PrintJson(const std::vector<RankTrace>& traces, const RunFigures& run) {
  Json ranks = Json::array();
  for (size_t i = 0; i < traces.size(); ++i) {
    const RankTrace& trace = traces[i];
    const RankFigures& rank = run.ranks[i];
    ranks.push_back({{"rank", trace.rank.empty() ? Json() : Json(std::stoull(trace.rank))},
                     {"process", trace.process},
                     {"duration_ns", LengthOf({trace.time})},
                     {"collections", trace.collections},
                     {"pause_ns", trace.pause_ns},
                     {"longest_pause_ns", trace.longest_pause_ns},
                     {"last", rank.last},
                     {"held_up_ns", rank.held_up_ns},
                     {"by_collector_ns", rank.by_collector_ns},
                     {"waited_ns", rank.waited_ns},
                     {"whole", trace.is_whole}});
  }
  Print({{"exchanges", run.exchanges},
         {"held_up_by_collector", run.held_up_by_collector},
         {"ranks", ranks}});
}

// Processes without a rank come first. A rank has no zeros before it.
bool ComesBefore(const RankTrace& a, const RankTrace& b) {
  if (a.rank.size() != b.rank.size()) return a.rank.size() < b.rank.size();
  return a.rank != b.rank ? a.rank < b.rank : a.process < b.process;
}

bool IsSameRank(const RankTrace& a, const RankTrace& b) {
  return a.rank == b.rank &&
         (!a.rank.empty() || (a.process == b.process && a.time.begin_ns == b.time.begin_ns));
}

// Who came last to an exchange, and when.
struct Arrival {
  size_t last = 0;
  uint64_t last_ns = 0;
  uint64_t before_ns = 0;  // of the one before it
};

Arrival ArrivalAt(const std::vector<RankTrace>& traces, size_t n) {
  Arrival arrival;
  for (size_t i = 0; i < traces.size(); ++i) {
    const uint64_t came_ns = traces[i].exchanges[n].time.begin_ns;
    if (came_ns >= arrival.last_ns) {
      arrival = {i, came_ns, arrival.last_ns};
    } else {
      arrival.before_ns = std::max(arrival.before_ns, came_ns);
    }
  }
  return arrival;
}

// Why the n-th exchanges of the traces cannot be the same one; empty if they can.
std::string MismatchAt(const std::vector<RankTrace>& traces, size_t n, const Arrival& arrival) {
  const std::string number = "exchange " + std::to_string(n + 1);
  const RankTrace& last = traces[arrival.last];
  for (const RankTrace& trace : traces) {
    const Exchange& exchange = trace.exchanges[n];
    if (exchange.name != traces[0].exchanges[n].name) {
      return number + " is " + traces[0].exchanges[n].name + " in " + traces[0].path + " and " +
             exchange.name + " in " + trace.path;
    }
    const uint64_t inexact_ns =
        trace.has_wall_clock || last.has_wall_clock ? kWallClocksDifferNs : 0;
    if (exchange.time.end_ns + inexact_ns < arrival.last_ns) {
      return number + " ended in " + trace.path + " before it began in " + last.path +
             ": one of them lacks an exchange, they are of different runs" +
             (inexact_ns != 0 ? ", or the clocks of their hosts differ" : "");
    }
  }
  return "";
}

}  // namespace

bool IsWhole(const std::vector<RankTrace>& traces, const RunFigures& run) {
  return run.mismatch.empty() && MissingRanks(traces).empty() &&
         std::all_of(traces.begin(), traces.end(),
                     [](const RankTrace& trace) { return trace.is_whole; });
}

RunFigures CompareRanks(const std::vector<RankTrace>& traces) {
  RunFigures run;
  run.ranks.resize(traces.size());
  if (traces.size() < 2) return run;
  const auto twice = std::adjacent_find(traces.begin(), traces.end(), IsSameRank);
  if (twice != traces.end()) {
    run.mismatch = PhraseOf(*twice) + " is in " + twice->path + " and in " + (twice + 1)->path;
    return run;
  }
  size_t common = SIZE_MAX;
  for (const RankTrace& trace : traces) common = std::min(common, trace.exchanges.size());
  for (size_t n = 0; n < common; ++n) {
    const Arrival arrival = ArrivalAt(traces, n);
    run.mismatch = MismatchAt(traces, n, arrival);
    if (!run.mismatch.empty()) return run;
    const RankTrace& last = traces[arrival.last];
    RankFigures& of_last = run.ranks[arrival.last];
    const uint64_t held_up_ns = arrival.last_ns - arrival.before_ns;
    // Exchanges of several threads may overlap.
    const uint64_t since_ns =
        std::min(arrival.last_ns, n == 0 ? last.time.begin_ns : last.exchanges[n - 1].time.end_ns);
    const uint64_t by_collector_ns =
        std::min(held_up_ns, Covered(last.held, since_ns, arrival.last_ns));
    ++run.exchanges;
    ++of_last.last;
    of_last.held_up_ns += held_up_ns;
    of_last.by_collector_ns += by_collector_ns;
    run.held_up_by_collector += by_collector_ns != 0 ? 1 : 0;
    for (size_t i = 0; i < traces.size(); ++i) {
      run.ranks[i].waited_ns += arrival.last_ns - traces[i].exchanges[n].time.begin_ns;
    }
  }
  for (const RankTrace& trace : traces) {
    if (trace.exchanges.size() != common) {
      run.mismatch = "the traces have different numbers of exchanges; the first " +
                     std::to_string(common) + " of each are compared";
    }
  }
  return run;
}

std::string MissingRanks(const std::vector<RankTrace>& traces) {
  std::string out;
  uint64_t next = 0;
  for (const RankTrace& trace : traces) {
    if (trace.rank.empty()) continue;
    const uint64_t rank = std::stoull(trace.rank);
    if (rank > next) {
      out += (out.empty() ? "" : ", ") + std::to_string(next);
      if (rank - 1 > next) out += "-" + std::to_string(rank - 1);
    }
    next = rank + 1;
  }
  return out;
}

bool ReadRanks(const std::vector<std::string>& paths, const char* command,
               std::vector<RankTrace>* traces) {
  const auto tell = [command](const std::string& message) { Tell(command, message); };
  traces->resize(paths.size());
  const bool by_wall_clock = !HaveOneClock(paths);
  for (size_t i = 0; i < paths.size(); ++i) {
    std::string error;
    const bool is_read = Read(paths[i], by_wall_clock, &(*traces)[i], &error);
    if (!error.empty()) tell(error);
    if (!is_read) return false;
  }
  std::sort(traces->begin(), traces->end(), ComesBefore);
  const std::string missing = MissingRanks(*traces);
  if (!missing.empty()) tell("no trace of rank " + missing);
  return true;
}

std::string NameOf(const RankTrace& trace) {
  return trace.rank.empty() ? "process " + std::to_string(trace.process) : trace.rank;
}

std::string PhraseOf(const RankTrace& trace) {
  return (trace.rank.empty() ? "" : "rank ") + NameOf(trace);
}

int CompareRanksOf(const RanksOptions& options) {
  std::vector<RankTrace> traces;
  if (!ReadRanks(options.traces, "ranks", &traces)) return kFailed;
  const RunFigures run = CompareRanks(traces);
  if (!run.mismatch.empty()) Tell("ranks", run.mismatch);
  if (options.json) {
    PrintJson(traces, run);
  } else {
    PrintTable(traces, run);
    PrintSummary(traces, run);
  }
  return IsWhole(traces, run) ? 0 : kIncomplete;
}

}  // namespace gleaner::tools
