#include "tools/record.h"

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstring>

#include "platform/memory.h"
#include "record/trace_reader.h"
#include "runtime/options.h"
#include "tools/launch.h"
#include "tools/system/memory_figures.h"
#include "tools/system/run_program.h"

namespace {

namespace platform = gleaner::platform;
namespace tools = gleaner::tools;
using gleaner::record::FileState;

constexpr char kCommand[] = "record";

void Report(const char* program, const char* file) {
  size_t bytes;
  int error;
  const uint8_t* data = tools::ReadWholeFile(file, &bytes, &error);
  if (error != 0) {
    fprintf(stderr,
            "gleaner record: %s has not been recorded: %s: %s. It may have closed or changed its "
            "environment, or not allocated at all\n",
            program, file, strerror(error));
    return;
  }
  gleaner::record::TraceReader trace;
  if (trace.Open(data, bytes)) {
    fprintf(stderr, "gleaner record: %s: %llu events of %u threads in %.3f MB\n", file,
            static_cast<unsigned long long>(trace.event_count()), trace.thread_end(),
            static_cast<double>(bytes) / 1e6);
    if (trace.state() == FileState::kLimit) {
      fprintf(stderr, "gleaner record: the file reached its limit (--limit) and ends there\n");
    } else if (trace.state() == FileState::kRefused) {
      fprintf(stderr,
              "gleaner record: the system refused more space for the file; it ends there\n");
    }
  }
  if (!trace.damage().empty()) {
    fprintf(stderr, "gleaner record: %s: damaged at byte %llu: %s\n", file,
            static_cast<unsigned long long>(trace.damage_offset()), trace.damage().c_str());
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
    fprintf(stderr, "gleaner record: %s: %s\n", options.file.c_str(),
            error == EINVAL ? "not a regular file" : strerror(error));
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
