// Options: the values, and the table that defines them (options.def).
//
// Options are read once, at initialisation, from the environment: GLEANER_NAME, or libgc's own
// variable where there is one (GLEANER_NAME wins). A value that is out of range or does not parse,
// and a GLEANER_ variable that is no option, are reported on standard error by name and with the
// allowed range; the default is used.
#pragma once

#include "platform/os/base.h"

namespace gleaner::runtime {

namespace option_types {
using Bool = bool;
using Count = uint32_t;
using Bytes = uint64_t;
using Real = double;
using Choice = uint32_t;  // index into the names
using Text = const char*;
}  // namespace option_types

struct Options {
#define OPTION(name, type, default_value, low, high, choices, libgc_variable, doc) \
  option_types::type name;
#include "runtime/process/options.def"
#undef OPTION
};

// Constant after initialisation.
extern Options g_options;

// Whether the C library has set up `environ`; false before it has started.
bool HasEnvironment();

// Fills g_options from defaults and environment. Allocates nothing.
void ReadOptions();

// Turns on failing calls and delays as the options say; prints a message in builds that have
// neither.
void StartTestDevices();

// Prints the table on standard output, as text or as the body of docs/reference/options.md. False
// if that cannot be written.
[[nodiscard]] __attribute__((visibility("default"))) bool PrintOptions(bool markdown);

// For `gleaner run`, which changes its own environment before it executes the program. False
// without memory.
bool PrependToLoaderPath(const char* folder);
bool PrependToPreload(const char* library);
bool AskToCollect();  // GLEANER_COLLECT=1
bool AskForLeaks();   // GLEANER_LEAKS=1
// For `gleaner numa --fix`: the process that says where its text was, and is.
bool NameProcessOfLocalText(uint64_t process);
// For `gleaner record`: the trace file, its size limit in bytes, and whether children record too.
// False without memory.
bool NameTrace(const char* path, uint64_t limit_bytes, bool children);
bool NameRunRecord(const char* path);
// The number of this process among those that `mpirun` or `srun` have started together; null if it
// is none of such. Digits only.
const char* ProcessRank();
// For `gleaner report`: the file of the collector trace. False without memory.
bool NameReportTrace(const char* path);
// The value of PATH; null if it is unset.
const char* ProgramSearchPath();
// For `gleaner calibrate`: the values of XDG_CACHE_HOME and HOME; null if they are unset.
const char* CacheFolder();
const char* HomeFolder();

}  // namespace gleaner::runtime
