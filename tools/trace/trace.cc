// The format: "Trace Event Format" of Chromium's catapult project. Times are in microseconds since
// the process began its trace.
#include "tools/trace/trace.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/report/collector_trace.h"
#include "tools/system/whole_file.h"

using namespace gleaner::tools;
using gleaner::platform::TraceEvent;

namespace {

constexpr int kFailed = 1;
constexpr int kIncomplete = 2;

class Converter {
 public:
  Converter(CollectorTrace* trace, FILE* out)
      : trace_(*trace),
        out_(out),
        process_(trace->Number("process")),
        began_ns_(trace->Number("began_ns")) {}

  void Convert() {
    const std::string other = TextOf(trace_.description());
    fprintf(out_, "{\"displayTimeUnit\":\"ms\",\"otherData\":%s,\"traceEvents\":[", other.c_str());
    Put({{"ph", "M"},
         {"pid", process_},
         {"name", "process_name"},
         {"args", {{"name", Rank() + Described("command")}}}});
    const std::map<uint32_t, std::string> names = trace_.ReadThreadNames();
    for (const auto& [thread, name] : names) WriteName(thread, name);
    for (TraceRecord record; trace_.Next(&record);) Write(record);
    fprintf(out_, "\n]}\n");
  }

 private:
  std::string Described(const char* key) const {
    const auto found = trace_.description().find(key);
    return found == trace_.description().end() ? "" : found->second;
  }
  // What stands before the command of one of several processes that were started together.
  std::string Rank() const {
    const std::string rank = Described("rank");
    return rank.empty() ? "" : "rank " + rank + ": ";
  }

  void Put(const Json& event) {
    fprintf(out_, "%s\n%s", separator_, TextOf(event).c_str());
    separator_ = ",";
  }

  void Write(const TraceRecord& record) {
    const TraceEventRow& row = *RowOfTraceEvent(record.event);
    if (record.event == TraceEvent::kThread) {
      return WriteName(record.thread, NameInTrace(record));
    }
    if (row.form == TraceForm::kNote) return;
    static const char* const kPhases[] = {"X", "i", "C"};
    // What lasted while a child was forked began in its parent.
    const uint64_t begin_ns = record.begin_ns < began_ns_ ? began_ns_ : record.begin_ns;
    const uint64_t end_ns = record.begin_ns + record.duration_ns;
    Json event = {{"ph", kPhases[static_cast<int>(row.form)]},
                  {"pid", process_},
                  {"tid", record.thread},
                  {"name", NameOf(row, record)},
                  {"cat", "gleaner"},
                  {"ts", Microseconds(begin_ns - began_ns_)}};
    if (row.form == TraceForm::kSpan) {
      event["dur"] = Microseconds(end_ns < begin_ns ? 0 : end_ns - begin_ns);
    } else if (row.form == TraceForm::kInstant) {
      event["s"] = "t";
    }
    event["args"] = ArgumentsOf(row, record);
    Put(event);
  }

  static double Microseconds(uint64_t ns) { return static_cast<double>(ns) / 1e3; }

  // The event's name; and what the program has named, or its first argument if that is a word.
  static std::string NameOf(const TraceEventRow& row, const TraceRecord& record) {
    std::string name = row.name;
    if (record.event == TraceEvent::kProgram) {
      name += ": " + TextOfTrace(record.arguments, row.arguments.size());
    } else if (row.form != TraceForm::kCounter && !row.arguments.empty() &&
               !row.arguments[0].words.empty()) {
      const char* word = WordOfTrace(row.arguments[0].words, record.arguments[0]);
      name += std::string(": ") + (word != nullptr ? word : "?");
    }
    return name;
  }

  static Json ArgumentsOf(const TraceEventRow& row, const TraceRecord& record) {
    Json arguments = Json::object();
    const size_t count = record.event == TraceEvent::kProgram ? 0 : row.arguments.size();
    for (size_t i = 0; i < count; ++i) {
      const uint64_t argument = record.arguments[i];
      const char* word =
          row.arguments[i].words.empty() ? nullptr : WordOfTrace(row.arguments[i].words, argument);
      arguments[row.arguments[i].name] = word != nullptr ? Json(word) : Json(argument);
    }
    return arguments;
  }

  // Of each thread once.
  void WriteName(uint32_t thread, const std::string& name) {
    if (!named_.insert(thread).second) return;
    Put({{"ph", "M"},
         {"pid", process_},
         {"tid", thread},
         {"name", "thread_name"},
         {"args", {{"name", name}}}});
  }

  CollectorTrace& trace_;
  FILE* const out_;
  const uint64_t process_;
  const uint64_t began_ns_;
  const char* separator_ = "";
  std::set<uint32_t> named_;
};

void Tell(const std::string& message) { gleaner::tools::Tell("trace", message); }

}  // namespace

int ConvertTrace(const TraceOptions& options) {
  CollectorTrace trace;
  if (!trace.Open(options.trace)) {
    Tell(trace.error());
    return kFailed;
  }
  const std::string output = options.output.empty() ? options.trace + ".json" : options.output;
  std::error_code ignored;
  if (output != "-" && std::filesystem::equivalent(options.trace, output, ignored)) {
    Tell(output + ": that is the trace itself");
    return kFailed;
  }
  WholeFile file;
  const bool is_open = file.Open(output);
  if (is_open) Converter(&trace, file.stream()).Convert();
  if (!is_open || !file.Commit()) {
    Tell(output + ": " + strerror(errno));
    return kFailed;
  }
  if (trace.dropped_events() != 0 || trace.untraced_threads() != 0) {
    Tell(std::to_string(trace.dropped_events()) + " events found no room, and " +
         std::to_string(trace.untraced_threads()) + " threads no ring; they are missing");
  }
  const std::string flaw = trace.Flaw(output);
  if (flaw.empty()) return 0;
  Tell(flaw);
  return kIncomplete;
}
