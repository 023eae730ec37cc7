#include "tools/run/run.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "runtime/observe/run_record.h"
#include "runtime/process/options.h"
#include "tools/common/text.h"
#include "tools/run/launch.h"
#include "tools/system/run_program.h"

namespace {

namespace platform = gleaner::platform;
namespace tools = gleaner::tools;
using gleaner::runtime::RunRecord;

double Ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }
double Mb(uint64_t bytes) { return static_cast<double>(bytes) / 1e6; }

void ReportModes(const RunRecord& record) {
  const auto number = [](const platform::Hint<uint64_t>& field) {
    return static_cast<unsigned long long>(field.Get());
  };
  const bool concurrent = number(record.is_concurrent) != 0;
  const bool generational = number(record.is_generational) != 0;
  const bool any = concurrent || generational;
  fprintf(stderr, "gleaner: mode         %s%s%s\n", concurrent ? "concurrent" : "",
          concurrent && generational ? ", " : "",
          generational ? "generational"
          : any        ? ""
                       : "stop-parallel");
  if (any) {
    fprintf(stderr, "gleaner: of these     %llu concurrent, %llu minor\n",
            number(record.concurrent), number(record.minors));
  }
  if (any || record.reason[0] != 0) {
    fprintf(stderr, "gleaner: tracking     %s%s%s%s\n", record.tracking,
            record.reason[0] != 0 ? " (" : "", record.reason, record.reason[0] != 0 ? ")" : "");
  }
}

void Report(const char* program, const RunOptions& options, const RunRecord& record,
            const tools::Ended& ended) {
  const auto read = [](const platform::Hint<uint64_t>& field) { return field.Get(); };
  if (read(record.programs) == 0) {
    fprintf(stderr, "gleaner: %s has not used the library: it %s, or did not come to use it\n",
            tools::ForTerminal(program).c_str(),
            options.malloc ? "is no program that is linked dynamically"
                           : "is linked with neither libgc.so.1 nor libgleaner, finds another "
                             "one by its RPATH");
  } else {
    const uint64_t collections = read(record.collections);
    const uint64_t pauses = read(record.pause_ns);
    fprintf(stderr, "gleaner: collections  %llu\n", static_cast<unsigned long long>(collections));
    ReportModes(record);
    fprintf(stderr, "gleaner: pauses       total %.3f ms, mean %.3f ms, longest %.3f ms\n",
            Ms(pauses), collections != 0 ? Ms(pauses) / static_cast<double>(collections) : 0.0,
            Ms(read(record.max_pause_ns)));
    fprintf(stderr, "gleaner: longest pause");
    for (int i = 0; i < gleaner::gc::kPauseParts; ++i) {
      fprintf(stderr, "%s %s %.3f ms", i == 0 ? "" : ",",
              NameOf(static_cast<gleaner::gc::PausePart>(i)),
              Ms(read(record.max_pause_part_ns[i])));
    }
    fprintf(stderr, "\ngleaner: longest stall of a thread %.3f ms\n",
            Ms(read(record.max_stall_ns)));
    fprintf(stderr, "gleaner: allocated    %.3f MB\n", Mb(read(record.allocated_bytes)));
    fprintf(stderr, "gleaner: freed        %.3f MB\n", Mb(read(record.freed_bytes)));
  }
  const uint64_t own_peak = read(record.peak_resident_bytes);
  fprintf(stderr, "gleaner: peak memory  %.3f MB%s\n",
          Mb(own_peak != 0 ? own_peak : ended.peak_resident_bytes),
          own_peak != 0 ? "" : " (the largest of the program and its children)");
  fprintf(stderr, "gleaner: wall time    %.3f s\n", static_cast<double>(ended.wall_ns) / 1e9);
}

}  // namespace

int Run(char* const* arguments, const RunOptions& options) {
  const char* program = arguments[0];
  std::string folder;
  const char* library = options.malloc ? "libgleaner_malloc.so" : "libgc.so.1";
  const char* variable = options.malloc ? "LD_PRELOAD" : "LD_LIBRARY_PATH";
  if (const int status = CheckLaunch("run", program, library, variable, &folder); status != 0) {
    return status;
  }
  if (options.local_text) {
    if (const int status = UseLocalText("run", program); status != 0) return status;
  }
  if (!(options.malloc ? gleaner::runtime::PrependToPreload((folder + "/" + library).c_str())
                       : gleaner::runtime::PrependToLoaderPath(folder.c_str())) ||
      (options.collect && !gleaner::runtime::AskToCollect()) ||
      (options.leaks && !gleaner::runtime::AskForLeaks())) {
    fprintf(stderr, "gleaner run: no memory for the environment\n");
    return kCommandFailed;
  }
  if (!options.stats) return CannotExecute("run", program, tools::Execute(arguments));

  std::string path;
  auto* record = static_cast<RunRecord*>(tools::CreateSharedMemory(sizeof(RunRecord), &path));
  if (record == nullptr || !gleaner::runtime::NameRunRecord(path.c_str())) {
    fprintf(stderr, "gleaner run: no shared memory for the figures: %s\n", strerror(errno));
    return kCommandFailed;
  }
  record->layout = RunRecord::kLayout;
  const tools::Ended ended = tools::RunAndWait(
      arguments,
      [](uint64_t process, void* context) {
        // Relaxed: the program is executed afterwards, by the same process.
        static_cast<RunRecord*>(context)->process.Store(process, platform::memory_order_relaxed);
      },
      record);
  if (ended.error != 0) return CannotExecute("run", program, ended.error);
  Report(program, options, *record, ended);
  tools::EndLike(ended.status);
}
