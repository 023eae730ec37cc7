#include "tools/run/variable_line.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

#include <vector>

namespace gleaner::tools {

namespace {

bool IsAt(Dwarf_Die* variable, Dwarf_Addr address) {
  Dwarf_Attribute attribute;
  Dwarf_Op* operations = nullptr;
  size_t count = 0;
  return dwarf_attr(variable, DW_AT_location, &attribute) != nullptr &&
         dwarf_getlocation(&attribute, &operations, &count) == 0 && count == 1 &&
         operations[0].atom == DW_OP_addr && operations[0].number == address;
}

// Whether variables of static storage may be declared inside.
bool HoldsVariables(int tag) {
  return tag == DW_TAG_namespace || tag == DW_TAG_subprogram || tag == DW_TAG_lexical_block;
}

// Finds the variable at the address, as the file has it, among what lies in `unit`.
bool FindVariable(const Dwarf_Die& unit, Dwarf_Addr address, Dwarf_Die* variable) {
  std::vector<Dwarf_Die> open = {unit};
  while (!open.empty()) {
    Dwarf_Die parent = open.back();
    open.pop_back();
    Dwarf_Die die;
    if (dwarf_child(&parent, &die) != 0) continue;
    do {
      const int tag = dwarf_tag(&die);
      if (tag == DW_TAG_variable && IsAt(&die, address)) {
        *variable = die;
        return true;
      }
      if (HoldsVariables(tag)) open.push_back(die);
    } while (dwarf_siblingof(&die, &die) == 0);
  }
  return false;
}

}  // namespace

std::string LineOfVariable(Dwfl_Module* module, Dwarf_Addr address) {
  Dwarf_Addr bias = 0;
  for (Dwarf_Die* unit = nullptr; (unit = dwfl_module_nextcu(module, unit, &bias)) != nullptr;) {
    Dwarf_Die variable;
    if (!FindVariable(*unit, address - bias, &variable)) continue;
    const char* file = dwarf_decl_file(&variable);
    int line = 0;
    if (file == nullptr || dwarf_decl_line(&variable, &line) != 0) return "";
    const std::string path = file;
    return path.substr(path.rfind('/') + 1) + ":" + std::to_string(line);
  }
  return "";
}

}  // namespace gleaner::tools
