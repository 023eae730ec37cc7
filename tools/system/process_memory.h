// The memory of another process, read while it runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace gleaner::tools {

// Call order: Open, then the others. A process that executes another program is another one here:
// Read fails, and state() is kOther.
class ProcessMemory {
 public:
  ProcessMemory() = default;
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;
  ~ProcessMemory();

  // False, with error(), if there is no such process or its memory may not be read.
  [[nodiscard]] bool Open(int process);
  // False if the memory is not there, or the process has ended.
  [[nodiscard]] bool Read(uint64_t address, void* to, size_t bytes) const;
  // The beginnings of files that are mapped from their first byte.
  struct File {
    uint64_t address;
    std::string path;  // as the kernel names it, also if the file is deleted
  };
  std::vector<File> Files() const;

  enum class State : uint8_t {
    kRuns,
    kEnded,
    kOther,  // it executes another program
  };
  State state() const;
  const std::string& name() const { return name_; }  // of the program
  int process() const { return process_; }
  const std::string& error() const { return error_; }
  bool is_missing() const { return is_missing_; }  // what Open failed for: the process has ended

 private:
  std::string Path(const char* file) const;
  // What field 3 of /proc/PID/stat has, and field 22; 0 if there is no such process.
  char ReadState(uint64_t* start) const;

  int fd_ = -1;
  int process_ = 0;
  uint64_t start_ = 0;  // when the process began: another one may get its number
  std::string name_;
  std::string error_;
  bool is_missing_ = false;
};

}  // namespace gleaner::tools
