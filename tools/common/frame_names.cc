#include "tools/common/frame_names.h"

#include <elfutils/libdwfl.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tools/common/debug_info.h"

namespace gleaner::tools {

namespace {

char* g_debug_path = nullptr;  // null: the default places
const Dwfl_Callbacks kCallbacks = {
    .find_elf = dwfl_linux_proc_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = nullptr,
    .debuginfo_path = &g_debug_path,
};

std::string Base(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

}  // namespace

FrameNames::FrameNames(std::string maps) : session_(dwfl_begin(&kCallbacks)) {
  if (session_ == nullptr || maps.empty()) return;
  FILE* file = fmemopen(maps.data(), maps.size(), "r");
  if (file == nullptr) return;
  dwfl_report_begin(session_);
  // What cannot be read has no names.
  (void)dwfl_linux_proc_maps_report(session_, file);
  dwfl_report_end(session_, nullptr, nullptr);
  fclose(file);
}

FrameNames::~FrameNames() { dwfl_end(session_); }

const std::string& FrameNames::FunctionAt(uint64_t address) {
  const auto [entry, is_new] = names_.try_emplace(address);
  if (is_new) entry->second = Find(address);
  return entry->second;
}

std::string FrameNames::Find(uint64_t address) {
  char number[32];
  snprintf(number, sizeof number, "0x%" PRIx64, address);
  Dwfl_Module* module = session_ == nullptr ? nullptr : dwfl_addrmodule(session_, address);
  if (module == nullptr) return number;
  std::string name = Demangle(dwfl_module_addrname(module, address));
  static const std::string nameless = "(anonymous namespace)::";
  for (size_t at; (at = name.find(nameless)) != std::string::npos;) name.erase(at, nameless.size());
  if (!name.empty()) return name;
  const char* file =
      dwfl_module_info(module, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  return file == nullptr ? number : Base(file) + " " + number;
}

std::string FrameNames::PlaceOf(uint64_t address) {
  Dwfl_Module* module = session_ == nullptr ? nullptr : dwfl_addrmodule(session_, address);
  Dwfl_Line* found = module == nullptr ? nullptr : dwfl_module_getsrc(module, address);
  if (found == nullptr) return "";
  int line = 0;
  const char* file = dwfl_lineinfo(found, nullptr, &line, nullptr, nullptr, nullptr);
  return file == nullptr ? "" : Base(file) + ":" + std::to_string(line);
}

}  // namespace gleaner::tools
