#include "tools/predict/machine_files.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "platform/threads/thread.h"
#include "runtime/process/options.h"
#include "tools/predict/system/calibration.h"
#include "tools/system/run_program.h"
#include "tools/system/whole_file.h"

namespace gleaner::tools {

namespace {

constexpr char kSuffix[] = ".machine";

// The folder of the descriptions is the same, relative to the command, in the build tree and in an
// installation.
std::string FolderOfMachines() {
  const std::string bin = DirectoryOfThisProgram();
  return bin.substr(0, bin.rfind('/')) + "/share/gleaner/machines";
}

std::string NamesOfMachines() {
  std::vector<std::string> names;
  std::error_code error;
  for (std::filesystem::directory_iterator at(FolderOfMachines(), error), end; at != end && !error;
       at.increment(error)) {
    if (at->path().extension() == kSuffix) names.push_back(at->path().stem());
  }
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

// What a calibration is valid for.
std::string DescribeThisMachine() {
  std::string model = "unknown processor";
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    model = line.substr(colon + 2);
    break;
  }
  return model + ", " + std::to_string(platform::UsableCpuCount()) + " in use";
}

}  // namespace

bool FindMachine(const std::string& name, Machine* machine, std::string* error) {
  if (name.find('/') != std::string::npos || name.ends_with(kSuffix)) {
    return ReadMachine(name, machine, error);
  }
  const std::string path = FolderOfMachines() + "/" + name + kSuffix;
  if (IsReadableFile(path)) return ReadMachine(path, machine, error);
  *error = "there is no machine " + name + "; there are " + NamesOfMachines() + ", and files (./" +
           name + ")";
  return false;
}

bool MeasureThisMachine(Machine* machine, std::string* error) {
  constexpr auto kLongTry = std::chrono::seconds(60);
  const auto begin = std::chrono::steady_clock::now();
  std::string doubts;
  for (int tries = 2; tries > 0; --tries) {
    *machine = Machine();
    if (!Calibrate(machine, error)) return false;
    doubts = DoubtsOf(*machine);
    if (doubts.empty()) break;
    const bool is_last = tries == 1 || std::chrono::steady_clock::now() - begin > kLongTry;
    fprintf(stderr, "gleaner: the machine was busy: %s; %s\n", doubts.c_str(),
            is_last ? "the figures are doubtful: `gleaner calibrate` when it is idle"
                    : "it is measured again");
    if (is_last) break;
  }
  machine->doubtful = doubts.empty() ? 0 : 1;
  // Measurements of about the same may come in any order.
  const AccessTimes& last = machine->caches.back().times;
  for (double AccessTimes::*time : {&AccessTimes::dependent_ns, &AccessTimes::ahead_ns,
                                    &AccessTimes::batch_ns, &AccessTimes::stream_ns}) {
    machine->memory.*time = std::max(machine->memory.*time, last.*time);
  }
  machine->name = "this machine";
  machine->description = DescribeThisMachine();
  return true;
}

std::string FileOfThisMachine() {
  const char* cache = runtime::CacheFolder();
  const char* home = runtime::HomeFolder();
  std::string folder;
  if (cache != nullptr && cache[0] == '/') {
    folder = cache;
  } else if (home != nullptr && home[0] == '/') {
    folder = std::string(home) + "/.cache";
  } else {
    return "";
  }
  return folder + "/gleaner/this" + kSuffix;
}

bool KeepMachine(const Machine& machine, const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  WholeFile file;
  return file.Open(path) && file.Write(FormatMachine(machine)) && file.Commit();
}

bool ThisMachine(Machine* machine, std::string* error) {
  const std::string path = FileOfThisMachine();
  std::string unused;
  if (!path.empty() && ReadMachine(path, machine, &unused) &&
      machine->description == DescribeThisMachine() &&
      machine->further_ns != 0) {  // 0: by a version that did not measure it
    if (machine->doubtful != 0) {
      fprintf(
          stderr,
          "gleaner: this machine was busy when it was measured: the figures of %s are doubtful; "
          "`gleaner calibrate` measures again\n",
          path.c_str());
    }
    return true;
  }
  fprintf(stderr, "gleaner: measuring this machine, once, for some seconds\n");
  if (!MeasureThisMachine(machine, error)) return false;
  // Without the file it is measured again the next time.
  if (!path.empty()) {
    const bool is_kept = KeepMachine(*machine, path);
    fprintf(stderr, "gleaner: %s %s\n", is_kept ? "kept in" : "it cannot be kept in", path.c_str());
  }
  return true;
}

}  // namespace gleaner::tools
