#include "tools/predict/calibrate.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "tools/common/text.h"
#include "tools/predict/machine_files.h"

namespace {

int Fail(const std::string& message) {
  fprintf(stderr, "gleaner calibrate: %s\n", gleaner::tools::ForTerminal(message).c_str());
  return 1;
}

}  // namespace

int CalibrateMachine(const CalibrateOptions& options) {
  gleaner::tools::Machine machine;
  std::string path = options.output;
  if (path.empty()) path = gleaner::tools::FileOfThisMachine();
  if (path.empty())
    return Fail("neither XDG_CACHE_HOME nor HOME is an absolute path: use --output");
  std::string error;
  if (!gleaner::tools::MeasureThisMachine(&machine, &error)) return Fail(error);
  if (!gleaner::tools::KeepMachine(machine, path)) return Fail(path + ": " + strerror(errno));
  if (path != "-") fprintf(stderr, "gleaner calibrate: %s\n", path.c_str());
  return 0;
}
