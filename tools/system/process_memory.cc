#include "tools/system/process_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <sstream>

namespace gleaner::tools {
namespace {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// Why the kernel does not let this process read the other's memory.
std::string WhyForbidden() {
  const std::string scope = FirstLine("/proc/sys/kernel/yama/ptrace_scope");
  const std::string advice = "; root may, with CAP_SYS_PTRACE";
  if (scope.empty() || scope == "0") {
    return "it is another user's, or has more rights than this one" + advice;
  }
  if (scope == "1") {
    return "kernel.yama.ptrace_scope is 1: a process may read its children only" + advice +
           ", and everybody their own after `sysctl kernel.yama.ptrace_scope=0`";
  }
  return "kernel.yama.ptrace_scope is " + scope +
         (scope == "2" ? advice : ": nobody may until the machine starts anew");
}

}  // namespace

ProcessMemory::~ProcessMemory() {
  if (fd_ >= 0) close(fd_);
}

std::string ProcessMemory::Path(const char* file) const {
  return "/proc/" + std::to_string(process_) + "/" + file;
}

char ProcessMemory::ReadState(uint64_t* start) const {
  const std::string line = FirstLine(Path("stat"));
  const size_t name_end = line.rfind(')');  // a name may have anything in it
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  char state = 0;
  fields >> state;
  std::string skipped;
  constexpr int kFieldsBetween = 18;
  for (int i = 0; i < kFieldsBetween; ++i) fields >> skipped;
  fields >> *start;
  return fields ? state : 0;
}

bool ProcessMemory::Open(int process) {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  process_ = process;
  const std::string whose = "process " + std::to_string(process) + ": ";
  const char state = ReadState(&start_);
  is_missing_ = state == 0 || state == 'Z' || state == 'X';
  if (state == 0) {
    error_ = whose + "there is none of that number";
    return false;
  }
  if (is_missing_) {
    error_ = whose + "it has ended";
    return false;
  }
  name_ = FirstLine(Path("comm"));
  fd_ = open(Path("mem").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd_ >= 0) return true;
  const int error = errno;
  error_ = whose + "its memory cannot be read: " + strerror(error);
  if (error == EACCES || error == EPERM) error_ += " (" + WhyForbidden() + ")";
  return false;
}

bool ProcessMemory::Read(uint64_t address, void* to, size_t bytes) const {
  char* at = static_cast<char*>(to);
  while (bytes != 0) {
    const ssize_t n = pread(fd_, at, bytes, static_cast<off_t>(address));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    address += static_cast<uint64_t>(n);
    bytes -= static_cast<size_t>(n);
  }
  return true;
}

std::vector<ProcessMemory::File> ProcessMemory::Files() const {
  std::vector<File> files;
  std::ifstream maps(Path("maps"));
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin;
    uint64_t offset;
    int path_at = 0;
    // begin-end rights offset device inode path
    if (sscanf(line.c_str(), "%" SCNx64 "-%*x %*s %" SCNx64 " %*s %*s %n", &begin, &offset,
               &path_at) < 2 ||
        path_at == 0 || offset != 0) {
      continue;
    }
    const std::string path = line.substr(static_cast<size_t>(path_at));
    if (!path.empty() && path[0] != '[') files.push_back({begin, path});
  }
  return files;
}

ProcessMemory::State ProcessMemory::state() const {
  uint64_t start = 0;
  const char state = ReadState(&start);
  if (state == 0 || state == 'Z' || state == 'X' || start != start_) return State::kEnded;
  // The memory is gone though the process is not. It has some of its own: its program's.
  char byte;
  for (const File& file : Files()) {
    if (pread(fd_, &byte, 1, static_cast<off_t>(file.address)) == 1) return State::kRuns;
  }
  return State::kOther;
}

}  // namespace gleaner::tools
