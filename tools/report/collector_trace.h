// Reading a collector trace (docs/reference/formats.md), whatever has become of it.
#pragma once

#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "observe/trace.h"

namespace gleaner::tools {

enum class TraceForm : uint8_t { kSpan, kInstant, kCounter, kNote };

struct TraceArgument {
  std::string name;
  std::string words;  // the list that the number stands for a word of; empty: a number
};

// A row of observe/trace_events.def.
struct TraceEventRow {
  platform::TraceEvent event;
  const char* name;
  TraceForm form;
  std::vector<TraceArgument> arguments;  // without a span's duration
};
// Null if this version knows no such event.
const TraceEventRow* RowOfTraceEvent(platform::TraceEvent event);
// What a number stands for: the word of the list, or null if the list has none for it.
const char* WordOfTrace(const std::string& list, uint64_t number);
// The text that these words hold, up to the first zero byte.
std::string TextOfTrace(const uint64_t* words, size_t count);

struct TraceRecord {
  platform::TraceEvent event;
  uint32_t thread;
  uint64_t begin_ns;
  uint64_t duration_ns;  // 0 but for spans
  const uint64_t* arguments;
  size_t count;
};

// The thread's name and its number in the system. pre: a record of TraceEvent::kThread.
std::string NameInTrace(const TraceRecord& record);

// Call order: Open, then Next until it returns false, then the questions about the end.
class CollectorTrace {
 public:
  CollectorTrace() = default;
  CollectorTrace(const CollectorTrace&) = delete;
  CollectorTrace& operator=(const CollectorTrace&) = delete;
  ~CollectorTrace();

  // False, with error(), if the file cannot be read or is no trace of a version that this reads.
  [[nodiscard]] bool Open(const std::string& path);
  // Of the process: version, process, parent, host, began_ns, command and so on.
  const std::map<std::string, std::string>& description() const { return description_; }
  uint64_t Number(const char* key) const;

  // The last NameInTrace of each thread, by its number in the trace; empty if the file cannot be
  // read twice. pre: no record has been read.
  std::map<uint32_t, std::string> ReadThreadNames();

  // Gets the next record that this version knows. False at the end.
  [[nodiscard]] bool Next(TraceRecord* record);
  // Whether the process has ended the trace: if not it was killed, called _exit or exec, or could
  // not write.
  bool is_complete() const { return complete_; }
  uint64_t dropped_events() const { return dropped_; }
  uint64_t untraced_threads() const { return untraced_; }
  // What is wrong with the file; empty if nothing is. What came before is right.
  const std::string& error() const { return error_; }
  // What is said of a trace that is not whole, of which `output` has what is good; empty if it is.
  std::string Flaw(const std::string& output) const;

 private:
  bool ReadDescription(uint64_t bytes);
  // Reads up to `count` words; the number of whole words read.
  size_t Read(uint64_t* words, size_t count);
  bool Damaged(const char* what);

  FILE* file_ = nullptr;
  std::string path_;
  std::map<std::string, std::string> description_;
  uint64_t offset_ = 0;  // in bytes
  uint64_t words_[256];
  bool complete_ = false;
  uint64_t dropped_ = 0;
  uint64_t untraced_ = 0;
  std::string error_;
};

}  // namespace gleaner::tools
