#include "tools/report/report_model.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gleaner::tools {

using platform::TraceEvent;

namespace {

// Times of a damaged trace may be anything. None is later than this, 11 days, after the beginning.
constexpr uint64_t kMaxNs = 1'000'000'000'000'000;

class Reader {
 public:
  Reader(CollectorTrace* trace, ReportModel* model)
      : trace_(*trace), model_(*model), began_ns_(trace->Number("began_ns")) {}

  void Read() {
    model_.description = trace_.description();
    for (TraceRecord record; trace_.Next(&record);) Take(record);
    model_.is_complete = trace_.is_complete();
    model_.dropped_events = trace_.dropped_events();
    model_.untraced_threads = trace_.untraced_threads();
    model_.error = trace_.error();
    Finish();
  }

 private:
  struct Part {
    Interval span;
    uint64_t number;  // of the part, or the worker
  };
  struct Mark {
    Interval span;
    uint64_t worker;
    uint64_t steals;
    uint64_t scanned_bytes;
  };
  struct Stall {
    Interval span;
    uint64_t cause;
    ThreadRow* thread;
  };

  uint64_t SinceBegan(uint64_t ns) const {
    return ns < began_ns_ ? 0 : std::min(ns - began_ns_, kMaxNs);
  }
  static uint64_t Sum(uint64_t a, uint64_t b) { return a + b < a ? ~uint64_t{0} : a + b; }
  Interval SpanOf(const TraceRecord& record) const {
    return {SinceBegan(record.begin_ns), SinceBegan(Sum(record.begin_ns, record.duration_ns))};
  }
  template <class Enum>
  static Enum Within(uint64_t number, Enum last) {
    return number <= static_cast<uint64_t>(last) ? static_cast<Enum>(number) : last;
  }

  void Take(const TraceRecord& record) {
    const Interval span = SpanOf(record);
    model_.run_ns = std::max(model_.run_ns, span.end_ns);
    const auto [entry, is_new] = model_.threads.try_emplace(record.thread);
    ThreadRow& thread = entry->second;
    if (is_new || span.begin_ns < thread.life.begin_ns) thread.life.begin_ns = span.begin_ns;
    thread.life.end_ns = std::max(thread.life.end_ns, span.end_ns);
    const uint64_t* arguments = record.arguments;
    switch (record.event) {
      case TraceEvent::kThread:
        return TakeThread(record, &thread);
      case TraceEvent::kWaited:
        model_.waited_ns = Sum(model_.waited_ns, std::min(arguments[0], kMaxNs));
        return;
      case TraceEvent::kThreadEnd:
        thread.has_ended = true;
        return;
      case TraceEvent::kPausePart:
        if (arguments[0] < gc::kPauseParts) parts_.push_back({span, arguments[0]});
        return;
      case TraceEvent::kPause:
        return model_.pauses.push_back(span);
      case TraceEvent::kCollection:
        return TakeCollection(span.begin_ns, arguments);
      case TraceEvent::kMark:
        return marks_.push_back({span, arguments[0], arguments[1], arguments[2]});
      case TraceEvent::kIdle:
        return idles_.push_back({span, arguments[0]});
      case TraceEvent::kStall:
        return stalls_.push_back({span, arguments[0], &thread});
      case TraceEvent::kReturned:
        return model_.returned.push_back({span.end_ns, static_cast<double>(arguments[0])});
      case TraceEvent::kProgram:
        return model_.program.push_back(
            {TextOfTrace(arguments, record.count), record.thread, span});
      case TraceEvent::kHeap:
        RecordResident(arguments[0]);
        return model_.levels.push_back({span.begin_ns, arguments[0], arguments[1], arguments[2],
                                        platform::TracedLimit(arguments[3])});
      case TraceEvent::kUnswept:
        return model_.unswept.push_back({span.begin_ns, static_cast<double>(arguments[0])});
      default:
        return TakeSample(record);
    }
  }

  void TakeThread(const TraceRecord& record, ThreadRow* thread) {
    char name[17] = {};
    memcpy(name, record.arguments + 2, 16);
    thread->name = name;
    thread->tid = record.arguments[0];
    thread->role = Within(record.arguments[1], platform::TraceRole::kDriver);
  }

  void TakeCollection(uint64_t at_ns, const uint64_t* a) {
    CollectionRow row;
    row.at_ns = at_ns;
    row.number = a[0];
    row.cause = Within(a[1], gc::Cause::kInspection);
    row.kind = Within(a[2], gc::CollectionKind::kMinor);
    row.reason = Within(a[3], gc::Reason::kDearCycle);
    row.pause_ns = std::min(a[4], kMaxNs);
    row.expected_ns = std::min(a[5], kMaxNs);
    row.live_bytes = a[6];
    row.live_objects = a[7];
    row.freed_bytes = a[8];
    row.resident_bytes = a[9];
    row.steals = a[12];
    row.finalizable = a[13];
    RecordResident(row.resident_bytes);
    if (row.cause == gc::Cause::kInspection) {
      model_.inspections.push_back({at_ns - std::min(at_ns, row.pause_ns), at_ns});
    } else {
      model_.collections.push_back(row);
    }
  }

  void RecordResident(uint64_t bytes) {
    model_.max_resident_bytes = std::max(model_.max_resident_bytes, bytes);
  }

  void AddMark(const Mark& mark) {
    MarkerRow& marker = model_.markers[mark.worker];
    marker.spans.push_back(mark.span);
    marker.mark_ns += LengthOf({mark.span});
    marker.steals += mark.steals;
    marker.scanned_bytes += mark.scanned_bytes;
  }

  void AddStall(const Stall& stall) {
    const uint64_t ns = LengthOf({stall.span});
    stall.thread->stalls.push_back(stall.span);
    if (stall.cause != static_cast<uint64_t>(platform::StallCause::kPause)) {
      stall.thread->waits.push_back(stall.span);
    }
    model_.stall_ns.push_back(ns);
    if (stall.cause >= model_.stalls.size()) return;
    StallSums& sums = model_.stalls[stall.cause];
    ++sums.count;
    sums.total_ns += ns;
    sums.longest_ns = std::max(sums.longest_ns, ns);
  }

  // The rows of one sample have the same time.
  void BeginSampleAt(uint64_t ns) {
    if (ns == sampled_ns_) return;
    sampled_ns_ = ns;
    model_.classes.clear();
    model_.owners.clear();
  }

  void TakeSample(const TraceRecord& record) {
    const uint64_t* a = record.arguments;
    if (record.event == TraceEvent::kSizeClass) {
      BeginSampleAt(record.begin_ns);
      model_.classes.push_back({a[0], a[1], a[2], a[3]});
    } else if (record.event == TraceEvent::kHeapPages) {
      BeginSampleAt(record.begin_ns);
      model_.owners.push_back({a[0], a[1], a[2]});
    } else if (record.event == TraceEvent::kNodeMemory) {
      model_.nodes.push_back({a[0], a[1], a[2], a[3]});
    } else if (record.event == TraceEvent::kTracking) {
      const size_t kind = std::min<size_t>(a[0], platform::kTrackingKinds - 1);
      const char* reason = reinterpret_cast<const char*>(a + 5);
      model_.tracking = {true,
                         static_cast<platform::TrackingKind>(kind),
                         a[1] != 0,
                         a[2] != 0,
                         a[3] != 0,
                         a[4],
                         std::string(reason, strnlen(reason, (record.count - 5) * sizeof *a))};
    }
  }

  void AddAllButInspected() {
    const std::vector<Interval>& inspections = model_.inspections =
        Union(std::move(model_.inspections));
    const auto is_inspected = [&inspections](const Interval& span) {
      return Overlap(inspections, span);
    };
    std::erase_if(model_.pauses, is_inspected);
    for (const Part& part : parts_) {
      if (!is_inspected(part.span)) model_.parts_ns[part.number] += LengthOf({part.span});
    }
    for (const Part& idle : idles_) {
      if (!is_inspected(idle.span)) model_.markers[idle.number].looking_ns += LengthOf({idle.span});
    }
    for (const Mark& mark : marks_) {
      if (!is_inspected(mark.span)) AddMark(mark);
    }
    for (const Stall& stall : stalls_) {
      if (!is_inspected(stall.span)) AddStall(stall);
    }
  }

  // Records of different threads are not in order.
  void Finish() {
    const auto by_time = [](const auto& a, const auto& b) { return a.at_ns < b.at_ns; };
    std::sort(model_.collections.begin(), model_.collections.end(), by_time);
    std::sort(model_.levels.begin(), model_.levels.end(), by_time);
    std::sort(model_.unswept.begin(), model_.unswept.end(), by_time);
    std::sort(model_.returned.begin(), model_.returned.end(), by_time);
    double sum = 0;
    for (Point& point : model_.returned) point.value = sum += point.value;
    AddAllButInspected();
    model_.pauses = Union(std::move(model_.pauses));
    std::vector<Interval> all;
    for (auto& [worker, marker] : model_.markers) {
      all.insert(all.end(), marker.spans.begin(), marker.spans.end());
    }
    model_.marking_ns = LengthOf(Union(std::move(all)));
    for (auto& [number, thread] : model_.threads) {
      thread.stalls = Union(std::move(thread.stalls));
      const bool is_of_program = thread.role == platform::TraceRole::kMutator;
      if (is_of_program && !thread.has_ended) thread.life.end_ns = model_.run_ns;
    }
    std::erase_if(model_.threads, [](const auto& entry) { return entry.first == 0; });
  }

  CollectorTrace& trace_;
  ReportModel& model_;
  const uint64_t began_ns_;
  uint64_t sampled_ns_ = 0;
  // What may turn out to be of an inspection.
  std::vector<Part> parts_;  // of pauses
  std::vector<Part> idles_;
  std::vector<Mark> marks_;
  std::vector<Stall> stalls_;
};

}  // namespace

uint64_t ReportModel::Number(const char* key, uint64_t otherwise) const {
  const auto found = description.find(key);
  const uint64_t number =
      found == description.end() ? 0 : strtoull(found->second.c_str(), nullptr, 10);
  return number == 0 ? otherwise : number;
}

const std::string& ReportModel::Text(const char* key) const {
  static const std::string nothing;
  const auto found = description.find(key);
  return found == description.end() ? nothing : found->second;
}

void ReadModel(CollectorTrace* trace, ReportModel* model) { Reader(trace, model).Read(); }

bool Overlap(const std::vector<Interval>& intervals, const Interval& span) {
  const auto first =
      std::partition_point(intervals.begin(), intervals.end(),
                           [&](const Interval& each) { return each.end_ns <= span.begin_ns; });
  return first != intervals.end() && first->begin_ns < span.end_ns;
}

std::vector<Interval> Union(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(),
            [](const Interval& a, const Interval& b) { return a.begin_ns < b.begin_ns; });
  std::vector<Interval> joined;
  for (const Interval& each : intervals) {
    if (!joined.empty() && each.begin_ns <= joined.back().end_ns) {
      joined.back().end_ns = std::max(joined.back().end_ns, each.end_ns);
    } else {
      joined.push_back(each);
    }
  }
  return joined;
}

uint64_t LengthOf(const std::vector<Interval>& intervals) {
  uint64_t ns = 0;
  for (const Interval& each : intervals) ns += each.end_ns - each.begin_ns;
  return ns;
}

}  // namespace gleaner::tools
