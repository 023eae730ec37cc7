#include "tools/replay/record.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "platform/os/memory.h"
#include "record/trace_reader.h"
#include "runtime/process/options.h"
#include "tools/common/text.h"
#include "tools/run/launch.h"
#include "tools/system/memory_figures.h"
#include "tools/system/run_program.h"

namespace {

namespace platform = gleaner::platform;
namespace tools = gleaner::tools;
using gleaner::record::FileState;

constexpr char kCommand[] = "record";

std::string Mb(size_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%.3f", static_cast<double>(bytes) / 1e6);
  return text;
}

void Report(const char* program, const char* file) {
  size_t bytes;
  int error;
  const uint8_t* data = tools::ReadWholeFile(file, &bytes, &error);
  if (error != 0) {
    return tools::Tell(kCommand, std::string(program) + " has not been recorded: " + file + ": " +
                                     strerror(error) +
                                     ". It may have closed or changed its environment, or not "
                                     "allocated at all");
  }
  gleaner::record::TraceReader trace;
  if (trace.Open(data, bytes)) {
    tools::Tell(kCommand, std::string(file) + ": " + std::to_string(trace.event_count()) +
                              " events of " + std::to_string(trace.thread_end()) + " threads in " +
                              Mb(bytes) + " MB");
    if (trace.state() == FileState::kLimit) {
      fprintf(stderr, "gleaner record: the file reached its limit (--limit) and ends there\n");
    } else if (trace.state() == FileState::kRefused) {
      fprintf(stderr,
              "gleaner record: the system refused more space for the file; it ends there\n");
    }
  }
  if (!trace.damage().empty()) {
    tools::Tell(kCommand, std::string(file) + ": damaged at byte " +
                              std::to_string(trace.damage_offset()) + ": " + trace.damage());
  }
  if (data != nullptr) {
    platform::Release(const_cast<uint8_t*>(data), gleaner::AlignUp(bytes, platform::OsPageBytes()));
  }
}

}  // namespace

int Record(char* const* arguments, const RecordOptions& options) {
  const char* program = arguments[0];
  std::string folder;
  constexpr char kLibrary[] = "libgleaner_record.so";
  if (const int status = CheckLaunch(kCommand, program, kLibrary, "LD_PRELOAD", &folder);
      status != 0) {
    return status;
  }
  char path[PATH_MAX];
  int error = tools::AbsolutePath(options.file.c_str(), path, sizeof path);
  if (error == 0) error = tools::ClearPath(path);
  if (error != 0) {
    tools::Tell(kCommand,
                options.file + ": " + (error == EINVAL ? "not a regular file" : strerror(error)));
    return kCommandFailed;
  }
  if (!gleaner::runtime::PrependToPreload((folder + "/" + kLibrary).c_str()) ||
      !gleaner::runtime::NameTrace(path, options.limit_bytes, options.children)) {
    fprintf(stderr, "gleaner record: no memory for the environment\n");
    return kCommandFailed;
  }
  const tools::Ended ended = tools::RunAndWait(
      arguments, [](uint64_t, void*) {}, nullptr);
  if (ended.error != 0) return CannotExecute(kCommand, program, ended.error);
  Report(program, path);
  tools::EndLike(ended.status);
}
