// Options: values, and the table they come from (options.def).
//
// Read once, at initialisation, from the environment: GLEANER_NAME, or libgc's own variable where
// there is one (GLEANER_NAME wins). A value out of range, one that does not parse and a GLEANER_
// variable that is no option are reported on standard error, by name and with what is allowed; the
// default is used then.
#pragma once

#include "platform/base.h"

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
#include "runtime/options.def"
#undef OPTION
};

// Constant after initialisation.
extern Options g_options;

// False before libc has started.
bool HasEnvironment();

// Fills g_options from defaults and environment. Allocates nothing.
void ReadOptions();

// Has calls fail and steps be delayed as the options say; a message in builds that cannot.
void StartTestDevices();

// The table on standard output, as text or as the body of docs/options.md.
__attribute__((visibility("default"))) void PrintOptions(bool markdown);

// For `gleaner run`, which changes its own environment before it runs the program. False without
// memory.
bool PrependToLoaderPath(const char* folder);
bool PrependToPreload(const char* library);
bool AskToCollect();  // GLEANER_COLLECT=1
bool AskForLeaks();   // GLEANER_LEAKS=1
// The same for `gleaner record`: where the recorder writes, how much, and for which programs.
bool NameTrace(const char* path, uint64_t limit_bytes, bool children);
bool NameRunRecord(const char* path);
// PATH; null if there is none.
const char* ProgramSearchPath();

}  // namespace gleaner::runtime
