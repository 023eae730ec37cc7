// The memory of another process, read while it runs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace gleaner::tools {

// The content of a file of the system without the line's end; empty if there is none.
std::string FirstLine(const std::string& path);

// Call order: Open, then the others. A process that executes another program has other memory:
// Read fails, state() is kOther, and Open leads to that memory.
class ProcessMemory {
 public:
  ProcessMemory() = default;
  ProcessMemory(const ProcessMemory&) = delete;
  ProcessMemory& operator=(const ProcessMemory&) = delete;
  ~ProcessMemory();

  // False, with error(), if there is no such process or its memory may not be read. Once opened, a
  // process of that number that began later is another one: the one that was meant has ended.
  [[nodiscard]] bool Open(int process);
  // False if the memory is not there, or the process has ended.
  [[nodiscard]] bool Read(uint64_t address, void* to, size_t bytes) const;
  // The beginnings of files that are mapped from their first byte, or that may be copied to memory
  // of the process (platform/loader/text_copies.h).
  struct File {
    uint64_t address;
    std::string identity;  // device and inode
    std::string path;      // as the kernel names it, also if the file is deleted
  };
  std::vector<File> Files() const;

  // The content of a file of the process's folder in /proc, such as "maps". Returns 0 or the error.
  int ReadFile(const char* name, std::string* content) const;
  int ReadThreadFile(int thread, const char* name, std::string* content) const;
  // Calls f for whether each OS page of [begin, end) is in memory: the zero page is, too. False if
  // the kernel does not tell.
  [[nodiscard]] bool VisitPresence(
      uint64_t begin, uint64_t end,
      const std::function<void(uint64_t page, bool is_there)>& f) const;
  // The thread through which the memory is read: the first one unless that has ended.
  int thread() const;
  std::vector<int> Threads() const;

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
  // What /proc/PID/stat says.
  struct Stat {
    char state = 0;  // 0: there is no such process
    uint64_t flags = 0;
    uint64_t start = 0;  // when the process began: another one may get its number
  };
  Stat ReadStat() const;
  // By the first thread that has memory: one that has ended before the others has none. Returns 0,
  // or the error; ESRCH if no thread has memory.
  int OpenMemory();
  bool OpenThread(const std::string& folder, int* error);

  int fd_ = -1;
  int process_ = 0;
  uint64_t start_ = 0;
  std::string folder_;  // of the thread that has the memory
  std::string name_;
  std::string error_;
  bool is_missing_ = false;
};

}  // namespace gleaner::tools
