#include "tools/system/run_program.h"

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include "platform/os/clock.h"
#include "platform/os/memory.h"

namespace gleaner::tools {
namespace {

#if defined(__x86_64__)
constexpr int kMachine = EM_X86_64;
#else
constexpr int kMachine = EM_AARCH64;
#endif

// How many nested interpreters the kernel follows.
constexpr int kMaxInterpreters = 5;

enum class Found : uint8_t { kNo, kNotExecutable, kYes };

Found Look(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return errno == EACCES ? Found::kNotExecutable : Found::kNo;
  if (!S_ISREG(status.st_mode) || access(path.c_str(), X_OK) != 0) return Found::kNotExecutable;
  return Found::kYes;
}

// Looks for the program as execvp does: the first file that can be executed.
Found Search(const char* program, const char* search_path, std::string* path) {
  if (strchr(program, '/') != nullptr) {
    *path = program;
    return Look(*path);
  }
  *path = program;
  Found result = Found::kNo;
  if (*program == 0) return result;
  const std::string folders = search_path != nullptr ? search_path : "/bin:/usr/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end =
        folders.find(':', begin) < folders.size() ? folders.find(':', begin) : folders.size();
    const std::string folder = folders.substr(begin, end - begin);
    const std::string candidate = (folder.empty() ? "." : folder) + "/" + program;
    const Found found = Look(candidate);
    if (found != Found::kNo) *path = candidate;
    if (found == Found::kYes) return found;
    if (found == Found::kNotExecutable) result = found;
    begin = end + 1;
  }
  return result;
}

// Whether the kernel runs the program with elevated rights, so that the loader does not trust the
// environment.
bool GetsElevated(const std::string& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return false;
  if ((status.st_mode & S_ISUID) != 0 && status.st_uid != getuid()) return true;
  if ((status.st_mode & S_ISGID) != 0 && (status.st_mode & S_IXGRP) != 0 &&
      status.st_gid != getgid()) {
    return true;
  }
  return getuid() != 0 && getxattr(path.c_str(), "security.capability", nullptr, 0) > 0;
}

// Up to `bytes` bytes of a file from `offset` on; empty if it cannot be read.
std::string ReadHead(const std::string& path, size_t bytes, off_t offset = 0) {
  std::string head(bytes, '\0');
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  const ssize_t n = fd < 0 ? 0 : pread(fd, head.data(), bytes, offset);
  if (fd >= 0) close(fd);
  head.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return head;
}

LoaderPath InspectElf(const std::string& path, const std::string& head) {
  Elf64_Ehdr header;
  if (head.size() < sizeof header) return LoaderPath::kOtherMachine;
  memcpy(&header, head.data(), sizeof header);
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != kMachine) {
    return LoaderPath::kOtherMachine;
  }
  const std::string table =
      ReadHead(path, header.e_phnum * sizeof(Elf64_Phdr), static_cast<off_t>(header.e_phoff));
  for (size_t at = 0; at + sizeof(Elf64_Phdr) <= table.size(); at += sizeof(Elf64_Phdr)) {
    Elf64_Phdr segment;
    memcpy(&segment, table.data() + at, sizeof segment);
    if (segment.p_type == PT_INTERP) return LoaderPath::kCounts;
  }
  return LoaderPath::kStatic;
}

// --- The child, and signals on their way to it ---

// Adds the signals that are forwarded to the program: all but faults and the terminal's stops.
void AddForwarded(sigset_t* set) {
  sigfillset(set);
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGSYS, SIGABRT, SIGTSTP,
                           SIGTTIN, SIGTTOU, SIGCONT}) {
    sigdelset(set, number);
  }
}

[[noreturn]] void BecomeProgram(char* const* arguments, const sigset_t& mask,
                                const struct sigaction& on_child, pid_t parent, int report) {
  sigaction(SIGCHLD, &on_child, nullptr);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  if (getppid() != parent) _exit(128 + SIGKILL);  // the parent was killed before the prctl
  const int error = Execute(arguments);
  if (write(report, &error, sizeof error) < 0) _exit(126);
  _exit(126);
}

// --- The observer ---

class Observation {
 public:
  // Before the fork. Without an observer the object does nothing.
  explicit Observation(Observer* observer)
      : observer_(observer),
        traces_(observer != nullptr && !(observer->after_seconds >= 0)),
        look_ns_(observer != nullptr && !traces_
                     ? platform::NowNs() + static_cast<uint64_t>(observer->after_seconds * 1e9)
                     : 0) {
    if (traces_ && pipe2(begin_, O_CLOEXEC) != 0) Fail(errno);
  }

  // In the child: waits until its parent traces it.
  void WaitForTracer() const {
    char byte;
    if (!traces_) return;
    close(begin_[1]);
    while (read(begin_[0], &byte, 1) < 0 && errno == EINTR) {
    }
  }
  // In the parent. `report`: the pipe that closes when the child executes the program.
  void Begin(pid_t child, int report) {
    child_ = child;
    report_ = report;
    if (!traces_) return;
    if (ptrace(PTRACE_SEIZE, child, nullptr, PTRACE_O_TRACEEXIT | PTRACE_O_TRACEEXEC) != 0) {
      Fail(errno);
    }
    close(begin_[0]);
    close(begin_[1]);
  }

  // Waits for a signal of the set. False if there was none: something else is to be done first.
  bool WaitForSignal(const sigset_t& set, siginfo_t* signal) {
    if (look_ns_ == 0) return sigwaitinfo(&set, signal) > 0;
    const uint64_t now = platform::NowNs();
    const uint64_t left = look_ns_ > now ? look_ns_ - now : 0;
    const timespec limit = {static_cast<time_t>(left / 1'000'000'000),
                            static_cast<long>(left % 1'000'000'000)};
    if (sigtimedwait(&set, signal, &limit) > 0) return true;
    if (errno == EAGAIN) {
      look_ns_ = 0;
      pollfd executes = {report_, POLLIN, 0};
      if (poll(&executes, 1, -1) > 0 && (executes.revents & POLLIN) == 0) Look();
    }
    return false;
  }

  // Whether the stop of the child is one of tracing: then it goes on.
  bool HandleStop(int status) {
    if (!traces_) return false;
    const int event = status >> 16;
    is_executed_ |= event == PTRACE_EVENT_EXEC;
    if (event == PTRACE_EVENT_EXIT) {
      if (is_executed_) Look();
      ptrace(PTRACE_DETACH, child_, nullptr, nullptr);
      return true;
    }
    if (event == PTRACE_EVENT_STOP && WSTOPSIG(status) != SIGTRAP) {
      // Stopped by a signal as every process may be, until SIGCONT.
      ptrace(PTRACE_LISTEN, child_, nullptr, nullptr);
      return false;
    }
    // On its way to a signal handler or to a stop by a signal, or in an event.
    const int signal = event == 0 ? WSTOPSIG(status) : 0;
    ptrace(PTRACE_CONT, child_, nullptr, static_cast<long>(signal));
    return true;
  }

 private:
  void Look() {
    observer_->look(child_);
    observer_->has_looked = true;
  }
  void Fail(int error) {
    traces_ = false;
    observer_->error = error;
  }

  Observer* const observer_;
  bool traces_;
  uint64_t look_ns_;  // when to look; 0: at the end or not any more
  pid_t child_ = 0;
  bool is_executed_ = false;  // known if it traces
  int report_ = -1;
  int begin_[2] = {-1, -1};
};

}  // namespace

std::string DirectoryOfThisProgram() {
  char path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  std::string file(path,
                   n > 0 && n < static_cast<ssize_t>(sizeof path) ? static_cast<size_t>(n) : 0);
  if (file.empty()) {
    // Without /proc: what was executed, which may be a link.
    const int error = errno;
    const char* given = reinterpret_cast<const char*>(getauxval(AT_EXECFN));
    errno = error;
    if (given == nullptr || realpath(given, path) == nullptr) return {};
    file = path;
  }
  return file.substr(0, file.rfind('/'));
}

bool IsReadableFile(const std::string& path) { return access(path.c_str(), R_OK) == 0; }

Inspection InspectProgram(const char* program, const char* search_path) {
  Inspection inspection{LoaderPath::kNotFound, program};
  const Found found = Search(program, search_path, &inspection.file);
  if (found != Found::kYes) {
    if (found == Found::kNotExecutable) inspection.result = LoaderPath::kNotExecutable;
    return inspection;
  }
  for (int depth = 0; depth < kMaxInterpreters; ++depth) {
    const std::string head = ReadHead(inspection.file, 256);
    if (head.compare(0, 4, ELFMAG) == 0) {
      inspection.result =
          GetsElevated(inspection.file) ? LoaderPath::kElevated : InspectElf(inspection.file, head);
      return inspection;
    }
    // Without "#!", execvp runs the file by the shell. A file that cannot be read may still be
    // executable.
    inspection.result = LoaderPath::kCounts;
    if (head.compare(0, 2, "#!") != 0) return inspection;
    const size_t begin = head.find_first_not_of(" \t", 2);
    if (begin == std::string::npos) return inspection;
    const size_t end = head.find_first_of(" \t\n", begin);
    inspection.file = head.substr(begin, end == std::string::npos ? end : end - begin);
    if (Look(inspection.file) != Found::kYes) {
      inspection.result = LoaderPath::kNoInterpreter;
      return inspection;
    }
  }
  return inspection;
}

int Execute(char* const* arguments) {
  execvp(arguments[0], arguments);
  return errno;
}

void* CreateSharedMemory(size_t bytes, std::string* path) {
  const size_t all = AlignUp(bytes, platform::OsPageBytes());
  const int fd = memfd_create("gleaner-run", MFD_CLOEXEC);
  if (fd < 0) return nullptr;
  if (ftruncate(fd, static_cast<off_t>(all)) != 0) return nullptr;
  void* memory = mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  *path = "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(fd);
  return memory;
}

Ended RunAndWait(char* const* arguments, void (*note)(uint64_t, void*), void* context,
                 Observer* observer) {
  Ended ended;
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    ended.error = errno;
    return ended;
  }
  sigset_t forwarded;
  sigset_t mask;
  AddForwarded(&forwarded);
  sigprocmask(SIG_BLOCK, &forwarded, &mask);
  struct sigaction by_default = {};
  struct sigaction on_child;
  by_default.sa_handler = SIG_DFL;
  // An ignored SIGCHLD would discard the child's status.
  sigaction(SIGCHLD, &by_default, &on_child);

  Observation observation(observer);
  const uint64_t begin = platform::NowNs();
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    ended.error = errno;
    return ended;
  }
  if (child == 0) {
    note(static_cast<uint64_t>(getpid()), context);
    observation.WaitForTracer();
    BecomeProgram(arguments, mask, on_child, parent, report[1]);
  }
  close(report[1]);
  observation.Begin(child, report[0]);

  for (;;) {
    siginfo_t signal;
    if (!observation.WaitForSignal(forwarded, &signal)) continue;  // or interrupted by a stop
    if (signal.si_signo != SIGCHLD) {
      // A terminal sends its signals to the whole foreground group; a process's signal reaches this
      // process only and is forwarded.
      if (signal.si_code != SI_KERNEL) kill(child, signal.si_signo);
      continue;
    }
    rusage usage;
    const pid_t changed = wait4(child, &ended.status, WNOHANG | WUNTRACED, &usage);
    if (changed != child) continue;
    if (WIFSTOPPED(ended.status) && observation.HandleStop(ended.status)) continue;
    if (WIFSTOPPED(ended.status)) {
      // Of stops, only SIGSTOP is repeated here: a terminal's stop has reached this process as
      // well.
      if (WSTOPSIG(ended.status) == SIGSTOP) {
        raise(SIGSTOP);
        kill(child, SIGCONT);
      }
      continue;
    }
    ended.wall_ns = platform::NowNs() - begin;
    ended.peak_resident_bytes = static_cast<uint64_t>(usage.ru_maxrss) * kKiB;
    break;
  }
  int error = 0;
  if (read(report[0], &error, sizeof error) == sizeof error) ended.error = error;
  close(report[0]);
  return ended;
}

void EndLike(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    const rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);  // the program has left a core file already
    struct sigaction by_default = {};
    by_default.sa_handler = SIG_DFL;
    sigaction(number, &by_default, nullptr);
    sigset_t open;
    sigemptyset(&open);
    sigaddset(&open, number);
    sigprocmask(SIG_UNBLOCK, &open, nullptr);
    kill(getpid(), number);
    _exit(128 + number);
  }
  _exit(WEXITSTATUS(status));
}

}  // namespace gleaner::tools
