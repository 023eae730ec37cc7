#include "tools/report/report.h"

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <fstream>

#include "runtime/process/options.h"
#include "tools/common/text.h"
#include "tools/predict/predict.h"
#include "tools/report/collector_trace.h"
#include "tools/report/ranks.h"
#include "tools/report/report_page.h"
#include "tools/report/report_ranks.h"
#include "tools/run/launch.h"
#include "tools/system/run_program.h"
#include "tools/system/whole_file.h"

namespace {

namespace tools = gleaner::tools;

constexpr int kFailed = 1;
constexpr int kIncomplete = 2;

void Tell(const std::string& message) { gleaner::tools::Tell("report", message); }

bool IsSameFile(const std::string& a, const std::string& b) {
  std::error_code ignored;
  return std::filesystem::equivalent(a, b, ignored);
}

bool WritePage(const std::string& text, const std::string& output, tools::WholeFile* page) {
  errno = 0;
  if (page->Write(text) && page->Commit()) return true;
  Tell(output + ": " + strerror(errno));
  return false;
}

// pre, both: `page` is open.
int ReportRanks(const ReportOptions& options, const std::string& output, tools::WholeFile* page) {
  std::vector<tools::RankTrace> traces;
  if (!tools::ReadRanks(options.traces, "report", &traces)) return kFailed;
  const tools::RunFigures run = tools::CompareRanks(traces);
  if (!run.mismatch.empty()) Tell(run.mismatch);
  if (!WritePage(tools::MakeRanksPage(traces, run), output, page)) return kFailed;
  return tools::IsWhole(traces, run) ? 0 : kIncomplete;
}

// Which process wrote a file. 0: not known.
struct Writer {
  uint64_t process = 0;
  uint64_t start = 0;
};

// Of a regular file. Traces and snapshots begin alike: a magic word, the process, its start.
Writer WriterOf(const std::string& path) {
  uint64_t words[3] = {};
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  std::ifstream file(path, std::ios::binary);
  return file.read(reinterpret_cast<char*>(words), sizeof words) ? Writer{words[1], words[2]}
                                                                 : Writer{};
}

// Which process wrote a heap profile (docs/reference/heap.md, "Files"). False after a message.
bool ReadProfile(const std::string& path, Writer* writer) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!file || !std::getline(file, line)) {
    Tell(path + ": " + (errno != 0 ? strerror(errno) : "empty"));
    return false;
  }
  if (!line.starts_with("heap profile:") || line.find("@ heap_v2/") == std::string::npos) {
    Tell(path + ": no heap profile");
    return false;
  }
  std::getline(file, line);
  (void)sscanf(line.c_str(), "# process=%" SCNu64 " %" SCNu64, &writer->process, &writer->start);
  return true;
}

bool AreOfOneProcess(const Writer& a, const Writer& b) {
  return a.process == 0 || b.process == 0 ||
         (a.process == b.process && (a.start == 0 || b.start == 0 || a.start == b.start));
}

// What is said, also on the page, of a file of another process than the trace's.
void TellOfStranger(const char* what, const std::string& path, const Writer& writer,
                    const Writer& traced, std::vector<std::string>* strangers) {
  if (path.empty() || AreOfOneProcess(writer, traced)) return;
  strangers->push_back(std::string("The ") + what + " " + path + " is not of the traced process " +
                       std::to_string(traced.process) + ", but of another run: process " +
                       std::to_string(writer.process) + ".");
  Tell(strangers->back());
}

// False after a message.
bool PredictFor(const ReportOptions& options, PredictedHeap* predicted) {
  std::string error;
  try {
    if (PredictHeap(options.snapshot, options.machine, {1, 2, 4, 8, 16, 32, 64}, predicted,
                    &error)) {
      return true;
    }
  } catch (const std::exception&) {
    error = options.snapshot + ": there is not enough memory, or no threads, to predict from it";
  }
  Tell(error);
  return false;
}

int Report(const ReportOptions& options, const std::string& output, tools::WholeFile* page) {
  tools::CollectorTrace trace;
  if (!trace.Open(options.traces[0])) {
    Tell(trace.error());
    return kFailed;
  }
  Writer profiled;
  if (!options.profile.empty() && !ReadProfile(options.profile, &profiled)) return kFailed;
  PredictedHeap predicted;
  if (!options.snapshot.empty() && !PredictFor(options, &predicted)) return kFailed;
  tools::ReportModel model;
  tools::ReadModel(&trace, &model);
  const Writer traced = WriterOf(options.traces[0]);
  TellOfStranger("heap profile", options.profile, profiled, traced, &model.strangers);
  TellOfStranger("heap snapshot", options.snapshot, WriterOf(options.snapshot), traced,
                 &model.strangers);
  const std::string text =
      tools::MakePage(model, options.profile, options.snapshot.empty() ? nullptr : &predicted);
  if (!WritePage(text, output, page)) return kFailed;
  const std::string flaw = trace.Flaw(output);
  if (flaw.empty()) return 0;
  Tell(flaw);
  return kIncomplete;
}

// A folder that goes with what is in it.
class TemporaryFolder {
 public:
  TemporaryFolder() : path_(tools::NewTemporaryFolder()) {}
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// Runs the program with a trace.
int RunTraced(char* const* arguments, const std::string& folder, tools::Ended* ended) {
  const char* program = arguments[0];
  std::string library;
  if (const int status = CheckLaunch("report", program, "libgc.so.1", "LD_LIBRARY_PATH", &library);
      status != 0) {
    return status;
  }
  if (!gleaner::runtime::PrependToLoaderPath(library.c_str()) ||
      !gleaner::runtime::NameReportTrace((folder + "/trace").c_str())) {
    Tell("no memory for the environment");
    return kCommandFailed;
  }
  *ended = tools::RunAndWait(
      arguments, [](uint64_t, void*) {}, nullptr);
  return ended->error != 0 ? CannotExecute("report", program, ended->error) : 0;
}

// Writes the page of what RunTraced has left in the folder.
int ReportRun(char* const* arguments, const ReportOptions& options, tools::Ended* ended) {
  const std::string output = options.output.empty() ? "report.html" : options.output;
  tools::WholeFile page;
  if (!page.Open(output)) {
    Tell(output + ": " + strerror(errno));
    return kCommandFailed;
  }
  const TemporaryFolder folder;
  if (folder.path().empty()) {
    Tell(std::string("no folder for the trace: ") + strerror(errno));
    return kCommandFailed;
  }
  if (const int status = RunTraced(arguments, folder.path(), ended); status != 0) return status;
  ReportOptions files = options;
  files.traces = {folder.path() + "/trace"};
  if (!tools::IsReadableFile(files.traces[0])) {
    Tell(std::string(arguments[0]) +
         " has written no trace: it is linked with neither libgc.so.1 nor libgleaner, or did not "
         "come to use it");
    return kCommandFailed;
  }
  size_t others = 0;
  std::error_code ignored;
  for (const auto& file : std::filesystem::directory_iterator(folder.path(), ignored)) {
    others += file.path().filename().string().starts_with("trace.");
  }
  if (others != 0) {
    Tell("the page shows one process; " + std::to_string(others) + " more left a trace: with " +
         "GLEANER_TRACE=FILE all of them stay");
  }
  return Report(files, output, &page) == kFailed ? kCommandFailed : 0;
}

}  // namespace

int ReportTrace(const ReportOptions& options) {
  const bool is_run = options.traces.size() > 1;
  if (is_run && (!options.profile.empty() || !options.snapshot.empty())) {
    Tell(options.snapshot.empty() ? "--profile goes with one trace: a profile is of one process"
                                  : "--snapshot goes with one trace: it is of one process");
    return kFailed;
  }
  const std::string output = !options.output.empty() ? options.output
                             : is_run                ? "report.html"
                                                     : options.traces[0] + ".html";
  std::vector<std::string> inputs = options.traces;
  inputs.push_back(options.profile);
  inputs.push_back(options.snapshot);
  for (const std::string& input : inputs) {
    if (!IsSameFile(input, output)) continue;
    Tell(output + ": that is what the page is made of");
    return kFailed;
  }
  tools::WholeFile page;
  if (!page.Open(output)) {
    Tell(output + ": " + strerror(errno));
    return kFailed;
  }
  return is_run ? ReportRanks(options, output, &page) : Report(options, output, &page);
}

int ReportProgram(char* const* arguments, const ReportOptions& options) {
  tools::Ended ended;
  if (const int status = ReportRun(arguments, options, &ended); status != 0) return status;
  tools::EndLike(ended.status);
}
