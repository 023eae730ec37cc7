#include "tools/report/report_series.h"

#include <algorithm>
#include <cstdio>

#include "tools/common/text.h"
#include "tools/report/report_figures.h"

namespace gleaner::tools {

namespace {

constexpr size_t kColumns = 1000;

double Seconds(uint64_t ns) { return static_cast<double>(ns) / 1e9; }

std::string Number(double value) {
  char text[64];
  snprintf(text, sizeof text, "%.6g", value);
  return text;
}

struct Series {
  const char* name;
  const char* colour;
  const char* form;  // "line", "step", "dashed" or "points"
  bool hidden;
  std::vector<Point> points;
};

std::string Json(const Series& series) {
  std::string times;
  std::string values;
  for (const Point& point : Thin(series.points, kColumns)) {
    const char* separator = times.empty() ? "" : ",";
    char at[64];
    snprintf(at, sizeof at, "%.6f", Seconds(point.at_ns));
    times += separator + std::string(at);
    values += separator + Number(point.value);
  }
  return "{\"name\":" + Quoted(series.name) + ",\"colour\":" + Quoted(series.colour) +
         ",\"form\":" + Quoted(series.form) + ",\"hidden\":" + (series.hidden ? "true" : "false") +
         ",\"t\":[" + times + "],\"v\":[" + values + "]}";
}

std::string Json(const char* id, const char* unit, bool logscale, uint64_t run_ns,
                 const std::vector<Series>& all) {
  std::string out = "{\"id\":" + Quoted(id) + ",\"unit\":" + Quoted(unit) +
                    ",\"run\":" + Number(Seconds(run_ns)) +
                    ",\"logscale\":" + (logscale ? "true" : "false") + ",\"series\":[";
  const char* separator = "";
  for (const Series& series : all) {
    if (series.points.empty()) continue;
    out += separator + Json(series);
    separator = ",";
  }
  return out + "]}";
}

std::string PauseSeries(const ReportModel& model) {
  static const char* const kColours[] = {"--c0", "--c2", "--c1", "--c3"};
  std::vector<Series> all;
  for (int kind = 0; kind < kCollectionKinds; ++kind) {
    Series series = {
        NameOf(static_cast<gc::CollectionKind>(kind)), kColours[kind], "points", false, {}};
    for (const CollectionRow& row : model.collections) {
      if (static_cast<int>(row.kind) != kind || row.pause_ns == 0) continue;
      series.points.push_back({row.at_ns, static_cast<double>(row.pause_ns) / 1e6});
    }
    all.push_back(std::move(series));
  }
  if (model.tracking.goal_ns != 0 && !model.collections.empty()) {
    const double goal = static_cast<double>(model.tracking.goal_ns) / 1e6;
    all.push_back({"pause goal", "--soft", "dashed", false, {{0, goal}, {model.run_ns, goal}}});
  }
  return Json("pauses-chart", "ms", true, model.run_ns, all);
}

std::string HeapSeries(const ReportModel& model) {
  constexpr double kMb = 1e6;
  Series live = {"live", "--c2", "step", false, {}};
  for (const CollectionRow& row : model.collections) {
    live.points.push_back({row.at_ns, static_cast<double>(row.live_bytes) / kMb});
  }
  if (!live.points.empty()) live.points.push_back({model.run_ns, live.points.back().value});
  Series resident = {"resident", "--c0", "line", false, {}};
  Series free = {"free pages", "--c5", "line", false, {}};
  Series limit = {"growth limit", "--c3", "dashed", false, {}};
  double most = 0;
  double highest_limit = 0;
  for (const LevelRow& row : model.levels) {
    const auto resident_mb = static_cast<double>(row.resident_bytes) / kMb;
    most = std::max(most, resident_mb);
    resident.points.push_back({row.at_ns, resident_mb});
    free.points.push_back({row.at_ns, static_cast<double>(row.free_bytes) / kMb});
    if (row.growth_limit_bytes == 0) continue;  // the heap may grow as it likes
    const auto limit_mb = static_cast<double>(row.growth_limit_bytes) / kMb;
    highest_limit = std::max(highest_limit, limit_mb);
    limit.points.push_back({row.at_ns, limit_mb});
  }
  limit.hidden = highest_limit > 3 * most;
  Series unswept = {"unswept", "--c1", "line", false, {}};
  for (const Point& point : model.unswept) {
    unswept.points.push_back({point.at_ns, point.value / kMb});
  }
  Series returned = {"returned so far", "--c4", "step", true, {}};
  for (const Point& point : model.returned) {
    returned.points.push_back({point.at_ns, point.value / kMb});
  }
  return Json("heap-chart", "MB", false, model.run_ns,
              {live, resident, free, unswept, limit, returned});
}

}  // namespace

std::string SeriesOf(const ReportModel& model) {
  const std::string json = "[" + PauseSeries(model) + ",\n" + HeapSeries(model) + "]";
  std::string out;
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace gleaner::tools
