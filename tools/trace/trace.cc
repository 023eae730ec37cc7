// The format: "Trace Event Format" of Chromium's catapult project. Times are in microseconds since
// the process began its trace.
#include "tools/trace/trace.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <set>

#include "tools/common/text.h"
#include "tools/report/collector_trace.h"
#include "tools/system/whole_file.h"

namespace {

using gleaner::platform::TraceEvent;
using gleaner::tools::CollectorTrace;
using gleaner::tools::Quoted;
using gleaner::tools::RowOfTraceEvent;
using gleaner::tools::TextOfTrace;
using gleaner::tools::TraceEventRow;
using gleaner::tools::TraceForm;
using gleaner::tools::TraceRecord;
using gleaner::tools::WholeFile;
using gleaner::tools::WordOfTrace;

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
    fprintf(out_, "{\"displayTimeUnit\":\"ms\",\"otherData\":{");
    const char* separator = "";
    for (const auto& [key, value] : trace_.description()) {
      fprintf(out_, "%s%s:%s", separator, Quoted(key).c_str(), Quoted(value).c_str());
      separator = ",";
    }
    fprintf(out_, "},\"traceEvents\":[\n");
    const auto command = trace_.description().find("command");
    fprintf(
        out_, "{\"ph\":\"M\",\"pid\":%" PRIu64 ",\"name\":\"process_name\",\"args\":{\"name\":%s}}",
        process_,
        Quoted(Rank() + (command == trace_.description().end() ? "" : command->second)).c_str());
    const std::map<uint32_t, std::string> names = trace_.ReadThreadNames();
    for (const auto& [thread, name] : names) WriteName(thread, name);
    for (TraceRecord record; trace_.Next(&record);) Write(record);
    fprintf(out_, "\n]}\n");
  }

 private:
  // What stands before the command of one of several processes that were started together.
  std::string Rank() const {
    const auto rank = trace_.description().find("rank");
    return rank == trace_.description().end() || rank->second.empty()
               ? ""
               : "rank " + rank->second + ": ";
  }

  void Write(const TraceRecord& record) {
    const TraceEventRow& row = *RowOfTraceEvent(record.event);
    if (record.event == TraceEvent::kThread) {
      return WriteName(record.thread, gleaner::tools::NameInTrace(record));
    }
    if (row.form == TraceForm::kNote) return;
    static const char* const kPhases[] = {"X", "i", "C"};
    // What lasted while a child was forked began in its parent.
    const uint64_t begin_ns = record.begin_ns < began_ns_ ? began_ns_ : record.begin_ns;
    const uint64_t end_ns = record.begin_ns + record.duration_ns;
    Begin(kPhases[static_cast<int>(row.form)], record.thread);
    fprintf(out_, ",\"name\":%s,\"cat\":\"gleaner\",\"ts\":%.3f", NameOf(row, record).c_str(),
            Microseconds(begin_ns - began_ns_));
    if (row.form == TraceForm::kSpan) {
      fprintf(out_, ",\"dur\":%.3f", Microseconds(end_ns < begin_ns ? 0 : end_ns - begin_ns));
    } else if (row.form == TraceForm::kInstant) {
      fprintf(out_, ",\"s\":\"t\"");
    }
    WriteArguments(row, record);
    fprintf(out_, "}");
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
    return Quoted(name);
  }

  void WriteArguments(const TraceEventRow& row, const TraceRecord& record) {
    fprintf(out_, ",\"args\":{");
    const size_t count = record.event == TraceEvent::kProgram ? 0 : row.arguments.size();
    for (size_t i = 0; i < count; ++i) {
      const char* word = row.arguments[i].words.empty()
                             ? nullptr
                             : WordOfTrace(row.arguments[i].words, record.arguments[i]);
      fprintf(out_, "%s%s:", i == 0 ? "" : ",", Quoted(row.arguments[i].name).c_str());
      if (word != nullptr) {
        fprintf(out_, "%s", Quoted(word).c_str());
      } else {
        fprintf(out_, "%" PRIu64, record.arguments[i]);
      }
    }
    fprintf(out_, "}");
  }

  // Of each thread once.
  void WriteName(uint32_t thread, const std::string& name) {
    if (!named_.insert(thread).second) return;
    Begin("M", thread);
    fprintf(out_, ",\"name\":\"thread_name\",\"args\":{\"name\":%s}}", Quoted(name).c_str());
  }

  void Begin(const char* phase, uint32_t thread) {
    fprintf(out_, ",\n{\"ph\":\"%s\",\"pid\":%" PRIu64 ",\"tid\":%u", phase, process_, thread);
  }

  CollectorTrace& trace_;
  FILE* const out_;
  const uint64_t process_;
  const uint64_t began_ns_;
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
  if (!trace.error().empty()) {
    Tell(trace.error() + "; what comes before is in " + output);
    return kIncomplete;
  }
  if (!trace.is_complete()) {
    Tell(options.trace +
         ": the end is missing: the process goes on, was killed, called _exit or "
         "exec, or could not write; what there is is in " +
         output);
    return kIncomplete;
  }
  return 0;
}
