#include "tools/common/symbolize.h"

#include <dwarf.h>
#include <elfutils/libdwfl.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "tools/common/debug_info.h"
#include "tools/common/text.h"

namespace {

using gleaner::tools::Demangle;
using gleaner::tools::kDebugInfoCallbacks;

// Text of a field, for a terminal: a tab or a newline in it would look like the end of the field.
std::string OneLine(std::string text) {
  for (char& c : text) {
    if (c == '\t' || c == '\n') c = ' ';
  }
  return gleaner::tools::ForTerminal(text);
}

void PrintFrame(const std::string& function, const char* file, int line) {
  std::string location = file != nullptr ? file : "";
  if (file != nullptr && line > 0) location += ":" + std::to_string(line);
  const std::string name = OneLine(function);
  // The tab keeps the line from being empty, which would end the address.
  printf("%s\t%s\n", name.c_str(), OneLine(location).c_str());
}

// Reads an attribute that a concrete function may have from its abstract one or its declaration.
const char* StringOf(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute found;
  return dwarf_formstring(dwarf_attr_integrate(die, attribute, &found));
}

std::string FunctionOf(Dwarf_Die* die) {
  for (const unsigned attribute : {DW_AT_linkage_name, DW_AT_MIPS_linkage_name}) {
    if (const char* name = StringOf(die, attribute); name != nullptr) return Demangle(name);
  }
  const char* name = StringOf(die, DW_AT_name);
  return name != nullptr ? name : "";
}

int NumberOf(Dwarf_Die* die, unsigned attribute) {
  Dwarf_Attribute found;
  Dwarf_Word value = 0;
  return dwarf_formudata(dwarf_attr(die, attribute, &found), &value) == 0 ? static_cast<int>(value)
                                                                          : 0;
}

// One file of code that addresses are looked up in.
class Object {
 public:
  explicit Object(const std::string& path) {
    session_ = dwfl_begin(&kDebugInfoCallbacks);
    if (session_ == nullptr || path.empty()) return;
    dwfl_report_begin(session_);
    module_ = dwfl_report_elf(session_, path.c_str(), path.c_str(), -1, 0, true);
    dwfl_report_end(session_, nullptr, nullptr);
  }
  ~Object() { dwfl_end(session_); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  void Print(Dwarf_Addr address) {
    if (module_ == nullptr || !PrintByDebugInfo(address)) PrintBySymbol(address);
    printf("\n");
  }

 private:
  void PrintBySymbol(Dwarf_Addr address) {
    const char* name = module_ != nullptr ? dwfl_module_addrname(module_, address) : nullptr;
    PrintFrame(Demangle(name), nullptr, 0);
  }

  bool PrintByDebugInfo(Dwarf_Addr address) {
    Dwarf_Addr bias = 0;
    Dwarf_Die* unit = dwfl_module_addrdie(module_, address, &bias);
    if (unit == nullptr) return false;
    // The line is in the innermost function; the places of its callers come from the inlined
    // scopes.
    const char* file = nullptr;
    int line = 0;
    if (Dwfl_Line* found = dwfl_module_getsrc(module_, address); found != nullptr) {
      file = dwfl_lineinfo(found, nullptr, &line, nullptr, nullptr, nullptr);
    }
    Dwarf_Die* scopes = nullptr;
    int count = dwarf_getscopes(unit, address - bias, &scopes);
    if (count > 0) {
      // The scopes around the innermost concrete one.
      Dwarf_Die* outer = nullptr;
      const int outer_count = dwarf_getscopes_die(&scopes[0], &outer);
      if (outer_count > 0) {
        free(scopes);
        scopes = outer;
        count = outer_count;
      }
    }
    bool done = false;
    for (int i = 0; i < count && !done; ++i) {
      const int tag = dwarf_tag(&scopes[i]);
      if (tag != DW_TAG_subprogram && tag != DW_TAG_inlined_subroutine) continue;
      std::string function = FunctionOf(&scopes[i]);
      done = tag == DW_TAG_subprogram;
      if (done) function = Qualified(std::move(function), address);
      PrintFrame(function, file, line);
      if (done) break;
      line = NumberOf(&scopes[i], DW_AT_call_line);
      file = FileOf(unit, static_cast<size_t>(NumberOf(&scopes[i], DW_AT_call_file)));
    }
    free(scopes);
    if (!done) PrintFrame(Demangle(dwfl_module_addrname(module_, address)), file, line);
    return true;
  }

  // C++ functions with internal linkage have a plain name in the debug information, and a qualified
  // one in the symbol table.
  std::string Qualified(std::string function, Dwarf_Addr address) {
    const char* symbol = dwfl_module_addrname(module_, address);
    if (symbol == nullptr) return function;
    const bool is_cxx = strncmp(symbol, "_Z", 2) == 0;
    if (!function.empty() && !is_cxx) return function;
    std::string whole = Demangle(symbol);
    return whole.find(function) != std::string::npos ? whole : function;
  }

  static const char* FileOf(Dwarf_Die* unit, size_t index) {
    Dwarf_Files* files = nullptr;
    return dwarf_getsrcfiles(unit, &files, nullptr) == 0
               ? dwarf_filesrc(files, index, nullptr, nullptr)
               : nullptr;
  }

  Dwfl* session_ = nullptr;
  Dwfl_Module* module_ = nullptr;
};

}  // namespace

int Symbolize() {
  std::unique_ptr<Object> object;
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.starts_with("object ")) {
      object = std::make_unique<Object>(line.substr(strlen("object ")));
      continue;
    }
    char* rest = nullptr;
    const uint64_t address = strtoull(line.c_str(), &rest, 16);
    if (object == nullptr || line.empty() || *rest != 0) {
      gleaner::tools::Tell("symbolize",
                           "not \"object PATH\", nor an address in an object: \"" + line + "\"");
      return 2;
    }
    object->Print(address);
  }
  printf("end\n");
  return 0;
}
