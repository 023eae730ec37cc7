#include "tools/run/launch.h"

#include <cerrno>
#include <cstring>

#include "runtime/process/options.h"
#include "tools/common/text.h"
#include "tools/system/run_program.h"

namespace {

namespace tools = gleaner::tools;
using tools::LoaderPath;

constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

// Prints a message for a result other than kCounts; returns the exit status.
int Refuse(const char* command, const char* program, const char* variable,
           const tools::Inspection& inspection) {
  const auto refuse = [command](const std::string& what, const std::string& why, int status) {
    tools::Tell(command, what + why);
    return status;
  };
  const std::string& file = inspection.file;
  switch (inspection.result) {
    case LoaderPath::kNotFound:
      return refuse(program, ": no such program", kNotFound);
    case LoaderPath::kNotExecutable:
      return refuse(file, ": not executable", kCannotExecute);
    case LoaderPath::kNoInterpreter:
      return refuse(program, ": its interpreter " + file + " does not exist or is not executable",
                    kCannotExecute);
    case LoaderPath::kStatic:
      return refuse(file, " is statically linked: it loads no library that could be replaced",
                    kCommandFailed);
    case LoaderPath::kElevated:
      return refuse(file,
                    std::string(" runs with other rights than yours (set-user-ID, set-group-ID or "
                                "capabilities): the loader ignores ") +
                        variable + " then",
                    kCommandFailed);
    case LoaderPath::kOtherMachine:
      return refuse(file, " is for another machine than this library", kCommandFailed);
    case LoaderPath::kCounts:
      break;
  }
  return 0;
}

}  // namespace

int CheckLaunch(const char* command, const char* program, const char* library, const char* variable,
                std::string* folder) {
  if (program == nullptr) {
    tools::Tell(command, std::string("which program? `gleaner ") + command + " --help` says more");
    return kCommandFailed;
  }
  // The library's folder relative to the command is the same in the build tree and in an
  // installation.
  const std::string bin = tools::DirectoryOfThisProgram();
  if (bin.empty()) {
    tools::Tell(command, std::string("cannot find the folder of this command, beside which the "
                                     "library is: /proc/self/exe: ") +
                             strerror(errno));
    return kCommandFailed;
  }
  *folder = bin.substr(0, bin.rfind('/')) + "/lib/gleaner";
  const std::string file = *folder + "/" + library;
  if (!tools::IsReadableFile(file)) {
    tools::Tell(command, "the library is missing: " + file);
    return kCommandFailed;
  }
  if (strcmp(variable, "LD_PRELOAD") == 0 && file.find_first_of(" :") != std::string::npos) {
    tools::Tell(command, "LD_PRELOAD cannot name " + file + ": no blanks, no colons");
    return kCommandFailed;
  }
  return Refuse(command, program, variable,
                tools::InspectProgram(program, gleaner::runtime::ProgramSearchPath()));
}

int UseLocalText(const char* command, const char* program) {
  constexpr char kLibrary[] = "libgleaner_local_text.so";
  std::string folder;
  if (const int status = CheckLaunch(command, program, kLibrary, "LD_PRELOAD", &folder);
      status != 0) {
    return status;
  }
  if (!gleaner::runtime::PrependToPreload((folder + "/" + kLibrary).c_str())) {
    tools::Tell(command, "no memory for the environment");
    return kCommandFailed;
  }
  return 0;
}

int CannotExecute(const char* command, const char* program, int error) {
  tools::Tell(command, std::string(program) + ": " + strerror(error));
  return error == ENOENT ? kNotFound : kCannotExecute;
}
