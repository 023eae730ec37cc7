#include "tools/common/debug_info.h"

#include <cxxabi.h>

#include <cstdio>
#include <cstdlib>

namespace gleaner::tools {

namespace {

char* g_debug_path = nullptr;  // null: the default places

}  // namespace

const Dwfl_Callbacks kDebugInfoCallbacks = {
    .find_elf = dwfl_build_id_find_elf,
    .find_debuginfo = dwfl_standard_find_debuginfo,
    .section_address = dwfl_offline_section_address,
    .debuginfo_path = &g_debug_path,
};

std::string Demangle(const char* name) {
  if (name == nullptr) return "";
  int status = 0;
  char* plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  std::string result = status == 0 && plain != nullptr ? plain : name;
  free(plain);
  return result;
}

std::string Hexadecimal(uint64_t number) {
  char text[32];
  snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(number));
  return text;
}

}  // namespace gleaner::tools
