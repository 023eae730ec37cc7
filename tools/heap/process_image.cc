#include "tools/heap/process_image.h"

#include <dwarf.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "tools/common/debug_info.h"
#include "tools/run/variable_line.h"

namespace gleaner::tools {

namespace {

constexpr uint32_t kExecutable = 1;
constexpr uint32_t kAny = ~uint32_t{0};
constexpr uint64_t kWordBytes = sizeof(uint64_t);
constexpr size_t kMaxFrames = 10000;
#ifdef __aarch64__
constexpr unsigned kStackPointerRegister = 31;
constexpr int kSavedRegisters[] = {19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29};
#else
constexpr unsigned kStackPointerRegister = 7;
constexpr int kSavedRegisters[] = {3, 6, 12, 13, 14, 15};
#endif

std::string FileName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? path : path.substr(slash + 1);
}

// The name of the source, without its version, and without what says that nothing outside its file
// has the name.
std::string PlainName(const char* symbol) {
  constexpr char kAnonymous[] = "(anonymous namespace)::";
  std::string name = Demangle(std::string(symbol).substr(0, strcspn(symbol, "@")).c_str());
  for (size_t at = 0; (at = name.find(kAnonymous, at)) != std::string::npos;) {
    name.erase(at, strlen(kAnonymous));
  }
  return name;
}

// The file of code at a path.
struct CodeFile {
  std::string build_id;  // empty if it has none
  std::vector<SnapshotSegment> segments;
};

// False if there is none.
bool ReadCodeFile(const std::string& path, uint64_t bias, CodeFile* code) {
  // A pipe at the path would keep the library waiting.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;
  Dwfl* session = dwfl_begin(&kDebugInfoCallbacks);
  if (session == nullptr) return false;
  dwfl_report_begin(session);
  Dwfl_Module* module = dwfl_report_elf(session, path.c_str(), path.c_str(), -1, 0, true);
  dwfl_report_end(session, nullptr, nullptr);
  GElf_Addr moved = 0;
  Elf* elf = module == nullptr ? nullptr : dwfl_module_getelf(module, &moved);
  if (elf != nullptr) {
    const unsigned char* bytes = nullptr;
    GElf_Addr where = 0;
    const int count = dwfl_module_build_id(module, &bytes, &where);
    if (count > 0) {
      code->build_id.assign(reinterpret_cast<const char*>(bytes), static_cast<size_t>(count));
    }
    size_t headers = 0;
    if (elf_getphdrnum(elf, &headers) != 0) headers = 0;
    for (size_t i = 0; i < headers; ++i) {
      GElf_Phdr header;
      if (gelf_getphdr(elf, static_cast<int>(i), &header) == nullptr || header.p_type != PT_LOAD ||
          header.p_memsz == 0) {
        continue;
      }
      const uint64_t begin = bias + header.p_vaddr;
      code->segments.push_back({begin, begin + header.p_memsz, header.p_offset, header.p_flags});
    }
  }
  dwfl_end(session);
  return elf != nullptr;
}

}  // namespace

ProcessImage::ProcessImage(const std::vector<SnapshotModule>& modules)
    : session_(dwfl_begin(&kDebugInfoCallbacks)) {
  if (session_ == nullptr) {
    warnings_.push_back(std::string("no names: ") + dwfl_errmsg(-1));
    return;
  }
  dwfl_report_begin(session_);
  for (const SnapshotModule& module : modules) Report(module);
  dwfl_report_end(session_, nullptr, nullptr);
  can_unwind_ = dwfl_attach_state(session_, nullptr, 1, &kThreadCallbacks, this);
}

ProcessImage::~ProcessImage() {
  if (session_ != nullptr) dwfl_end(session_);
}

void ProcessImage::Report(const SnapshotModule& module) {
  modules_.push_back({&module, nullptr, false, {}});
  // Not a file: the system's own page.
  if (module.path.find('/') == std::string::npos) return;
  CodeFile code;
  if (!ReadCodeFile(module.path, module.bias, &code)) {
    warnings_.push_back(module.path + " cannot be read: there are no names from it");
  } else if (code.build_id != module.build_id || code.segments != module.segments) {
    warnings_.push_back(
        module.path + " is not the file that the program had loaded (its " +
        (code.build_id != module.build_id ? "build id is another" : "segments are others") +
        "): there are no names from it");
  } else {
    if (code.build_id.empty()) {
      warnings_.push_back(module.path +
                          " has no build id: its names are wrong if it has changed since");
    }
    modules_.back().file =
        dwfl_report_elf(session_, module.path.c_str(), module.path.c_str(), -1, module.bias, true);
  }
}

ProcessImage::Module* ProcessImage::ModuleAt(uint64_t address, uint32_t flags) {
  for (Module& module : modules_) {
    for (const SnapshotSegment& segment : module.snapshot->segments) {
      if (segment.begin <= address && address < segment.end && (segment.flags & flags) != 0) {
        return &module;
      }
    }
  }
  return nullptr;
}

void ProcessImage::ReadSymbols(Module* module) {
  module->has_symbols = true;
  const int count = module->file == nullptr ? 0 : dwfl_module_getsymtab(module->file);
  for (int i = 1; i < count; ++i) {
    GElf_Sym symbol;
    GElf_Addr address = 0;
    const char* name =
        dwfl_module_getsym_info(module->file, i, &symbol, &address, nullptr, nullptr, nullptr);
    const int type = GELF_ST_TYPE(symbol.st_info);
    if (name == nullptr || *name == 0 || symbol.st_size == 0 || symbol.st_shndx == SHN_UNDEF ||
        type == STT_TLS || type == STT_SECTION || type == STT_FILE) {
      continue;
    }
    module->symbols.push_back({address, address + symbol.st_size, name});
  }
  std::stable_sort(module->symbols.begin(), module->symbols.end());
}

const ProcessImage::Symbol* ProcessImage::SymbolAt(Module* module, uint64_t address) {
  if (!module->has_symbols) ReadSymbols(module);
  constexpr int kOverlapping = 8;  // symbols that begin later and end earlier
  auto after =
      std::upper_bound(module->symbols.begin(), module->symbols.end(), Symbol{address, 0, nullptr});
  for (int i = 0; i < kOverlapping && after != module->symbols.begin(); ++i) {
    --after;
    if (address < after->end) return &*after;
  }
  return nullptr;
}

Place ProcessImage::PlaceOf(uint64_t address) {
  Module* module = ModuleAt(address, kAny);
  if (module == nullptr) return {"", "", address};
  const std::string file = FileName(module->snapshot->path);
  const Symbol* symbol = SymbolAt(module, address);
  if (symbol == nullptr) return {file, "", address - module->snapshot->bias};
  if (symbol != named_) {
    named_ = symbol;
    name_ = PlainName(symbol->name);
  }
  return {file, name_, address - symbol->begin};
}

std::string ProcessImage::DeclarationOf(uint64_t address) {
  Module* module = ModuleAt(address, kAny);
  const Symbol* symbol = module == nullptr ? nullptr : SymbolAt(module, address);
  return symbol == nullptr ? "" : LineOfVariable(module->file, symbol->begin);
}

std::string ProcessImage::ClassOf(uint64_t vtable) {
  Module* module = ModuleAt(vtable, kAny);
  const Symbol* symbol = module == nullptr ? nullptr : SymbolAt(module, vtable);
  if (symbol == nullptr || strncmp(symbol->name, "_ZTV", 4) != 0) return "";
  const std::string name = PlainName(symbol->name);
  constexpr char kPrefix[] = "vtable for ";
  return name.starts_with(kPrefix) ? name.substr(strlen(kPrefix)) : name;
}

StackFrame ProcessImage::FrameAt(uint64_t pc, bool is_return, uint64_t stack_pointer) {
  // A return address may be the first of the next function.
  const uint64_t inside = is_return ? pc - 1 : pc;
  const Place place = PlaceOf(inside);
  StackFrame frame = {stack_pointer, place.symbol, ""};
  if (place.symbol.empty()) {
    frame.function = place.module.empty() ? "?" : place.module + "+" + Hexadecimal(place.offset);
  }
  Module* module = ModuleAt(inside, kExecutable);
  Dwfl_Line* line = module == nullptr || module->file == nullptr
                        ? nullptr
                        : dwfl_module_getsrc(module->file, inside);
  int number = 0;
  const char* file =
      line == nullptr ? nullptr : dwfl_lineinfo(line, nullptr, &number, nullptr, nullptr, nullptr);
  if (file != nullptr && number > 0) frame.source = FileName(file) + ":" + std::to_string(number);
  return frame;
}

bool ProcessImage::ReadWord(const SnapshotThread& thread, uint64_t address, uint64_t* word) {
  for (const SnapshotStackWords& words : thread.words) {
    const uint64_t offset = address - words.begin;
    if (address < words.begin || offset / kWordBytes >= words.count || offset % kWordBytes != 0) {
      continue;
    }
    *word = words.words[offset / kWordBytes];
    return true;
  }
  return false;
}

const Dwfl_Thread_Callbacks ProcessImage::kThreadCallbacks = {
    .next_thread = [](Dwfl*, void*, void**) -> pid_t { return 0; },
    .get_thread =
        [](Dwfl*, pid_t, void* image, void** thread) {
          *thread = const_cast<SnapshotThread*>(static_cast<ProcessImage*>(image)->unwinding_);
          return true;
        },
    .memory_read =
        [](Dwfl*, Dwarf_Addr address, Dwarf_Word* word, void* image) {
          auto* self = static_cast<ProcessImage*>(image);
          const SnapshotThread& thread = *self->unwinding_;
          if (ReadWord(thread, address, word)) return true;
          // The library takes a return address that it cannot read for the end of the stack.
          if (thread.stack_begin <= address && address < thread.stack_end) {
            self->unwound_[&thread].is_cut = true;
          }
          return false;
        },
    .set_initial_registers =
        [](Dwfl_Thread* state, void* thread) {
          const auto& registers = static_cast<const SnapshotThread*>(thread)->registers;
          return std::all_of(registers.begin(), registers.end(), [state](const auto& entry) {
            const Dwarf_Word value = entry.second;
            return dwfl_thread_state_registers(state, static_cast<int>(entry.first), 1, &value);
          });
        },
    .detach = nullptr,
    .thread_detach = nullptr,
};

int ProcessImage::AddFrame(Dwfl_Frame* frame, void* image) {
  auto* self = static_cast<ProcessImage*>(image);
  std::vector<StackFrame>* frames = &self->unwound_[self->unwinding_].frames;
  Dwarf_Addr pc = 0;
  bool is_innermost = false;
  Dwarf_Word stack_pointer = 0;
  // Frames that do not lie above each other come from damaged words.
  if (!dwfl_frame_pc(frame, &pc, &is_innermost) ||
      dwfl_frame_reg(frame, kStackPointerRegister, &stack_pointer) != 0 ||
      frames->size() >= kMaxFrames ||
      (!frames->empty() && stack_pointer <= frames->back().stack_pointer)) {
    return DWARF_CB_ABORT;
  }
  frames->push_back(self->FrameAt(pc, !is_innermost, stack_pointer));
  self->FindSaved(is_innermost ? pc : pc - 1, &frames->back());
  return DWARF_CB_OK;
}

void ProcessImage::FindSaved(uint64_t pc, StackFrame* frame) {
  Module* module = ModuleAt(pc, kExecutable);
  if (module == nullptr || module->file == nullptr) return;
  Dwarf_Addr bias = 0;
  Dwarf_CFI* rules = dwfl_module_eh_cfi(module->file, &bias);
  Dwarf_Frame* found = nullptr;
  if (rules == nullptr || dwarf_cfi_addrframe(rules, pc - bias, &found) != 0) return;
  for (const int number : kSavedRegisters) {
    Dwarf_Op memory[3];
    Dwarf_Op* place = nullptr;
    size_t count = 0;
    if (dwarf_frame_register(found, number, memory, &place, &count) == 0 && count == 2 &&
        place[0].atom == DW_OP_call_frame_cfa && place[1].atom == DW_OP_plus_uconst) {
      frame->saved[number] = static_cast<int64_t>(place[1].number);
    }
  }
  free(found);
}

const ProcessImage::Unwound& ProcessImage::Unwind(const SnapshotThread& thread) {
  const auto [found, is_new] = unwound_.try_emplace(&thread);
  if (!is_new || !can_unwind_ || thread.registers.empty()) return found->second;
  unwinding_ = &thread;
  found->second.is_whole =
      dwfl_getthread_frames(session_, 1, AddFrame, this) == 0 && !found->second.is_cut;
  return found->second;
}

FoundFrame ProcessImage::FrameOf(const SnapshotThread& thread, uint64_t address) {
  FoundFrame unknown = {{0, "?", ""}, true};
  if (address < thread.stack_begin || address >= thread.stack_end) return unknown;
  const Unwound& unwound = Unwind(thread);
  const auto after =
      std::upper_bound(unwound.frames.begin(), unwound.frames.end(), address,
                       [](uint64_t a, const StackFrame& frame) { return a < frame.stack_pointer; });
  if (after == unwound.frames.begin() && after != unwound.frames.end()) {
    return {unwound.frames.front(), false};  // what lies below it is its own
  }
  if (after != unwound.frames.end()) {
    for (const auto& [number, offset] : after[-1].saved) {
      if (after->stack_pointer + static_cast<uint64_t>(offset) != address) continue;
      // A function that uses such a register has saved that of its callers, too.
      const auto owner = std::find_if(
          after, unwound.frames.end(),
          [number = number](const StackFrame& frame) { return frame.saved.count(number) != 0; });
      if (owner != unwound.frames.end()) return {*owner, false};
    }
  }
  if (after != unwound.frames.end() || (unwound.is_whole && !unwound.frames.empty())) {
    return {after[-1], false};
  }
  // A function that calls another one leaves the address to return to below its own frame.
  const uint64_t min =
      unwound.frames.empty() ? thread.stack_pointer : unwound.frames.back().stack_pointer;
  for (uint64_t at = address - address % kWordBytes; at > min; at -= kWordBytes) {
    uint64_t word = 0;
    // Beyond the part of the stack that the snapshot has.
    if (!ReadWord(thread, at - kWordBytes, &word)) return unknown;
    if (ModuleAt(word, kExecutable) != nullptr) return {FrameAt(word, true, at), true};
  }
  if (!unwound.frames.empty()) return {unwound.frames.back(), true};
  return unknown;
}

}  // namespace gleaner::tools
