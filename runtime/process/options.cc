#include "runtime/process/options.h"

#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <string_view>

#include "platform/faults/delays.h"
#include "platform/faults/failures.h"
#include "platform/os/process.h"

namespace gleaner::runtime {

constinit Options g_options = {};

namespace {

enum class Type : uint8_t { Bool, Count, Bytes, Real, Choice, Text };

struct Row {
  const char* name;
  Type type;
  double default_value;
  double low;
  double high;
  const char* choices;  // Choice only
  const char* libgc_variable;
  const char* doc;
  void* value;
};

constinit Row g_rows[] = {
#define OPTION(name, type, default_value, low, high, choices, libgc_variable, doc) \
  {#name, Type::type, default_value, low, high, choices, libgc_variable, doc, &g_options.name},
#include "runtime/process/options.def"
#undef OPTION
};

constexpr char kLoaderPath[] = "LD_LIBRARY_PATH";
constexpr char kPrefix[] = "GLEANER_";
constexpr size_t kPrefixLength = sizeof kPrefix - 1;
constexpr size_t kMaxName = 64;

void VariableOf(const Row& row, char* out) {
  snprintf(out, kMaxName, "%s%s", kPrefix, row.name);
  for (char* c = out; *c != 0; ++c) *c = static_cast<char>(toupper(static_cast<unsigned char>(*c)));
}

// What the option is for, if not for users: the word and ": " that its text begins with. Else
// empty.
std::string_view PurposeOf(const Row& row) {
  for (const std::string_view purpose : {"Debugging", "Testing", "Research"}) {
    if (strncmp(row.doc, purpose.data(), purpose.size()) == 0 && row.doc[purpose.size()] == ':') {
      return purpose;
    }
  }
  return {};
}

// Index of `text` in the names, or -1.
int FindChoice(const char* names, const char* text) {
  const size_t length = strlen(text);
  int index = 0;
  for (const char* name = names;; ++index) {
    const size_t n = strcspn(name, "|");
    if (n == length && strncasecmp(name, text, n) == 0) return index;
    if (name[n] == 0) return -1;
    name += n + 1;
  }
}

bool ParseBool(const char* text, double* out) {
  for (const char* yes : {"1", "true", "yes", "on"}) {
    if (strcasecmp(text, yes) == 0) return *out = 1, true;
  }
  for (const char* no : {"0", "false", "no", "off"}) {
    if (strcasecmp(text, no) == 0) return *out = 0, true;
  }
  return false;
}

// Reads a number with an optional suffix k, m, g or t (powers of 1,024; "64k", "64KB" and "64KiB"
// alike).
bool ParseNumber(const char* text, bool suffixes, double* out) {
  char* rest = nullptr;
  errno = 0;
  *out = strtod(text, &rest);
  if (rest == text || errno == ERANGE) return false;
  if (suffixes) {
    const char* units = "kmgt";
    const char* unit =
        *rest != 0 ? strchr(units, tolower(static_cast<unsigned char>(*rest))) : nullptr;
    if (unit != nullptr) {
      for (const char* u = units; u <= unit; ++u) *out *= 1024;
      ++rest;
      if (strcasecmp(rest, "ib") == 0 || strcasecmp(rest, "b") == 0) return true;
    }
  }
  return *rest == 0;
}

bool Parse(const Row& row, const char* text, double* out) {
  switch (row.type) {
    case Type::Bool:
      return ParseBool(text, out);
    case Type::Choice: {
      const int index = FindChoice(row.choices, text);
      *out = index;
      return index >= 0;
    }
    case Type::Count:
      return ParseNumber(text, false, out) &&
             *out == static_cast<double>(static_cast<int64_t>(*out));
    case Type::Bytes:
      return ParseNumber(text, true, out) && (*out == 0 || *out >= 1);
    case Type::Real:
      return ParseNumber(text, false, out);
    case Type::Text:
      return true;
  }
  return false;
}

void Store(const Row& row, double value) {
  switch (row.type) {
    case Type::Bool:
      *static_cast<option_types::Bool*>(row.value) = value != 0;
      break;
    case Type::Count:
    case Type::Choice:
      *static_cast<option_types::Count*>(row.value) = static_cast<option_types::Count>(value);
      break;
    case Type::Bytes:
      *static_cast<option_types::Bytes*>(row.value) = static_cast<option_types::Bytes>(value);
      break;
    case Type::Real:
      *static_cast<option_types::Real*>(row.value) = value;
      break;
    case Type::Text:
      *static_cast<option_types::Text*>(row.value) = nullptr;
      break;
  }
}

// Writes a value in the form that the environment takes.
void Format(const Row& row, double value, char* out, size_t capacity) {
  if (row.type == Type::Choice) {
    const char* name = row.choices;
    for (int i = 0; i < static_cast<int>(value); ++i) name += strcspn(name, "|") + 1;
    snprintf(out, capacity, "%.*s", static_cast<int>(strcspn(name, "|")), name);
    return;
  }
  if (row.type == Type::Text) {
    snprintf(out, capacity, "none");
    return;
  }
  const char* units[] = {"", "k", "m", "g", "t"};
  int unit = 0;
  if (row.type == Type::Bytes) {
    while (unit < 4 && value >= 1024 &&
           value / 1024 == static_cast<double>(static_cast<int64_t>(value / 1024))) {
      value /= 1024;
      ++unit;
    }
  }
  snprintf(out, capacity, "%.15g%s", value, units[unit]);
}

void FormatRange(const Row& row, char* out, size_t capacity) {
  char low[32];
  char high[32];
  switch (row.type) {
    case Type::Choice:
      snprintf(out, capacity, "%s", row.choices);
      for (char* c = out; *c != 0; ++c) *c = *c == '|' ? '/' : *c;
      break;
    case Type::Bool:
      snprintf(out, capacity, "0 or 1");
      break;
    case Type::Text:
      snprintf(out, capacity, "a path");
      break;
    default:
      Format(row, row.low, low, sizeof low);
      Format(row, row.high, high, sizeof high);
      snprintf(out, capacity, "%s to %s", low, high);
  }
}

// In the order of Type.
constexpr const char* kTypeNames[] = {"switch", "count", "bytes", "number", "choice", "text"};

const char* NameOf(Type type) { return kTypeNames[static_cast<size_t>(type)]; }

void Set(const Row& row, const char* variable, const char* text) {
  if (row.type == Type::Text) {
    *static_cast<option_types::Text*>(row.value) = text;
    return;
  }
  double value = 0;
  const bool in_range =
      Parse(row, text, &value) && (row.type == Type::Choice || row.type == Type::Bool ||
                                   (value >= row.low && value <= row.high));
  if (in_range) {
    Store(row, value);
    return;
  }
  char allowed[128];
  char default_text[64];
  FormatRange(row, allowed, sizeof allowed);
  Format(row, row.default_value, default_text, sizeof default_text);
  Complain("option %s: '%s' is not allowed (%s); using %s", variable, text, allowed, default_text);
}

// Reads a variable of libgc's. libgc's switches are on if the variable exists, whatever it holds;
// here "0" is off.
void SetFromLibgc(const Row& row, const char* text) {
  const bool is_switch =
      row.type == Type::Bool || (row.type == Type::Count && strcmp(row.name, "print_stats") == 0);
  if (!is_switch && text[0] == 0) return;
  double value = 0;
  if (is_switch && !(ParseNumber(text, false, &value) && value <= row.high)) text = "1";
  Set(row, row.libgc_variable, text);
}

// Edit distance of two short strings, for a suggestion.
size_t Distance(const char* a, const char* b) {
  size_t row[kMaxName + 1];
  const size_t n = strlen(b);
  if (n > kMaxName || strlen(a) > kMaxName) return kMaxName;
  for (size_t j = 0; j <= n; ++j) row[j] = j;
  for (size_t i = 0; a[i] != 0; ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < n; ++j) {
      const size_t replace = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      size_t best = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;
      row[j + 1] = replace < best ? replace : best;
    }
  }
  return row[n];
}

void ReportUnknown(const char* entry) {
  char name[kMaxName];
  const size_t length = strcspn(entry, "=");
  if (length >= kMaxName) {
    return Complain("%.*s... is no option (`gleaner options` lists them all)",
                    static_cast<int>(kMaxName), entry);
  }
  memcpy(name, entry, length);
  name[length] = 0;
  char variable[kMaxName];
  char nearest[kMaxName] = "";
  size_t min = kMaxName;
  for (const Row& row : g_rows) {
    VariableOf(row, variable);
    if (strcmp(variable, name) == 0) return;
    const size_t distance = Distance(name, variable);
    if (distance < min) {
      min = distance;
      memcpy(nearest, variable, sizeof nearest);
    }
  }
  Complain("%s is no option; did you mean %s? (`gleaner options` lists them all)", name, nearest);
}

// Puts `first` at the front of a list of the loader's in the environment. False without memory.
bool Prepend(const char* variable, const char* first) {
  const char* rest = getenv(variable);
  // An empty entry would be the current folder.
  const bool any = rest != nullptr && rest[0] != 0;
  const size_t bytes = strlen(first) + (any ? strlen(rest) + 1 : 0) + 1;
  char* list = static_cast<char*>(malloc(bytes));
  if (list == nullptr) return false;
  snprintf(list, bytes, "%s%s%s", first, any ? ":" : "", any ? rest : "");
  const bool done = setenv(variable, list, 1) == 0;
  free(list);
  return done;
}

}  // namespace

void ReadOptions() {
  for (const Row& row : g_rows) Store(row, row.default_value);
  if (platform::HasElevatedRights()) return;
  for (const Row& row : g_rows) {
    char variable[kMaxName];
    VariableOf(row, variable);
    const char* own = getenv(variable);
    if (own != nullptr && own[0] == 0) own = nullptr;
    const char* libgc = row.libgc_variable != nullptr ? getenv(row.libgc_variable) : nullptr;
    if (own != nullptr) {
      Set(row, variable, own);
    } else if (libgc != nullptr) {
      SetFromLibgc(row, libgc);
    }
  }
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    if (strncmp(*entry, kPrefix, kPrefixLength) == 0) ReportUnknown(*entry);
  }
}

void StartTestDevices() {
  platform::SetDelays(g_options.delays);
  if (!kVerifyBuild && g_options.delays != 0) {
    Complain("GLEANER_DELAYS: this build has no delays, only one with GLEANER_VERIFY; ignored");
  }
  platform::SetFailures(g_options.failures, g_options.failure_seed);
  if (!kVerifyBuild && g_options.failures != 0) {
    Complain(
        "GLEANER_FAILURES: in this build no call fails, only in one with GLEANER_VERIFY; ignored");
  }
}

bool HasEnvironment() { return environ != nullptr; }

bool PrependToLoaderPath(const char* folder) { return Prepend(kLoaderPath, folder); }
bool PrependToPreload(const char* library) { return Prepend("LD_PRELOAD", library); }
bool AskToCollect() { return setenv("GLEANER_COLLECT", "1", 1) == 0; }

bool NameTrace(const char* path, uint64_t limit_bytes, bool children) {
  char limit[24];
  snprintf(limit, sizeof limit, "%llu", static_cast<unsigned long long>(limit_bytes));
  return setenv("GLEANER_RECORD_FILE", path, 1) == 0 &&
         setenv("GLEANER_RECORD_LIMIT", limit, 1) == 0 &&
         setenv("GLEANER_RECORD_CHILDREN", children ? "1" : "0", 1) == 0;
}

bool NameRunRecord(const char* path) { return setenv("GLEANER_RUN_RECORD", path, 1) == 0; }

bool NameReportTrace(const char* path) { return setenv("GLEANER_TRACE", path, 1) == 0; }

bool AskForLeaks() { return setenv("GLEANER_LEAKS", "1", 1) == 0; }

bool NameProcessOfLocalText(uint64_t process) {
  char number[24];
  snprintf(number, sizeof number, "%llu", static_cast<unsigned long long>(process));
  return setenv("GLEANER_TELL_LOCAL_TEXT", number, 1) == 0;
}

const char* ProcessRank() {
  // Of Open MPI, of process managers by PMIx and PMI (MPICH, Intel MPI), and of Slurm.
  for (const char* variable : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID"}) {
    const char* rank = getenv(variable);
    const char* end = rank;
    while (end != nullptr && *end >= '0' && *end <= '9') ++end;
    if (end != rank && *end == 0) return rank;
  }
  return nullptr;
}

const char* ProgramSearchPath() { return getenv("PATH"); }
const char* CacheFolder() { return getenv("XDG_CACHE_HOME"); }
const char* HomeFolder() { return getenv("HOME"); }

bool PrintOptions(bool markdown) {
  static constexpr char kTableHead[] =
      "| variable | libgc's name | type | default | range | what it does |\n"
      "|---|---|---|---|---|---|\n";
  bool is_written = true;
  if (markdown) {
    static constexpr char kHead[] =
        "# Options\n\nGenerated by `gleaner options --markdown` from "
        "`runtime/process/options.def`.\n\n"
        "Options are environment variables, read once, when the collector starts. Where a row "
        "names a variable of libgc, that one works too; `GLEANER_...` wins. Sizes take the "
        "suffixes k, m, g and t (powers of 1,024). A value that is not allowed, or a `GLEANER_` "
        "variable that does not exist, is reported on standard error, and the default is used. "
        "The empty string counts as unset; but a switch by libgc's name, and GC_PRINT_STATS, is on "
        "whatever the variable holds, the empty string too, except for 0.\n\n";
    is_written = dprintf(STDOUT_FILENO, "%s%s", kHead, kTableHead) >= 0;
  }
  std::string_view purpose;
  for (const Row& row : g_rows) {
    char variable[kMaxName];
    char default_text[64];
    char range[128];
    VariableOf(row, variable);
    Format(row, row.default_value, default_text, sizeof default_text);
    FormatRange(row, range, sizeof range);
    if (markdown) {
      if (purpose != PurposeOf(row)) {
        purpose = PurposeOf(row);
        is_written &= dprintf(STDOUT_FILENO, "\n## %s\n\n%s", purpose.data(), kTableHead) >= 0;
      }
      char libgc[kMaxName] = "";
      if (row.libgc_variable != nullptr) snprintf(libgc, sizeof libgc, "`%s`", row.libgc_variable);
      const char* doc = row.doc + (purpose.empty() ? 0 : purpose.size() + strlen(": "));
      is_written &= dprintf(STDOUT_FILENO, "| `%s` | %s | %s | %s | %s | %s |\n", variable, libgc,
                            NameOf(row.type), default_text, range, doc) >= 0;
    } else {
      is_written &= dprintf(STDOUT_FILENO, "%-30s %-7s default %-8s range %s%s%s\n    %s\n",
                            variable, NameOf(row.type), default_text, range,
                            row.libgc_variable != nullptr ? "; libgc: " : "",
                            row.libgc_variable != nullptr ? row.libgc_variable : "", row.doc) >= 0;
    }
  }
  return is_written;
}

}  // namespace gleaner::runtime
