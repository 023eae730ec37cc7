#include "tools/launch.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "runtime/options.h"
#include "tools/system/run_program.h"

namespace {

namespace tools = gleaner::tools;
using tools::LoaderPath;

constexpr int kCannotExecute = 126;
constexpr int kNotFound = 127;

// Prints a message for a result other than kCounts; returns the exit status.
int Refuse(const char* command, const char* program, const char* variable,
           const tools::Inspection& inspection) {
  const char* file = inspection.file.c_str();
  switch (inspection.result) {
    case LoaderPath::kNotFound:
      fprintf(stderr, "gleaner %s: %s: no such program\n", command, program);
      return kNotFound;
    case LoaderPath::kNotExecutable:
      fprintf(stderr, "gleaner %s: %s: not executable\n", command, file);
      return kCannotExecute;
    case LoaderPath::kNoInterpreter:
      fprintf(stderr, "gleaner %s: %s: its interpreter %s does not exist or is not executable\n",
              command, program, file);
      return kCannotExecute;
    case LoaderPath::kStatic:
      fprintf(stderr,
              "gleaner %s: %s is statically linked: it loads no library that could be replaced\n",
              command, file);
      return kCommandFailed;
    case LoaderPath::kElevated:
      fprintf(stderr,
              "gleaner %s: %s runs with other rights than yours (set-user-ID, set-group-ID or "
              "capabilities): the loader ignores %s then\n",
              command, file, variable);
      return kCommandFailed;
    case LoaderPath::kOtherMachine:
      fprintf(stderr, "gleaner %s: %s is for another machine than this library\n", command, file);
      return kCommandFailed;
    case LoaderPath::kCounts:
      break;
  }
  return 0;
}

}  // namespace

int CheckLaunch(const char* command, const char* program, const char* library, const char* variable,
                std::string* folder) {
  if (program == nullptr) {
    fprintf(stderr, "gleaner %s: which program? `gleaner %s --help` says more\n", command, command);
    return kCommandFailed;
  }
  // The library's folder relative to the command is the same in the build tree and in an
  // installation.
  const std::string bin = tools::DirectoryOfThisProgram();
  *folder = bin.substr(0, bin.rfind('/')) + "/lib/gleaner";
  const std::string file = *folder + "/" + library;
  if (!tools::IsReadableFile(file)) {
    fprintf(stderr, "gleaner %s: the library is missing: %s\n", command, file.c_str());
    return kCommandFailed;
  }
  if (strcmp(variable, "LD_PRELOAD") == 0 && file.find_first_of(" :") != std::string::npos) {
    fprintf(stderr, "gleaner %s: LD_PRELOAD cannot name %s: no blanks, no colons\n", command,
            file.c_str());
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
    fprintf(stderr, "gleaner %s: no memory for the environment\n", command);
    return kCommandFailed;
  }
  return 0;
}

int CannotExecute(const char* command, const char* program, int error) {
  fprintf(stderr, "gleaner %s: %s: %s\n", command, program, strerror(error));
  return error == ENOENT ? kNotFound : kCannotExecute;
}
