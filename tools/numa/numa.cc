#include "tools/numa/numa.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/process/options.h"
#include "tools/common/text.h"
#include "tools/numa/numa_fix.h"
#include "tools/numa/numa_places.h"
#include "tools/numa/numa_text.h"
#include "tools/run/launch.h"
#include "tools/system/process_memory.h"
#include "tools/system/run_program.h"
#include "tools/system/whole_file.h"
#include "tools/system/write_all.h"

namespace {

namespace tools = gleaner::tools;
using tools::NumaPlaces;
using tools::ProcessMemory;

constexpr int kFailed = 1;
constexpr int kStandardOutput = 1;
constexpr int kStandardError = 2;

void Tell(const std::string& message) { gleaner::tools::Tell("numa", message); }

std::string Shown(const NumaPlaces& places, const NumaOptions& options) {
  return options.json ? tools::TextOf(NumaJson(places)) + "\n" : NumaTable(places, options.all);
}

// Reads the process, with a message if that is not possible.
[[nodiscard]] bool Read(const ProcessMemory& memory, NumaPlaces* places) {
  std::string message;
  if (ReadNumaPlaces(memory, places, &message)) return true;
  if (memory.state() == ProcessMemory::State::kEnded) message = "it has ended";
  Tell("process " + std::to_string(memory.process()) + ": " + message);
  return false;
}

// Writes to the file that was asked for, or to the descriptor.
[[nodiscard]] bool Write(const std::string& text, const std::string& path, int descriptor) {
  bool is_written;
  if (path.empty()) {
    is_written = tools::WriteAll(descriptor, text.data(), text.size());
  } else {
    tools::WholeFile file;
    is_written = file.Open(path) && file.Write(text) && file.Commit();
  }
  if (!is_written) Tell((path.empty() ? "standard output" : path) + ": " + strerror(errno));
  return is_written;
}

// What is said where nothing is to be moved.
std::string WhyNothingToFix(const NumaPlaces& places) {
  const bool is_bound = places.processors_node >= 0 ||
                        !tools::NodesOfPolicy(places.policy).empty() ||
                        places.machine.online.size() == 1;
  return is_bound ? "Nothing is elsewhere: there is nothing to move."
                  : "Nothing is moved: the process is bound to no node, neither by a policy nor by "
                    "its processors.";
}

int Fix(const ProcessMemory& memory, const NumaPlaces& before, const NumaOptions& options) {
  const bool is_needed = !before.misplaced.empty();
  tools::NumaMoves moves;
  NumaPlaces after = before;
  if (is_needed) {
    moves = MoveMisplaced(memory, before);
    if (!Read(memory, &after)) return kFailed;
  }
  const std::string said = is_needed ? moves.Text() : WhyNothingToFix(before);
  std::string text;
  if (options.json) {
    text =
        tools::TextOf(
            {{"before", NumaJson(before)}, {"moved", moves.AsJson()}, {"after", NumaJson(after)}}) +
        "\n";
  } else {
    text = "before\n" + Shown(before, options) + "\n" + said + "\n";
    if (is_needed) text += "\nafter\n" + Shown(after, options);
  }
  if (!Write(text, options.output, kStandardOutput)) return kFailed;
  return after.Elsewhere().empty() ? 0 : kFailed;
}

// Makes the report of the program that runs as `process`.
void ReportProgramOf(int process, const NumaOptions& options) {
  ProcessMemory memory;
  NumaPlaces places;
  if (!memory.Open(process)) return Tell(memory.error());
  if (!Read(memory, &places)) return;
  (void)Write(Shown(places, options), options.output, kStandardError);
}

}  // namespace

int ShowNuma(const NumaOptions& options) {
  ProcessMemory memory;
  NumaPlaces places;
  if (!memory.Open(options.process)) {
    Tell(memory.error());
    return kFailed;
  }
  if (!Read(memory, &places)) return kFailed;
  if (options.fix) return Fix(memory, places, options);
  return Write(Shown(places, options), options.output, kStandardOutput) ? 0 : kFailed;
}

int ShowNumaOfProgram(char* const* arguments, const NumaOptions& options) {
  const char* program = arguments[0];
  if (program == nullptr) {
    Tell("which program? `gleaner numa --help` says more");
    return kCommandFailed;
  }
  if (options.fix) {
    if (const int status = UseLocalText("numa", program); status != 0) return status;
  }
  tools::Observer observer;
  observer.after_seconds = options.after_seconds;
  observer.look = [&options](int process) { ReportProgramOf(process, options); };
  const tools::Ended ended = tools::RunAndWait(
      arguments,
      [](uint64_t process, void* fixes) {
        if (fixes != nullptr) gleaner::runtime::NameProcessOfLocalText(process);
      },
      options.fix ? &observer : nullptr, &observer);
  if (ended.error != 0) return CannotExecute("numa", program, ended.error);
  if (observer.error != 0) {
    Tell(std::string("its end cannot be observed: ptrace fails with: ") + strerror(observer.error) +
         "; --after SECONDS needs no ptrace");
  } else if (!observer.has_looked) {
    Tell(std::string(program) + " had ended before there was something to report");
  }
  tools::EndLike(ended.status);
}
