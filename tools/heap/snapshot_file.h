// Reading a heap snapshot (docs/reference/formats.md), whatever has become of it.
//
// The file is mapped, not copied. A block is decoded only after its checksum was compared.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "gc/inspect/snapshot_format.h"
#include "tools/heap/heap_graph.h"
#include "tools/system/mapped_file.h"

namespace gleaner::tools {

struct SnapshotSegment {
  uint64_t begin, end;  // addresses in the process
  uint64_t offset;      // in the file that is mapped
  uint32_t flags;       // as in ELF: 1 executable, 2 writable, 4 readable
  bool operator==(const SnapshotSegment&) const = default;
};

struct SnapshotModule {
  std::string path;      // of the program for the first one
  uint64_t bias;         // address in the process - address in the file's symbols
  std::string build_id;  // bytes; empty if there is none
  std::vector<SnapshotSegment> segments;
};

struct SnapshotStackWords {
  uint64_t begin = 0;  // address of the first word
  const uint64_t* words = nullptr;
  size_t count = 0;
};

struct SnapshotThread {
  uint32_t tid;
  std::string name;
  bool is_main;
  bool took_snapshot;  // its innermost frames are the collector's
  uint64_t stack_begin, stack_end;
  uint64_t stack_pointer;  // lowest address in use; 0 if the thread has ended
  // Of the frame from which to unwind, by number as DWARF numbers them on this machine
  // (x86-64: 3 rbx, 6 rbp, 7 rsp, 12-15, 16 the program counter). Empty: not known.
  std::map<uint32_t, uint64_t> registers;
  // The innermost words from the stack pointer on, and others of the program's own stacks.
  std::vector<SnapshotStackWords> words;
};

struct SnapshotKind {
  std::string name;
  bool is_pointer_free, is_described, is_uncollectable, has_disclaim;
};

struct SnapshotFinalizer {
  uint64_t object;     // as registered: may point into the object
  uint64_t function;   // of the program
  bool is_queued;      // the object is unreachable but for its finalizer
  uint64_t data_word;  // where the collector keeps the finalizer's data
};

struct SnapshotLink {
  uint64_t word;  // cleared when the object dies
  uint64_t object;
  bool is_long;  // cleared only after finalization
};

// The word of an object that refers to another one.
struct SnapshotWord {
  uint64_t offset;  // in the object, bytes; kNoOffset: a mark procedure told of the reference
  uint64_t target;  // the word's value
  uint64_t base;    // of the object that it keeps; below `target` if the word is interior
  bool is_known;    // a descriptor or procedure of the program says that it is a pointer
  static constexpr uint64_t kNoOffset = ~uint64_t{0};
};

struct SnapshotTotals {
  uint64_t objects = 0, bytes = 0, references = 0, roots = 0, root_references = 0;
  uint64_t stopped_ns = 0;  // the walk and the writing
  // The marking of the same stop, and how long its workers marked, added up. 0: it began before.
  uint64_t mark_ns = 0, mark_busy_ns = 0, markers = 0;
};

// Call order: Open, then Fill and the questions in any order.
class SnapshotFile {
 public:
  SnapshotFile() = default;
  SnapshotFile(const SnapshotFile&) = delete;
  SnapshotFile& operator=(const SnapshotFile&) = delete;

  // Maps the file, compares all checksums and reads everything but objects, references and roots.
  // False, with error(), if the file cannot be read, is no snapshot of this version, is damaged or
  // its end is missing.
  [[nodiscard]] bool Open(const std::string& path);
  // The objects, references and roots; calls all that HeapGraph's call order asks for. False, with
  // error(), if the file is damaged. Roots are in the order in which the collector has them.
  [[nodiscard]] bool Fill(HeapGraph* graph);
  // The references of the object that begins at `base`, in the order of their words. Decodes one
  // block. Empty if there is no such object.
  std::vector<SnapshotWord> WordsOf(uint64_t base);

  // Lines of the description: version, process, command, wall_ns, page_bytes, mode and so on.
  const std::map<std::string, std::string>& description() const { return description_; }
  const std::vector<SnapshotModule>& modules() const { return modules_; }
  const std::vector<SnapshotThread>& threads() const { return threads_; }
  // By the kind that HeapGraph::KindOf tells.
  const std::vector<SnapshotKind>& kinds() const { return kinds_; }
  const std::vector<SnapshotFinalizer>& finalizers() const { return finalizers_; }
  const std::vector<SnapshotLink>& links() const { return links_; }
  const SnapshotTotals& totals() const { return totals_; }
  const std::string& error() const { return error_; }

 private:
  struct Block {
    gc::SnapshotBlock type;
    uint64_t offset;  // of the payload in the file
    uint64_t bytes;
  };

  bool ReadHead();
  bool ReadBlocks();
  bool ReadBlock(const Block& block);
  // What is right up to `offset` of the payload is not used.
  bool Damaged(uint64_t offset, const char* what);
  // The last block of objects whose first new object does not lie above the address.
  size_t BlockOf(uint64_t address);

  std::string path_;
  MappedFile file_;
  const uint8_t* data_ = nullptr;  // of file_
  uint64_t bytes_ = 0;
  std::vector<Block> blocks_;
  std::map<std::string, std::string> description_;
  std::vector<SnapshotModule> modules_;
  std::vector<SnapshotThread> threads_;
  std::vector<SnapshotKind> kinds_;
  std::vector<SnapshotFinalizer> finalizers_;
  std::vector<SnapshotLink> links_;
  SnapshotTotals totals_;
  std::string error_;
};

}  // namespace gleaner::tools
