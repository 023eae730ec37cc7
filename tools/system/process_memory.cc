#include "tools/system/process_memory.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

namespace gleaner::tools {

std::string FirstLine(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

namespace {

std::string FolderOf(int process) { return "/proc/" + std::to_string(process) + "/"; }

// The whole content of a file of /proc. Returns 0 or the error.
int ReadWhole(const std::string& path, std::string* content) {
  content->clear();
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return errno;
  std::vector<char> buffer(1 << 16);
  ssize_t n;
  while ((n = read(fd, buffer.data(), buffer.size())) != 0) {
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    content->append(buffer.data(), static_cast<size_t>(n));
  }
  const int error = n < 0 ? errno : 0;
  close(fd);
  return error;
}

// Of a process that /proc does not show.
std::string WhyMissing(int process) {
  const bool is_there = kill(process, 0) == 0 || errno == EPERM;
  return is_there ? "/proc does not show it" : "there is none of that number";
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

ProcessMemory::Stat ProcessMemory::ReadStat() const {
  const std::string line = FirstLine(FolderOf(process_) + "stat");
  const size_t name_end = line.rfind(')');  // a name may have anything in it
  if (name_end == std::string::npos) return {};
  std::istringstream fields(line.substr(name_end + 1));
  Stat stat;
  fields >> stat.state;
  std::string skipped;
  const auto skip = [&](int count) {
    for (int i = 0; i < count; ++i) fields >> skipped;
  };
  // They are the fields 3, 9 and 22.
  skip(5);
  fields >> stat.flags;
  skip(12);
  fields >> stat.start;
  return fields ? stat : Stat{};
}

bool ProcessMemory::OpenThread(const std::string& folder, int* error) {
  const int fd = open((folder + "mem").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    if (errno != ENOENT) *error = errno;
    return false;
  }
  if (FirstLine(folder + "maps").empty()) {
    close(fd);
    return false;
  }
  if (fd_ >= 0) close(fd_);
  fd_ = fd;
  folder_ = folder;
  return true;
}

int ProcessMemory::OpenMemory() {
  int error = ESRCH;
  const std::string folder = FolderOf(process_);
  if (OpenThread(folder, &error) || error != ESRCH) return fd_ < 0 ? error : 0;
  std::error_code ignored;
  for (std::filesystem::directory_iterator thread(folder + "task", ignored), end;
       !ignored && thread != end; thread.increment(ignored)) {
    if (OpenThread(thread->path().string() + "/", &error)) return 0;
  }
  return error;
}

bool ProcessMemory::Open(int process) {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
  if (process != process_) start_ = 0;
  process_ = process;
  is_missing_ = true;
  const std::string whose = "process " + std::to_string(process) + ": ";
  // When a thread executes a program, it takes the place of the first thread, whose memory is gone
  // before: then the threads are looked at more than once.
  constexpr int kLooks = 5;
  for (int look = 0;; ++look) {
    const Stat stat = ReadStat();
    if (stat.state == 0 && start_ == 0) {
      error_ = whose + WhyMissing(process);
      return false;
    }
    if (stat.state == 0 || (start_ != 0 && stat.start != start_)) {
      error_ = whose + "it has ended";
      return false;
    }
    start_ = stat.start;
    const std::string name = FirstLine(FolderOf(process) + "comm");
    if (!name.empty()) name_ = name;
    const int error = OpenMemory();
    if (error == 0) {
      is_missing_ = false;
      return true;
    }
    if (error != ESRCH) {
      is_missing_ = false;
      error_ = whose + "its memory cannot be read: " + strerror(error);
      if (error == EACCES || error == EPERM) error_ += " (" + WhyForbidden() + ")";
      return false;
    }
    if (look + 1 < kLooks) {
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      continue;
    }
    constexpr uint64_t kOfTheKernel = 0x200000;  // PF_KTHREAD
    is_missing_ = (stat.flags & kOfTheKernel) == 0;
    error_ = whose + (is_missing_ ? "it has ended" : "it is a part of the kernel");
    return false;
  }
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
  std::ifstream maps(folder_ + "maps");
  // The first of the mappings without a file that end here, one at the other's end: copies of what
  // follows, if that is of a file (platform/loader/text_copies.h).
  size_t copies = 0;
  uint64_t copies_end = 0;
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin;
    uint64_t end;
    uint64_t offset;
    char rights[5] = {};
    int identity_at = 0;
    int identity_end = 0;
    int path_at = 0;
    // begin-end rights offset device inode path
    if (sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %n%*s %*s%n %n", &begin, &end,
               rights, &offset, &identity_at, &identity_end, &path_at) < 4 ||
        identity_end == 0) {
      continue;
    }
    const std::string path =
        path_at == 0 ? std::string() : line.substr(static_cast<size_t>(path_at));
    if (begin != copies_end) copies = files.size();
    copies_end = 0;
    if (path.empty()) {
      // By its address, since all of them have the same inode.
      if (rights[0] == 'r' && rights[1] == '-') {
        files.push_back({begin, std::to_string(begin), path});
        copies_end = end;
      }
      continue;
    }
    if (path[0] == '[') continue;
    for (size_t i = copies; i < files.size(); ++i) {
      if (files[i].path.empty()) files[i].path = path;
    }
    if (offset != 0) continue;
    files.push_back({begin,
                     line.substr(static_cast<size_t>(identity_at),
                                 static_cast<size_t>(identity_end - identity_at)),
                     path});
  }
  std::erase_if(files, [](const File& file) { return file.path.empty(); });
  return files;
}

int ProcessMemory::ReadFile(const char* name, std::string* content) const {
  return ReadWhole(folder_ + name, content);
}

int ProcessMemory::ReadThreadFile(int thread, const char* name, std::string* content) const {
  return ReadWhole(FolderOf(process_) + "task/" + std::to_string(thread) + "/" + name, content);
}

bool ProcessMemory::VisitPresence(
    uint64_t begin, uint64_t end,
    const std::function<void(uint64_t page, bool is_there)>& f) const {
  constexpr uint64_t kPresent = uint64_t{1} << 63;
  const uint64_t os_page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const int fd = open((folder_ + "pagemap").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::vector<uint64_t> entries(1 << 15);
  while (begin < end) {
    const uint64_t wanted = std::min<uint64_t>((end - begin) / os_page, entries.size());
    const ssize_t n = pread(fd, entries.data(), wanted * sizeof entries[0],
                            static_cast<off_t>(begin / os_page * sizeof entries[0]));
    if (n < 0 && errno == EINTR) continue;
    if (n < static_cast<ssize_t>(sizeof entries[0])) break;
    for (size_t i = 0; i < static_cast<size_t>(n) / sizeof entries[0]; ++i, begin += os_page) {
      f(begin, (entries[i] & kPresent) != 0);
    }
  }
  close(fd);
  return begin >= end;
}

int ProcessMemory::thread() const {
  const size_t task = folder_.rfind("/task/");
  return task == std::string::npos ? process_ : atoi(folder_.c_str() + task + strlen("/task/"));
}

std::vector<int> ProcessMemory::Threads() const {
  std::vector<int> threads;
  std::error_code ignored;
  for (std::filesystem::directory_iterator thread(FolderOf(process_) + "task", ignored), end;
       !ignored && thread != end; thread.increment(ignored)) {
    threads.push_back(atoi(thread->path().filename().c_str()));
  }
  return threads;
}

ProcessMemory::State ProcessMemory::state() const {
  ProcessMemory now;
  now.start_ = start_;
  now.process_ = process_;
  if (!now.Open(process_)) return now.is_missing() ? State::kEnded : State::kOther;
  // Memory that is there, but not the one that is open here, is another program's.
  char byte;
  for (const File& file : now.Files()) {
    if (pread(fd_, &byte, 1, static_cast<off_t>(file.address)) == 1) return State::kRuns;
  }
  return State::kOther;
}

}  // namespace gleaner::tools
