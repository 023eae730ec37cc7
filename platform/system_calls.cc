#include "platform/system_calls.h"

#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>

#include "platform/fault_signal.h"
#include "platform/imports.h"
#include "platform/protection_tracking.h"

namespace gleaner::platform {

namespace {

// The C library's function of the same name. Written by LookUpOriginals before the function is put
// anywhere.
template <auto kFunction>
constinit decltype(kFunction) g_original = nullptr;

// What a call writes into: pinned as long as this lives. A thread that is cancelled in the call, or
// leaves it by a jump out of a handler, leaves its buffers pinned: they stay writable, and dirty.
class Buffers {
 public:
  Buffers() = default;
  Buffers(const volatile void* p, size_t bytes) { Add(p, bytes); }
  ~Buffers() {
    for (size_t i = 0; i < count_; ++i) ProtectionTracking::UnpinAfterCall(pinned_[i]);
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  void Add(const volatile void* p, size_t bytes) {
    const Addr begin = AddressOf(p);
    Pin({begin, begin + bytes < begin ? ~Addr{0} : begin + bytes});
  }
  template <class T>
  void AddObject(const T* object) {
    if (object != nullptr) Add(object, sizeof *object);
  }
  // What is too much to be noted one by one is pinned with all that lies between.
  void AddVector(const iovec* parts, size_t count) {
    Span rest = {~Addr{0}, 0};
    for (size_t i = 0; i < count; ++i) {
      if (count_ + 1 < kMost) {
        Add(parts[i].iov_base, parts[i].iov_len);
        continue;
      }
      const Addr begin = AddressOf(parts[i].iov_base);
      if (begin < rest.begin) rest.begin = begin;
      if (begin + parts[i].iov_len > rest.end) rest.end = begin + parts[i].iov_len;
    }
    if (rest.begin < rest.end) Pin(rest);
  }
  void AddMessage(const msghdr* message) {
    if (message == nullptr) return;
    AddObject(message);
    Add(message->msg_name, message->msg_namelen);
    Add(message->msg_control, message->msg_controllen);
    AddVector(message->msg_iov, message->msg_iovlen);
  }
  void AddAddress(const sockaddr* address, const socklen_t* bytes) {
    if (bytes == nullptr) return;
    if (address != nullptr) Add(address, *bytes);
    AddObject(bytes);
  }

 private:
  static constexpr size_t kMost = 16;
  struct Span {
    Addr begin, end;
  };

  void Pin(Span span) {
    if (count_ == kMost) return;
    const int saved = errno;
    const ProtectionTracking::Pinned pinned = ProtectionTracking::PinForCall(span.begin, span.end);
    errno = saved;
    if (pinned.first != pinned.end) pinned_[count_++] = pinned;
  }

  ProtectionTracking::Pinned pinned_[kMost];
  size_t count_ = 0;
};

// --- Data ---

ssize_t Read(int fd, void* p, size_t n) {
  const Buffers buffers(p, n);
  return g_original<Read>(fd, p, n);
}
ssize_t CheckedRead(int fd, void* p, size_t n, size_t room) {
  const Buffers buffers(p, n);
  return g_original<CheckedRead>(fd, p, n, room);
}
ssize_t Pread(int fd, void* p, size_t n, off_t offset) {
  const Buffers buffers(p, n);
  return g_original<Pread>(fd, p, n, offset);
}
ssize_t CheckedPread(int fd, void* p, size_t n, off_t offset, size_t room) {
  const Buffers buffers(p, n);
  return g_original<CheckedPread>(fd, p, n, offset, room);
}
ssize_t Readv(int fd, const iovec* parts, int count) {
  Buffers buffers;
  if (count > 0) buffers.AddVector(parts, static_cast<size_t>(count));
  return g_original<Readv>(fd, parts, count);
}
ssize_t Preadv(int fd, const iovec* parts, int count, off_t offset) {
  Buffers buffers;
  if (count > 0) buffers.AddVector(parts, static_cast<size_t>(count));
  return g_original<Preadv>(fd, parts, count, offset);
}
ssize_t Preadv2(int fd, const iovec* parts, int count, off_t offset, int flags) {
  Buffers buffers;
  if (count > 0) buffers.AddVector(parts, static_cast<size_t>(count));
  return g_original<Preadv2>(fd, parts, count, offset, flags);
}
ssize_t Recv(int fd, void* p, size_t n, int flags) {
  const Buffers buffers(p, n);
  return g_original<Recv>(fd, p, n, flags);
}
ssize_t CheckedRecv(int fd, void* p, size_t n, size_t room, int flags) {
  const Buffers buffers(p, n);
  return g_original<CheckedRecv>(fd, p, n, room, flags);
}
ssize_t Recvfrom(int fd, void* p, size_t n, int flags, sockaddr* from, socklen_t* from_bytes) {
  Buffers buffers(p, n);
  buffers.AddAddress(from, from_bytes);
  return g_original<Recvfrom>(fd, p, n, flags, from, from_bytes);
}
ssize_t CheckedRecvfrom(int fd, void* p, size_t n, size_t room, int flags, sockaddr* from,
                        socklen_t* from_bytes) {
  Buffers buffers(p, n);
  buffers.AddAddress(from, from_bytes);
  return g_original<CheckedRecvfrom>(fd, p, n, room, flags, from, from_bytes);
}
ssize_t Recvmsg(int fd, msghdr* message, int flags) {
  Buffers buffers;
  buffers.AddMessage(message);
  return g_original<Recvmsg>(fd, message, flags);
}
// The stream's buffer is the C library's, but a large part goes to the program's memory directly.
size_t Fread(void* p, size_t size, size_t n, FILE* stream) {
  const Buffers buffers(p, size * n);
  return g_original<Fread>(p, size, n, stream);
}
size_t FreadUnlocked(void* p, size_t size, size_t n, FILE* stream) {
  const Buffers buffers(p, size * n);
  return g_original<FreadUnlocked>(p, size, n, stream);
}
size_t CheckedFread(void* p, size_t room, size_t size, size_t n, FILE* stream) {
  const Buffers buffers(p, size * n);
  return g_original<CheckedFread>(p, room, size, n, stream);
}
size_t CheckedFreadUnlocked(void* p, size_t room, size_t size, size_t n, FILE* stream) {
  const Buffers buffers(p, size * n);
  return g_original<CheckedFreadUnlocked>(p, room, size, n, stream);
}
ssize_t Getrandom(void* p, size_t n, unsigned flags) {
  const Buffers buffers(p, n);
  return g_original<Getrandom>(p, n, flags);
}
int Getentropy(void* p, size_t n) {
  const Buffers buffers(p, n);
  return g_original<Getentropy>(p, n);
}
ssize_t Getdents(int fd, void* p, size_t n) {
  const Buffers buffers(p, n);
  return g_original<Getdents>(fd, p, n);
}

// --- Files ---

int Stat(const char* path, struct stat* status) {
  const Buffers buffers(status, sizeof *status);
  return g_original<Stat>(path, status);
}
int Lstat(const char* path, struct stat* status) {
  const Buffers buffers(status, sizeof *status);
  return g_original<Lstat>(path, status);
}
int Fstat(int fd, struct stat* status) {
  const Buffers buffers(status, sizeof *status);
  return g_original<Fstat>(fd, status);
}
int Fstatat(int fd, const char* path, struct stat* status, int flags) {
  const Buffers buffers(status, sizeof *status);
  return g_original<Fstatat>(fd, path, status, flags);
}
ssize_t Readlink(const char* path, char* p, size_t n) {
  const Buffers buffers(p, n);
  return g_original<Readlink>(path, p, n);
}
ssize_t Readlinkat(int fd, const char* path, char* p, size_t n) {
  const Buffers buffers(p, n);
  return g_original<Readlinkat>(fd, path, p, n);
}
char* Getcwd(char* p, size_t n) {
  const Buffers buffers(p, p != nullptr ? n : 0);
  return g_original<Getcwd>(p, n);
}
int Pipe(int* ends) {
  const Buffers buffers(ends, 2 * sizeof *ends);
  return g_original<Pipe>(ends);
}
int Pipe2(int* ends, int flags) {
  const Buffers buffers(ends, 2 * sizeof *ends);
  return g_original<Pipe2>(ends, flags);
}
// A request says how much it writes, or is an old one, none of which writes more than this.
int Ioctl(int fd, unsigned long request, void* p) {
  constexpr size_t kMostOfOldOnes = 256;
  const size_t said = _IOC_SIZE(request);
  const Buffers buffers(p, said != 0 ? said : kMostOfOldOnes);
  return g_original<Ioctl>(fd, request, p);
}

// --- Waiting ---

int Poll(pollfd* fds, nfds_t n, int timeout) {
  const Buffers buffers(fds, n * sizeof *fds);
  return g_original<Poll>(fds, n, timeout);
}
int Ppoll(pollfd* fds, nfds_t n, const timespec* timeout, const sigset_t* mask) {
  const Buffers buffers(fds, n * sizeof *fds);
  return g_original<Ppoll>(fds, n, timeout, mask);
}
int Select(int n, fd_set* read, fd_set* write, fd_set* other, timeval* timeout) {
  Buffers buffers;
  for (const fd_set* set : {read, write, other}) buffers.AddObject(set);
  buffers.AddObject(timeout);
  return g_original<Select>(n, read, write, other, timeout);
}
int Pselect(int n, fd_set* read, fd_set* write, fd_set* other, const timespec* timeout,
            const sigset_t* mask) {
  Buffers buffers;
  for (const fd_set* set : {read, write, other}) buffers.AddObject(set);
  return g_original<Pselect>(n, read, write, other, timeout, mask);
}
int EpollWait(int fd, epoll_event* events, int n, int timeout) {
  const Buffers buffers(events, n > 0 ? static_cast<size_t>(n) * sizeof *events : 0);
  return g_original<EpollWait>(fd, events, n, timeout);
}
int EpollPwait(int fd, epoll_event* events, int n, int timeout, const sigset_t* mask) {
  const Buffers buffers(events, n > 0 ? static_cast<size_t>(n) * sizeof *events : 0);
  return g_original<EpollPwait>(fd, events, n, timeout, mask);
}
pid_t Waitpid(pid_t process, int* status, int options) {
  Buffers buffers;
  buffers.AddObject(status);
  return g_original<Waitpid>(process, status, options);
}
pid_t Wait4(pid_t process, int* status, int options, rusage* usage) {
  Buffers buffers;
  buffers.AddObject(status);
  buffers.AddObject(usage);
  return g_original<Wait4>(process, status, options, usage);
}
int Nanosleep(const timespec* time, timespec* rest) {
  Buffers buffers;
  buffers.AddObject(rest);
  return g_original<Nanosleep>(time, rest);
}

// --- Sockets ---

int Accept(int fd, sockaddr* address, socklen_t* bytes) {
  Buffers buffers;
  buffers.AddAddress(address, bytes);
  return g_original<Accept>(fd, address, bytes);
}
int Accept4(int fd, sockaddr* address, socklen_t* bytes, int flags) {
  Buffers buffers;
  buffers.AddAddress(address, bytes);
  return g_original<Accept4>(fd, address, bytes, flags);
}
int Getsockname(int fd, sockaddr* address, socklen_t* bytes) {
  Buffers buffers;
  buffers.AddAddress(address, bytes);
  return g_original<Getsockname>(fd, address, bytes);
}
int Getpeername(int fd, sockaddr* address, socklen_t* bytes) {
  Buffers buffers;
  buffers.AddAddress(address, bytes);
  return g_original<Getpeername>(fd, address, bytes);
}
int Getsockopt(int fd, int level, int name, void* p, socklen_t* bytes) {
  Buffers buffers;
  if (bytes != nullptr) buffers.Add(p, *bytes);
  buffers.AddObject(bytes);
  return g_original<Getsockopt>(fd, level, name, p, bytes);
}
int Socketpair(int domain, int type, int protocol, int* ends) {
  const Buffers buffers(ends, 2 * sizeof *ends);
  return g_original<Socketpair>(domain, type, protocol, ends);
}

// --- The process ---

int ClockGettime(clockid_t clock, timespec* time) {
  const Buffers buffers(time, sizeof *time);
  return g_original<ClockGettime>(clock, time);
}
int Getrusage(int who, rusage* usage) {
  const Buffers buffers(usage, sizeof *usage);
  return g_original<Getrusage>(who, usage);
}
int Getrlimit(int resource, rlimit* limit) {
  const Buffers buffers(limit, sizeof *limit);
  return g_original<Getrlimit>(resource, limit);
}
int Uname(utsname* name) {
  const Buffers buffers(name, sizeof *name);
  return g_original<Uname>(name);
}

// --- Signals ---

// The set without SIGSEGV, which nobody may block who stores into the heap.
const sigset_t* WithoutFault(const sigset_t* set, sigset_t* copy) {
  if (set == nullptr) return nullptr;
  *copy = *set;
  sigdelset(copy, SIGSEGV);
  return copy;
}
int Sigmask(int how, const sigset_t* set, sigset_t* old) {
  Buffers buffers;
  buffers.AddObject(old);
  sigset_t open;
  return g_original<Sigmask>(how, how == SIG_UNBLOCK ? set : WithoutFault(set, &open), old);
}
int ProcessMask(int how, const sigset_t* set, sigset_t* old) {
  Buffers buffers;
  buffers.AddObject(old);
  sigset_t open;
  return g_original<ProcessMask>(how, how == SIG_UNBLOCK ? set : WithoutFault(set, &open), old);
}
int Action(int number, const struct sigaction* action, struct sigaction* old) {
  if (number == SIGSEGV && ExchangeChainedAction(action, old)) return 0;
  if (action == nullptr) return g_original<Action>(number, action, old);
  struct sigaction open = *action;
  sigdelset(&open.sa_mask, SIGSEGV);
  return g_original<Action>(number, &open, old);
}
sighandler_t Handler(int number, sighandler_t handler) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  struct sigaction old;
  if (number == SIGSEGV && ExchangeChainedAction(&action, &old)) return old.sa_handler;
  return g_original<Handler>(number, handler);
}

// --- The table ---

constexpr size_t kMostImports = 61;

// Constant after LookUpOriginals.
constinit ReplacedImport g_imports[kMostImports] = {};
constinit size_t g_import_count = 0;

// Names of one function, where there is one size of offsets, have one original.
template <auto kFunction>
void LookUp(void* libc, const char* name) {
  void* original = dlsym(libc, name);
  if (original == nullptr) return;
  g_original<kFunction> = reinterpret_cast<decltype(kFunction)>(original);
  g_imports[g_import_count++] = {name, reinterpret_cast<void*>(kFunction), original};
}

void LookUpOriginals() {
  void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (libc == nullptr) return;
  LookUp<Read>(libc, "read");
  LookUp<CheckedRead>(libc, "__read_chk");
  LookUp<Pread>(libc, "pread");
  LookUp<Pread>(libc, "pread64");
  LookUp<CheckedPread>(libc, "__pread_chk");
  LookUp<CheckedPread>(libc, "__pread64_chk");
  LookUp<Readv>(libc, "readv");
  LookUp<Preadv>(libc, "preadv");
  LookUp<Preadv>(libc, "preadv64");
  LookUp<Preadv2>(libc, "preadv2");
  LookUp<Preadv2>(libc, "preadv64v2");
  LookUp<Recv>(libc, "recv");
  LookUp<CheckedRecv>(libc, "__recv_chk");
  LookUp<Recvfrom>(libc, "recvfrom");
  LookUp<CheckedRecvfrom>(libc, "__recvfrom_chk");
  LookUp<Recvmsg>(libc, "recvmsg");
  LookUp<Fread>(libc, "fread");
  LookUp<FreadUnlocked>(libc, "fread_unlocked");
  LookUp<CheckedFread>(libc, "__fread_chk");
  LookUp<CheckedFreadUnlocked>(libc, "__fread_unlocked_chk");
  LookUp<Getrandom>(libc, "getrandom");
  LookUp<Getentropy>(libc, "getentropy");
  LookUp<Getdents>(libc, "getdents64");
  LookUp<Stat>(libc, "stat");
  LookUp<Stat>(libc, "stat64");
  LookUp<Lstat>(libc, "lstat");
  LookUp<Lstat>(libc, "lstat64");
  LookUp<Fstat>(libc, "fstat");
  LookUp<Fstat>(libc, "fstat64");
  LookUp<Fstatat>(libc, "fstatat");
  LookUp<Fstatat>(libc, "fstatat64");
  LookUp<Readlink>(libc, "readlink");
  LookUp<Readlinkat>(libc, "readlinkat");
  LookUp<Getcwd>(libc, "getcwd");
  LookUp<Pipe>(libc, "pipe");
  LookUp<Pipe2>(libc, "pipe2");
  LookUp<Ioctl>(libc, "ioctl");
  LookUp<Poll>(libc, "poll");
  LookUp<Ppoll>(libc, "ppoll");
  LookUp<Select>(libc, "select");
  LookUp<Pselect>(libc, "pselect");
  LookUp<EpollWait>(libc, "epoll_wait");
  LookUp<EpollPwait>(libc, "epoll_pwait");
  LookUp<Waitpid>(libc, "waitpid");
  LookUp<Wait4>(libc, "wait4");
  LookUp<Nanosleep>(libc, "nanosleep");
  LookUp<Accept>(libc, "accept");
  LookUp<Accept4>(libc, "accept4");
  LookUp<Getsockname>(libc, "getsockname");
  LookUp<Getpeername>(libc, "getpeername");
  LookUp<Getsockopt>(libc, "getsockopt");
  LookUp<Socketpair>(libc, "socketpair");
  LookUp<ClockGettime>(libc, "clock_gettime");
  LookUp<Getrusage>(libc, "getrusage");
  LookUp<Getrlimit>(libc, "getrlimit");
  LookUp<Getrlimit>(libc, "getrlimit64");
  LookUp<Uname>(libc, "uname");
  LookUp<Sigmask>(libc, "pthread_sigmask");
  LookUp<ProcessMask>(libc, "sigprocmask");
  LookUp<Action>(libc, "sigaction");
  LookUp<Handler>(libc, "signal");
}

constinit pthread_once_t g_looked_up = PTHREAD_ONCE_INIT;
constinit Atomic<bool> g_interposed{false};

}  // namespace

void InterposeSystemCalls() {
  pthread_once(&g_looked_up, LookUpOriginals);
  ReplaceImports(g_imports, g_import_count);
  g_interposed.Store(true, memory_order_release);  // pairs with InterposeInNewObjects
}

void InterposeInNewObjects() {
  // Acquire: the table.
  if (g_interposed.Load(memory_order_acquire)) ReplaceImports(g_imports, g_import_count);
}

}  // namespace gleaner::platform
