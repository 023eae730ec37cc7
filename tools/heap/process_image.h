// The program of a snapshot by name: which variable, function or type an address belongs to, and
// which frame of a stack. By the symbols and debug information of the files that the program had
// loaded, as far as they are there and unchanged.
#pragma once

#include <elfutils/libdwfl.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tools/heap/snapshot_file.h"

namespace gleaner::tools {

struct Place {
  std::string module;  // the file's name without folders; empty: in no module
  std::string symbol;  // without a name: empty
  uint64_t offset;     // in the symbol, or, without one, the address as the file has it
};

struct StackFrame {
  uint64_t stack_pointer;  // the lowest address of the frame
  std::string function;    // or "MODULE+0x123", or "?"
  std::string source;      // FILE:LINE, or empty
  // Registers of its callers that it has saved, and where, from the next frame's stack pointer on.
  std::map<int, int64_t> saved = {};
};

struct FoundFrame {
  StackFrame frame;
  bool is_guess;  // by the nearest return address, as unwinding does not come as far
};

class ProcessImage {
 public:
  explicit ProcessImage(const std::vector<SnapshotModule>& modules);
  ~ProcessImage();
  ProcessImage(const ProcessImage&) = delete;
  ProcessImage& operator=(const ProcessImage&) = delete;

  Place PlaceOf(uint64_t address);
  // FILE:LINE where the variable that the address lies in is declared; empty if that is not known.
  std::string DeclarationOf(uint64_t address);
  // The class whose vtable the address lies in; empty if there is none.
  std::string ClassOf(uint64_t vtable);
  // The frame of the thread's stack that the address lies in; of a place where a function has saved
  // a register of its callers, the frame of the one whose value that is.
  FoundFrame FrameOf(const SnapshotThread& thread, uint64_t address);
  // Files that are missing or changed since, one sentence each.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  struct Symbol {
    uint64_t begin, end;
    const char* name;  // as the file has it
    bool operator<(const Symbol& other) const { return begin < other.begin; }
  };
  struct Module {
    const SnapshotModule* snapshot;
    Dwfl_Module* file;  // null: missing or changed
    bool has_symbols = false;
    std::vector<Symbol> symbols;  // by address
  };
  struct Unwound {
    std::vector<StackFrame> frames;  // innermost first
    bool is_cut = false;             // words of the stack are not in the snapshot
    bool is_whole = false;           // up to the first function of the thread
  };
  static const Dwfl_Thread_Callbacks kThreadCallbacks;

  void Report(const SnapshotModule& module);
  Module* ModuleAt(uint64_t address, uint32_t flags);
  const Symbol* SymbolAt(Module* module, uint64_t address);
  static void ReadSymbols(Module* module);
  StackFrame FrameAt(uint64_t pc, bool is_return, uint64_t stack_pointer);
  void FindSaved(uint64_t pc, StackFrame* frame);
  const Unwound& Unwind(const SnapshotThread& thread);
  static int AddFrame(Dwfl_Frame* frame, void* unwinding);
  static bool ReadWord(const SnapshotThread& thread, uint64_t address, uint64_t* word);

  Dwfl* session_;
  bool can_unwind_ = false;
  std::vector<Module> modules_;
  std::map<const SnapshotThread*, Unwound> unwound_;
  const SnapshotThread* unwinding_ = nullptr;
  // The symbol that was named last: words of one variable come in a row.
  const Symbol* named_ = nullptr;
  std::string name_;
  std::vector<std::string> warnings_;
};

}  // namespace gleaner::tools
