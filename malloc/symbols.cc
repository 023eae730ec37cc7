#include "malloc/symbols.h"

#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "alloc/metadata/meta.h"
#include "malloc/system/filter_program.h"
#include "platform/loader/loaded_objects.h"
#include "platform/os/process.h"

namespace gleaner::malloc_proxy {
namespace {

using platform::Range;

constexpr size_t kMaxObjects = size_t{1} << 14;
constexpr size_t kMaxPath = 4096;

// The objects that are loaded, and those that were loaded when an object was unloaded. Guarded by
// the loader's lock, which is held in the callback. The reporting thread reads them without the
// lock, after the last update.
constinit alloc::ReservedArray<CodeObject> g_objects;
constinit size_t g_object_count = 0;

// Used by the reporting thread only.
constinit const Addr* g_addresses = nullptr;
constinit size_t g_address_count = 0;
// By address: its lines in the answer. Null if there is no answer.
constinit const char** g_answers = nullptr;

const char* Keep(const char* text) {
  const size_t bytes = strlen(text) + 1;
  void* memory = alloc::MetaAllocate(bytes, 1);
  return memory != nullptr ? static_cast<const char*>(memcpy(memory, text, bytes)) : "";
}

void RecordObject(void* program, const char* name, Addr bias, Range range) {
  if (name[0] == 0) name = static_cast<const char*>(program);
  for (size_t i = 0; i < g_object_count; ++i) {
    CodeObject& known = g_objects[i];
    if (known.bias != bias || strcmp(known.path, name) != 0) continue;
    known.loaded = true;
    return;
  }
  if (g_objects.max() == 0 && !g_objects.Reserve(kMaxObjects)) return;
  if (!g_objects.EnsureCommitted(g_object_count + 1)) return;
  g_objects[g_object_count++] = {Keep(name), bias, range, true};
}

// The path of the command, relative to this library: LIBRARY_DIRECTORY/../../bin/gleaner.
bool FindCommand(char* path, size_t capacity) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&FindCommand), &info) == 0) return false;
  const char* slash = strrchr(info.dli_fname, '/');
  const int length = slash != nullptr ? static_cast<int>(slash - info.dli_fname) : 1;
  const char* folder = slash != nullptr ? info.dli_fname : ".";
  const int n = snprintf(path, capacity, "%.*s/../../bin/gleaner", length, folder);
  return n > 0 && static_cast<size_t>(n) < capacity && platform::IsExecutable(path);
}

// Lines "object PATH", each followed by lines with the object's addresses, relative to its bias.
bool WriteQuestion(MemoryFile* question) {
  char line[kMaxPath + 64];
  const CodeObject* last = nullptr;
  for (size_t i = 0; i < g_address_count; ++i) {
    const CodeObject* object = Symbols::ObjectOf(g_addresses[i]);
    int n = 0;
    if (object != last || i == 0) {
      n = snprintf(line, sizeof line, "object %s\n", object != nullptr ? object->path : "");
      last = object;
    }
    if (n < 0 || n >= static_cast<int>(kMaxPath)) return false;
    n += snprintf(line + n, sizeof line - static_cast<size_t>(n), "%zx\n",
                  g_addresses[i] - (object != nullptr ? object->bias : 0));
    if (!question->Append(line, static_cast<size_t>(n))) return false;
  }
  return true;
}

// Parses the answer: for each address lines "FUNCTION\tLOCATION" and an empty line; at last "end".
bool TakeAnswer(char* text, const char** answers) {
  char* at = text;
  for (size_t i = 0; i < g_address_count; ++i) {
    answers[i] = at;
    for (;;) {
      char* end = strchr(at, '\n');
      if (end == nullptr) return false;
      *end = 0;
      const bool is_last = end == at;
      at = end + 1;
      if (is_last) break;
    }
  }
  return strcmp(at, "end\n") == 0;
}

void Ask() {
  char command[kMaxPath];
  if (!FindCommand(command, sizeof command)) {
    return Complain(
        "leaks: no command \"gleaner\" where this library is: no lines, and no names "
        "of functions that are not exported");
  }
  MemoryFile question;
  MemoryFile answer;
  const char* const arguments[] = {"gleaner", "symbolize", nullptr};
  size_t bytes = 0;
  char* text = nullptr;
  if (WriteQuestion(&question) && RunFilter(command, arguments, question, answer)) {
    text = answer.Map(&bytes);
  }
  auto* answers = static_cast<const char**>(
      alloc::MetaAllocate(g_address_count * sizeof *g_answers, alignof(const char*)));
  if (text == nullptr || answers == nullptr || !TakeAnswer(text, answers)) {
    return Complain(
        "leaks: %s symbolize failed: no lines, and no names of functions that are not "
        "exported",
        command);
  }
  g_answers = answers;
}

}  // namespace

void Symbols::LookUp(Addr* addresses, size_t count, bool names) {
  std::sort(addresses, addresses + count);
  g_addresses = addresses;
  g_address_count = static_cast<size_t>(std::unique(addresses, addresses + count) - addresses);
  for (size_t i = 0; i < g_object_count; ++i) g_objects[i].loaded = false;
  RecordObjects();
  if (names && g_address_count != 0) Ask();
}

void Symbols::RecordObjects() {
  char program[kMaxPath];
  if (!platform::ReadProgramPath(program, sizeof program)) program[0] = 0;
  platform::VisitObjectRanges(RecordObject, program);
}

const CodeObject* Symbols::ObjectOf(Addr address) {
  const CodeObject* gone = nullptr;
  for (size_t i = 0; i < g_object_count; ++i) {
    if (!g_objects[i].range.Contains(address)) continue;
    if (g_objects[i].loaded) return &g_objects[i];
    gone = &g_objects[i];  // of several unloaded objects, the one loaded last
  }
  return gone;
}

void Symbols::Visit(Addr address, Visitor f, void* context) {
  if (g_answers != nullptr) {
    const Addr* found = std::lower_bound(g_addresses, g_addresses + g_address_count, address);
    const char* line = g_answers[found - g_addresses];
    bool any = false;
    for (; *line != 0; line += strlen(line) + 1) {
      const char* tab = strchr(line, '\t');
      if (tab == nullptr) continue;
      char function[4096];
      snprintf(function, sizeof function, "%.*s", static_cast<int>(tab - line), line);
      any = true;
      if (!f(context, function, tab + 1)) return;
    }
    if (any) return;
  }
  Dl_info info;
  const bool known = dladdr(PointerAt<void>(address), &info) != 0 && info.dli_sname != nullptr;
  (void)f(context, known ? info.dli_sname : "", "");
}

}  // namespace gleaner::malloc_proxy
