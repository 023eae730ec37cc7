// Calls that have the system write into objects while a cycle by mprotect has them read-only: each
// does there what it does in memory of another kind. Those that the system refuses are refused in
// the same way.
#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/sendfile.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <threads.h>

#include <cerrno>
#include <csetjmp>
#include <cstring>

#include "tests/concurrent/workload.h"
#include "tests/support/thread_state.h"

// As a program that has not been compiled for the collector calls them.
#undef pthread_create
#undef pthread_join
#undef pthread_sigmask

// Old functions, and arguments that are wrong on purpose.
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#ifndef __clang__
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

extern "C" {
ssize_t __read_chk(int, void*, size_t, size_t);
ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
ssize_t __pread64_chk(int, void*, size_t, off_t, size_t);
ssize_t __recv_chk(int, void*, size_t, size_t, int);
ssize_t __recvfrom_chk(int, void*, size_t, size_t, int, sockaddr*, socklen_t*);
ssize_t __readlink_chk(const char*, char*, size_t, size_t);
ssize_t __readlinkat_chk(int, const char*, char*, size_t, size_t);
char* __getcwd_chk(char*, size_t, size_t);
int __getgroups_chk(int, gid_t*, size_t);
int __poll_chk(pollfd*, nfds_t, int, size_t);
int __ppoll_chk(pollfd*, nfds_t, const timespec*, const sigset_t*, size_t);
int __ttyname_r_chk(int, char*, size_t, size_t);
size_t __fread_chk(void*, size_t, size_t, size_t, FILE*);
size_t __fread_unlocked_chk(void*, size_t, size_t, size_t, FILE*);
ssize_t __read(int, void*, size_t);
ssize_t __pread64(int, void*, size_t, off_t);
int __poll(pollfd*, nfds_t, int);
int __select(int, fd_set*, fd_set*, fd_set*, timeval*);
pid_t __wait(int*);
pid_t __waitpid(pid_t, int*, int);
int __nanosleep(const timespec*, timespec*);
int __pipe(int*);
int __statfs(const char*, struct statfs*);
int __clock_gettime(clockid_t, timespec*);
int __getrlimit(int, rlimit*);
int __fcntl(int, int, ...);
int capget(void*, void*);
// Of programs that were linked before glibc 2.33.
int OldStat(int, const char*, struct stat*);
int OldLstat(int, const char*, struct stat*);
int OldFstat(int, int, struct stat*);
int OldFstatat(int, int, const char*, struct stat*, int);
}
#if defined(__x86_64__)
asm(".symver OldStat, __xstat@GLIBC_2.2.5");
asm(".symver OldLstat, __lxstat@GLIBC_2.2.5");
asm(".symver OldFstat, __fxstat@GLIBC_2.2.5");
asm(".symver OldFstatat, __fxstatat@GLIBC_2.4");
#endif

#if defined(__x86_64__) && \
    !defined(__SANITIZE_ADDRESS__)  // whose functions call the system themselves

namespace {

using namespace gleaner::testing;

constexpr size_t kGranule = 64 << 10;
constexpr char kPattern = 0x5a;

// A system call of which nobody knows.
long Raw(long number, long a, long b, long c, long d = 0) {
  register long r10 asm("r10") = d;
  long result;
  asm volatile("syscall"
               : "=a"(result)
               : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10)
               : "rcx", "r11", "memory");
  return result;
}
bool SystemMayWrite(void* p) { return Raw(SYS_getcpu, reinterpret_cast<long>(p), 0, 0) == 0; }

template <class T>
T* As(char* p) {
  return reinterpret_cast<T*>(p);
}
template <class T>
T* Set(char* p, const T& value) {
  return static_cast<T*>(memcpy(p, &value, sizeof value));
}
long Outcome(long result) { return result == -1 ? -errno : result; }

// What calls read. All are made before the objects are armed.
int g_kernel_clock;
int g_file, g_socket[2], g_listening, g_packets[2], g_pipe[2], g_epoll, g_timer, g_terminal;
timer_t g_clock;
sockaddr_un g_address;

// A file with some bytes, at its beginning.
int File() {
  lseek(g_file, 0, SEEK_SET);
  return g_file;
}
int Socket() {
  char drop[64];
  while (recv(g_packets[0], drop, sizeof drop, MSG_DONTWAIT) > 0) {
  }
  EXPECT_EQ(send(g_packets[1], "datagram", 8, 0), 8);
  return g_packets[0];
}
FILE* Buffered() { return fdopen(dup(File()), "r"); }
FILE* Stream() {
  FILE* stream = Buffered();
  setvbuf(stream, nullptr, _IONBF, 0);
  return stream;
}
pid_t Ended() {
  const pid_t child = vfork();
  if (child == 0) _exit(3);
  return child;
}

// Whether a process was started, and has ended.
using Spawn = int(pid_t*, const char*, const posix_spawn_file_actions_t*, const posix_spawnattr_t*,
                  char* const*, char* const*);
bool Spawned(Spawn* spawn, pid_t* child) {
  static char name[] = "/bin/true";
  char* const arguments[] = {name, nullptr};
  return spawn(child, name, nullptr, nullptr, arguments, environ) == 0 &&
         waitpid(*child, nullptr, 0) == *child;
}
long MajorAndMinor(const char* path) {
  struct stat status;
  EXPECT_EQ(stat(path, &status), 0);
  return static_cast<long>(status.st_dev);
}
int Pipe() {
  EXPECT_EQ(write(g_pipe[1], "12345678", 8), 8);
  return g_pipe[0];
}

// A name server of this process that answers every question by itself.
int g_name_server;
unsigned char g_question[64];
int g_question_bytes;
void* AnswerQuestions(void*) {
  for (;;) {
    unsigned char message[512];
    sockaddr_in from;
    socklen_t length = sizeof from;
    const ssize_t n = recvfrom(g_name_server, message, sizeof message, 0,
                               reinterpret_cast<sockaddr*>(&from), &length);
    if (n < 12) continue;
    message[2] |= 0x80;  // an answer
    message[3] = 0;      // there is such a name
    message[7] = 1;      // of one record
    sendto(g_name_server, message, static_cast<size_t>(n), 0, reinterpret_cast<sockaddr*>(&from),
           length);
  }
}
void StartNameServer() {
  g_name_server = socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  ASSERT_EQ(bind(g_name_server, reinterpret_cast<sockaddr*>(&address), length), 0);
  ASSERT_EQ(getsockname(g_name_server, reinterpret_cast<sockaddr*>(&address), &length), 0);
  pthread_t thread;
  ASSERT_EQ(pthread_create(&thread, nullptr, AnswerQuestions, nullptr), 0);
  ASSERT_EQ(res_init(), 0);
  _res.nscount = 1;
  _res.nsaddr_list[0] = address;
  _res.retry = 2;
  g_question_bytes = res_mkquery(ns_o_query, "gleaner.invalid", 1, 1, nullptr, 0, nullptr,
                                 g_question, sizeof g_question);
  ASSERT_GT(g_question_bytes, 0);
}
int Answered(int bytes) {
  EXPECT_EQ(bytes, g_question_bytes);
  return bytes;
}

void PrepareInputs() {
  g_file = memfd_create("gleaner", 0);
  char page[8192];
  memset(page, 'x', sizeof page);
  ASSERT_EQ(write(g_file, page, sizeof page), ssize_t{sizeof page});
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, g_socket), 0);
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_DGRAM, 0, g_packets), 0);
  ASSERT_EQ(pipe(g_pipe), 0);
  g_listening = socket(AF_UNIX, SOCK_STREAM, 0);
  g_address.sun_family = AF_UNIX;
  snprintf(g_address.sun_path + 1, sizeof g_address.sun_path - 1, "gleaner_test_%d", getpid());
  ASSERT_EQ(bind(g_listening, reinterpret_cast<sockaddr*>(&g_address), sizeof g_address), 0);
  ASSERT_EQ(listen(g_listening, 8), 0);
  g_epoll = epoll_create1(0);
  epoll_event event = {};
  event.events = EPOLLOUT;
  ASSERT_EQ(epoll_ctl(g_epoll, EPOLL_CTL_ADD, g_socket[0], &event), 0);
  g_timer = timerfd_create(CLOCK_MONOTONIC, 0);
  sigevent none = {};
  none.sigev_notify = SIGEV_NONE;
  ASSERT_EQ(timer_create(CLOCK_MONOTONIC, &none, &g_clock), 0);
  ASSERT_EQ(syscall(SYS_timer_create, CLOCK_MONOTONIC, nullptr, &g_kernel_clock), 0);
  g_terminal = posix_openpt(O_RDWR | O_NOCTTY);
  StartNameServer();
}
int Connected() {
  const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
  connect(fd, reinterpret_cast<sockaddr*>(&g_address), sizeof g_address);
  close(fd);
  return g_listening;
}
constexpr timespec kNoTime = {};
constexpr itimerspec kNoTimer = {};
constexpr itimerval kNoInterval = {};

// Arguments that the system reads.
char g_bytes[100] = "some bytes";
iovec* Part(char* p, size_t bytes = sizeof g_bytes) {
  static iovec parts[2];
  static int last;
  return &(parts[++last % 2] = {p, bytes});
}
msghdr* Message(iovec* part) {
  static msghdr message;
  message = {};
  message.msg_iov = part;
  message.msg_iovlen = 1;
  return &message;
}
// The call that takes this time is interrupted by an alarm, and writes the rest.
const timespec* InterruptedTime() {
  static constexpr timespec kTime = {100, 0};
  struct sigaction action = {};
  action.sa_handler = [](int) {};
  sigaction(SIGALRM, &action, nullptr);
  ualarm(2000, 0);
  return &kTime;
}
void PrepareRead(char* p) {
  auto* block = Set<aiocb>(p, {});
  block->aio_buf = p + kGranule;
  block->aio_nbytes = 100;
  block->aio_lio_opcode = LIO_READ;
}
aiocb* ReadOfFile(char* p) {
  As<aiocb>(p)->aio_fildes = g_file;
  return As<aiocb>(p);
}

// The address of a function in data, as tables of operations have it.
ssize_t (*g_read_of_table)(int, void*, size_t) = read;

struct Case {
  const char* name;
  long (*call)(char* p);               // writes to p, which the pattern fills; what comes out
  void (*prepare)(char* p) = nullptr;  // writes what is to be there before
};
#define WRITES(name, expression)                                                 \
  {                                                                              \
    name, [](char* p) -> long { return Outcome(static_cast<long>(expression)); } \
  }
// With arguments that are read in the memory, too.
#define PREPARED(name, preparation, expression)                                   \
  {                                                                               \
    name, [](char* p) -> long { return Outcome(static_cast<long>(expression)); }, \
        [](char* p) { preparation; }                                              \
  }

const Case kCases[] = {
    WRITES("read", read(File(), p, 100)),
    WRITES("read, by a table", g_read_of_table(File(), p, 100)),
    WRITES("__read", __read(File(), p, 100)),
    WRITES("__read_chk", __read_chk(File(), p, 100, 4096)),
    WRITES("pread", pread(g_file, p, 100, 5)),
    WRITES("__pread64", __pread64(g_file, p, 100, 5)),
    WRITES("__pread_chk", __pread_chk(g_file, p, 100, 5, 4096)),
    WRITES("__pread64_chk", __pread64_chk(g_file, p, 100, 5, 4096)),
    WRITES("readv", readv(File(), Part(p), 1)),
    WRITES("preadv", preadv(g_file, Part(p), 1, 3)),
    WRITES("preadv2", preadv2(g_file, Part(p), 1, 3, 0)),
    WRITES("process_vm_readv", process_vm_readv(getpid(), Part(p), 1, Part(g_bytes), 1, 0)),
    WRITES("process_vm_writev", process_vm_writev(getpid(), Part(g_bytes), 1, Part(p), 1, 0)),
    WRITES("vmsplice", vmsplice(Pipe(), Part(p, 8), 1, 0)),
    PREPARED("splice", (Set<off_t>(p, 7)), splice(g_file, As<off_t>(p), g_pipe[1], nullptr, 5, 0)),
    PREPARED("sendfile", (Set<off_t>(p, 7)), sendfile(g_socket[0], g_file, As<off_t>(p), 5)),
    PREPARED("sendfile64", (Set<off_t>(p, 7)), sendfile64(g_socket[0], g_file, As<off_t>(p), 5)),
    PREPARED("copy_file_range", (Set<off_t>(p, 7), Set<off_t>(p + 64, 5000)), copy_file_range(g_file, As<off_t>(p), g_file, As<off_t>(p + 64), 5, 0)),
    WRITES("getrandom", getrandom(p, 100, 0)),
    WRITES("getentropy", getentropy(p, 100)),
    WRITES("eventfd_read", eventfd_read(eventfd(3, 0), As<eventfd_t>(p))),
    WRITES("fread", fread(p, 10, 10, Stream())),
    WRITES("fread_unlocked", fread_unlocked(p, 10, 10, Stream())),
    WRITES("__fread_chk", __fread_chk(p, 4096, 10, 10, Stream())),
    WRITES("__fread_unlocked_chk", __fread_unlocked_chk(p, 4096, 10, 10, Stream())),
    WRITES("fread, large", fread(p, 1, 8000, Buffered())),
    {"setvbuf, fgetc",
     [](char* p) -> long {
       FILE* stream = Buffered();
       EXPECT_EQ(setvbuf(stream, p, _IOFBF, 4096), 0);
       return fgetc(stream);
     }},
    {"setbuf, getline",
     [](char* p) -> long {
       FILE* stream = Buffered();
       setbuf(stream, p);
       char* line = nullptr;
       size_t size = 0;
       return getline(&line, &size, stream);
     }},
    {"setbuffer, fscanf",
     [](char* p) -> long {
       FILE* stream = Buffered();
       setbuffer(stream, p, 4096);
       char c;
       return fscanf(stream, "%c", &c);
     }},
    {"fmemopen",
     [](char* p) -> long {
       FILE* stream = fmemopen(p, 100, "w");
       fputs("some text", stream);
       return fclose(stream);
     }},
    {"getdelim into its memory",
     [](char* p) -> long {
       FILE* stream = Buffered();
       size_t size = 60000;
       return getdelim(&p, &size, '\n', stream);
     }},
    {"aio_read",
     [](char* p) -> long {
       aiocb* block = ReadOfFile(p);
       if (aio_read(block) != 0) return -errno;
       while (aio_error(block) == EINPROGRESS) usleep(100);
       return aio_error(block) != 0 ? -aio_error(block) : aio_return(block);
     },
     PrepareRead},
    WRITES("stat", stat("/", As<struct stat>(p))),
    WRITES("lstat", lstat("/", As<struct stat>(p))),
    WRITES("fstat", fstat(g_file, As<struct stat>(p))),
    WRITES("fstatat", fstatat(AT_FDCWD, "/", As<struct stat>(p), 0)),
    WRITES("stat64", stat64("/", As<struct stat64>(p))),
    WRITES("fstat64", fstat64(g_file, As<struct stat64>(p))),
    WRITES("lstat64", lstat64("/", As<struct stat64>(p))),
    WRITES("fstatat64", fstatat64(AT_FDCWD, "/", As<struct stat64>(p), 0)),
    WRITES("__xstat", OldStat(1, "/", As<struct stat>(p))),
    WRITES("__lxstat", OldLstat(1, "/", As<struct stat>(p))),
    WRITES("__fxstat", OldFstat(1, g_file, As<struct stat>(p))),
    WRITES("__fxstatat", OldFstatat(1, AT_FDCWD, "/", As<struct stat>(p), 0)),
    WRITES("statx", statx(AT_FDCWD, "/", 0, STATX_BASIC_STATS, As<struct statx>(p))),
    WRITES("statfs", statfs("/", As<struct statfs>(p))),
    WRITES("__statfs", __statfs("/", As<struct statfs>(p))),
    WRITES("fstatfs", fstatfs(g_file, As<struct statfs>(p))),
    WRITES("getxattr", getxattr("/proc/self/exe", "security.selinux", p, 100)),
    WRITES("fgetxattr", fgetxattr(g_file, "user.gleaner", p, 100)),
    WRITES("listxattr", listxattr("/proc/self/exe", p, 100)),
    WRITES("flistxattr", flistxattr(g_file, p, 100)),
    WRITES("readlink", readlink("/proc/self/exe", p, 1000)),
    WRITES("readlinkat", readlinkat(AT_FDCWD, "/proc/self/exe", p, 1000)),
    WRITES("__readlink_chk", __readlink_chk("/proc/self/exe", p, 1000, 4096)),
    WRITES("__readlinkat_chk", __readlinkat_chk(AT_FDCWD, "/proc/self/exe", p, 1000, 4096)),
    WRITES("getcwd", getcwd(p, 1000) == p ? 0 : -1),
    WRITES("__getcwd_chk", __getcwd_chk(p, 1000, 4096) == p ? 0 : -1),
    WRITES("ttyname_r", ttyname_r(g_terminal, p, 100)),
    WRITES("__ttyname_r_chk", __ttyname_r_chk(g_terminal, p, 100, 100)),
    WRITES("getdents64", getdents64(open("/", O_RDONLY), p, 4096)),
    WRITES("getdirentries", getdirentries(open("/", O_RDONLY), p, 4096, As<off_t>(p + 8192))),
    PREPARED("name_to_handle_at", (As<file_handle>(p)->handle_bytes = MAX_HANDLE_SZ), name_to_handle_at(AT_FDCWD, "/tmp", As<file_handle>(p), As<int>(p + 8192), 0)),
    WRITES("pipe", pipe(As<int>(p)) == 0 ? 0 : -1),
    WRITES("__pipe", __pipe(As<int>(p)) == 0 ? 0 : -1),
    WRITES("pipe2", pipe2(As<int>(p), O_CLOEXEC)),
    WRITES("ioctl(FIONREAD)", ioctl(g_socket[0], FIONREAD, p)),
    PREPARED("ioctl(SIOCGIFCONF)", (*As<ifconf>(p) = {1000, {p + 4096}}), ioctl(g_packets[0], SIOCGIFCONF, p)),
    WRITES("ioctl(TCGETS)", ioctl(g_terminal, 0x5401, p)),
    PREPARED("fcntl(F_GETLK)", (*As<struct flock>(p) = {F_WRLCK, SEEK_SET, 0, 0, 0}), fcntl(g_file, F_GETLK, p)),
    PREPARED("fcntl(F_OFD_GETLK)", (*As<struct flock>(p) = {F_WRLCK, SEEK_SET, 0, 0, 0}), fcntl(g_file, F_OFD_GETLK, p)),
    WRITES("fcntl(F_GETOWN_EX)", fcntl(g_socket[0], F_GETOWN_EX, p)),
    WRITES("fcntl(F_GET_RW_HINT)", __fcntl(g_file, F_GET_RW_HINT, p)),
    WRITES("recv", recv(Socket(), p, 100, 0)),
    WRITES("__recv_chk", __recv_chk(Socket(), p, 100, 4096, 0)),
    PREPARED("recvfrom", (Set<socklen_t>(p + 8192, 100)), recvfrom(Socket(), p, 100, 0, As<sockaddr>(p + 4096), As<socklen_t>(p + 8192))),
    PREPARED("__recvfrom_chk", (Set<socklen_t>(p + 8192, 100)), __recvfrom_chk(Socket(), p, 100, 4096, 0, As<sockaddr>(p + 4096),
                          As<socklen_t>(p + 8192))),
    WRITES("recvmsg", recvmsg(Socket(), Message(Part(p)), 0)),
    PREPARED("recvmsg, header in its memory", Set(p, *Message(Set(p + 256, *Part(p + 512)))), recvmsg(Socket(), As<msghdr>(p), 0)),
    {"recvmmsg",
     [](char* p) -> long {
       mmsghdr message = {*Message(Part(p)), 0};
       return Outcome(recvmmsg(Socket(), &message, 1, MSG_DONTWAIT, nullptr));
     }},
    PREPARED("accept", (Set<socklen_t>(p + 4096, 100)), accept(Connected(), As<sockaddr>(p), As<socklen_t>(p + 4096)) < 0),
    PREPARED("accept4", (Set<socklen_t>(p + 4096, 100)), accept4(Connected(), As<sockaddr>(p), As<socklen_t>(p + 4096), SOCK_CLOEXEC) < 0),
    PREPARED("getsockname", (Set<socklen_t>(p + 4096, 100)), getsockname(g_listening, As<sockaddr>(p), As<socklen_t>(p + 4096))),
    PREPARED("getpeername", (Set<socklen_t>(p + 4096, 100)), getpeername(g_socket[0], As<sockaddr>(p), As<socklen_t>(p + 4096))),
    PREPARED("getsockopt", (Set<socklen_t>(p + 4096, sizeof(int))), getsockopt(g_socket[0], SOL_SOCKET, SO_TYPE, p, As<socklen_t>(p + 4096))),
    WRITES("socketpair", socketpair(AF_UNIX, SOCK_STREAM, 0, As<int>(p))),
    PREPARED("poll", (Set<pollfd>(p, {g_socket[0], POLLOUT, 0x77})), poll(As<pollfd>(p), 1, 0)),
    PREPARED("__poll", (Set<pollfd>(p, {g_socket[0], POLLOUT, 0x77})), __poll(As<pollfd>(p), 1, 0)),
    PREPARED("__poll_chk", (Set<pollfd>(p, {g_socket[0], POLLOUT, 0x77})), __poll_chk(As<pollfd>(p), 1, 0, 4096)),
    PREPARED("ppoll", (Set<pollfd>(p, {g_socket[0], POLLOUT, 0x77})), ppoll(As<pollfd>(p), 1, &kNoTime, nullptr)),
    PREPARED("__ppoll_chk", (Set<pollfd>(p, {g_socket[0], POLLOUT, 0x77})), __ppoll_chk(As<pollfd>(p), 1, &kNoTime, nullptr, 4096)),
    PREPARED("select", (Set<timeval>(p + 4096, {0, 1})), select(8, As<fd_set>(p), nullptr, nullptr, As<timeval>(p + 4096))),
    PREPARED("__select", (Set<timeval>(p + 4096, {0, 1})), __select(0, nullptr, nullptr, As<fd_set>(p), As<timeval>(p + 4096))),
    WRITES("pselect", pselect(8, nullptr, nullptr, As<fd_set>(p), &kNoTime, nullptr)),
    WRITES("epoll_wait", epoll_wait(g_epoll, As<epoll_event>(p), 3, 0)),
    WRITES("epoll_pwait", epoll_pwait(g_epoll, As<epoll_event>(p), 3, 0, nullptr)),
    WRITES("epoll_pwait2", epoll_pwait2(g_epoll, As<epoll_event>(p), 3, &kNoTime, nullptr)),
    WRITES("wait", (Ended(), wait(As<int>(p))) > 0),
    WRITES("__wait", (Ended(), __wait(As<int>(p))) > 0),
    WRITES("waitpid", waitpid(Ended(), As<int>(p), 0) > 0),
    WRITES("__waitpid", __waitpid(Ended(), As<int>(p), 0) > 0),
    WRITES("wait3", (Ended(), wait3(As<int>(p), 0, As<rusage>(p + 4096))) > 0),
    WRITES("wait4", wait4(Ended(), As<int>(p), 0, As<rusage>(p + 4096)) > 0),
    WRITES("posix_spawn", Spawned(posix_spawn, As<pid_t>(p))),
    WRITES("posix_spawnp", Spawned(posix_spawnp, As<pid_t>(p))),
    WRITES("waitid", waitid(P_PID, static_cast<id_t>(Ended()), As<siginfo_t>(p), WEXITED)),
    WRITES("nanosleep", nanosleep(InterruptedTime(), As<timespec>(p))),
    WRITES("clock_nanosleep", clock_nanosleep(CLOCK_MONOTONIC, 0, InterruptedTime(), As<timespec>(p))),
    WRITES("thrd_sleep", thrd_sleep(InterruptedTime(), As<timespec>(p))),
    {"msgrcv",
     [](char* p) -> long {
       const int queue = msgget(IPC_PRIVATE, 0600);
       struct {
         long type;
         char text[8];
       } message = {1, "text"};
       msgsnd(queue, &message, sizeof message.text, 0);
       const long result = Outcome(msgrcv(queue, p, 100, 0, 0));
       EXPECT_EQ(msgctl(queue, IPC_STAT, As<msqid_ds>(p + 4096)), 0);
       msgctl(queue, IPC_RMID, nullptr);
       return result;
     }},
    {"semctl",
     [](char* p) -> long {
       const int set = semget(IPC_PRIVATE, 3, 0600);
       const long result = Outcome(semctl(set, 0, IPC_STAT, p) | semctl(set, 0, GETALL, p + 4096));
       semctl(set, 0, IPC_RMID);
       return result;
     }},
    {"shmctl",
     [](char* p) -> long {
       const int segment = shmget(IPC_PRIVATE, 4096, 0600);
       const long result = Outcome(shmctl(segment, IPC_STAT, As<shmid_ds>(p)));
       shmctl(segment, IPC_RMID, nullptr);
       return result;
     }},
    {"mq_receive",
     [](char* p) -> long {
       char name[32];
       snprintf(name, sizeof name, "/gleaner_%d", getpid());
       mq_attr attributes = {};
       attributes.mq_maxmsg = 2;
       attributes.mq_msgsize = 64;
       const mqd_t queue = mq_open(name, O_RDWR | O_CREAT, 0600, &attributes);
       mq_unlink(name);
       mq_send(queue, "text", 4, 1);
       const long result = Outcome(mq_receive(queue, p, 64, As<unsigned>(p + 4096)));
       EXPECT_EQ(mq_getattr(queue, As<mq_attr>(p + 8192)), queue < 0 ? -1 : 0);
       mq_close(queue);
       return result;
     }},
    WRITES("clock_gettime(cpu)", clock_gettime(CLOCK_PROCESS_CPUTIME_ID, As<timespec>(p))),
    WRITES("__clock_gettime", __clock_gettime(CLOCK_THREAD_CPUTIME_ID, As<timespec>(p))),
    WRITES("clock_gettime", clock_gettime(CLOCK_MONOTONIC, As<timespec>(p))),
    WRITES("clock_getres", clock_getres(CLOCK_PROCESS_CPUTIME_ID, As<timespec>(p))),
    WRITES("timespec_get", timespec_get(As<timespec>(p), TIME_UTC)),
    WRITES("gettimeofday", gettimeofday(As<timeval>(p), nullptr)),
    WRITES("time", time(As<time_t>(p)) > 0),
    WRITES("times", times(As<tms>(p)) != -1),
    PREPARED("adjtimex", (As<timex>(p)->modes = 0), adjtimex(As<timex>(p)) >= 0),
    PREPARED("ntp_adjtime", (As<timex>(p)->modes = 0), ntp_adjtime(As<timex>(p)) >= 0),
    PREPARED("clock_adjtime", (As<timex>(p)->modes = 0), clock_adjtime(CLOCK_REALTIME, As<timex>(p)) >= 0),
    WRITES("getitimer", getitimer(ITIMER_VIRTUAL, As<itimerval>(p))),
    WRITES("setitimer", setitimer(ITIMER_VIRTUAL, &kNoInterval, As<itimerval>(p))),
    WRITES("timer_gettime", timer_gettime(g_clock, As<itimerspec>(p))),
    WRITES("timer_settime", timer_settime(g_clock, 0, &kNoTimer, As<itimerspec>(p))),
    WRITES("timerfd_gettime", timerfd_gettime(g_timer, As<itimerspec>(p))),
    WRITES("timerfd_settime", timerfd_settime(g_timer, 0, &kNoTimer, As<itimerspec>(p))),
    WRITES("getrusage", getrusage(RUSAGE_SELF, As<rusage>(p))),
    WRITES("getrlimit", getrlimit(RLIMIT_STACK, As<rlimit>(p))),
    WRITES("__getrlimit", __getrlimit(RLIMIT_STACK, As<rlimit>(p))),
    WRITES("getrlimit64", getrlimit64(RLIMIT_STACK, As<struct rlimit64>(p))),
    WRITES("prlimit", prlimit(0, RLIMIT_STACK, nullptr, As<rlimit>(p))),
    WRITES("uname", uname(As<utsname>(p))),
    WRITES("sysinfo", sysinfo(As<struct sysinfo>(p))),
    WRITES("mincore",
           mincore(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(&g_address) & ~4095ul), 1,
                   As<unsigned char>(p))),
    WRITES("getcpu", getcpu(As<unsigned>(p), As<unsigned>(p + 4096))),
    WRITES("sched_getaffinity", sched_getaffinity(0, 128, As<cpu_set_t>(p))),
    WRITES("pthread_getaffinity_np", pthread_getaffinity_np(pthread_self(), 128, As<cpu_set_t>(p))),
    WRITES("pthread_getname_np", pthread_getname_np(pthread_self(), p, 100)),
    WRITES("sched_getparam", sched_getparam(0, As<sched_param>(p))),
    WRITES("sched_rr_get_interval", sched_rr_get_interval(0, As<timespec>(p))),
    WRITES("getgroups", getgroups(100, As<gid_t>(p))),
    WRITES("__getgroups_chk", __getgroups_chk(100, As<gid_t>(p), 4096)),
    WRITES("getresuid", getresuid(As<uid_t>(p), As<uid_t>(p + 4), As<uid_t>(p + 8))),
    WRITES("getresgid", getresgid(As<gid_t>(p), As<gid_t>(p + 4), As<gid_t>(p + 8))),
    PREPARED("capget", (Set<uint32_t>(p, 0x20080522), Set<uint32_t>(p + 4, 0)), capget(p, p + 4096)),
    WRITES("prctl(PR_GET_NAME)", prctl(PR_GET_NAME, p)),
    WRITES("prctl(PR_GET_PDEATHSIG)", prctl(PR_GET_PDEATHSIG, p)),
    WRITES("syscall(SYS_getrandom)", syscall(SYS_getrandom, p, 100, 0)),
    WRITES("syscall(SYS_read)", syscall(SYS_read, File(), p, 100)),
    WRITES("syscall(SYS_futex), wake", syscall(SYS_futex, p, FUTEX_WAKE, 1, nullptr, nullptr, 0)),
    WRITES("syscall(SYS_statx)",
           syscall(SYS_statx, AT_FDCWD, "/", 0, STATX_BASIC_STATS, As<struct statx>(p))),
    // By number alone, or with arguments that differ from the function's.
    WRITES("SYS_stat", syscall(SYS_stat, "/", p)), WRITES("SYS_lstat", syscall(SYS_lstat, "/", p)),
    WRITES("SYS_readlink", syscall(SYS_readlink, "/proc/self/exe", p, 1000)),
    WRITES("SYS_getdents", syscall(SYS_getdents, open("/", O_RDONLY), p, 4096)),
    WRITES("SYS_ustat", syscall(SYS_ustat, MajorAndMinor("/"), p)),
    WRITES("SYS_pipe", syscall(SYS_pipe, p)),
    WRITES("SYS_time", syscall(SYS_time, p) > 0),
    WRITES("SYS_times", syscall(SYS_times, p) > 0),
    WRITES("SYS_getrusage", syscall(SYS_getrusage, RUSAGE_SELF, p)),
    WRITES("SYS_wait4", syscall(SYS_wait4, Ended(), p, 0, p + 4096) > 0),
    WRITES("SYS_waitid", syscall(SYS_waitid, P_PID, Ended(), p, WEXITED, p + 4096)),
    PREPARED("SYS_poll", (Set<pollfd>(p, {g_socket[0], POLLOUT, 0x77})), syscall(SYS_poll, p, 1, 0)),
    PREPARED("SYS_ppoll", (Set<pollfd>(p, {g_socket[0], POLLOUT, 0x77}), Set<timespec>(p + 4096, {0, 1})), syscall(SYS_ppoll, p, 1, p + 4096, nullptr, 8)),
    PREPARED("SYS_select", (Set<timeval>(p + 4096, {0, 1})), syscall(SYS_select, 8, p, nullptr, nullptr, p + 4096)),
    PREPARED("SYS_pselect6", (Set<timespec>(p + 4096, {0, 1})), syscall(SYS_pselect6, 8, nullptr, nullptr, p, p + 4096, nullptr)),
    WRITES("SYS_epoll_wait", syscall(SYS_epoll_wait, g_epoll, p, 3, 0)),
    WRITES("SYS_epoll_pwait", syscall(SYS_epoll_pwait, g_epoll, p, 3, 0, nullptr, 8)),
    WRITES("SYS_epoll_pwait2", syscall(SYS_epoll_pwait2, g_epoll, p, 3, &kNoTime, nullptr, 8)),
    WRITES("SYS_rt_sigaction", syscall(SYS_rt_sigaction, SIGUSR1, nullptr, p, 8)),
    WRITES("SYS_rt_sigaction(SIGSEGV)", syscall(SYS_rt_sigaction, SIGSEGV, nullptr, p, 8)),
    WRITES("SYS_rt_sigprocmask", syscall(SYS_rt_sigprocmask, SIG_BLOCK, nullptr, p, 8)),
    WRITES("SYS_rt_sigpending", syscall(SYS_rt_sigpending, p, 8)),
    WRITES("SYS_sigaltstack", syscall(SYS_sigaltstack, nullptr, p)),
    WRITES("SYS_timer_create", syscall(SYS_timer_create, CLOCK_MONOTONIC, nullptr, p)),
    WRITES("SYS_timer_gettime", syscall(SYS_timer_gettime, g_kernel_clock, p)),
    WRITES("SYS_timer_settime", syscall(SYS_timer_settime, g_kernel_clock, 0, &kNoTimer, p)),
    WRITES("SYS_get_robust_list", syscall(SYS_get_robust_list, 0, p, p + 4096)),
    WRITES("SYS_get_mempolicy", syscall(SYS_get_mempolicy, p, p + 4096, 1024, nullptr, 0)),
    PREPARED("SYS_io_setup", (Set<long>(p, 0)), syscall(SYS_io_setup, 4, p)),
    WRITES("SYS_arch_prctl", syscall(SYS_arch_prctl, 0x1003, p)),  // of FS
    WRITES("SYS_sched_getattr", syscall(SYS_sched_getattr, 0, p, 56, 0)),
    WRITES("res_query", Answered(res_query("gleaner.invalid", 1, 1, As<unsigned char>(p), 512))),
    WRITES("res_search", Answered(res_search("gleaner.invalid.", 1, 1, As<unsigned char>(p), 512))),
    WRITES("res_querydomain", Answered(res_querydomain("gleaner", "invalid", 1, 1, As<unsigned char>(p), 512))),
    WRITES("res_nquery", Answered(res_nquery(&_res, "gleaner.invalid", 1, 1, As<unsigned char>(p), 512))),
    WRITES("res_nsearch", Answered(res_nsearch(&_res, "gleaner.invalid.", 1, 1, As<unsigned char>(p), 512))),
    WRITES("res_nquerydomain", Answered(res_nquerydomain(&_res, "gleaner", "invalid", 1, 1, As<unsigned char>(p), 512))),
    WRITES("res_send", Answered(res_send(g_question, g_question_bytes, As<unsigned char>(p), 512))),
    WRITES("res_nsend", Answered(res_nsend(&_res, g_question, g_question_bytes, As<unsigned char>(p), 512))),
    {"lio_listio",
     [](char* p) -> long {
       aiocb* block = ReadOfFile(p);
       if (lio_listio(LIO_WAIT, &block, 1, nullptr) != 0) return -errno;
       return aio_error(block) != 0 ? -aio_error(block) : aio_return(block);
     },
     PrepareRead},
    {"getaddrinfo_a",
     [](char* p) -> long {
       auto* request = As<gaicb>(p);
       const int done = getaddrinfo_a(GAI_WAIT, &request, 1, nullptr);
       return done != 0 ? done : gai_error(request);
     },
     [](char* p) { Set<gaicb>(p, {})->ar_name = "127.0.0.1"; }},
    WRITES("pthread_sigmask", pthread_sigmask(SIG_BLOCK, nullptr, As<sigset_t>(p))),
    WRITES("GC_pthread_sigmask", GC_pthread_sigmask(SIG_BLOCK, nullptr, As<sigset_t>(p))),
    WRITES("sigprocmask", sigprocmask(SIG_BLOCK, nullptr, As<sigset_t>(p))),
    WRITES("sigaction", sigaction(SIGUSR1, nullptr, As<struct sigaction>(p))),
    WRITES("sigpending", sigpending(As<sigset_t>(p))),
    WRITES("sigaltstack", sigaltstack(nullptr, As<stack_t>(p))),
    {"sigtimedwait",
     [](char* p) -> long {
       sigset_t set;
       sigemptyset(&set);
       sigaddset(&set, SIGUSR2);
       pthread_sigmask(SIG_BLOCK, &set, nullptr);
       raise(SIGUSR2);
       const long first = Outcome(sigtimedwait(&set, As<siginfo_t>(p), &kNoTime));
       raise(SIGUSR2);
       return first + 1000 * Outcome(sigwaitinfo(&set, As<siginfo_t>(p + 4096)));
     }},
};
constexpr size_t kCaseCount = std::size(kCases);

// Memory of objects, one for each case, which the program has all written.
struct Places {
  char* of[kCaseCount + 8];
};
Places* g_places;

char* NewPlace() {
  auto* place = static_cast<char*>(GC_memalign(kGranule, 2 * kGranule));
  memset(place, kPattern, 2 * kGranule);
  return place;
}
void MakePlaces() {
  g_places = static_cast<Places*>(GC_malloc(sizeof(Places)));
  for (char*& place : g_places->of) place = NewPlace();
  for (size_t i = 0; i < kCaseCount; ++i) {
    if (kCases[i].prepare != nullptr) kCases[i].prepare(g_places->of[i]);
  }
}
// They are armed from here on, until they are written: a step arms 32 MiB.
void BeginArmed() {
  BeginCycle();
  for (size_t i = 0; i < GC_get_heap_size() / (32 * kMiB); ++i) ASSERT_TRUE(Step());
}
void Rearm() {
  FinishCycle();
  BeginArmed();
}

template <class F>
void RunArmed(const F& f) {
  const auto result = RunIncremental(Tracking::kProtection, kSteps, [&] {
    GC_INIT();
    MakePlaces();
    PrepareInputs();
    BeginArmed();
    f();
    FinishCycle();
  });
  EXPECT_CONCURRENT(result, 1);
}

TEST(SystemCallsTest, WriteIntoArmedMemoryWhatTheyWriteElsewhere) {
  RunArmed([] {
    auto* plain = static_cast<char*>(
        mmap(nullptr, 2 * kGranule, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    static char before[2 * kGranule];
    for (size_t i = 0; i < kCaseCount; ++i) {
      const Case& c = kCases[i];
      memset(plain, kPattern, 2 * kGranule);
      if (c.prepare != nullptr) c.prepare(plain);
      memcpy(before, plain, 2 * kGranule);
      char* place = g_places->of[i];
      const long expected = c.call(plain);
      EXPECT_FALSE(SystemMayWrite(place)) << c.name << ": not armed";
      EXPECT_EQ(c.call(place), expected) << c.name;
      const auto is_written = [&](const char* p) { return memcmp(p, before, 2 * kGranule) != 0; };
      EXPECT_EQ(is_written(place), is_written(plain)) << c.name;
    }
  });
}

// --- Many parts ---

// Parts of 8 bytes in all places in turn, each with its own content, and two outside of the heap:
// below it and above.
char* g_below;
struct ManyParts {
  explicit ManyParts(size_t count) : parts(count), data(count * 8) {
    for (size_t i = 0; i < count; ++i) parts[i] = {Place(i), 8};
    parts[count / 2].iov_base = g_below;
    if (count > 2) parts[count / 2 + 1].iov_base = above;
    for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<char>(i * 7 + i / 256 + 1);
  }
  static char* Place(size_t i) {
    return g_places->of[i % kCaseCount] + (i / kCaseCount % 2) * kGranule + i / kCaseCount * 64;
  }
  bool IsRight() const {
    for (size_t i = 0; i < parts.size(); ++i) {
      if (memcmp(parts[i].iov_base, &data[i * 8], 8) != 0) return false;
    }
    return true;
  }
  int count() const { return static_cast<int>(parts.size()); }
  ssize_t bytes() const { return static_cast<ssize_t>(data.size()); }
  std::vector<iovec> parts;
  std::vector<char> data;
  char above[8] = {};  // on the stack
};

TEST(SystemCallsTest, AnyNumberOfParts) {
  RunArmed([] {
    using Call = ssize_t (*)(ManyParts & many, int file);
    const Call calls[] = {
        [](ManyParts& many, int file) { return readv(file, many.parts.data(), many.count()); },
        [](ManyParts& many, int file) { return preadv(file, many.parts.data(), many.count(), 0); },
        [](ManyParts& many, int file) {
          return preadv2(file, many.parts.data(), many.count(), 0, 0);
        },
        [](ManyParts& many, int) {
          const iovec from = {many.data.data(), many.data.size()};
          return process_vm_readv(getpid(), many.parts.data(), many.parts.size(), &from, 1, 0);
        },
        [](ManyParts& many, int) {
          EXPECT_EQ(send(g_packets[1], many.data.data(), many.data.size(), 0), many.bytes());
          msghdr message = {};
          message.msg_iov = many.parts.data();
          message.msg_iovlen = many.parts.size();
          return recvmsg(g_packets[0], &message, 0);
        },
        [](ManyParts& many, int) {
          // The first half in a message of its own.
          const size_t half = many.parts.size() / 2;
          for (size_t i = 0; i < 2; ++i) {
            EXPECT_EQ(send(g_packets[1], &many.data[i * half * 8], half * 8, 0),
                      static_cast<ssize_t>(half * 8));
          }
          mmsghdr messages[2] = {};
          for (size_t i = 0; i < 2; ++i) {
            messages[i].msg_hdr.msg_iov = &many.parts[i * half];
            messages[i].msg_hdr.msg_iovlen = half;
          }
          EXPECT_EQ(recvmmsg(g_packets[0], messages, 2, MSG_DONTWAIT, nullptr), 2);
          return static_cast<ssize_t>(messages[0].msg_len + messages[1].msg_len);
        },
    };
    char on_the_stack;
    constexpr uintptr_t kLowAddress = 1 << 20;
    void* low = mmap(reinterpret_cast<void*>(kLowAddress), 4096, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    ASSERT_NE(low, MAP_FAILED);
    g_below = static_cast<char*>(low);
    ASSERT_TRUE(g_below < g_places->of[0] && g_places->of[0] < &on_the_stack);
    for (size_t call = 0; call < std::size(calls); ++call) {
      for (const size_t count : {2, 16, 18, 100, 1024}) {
        ManyParts many(count);
        const int file = memfd_create("gleaner", 0);
        ASSERT_EQ(write(file, many.data.data(), many.data.size()), many.bytes());
        lseek(file, 0, SEEK_SET);
        EXPECT_FALSE(SystemMayWrite(many.parts[0].iov_base));
        EXPECT_EQ(calls[call](many, file), many.bytes())
            << "call " << call << ", " << count << " parts: " << strerror(errno);
        EXPECT_TRUE(many.IsRight()) << "call " << call << ", " << count << " parts";
        close(file);
        Rearm();
      }
    }
  });
}

// --- Calls that are refused ---

// The function of the C library, which the program does not call.
template <class F>
F* Original(const char* name) {
  void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<F*>(dlsym(libc, name));
}
#define EXPECT_AS_BY_THE_SYSTEM(function, ...)                                             \
  do {                                                                                     \
    const long expected = Outcome(Original<decltype(function)>(#function)(__VA_ARGS__));   \
    EXPECT_EQ(Outcome(function(__VA_ARGS__)), expected) << #function "(" #__VA_ARGS__ ")"; \
    EXPECT_LT(expected, 0) << #function "(" #__VA_ARGS__ ")";                              \
  } while (false)

TEST(SystemCallsTest, WhatTheSystemRefusesIsRefusedInTheSameWay) {
  RunArmed([] {
    auto* p = g_places->of[0];
    auto* hole = static_cast<char*>(
        mmap(nullptr, 2 * kGranule, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    auto* none = reinterpret_cast<char*>(16);
    auto* wild = reinterpret_cast<char*>(uintptr_t{0xdead} << 48);  // no address at all
    for (char* bad : {static_cast<char*>(nullptr), none, hole, wild}) {
      auto* parts = As<iovec>(bad);
      auto* name = As<sockaddr>(bad);
      auto* length = As<socklen_t>(bad);
      EXPECT_AS_BY_THE_SYSTEM(read, File(), bad, 10);
      EXPECT_AS_BY_THE_SYSTEM(readv, File(), parts, 3);
      EXPECT_AS_BY_THE_SYSTEM(preadv, g_file, parts, 20, 0);
      EXPECT_AS_BY_THE_SYSTEM(preadv2, g_file, parts, 20, 0, 0);
      EXPECT_AS_BY_THE_SYSTEM(process_vm_readv, getpid(), parts, 2, parts, 2, 0);
      EXPECT_AS_BY_THE_SYSTEM(process_vm_writev, getpid(), parts, 2, parts, 2, 0);
      EXPECT_AS_BY_THE_SYSTEM(vmsplice, g_pipe[0], parts, 2, SPLICE_F_NONBLOCK);
      EXPECT_AS_BY_THE_SYSTEM(recvmsg, g_packets[0], As<msghdr>(bad), MSG_DONTWAIT);
      EXPECT_AS_BY_THE_SYSTEM(recvmmsg, g_packets[0], As<mmsghdr>(bad), 2, MSG_DONTWAIT, nullptr);
      EXPECT_AS_BY_THE_SYSTEM(getsockname, g_listening, As<sockaddr>(p), length);
      EXPECT_AS_BY_THE_SYSTEM(getpeername, g_socket[0], name, length);
      EXPECT_AS_BY_THE_SYSTEM(getsockopt, g_socket[0], SOL_SOCKET, SO_TYPE, p, length);
      EXPECT_AS_BY_THE_SYSTEM(recvfrom, Socket(), bad, 10, 0, name, length);
      EXPECT_AS_BY_THE_SYSTEM(poll, As<pollfd>(bad), 3, 0);
      EXPECT_AS_BY_THE_SYSTEM(epoll_wait, g_epoll, As<epoll_event>(bad), 3, 0);
      EXPECT_AS_BY_THE_SYSTEM(statfs, "/", As<struct statfs>(bad));
      EXPECT_AS_BY_THE_SYSTEM(sched_getaffinity, 0, 128, As<cpu_set_t>(bad));
      EXPECT_AS_BY_THE_SYSTEM(sigsuspend, As<sigset_t>(bad));
      EXPECT_AS_BY_THE_SYSTEM(ioctl, g_packets[0], SIOCGIFCONF, bad);
      EXPECT_AS_BY_THE_SYSTEM(sigaction, -1, As<struct sigaction>(bad), nullptr);
      EXPECT_AS_BY_THE_SYSTEM(sigaction, 1000, As<struct sigaction>(bad), nullptr);
      EXPECT_AS_BY_THE_SYSTEM(syscall, SYS_readv, File(), parts, 3);
      EXPECT_AS_BY_THE_SYSTEM(syscall, SYS_recvmsg, g_packets[0], bad, MSG_DONTWAIT);
      EXPECT_AS_BY_THE_SYSTEM(syscall, SYS_pipe, bad);
      EXPECT_AS_BY_THE_SYSTEM(syscall, SYS_ppoll, bad, 1, &kNoTime, nullptr, 8);
      EXPECT_AS_BY_THE_SYSTEM(syscall, SYS_timer_create, CLOCK_MONOTONIC, nullptr, bad);
    }
    for (char* bad : {none, hole, wild}) {
      EXPECT_AS_BY_THE_SYSTEM(getrlimit, RLIMIT_STACK, As<rlimit>(bad));
      EXPECT_AS_BY_THE_SYSTEM(syscall, SYS_rt_sigaction, SIGSEGV, bad, nullptr, 8);
      EXPECT_AS_BY_THE_SYSTEM(syscall, SYS_rt_sigaction, SIGSEGV, nullptr, bad, 8);
      EXPECT_AS_BY_THE_SYSTEM(syscall, SYS_rt_sigprocmask, SIG_BLOCK, bad, nullptr, 8);
      EXPECT_AS_BY_THE_SYSTEM(sigaltstack, As<stack_t>(bad), nullptr);
    }
    // A header or vector that ends in a hole, and one whose parts lie there.
    mprotect(hole, kGranule, PROT_READ | PROT_WRITE);
    auto* at_the_end = As<iovec>(hole + kGranule) - 1;
    *at_the_end = {p, 8};
    EXPECT_AS_BY_THE_SYSTEM(readv, File(), at_the_end, 2);
    EXPECT_AS_BY_THE_SYSTEM(recvmsg, g_packets[0], As<msghdr>(hole + kGranule - 20), MSG_DONTWAIT);
    iovec parts[3] = {{hole + kGranule, 8}, {none, 8}, {p, 8}};
    EXPECT_AS_BY_THE_SYSTEM(readv, File(), parts, 3);
    msghdr message = {};
    message.msg_iov = parts;
    message.msg_iovlen = SIZE_MAX;
    EXPECT_AS_BY_THE_SYSTEM(recvmsg, g_packets[0], &message, MSG_DONTWAIT);
    // Counts that no call takes.
    for (const int count : {-1, INT32_MIN, 1025, INT32_MAX}) {
      EXPECT_AS_BY_THE_SYSTEM(readv, File(), parts, count);
      EXPECT_AS_BY_THE_SYSTEM(preadv, g_file, parts, count, 0);
    }
    EXPECT_AS_BY_THE_SYSTEM(epoll_wait, g_epoll, As<epoll_event>(p), -1, 0);
    EXPECT_AS_BY_THE_SYSTEM(epoll_wait, g_epoll, As<epoll_event>(p), INT32_MAX, 0);
    EXPECT_AS_BY_THE_SYSTEM(poll, As<pollfd>(p), ~nfds_t{0}, 0);
    EXPECT_AS_BY_THE_SYSTEM(getgroups, -1, As<gid_t>(p));
    // Bytes that no memory has: behind all objects nothing is opened by mistake.
    EXPECT_AS_BY_THE_SYSTEM(read, File(), p, SIZE_MAX);
    EXPECT_AS_BY_THE_SYSTEM(read, -1, p, SIZE_MAX / 2);
    EXPECT_AS_BY_THE_SYSTEM(recv, -1, p, SIZE_MAX, 0);
    EXPECT_AS_BY_THE_SYSTEM(getxattr, "/", "user.none", p, SIZE_MAX);
    EXPECT_AS_BY_THE_SYSTEM(readlink, "/", p, SIZE_MAX);
  });
}

// --- What the system writes later ---

TEST(SystemCallsTest, MutexesThatTheSystemWritesTo) {
  RunArmed([] {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    // The owner ends while the mutex lies in armed memory.
    auto* robust = As<pthread_mutex_t>(g_places->of[0]);
    ASSERT_EQ(pthread_mutex_init(robust, &attributes), 0);
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, nullptr, 2);
    struct Owner {
      pthread_mutex_t* mutex;
      pthread_barrier_t* barrier;
      int32_t waiter;
    } owner = {robust, &barrier, gettid()};
    const auto own = [](void* argument) -> void* {
      auto* o = static_cast<Owner*>(argument);
      EXPECT_EQ(pthread_mutex_lock(o->mutex), 0);
      pthread_barrier_wait(o->barrier);  // locked
      pthread_barrier_wait(o->barrier);  // armed again
      return nullptr;
    };
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, own, &owner), 0);
    pthread_barrier_wait(&barrier);
    Rearm();
    EXPECT_FALSE(SystemMayWrite(g_places->of[1])) << "not armed";
    pthread_barrier_wait(&barrier);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    ASSERT_EQ(pthread_mutex_lock(robust), EOWNERDEAD);
    EXPECT_EQ(pthread_mutex_consistent(robust), 0);
    EXPECT_EQ(pthread_mutex_unlock(robust), 0);

    // Who waits has the system note it in the mutex.
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_STALLED);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    auto* inheriting = As<pthread_mutex_t>(g_places->of[2]);
    ASSERT_EQ(pthread_mutex_init(inheriting, &attributes), 0);
    owner.mutex = inheriting;
    const auto own_until_awaited = [](void* argument) -> void* {
      auto* o = static_cast<Owner*>(argument);
      EXPECT_EQ(pthread_mutex_lock(o->mutex), 0);
      pthread_barrier_wait(o->barrier);  // locked
      pthread_barrier_wait(o->barrier);  // armed again
      AwaitSleep(o->waiter);             // for the mutex
      EXPECT_EQ(pthread_mutex_unlock(o->mutex), 0);
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, nullptr, own_until_awaited, &owner), 0);
    pthread_barrier_wait(&barrier);
    Rearm();
    pthread_barrier_wait(&barrier);
    EXPECT_EQ(pthread_mutex_lock(inheriting), 0);
    EXPECT_EQ(pthread_mutex_unlock(inheriting), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
  });
}

TEST(SystemCallsTest, MemoryThatTheSystemMayUseAtAnyTimeStaysOpen) {
  RunArmed([] {
    size_t next = 0;
    const auto expect_open = [&](const char* what, auto use) {
      char* p = g_places->of[next++];
      use(p);
      Rearm();
      EXPECT_FALSE(SystemMayWrite(g_places->of[kCaseCount - 1])) << "not armed";
      EXPECT_TRUE(SystemMayWrite(p)) << what;
    };
    // Of several processes: who wakes the others wants the page to be writable.
    expect_open("sem_init", [](char* p) { EXPECT_EQ(sem_init(As<sem_t>(p), 1, 0), 0); });
    expect_open("pthread_cond_init", [](char* p) {
      pthread_condattr_t attributes;
      pthread_condattr_init(&attributes);
      pthread_condattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
      EXPECT_EQ(pthread_cond_init(As<pthread_cond_t>(p), &attributes), 0);
    });
    expect_open("pthread_rwlock_init", [](char* p) {
      pthread_rwlockattr_t attributes;
      pthread_rwlockattr_init(&attributes);
      pthread_rwlockattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
      EXPECT_EQ(pthread_rwlock_init(As<pthread_rwlock_t>(p), &attributes), 0);
    });
    expect_open("pthread_barrier_init", [](char* p) {
      pthread_barrierattr_t attributes;
      pthread_barrierattr_init(&attributes);
      pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
      EXPECT_EQ(pthread_barrier_init(As<pthread_barrier_t>(p), &attributes, 2), 0);
    });
    expect_open("setvbuf", [](char* p) { EXPECT_EQ(setvbuf(Buffered(), p, _IOFBF, 4096), 0); });
    // Stacks: of the frame of the signal that would open them, and of a thread.
    expect_open("sigaltstack", [](char* p) {
      stack_t stack = {};
      stack.ss_sp = p;
      stack.ss_size = kGranule;
      EXPECT_EQ(sigaltstack(&stack, nullptr), 0);
    });
    struct sigaction action = {};
    action.sa_flags = SA_ONSTACK;
    action.sa_handler = [](int) { g_places->of[kCaseCount - 1][5] = 1; };  // faults there
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    EXPECT_EQ(raise(SIGUSR1), 0);
    EXPECT_EQ(g_places->of[kCaseCount - 1][5], 1);
    expect_open("pthread_attr_setstack", [](char* p) {
      pthread_attr_t attributes;
      pthread_attr_init(&attributes);
      ASSERT_EQ(pthread_attr_setstack(&attributes, p, 2 * kGranule), 0);
      pthread_t thread;
      ASSERT_EQ(pthread_create(
                    &thread, &attributes, [](void*) -> void* { return nullptr; }, nullptr),
                0);
      EXPECT_EQ(pthread_join(thread, nullptr), 0);
    });
  });
}

// --- Signals ---

TEST(SystemCallsTest, NobodyBlocksTheFault) {
  RunArmed([] {
    size_t next = 0;
    const auto write_armed = [&](const char* what) {
      EXPECT_FALSE(SystemMayWrite(g_places->of[next])) << what;
      g_places->of[next++][7] = 1;  // ends the process if the signal is blocked
    };
    sigset_t all;
    sigfillset(&all);
    EXPECT_EQ(GC_pthread_sigmask(SIG_SETMASK, &all, nullptr), 0);
    write_armed("GC_pthread_sigmask");
    EXPECT_EQ(sigprocmask(SIG_SETMASK, &all, nullptr), 0);
    write_armed("sigprocmask");
    sigset_t blocked;
    EXPECT_EQ(sigprocmask(SIG_SETMASK, nullptr, &blocked), 0);
    EXPECT_EQ(sigismember(&blocked, SIGUSR1), 1);
    EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0);
    sigblock(~0);
    write_armed("sigblock");
    sigsetmask(~0);
    write_armed("sigsetmask");
    EXPECT_EQ(sighold(SIGSEGV), 0);
    write_armed("sighold");
    signal(SIGSEGV, SIG_DFL);
    write_armed("signal");
    sysv_signal(SIGSEGV, SIG_DFL);
    write_armed("sysv_signal");
    sigset(SIGSEGV, SIG_DFL);
    write_armed("sigset");
    EXPECT_EQ(sigignore(SIGSEGV), 0);
    write_armed("sigignore");
    EXPECT_EQ(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, 8), 0);
    write_armed("SYS_rt_sigprocmask");
    const long by_default[4] = {};  // as the kernel has actions
    EXPECT_EQ(syscall(SYS_rt_sigaction, SIGSEGV, by_default, nullptr, 8), 0);
    write_armed("SYS_rt_sigaction");
    // A handler that runs while the mask is replaced.
    sigset_t but_usr1;
    sigfillset(&but_usr1);
    sigdelset(&but_usr1, SIGUSR1);
    static char* armed;
    struct sigaction action = {};
    action.sa_handler = [](int) { armed[9] = 1; };
    sigfillset(&action.sa_mask);
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    const timespec time = {10, 0};
    const auto in_wait = [&](const char* what, auto wait) {
      armed = g_places->of[next++];
      EXPECT_FALSE(SystemMayWrite(armed)) << what;
      raise(SIGUSR1);  // blocked
      EXPECT_EQ(Outcome(wait()), -EINTR) << what;
      EXPECT_EQ(armed[9], 1) << what;
    };
    in_wait("sigsuspend", [&] { return sigsuspend(&but_usr1); });
    in_wait("ppoll", [&] { return ppoll(nullptr, 0, &time, &but_usr1); });
    in_wait("pselect", [&] { return pselect(0, nullptr, nullptr, nullptr, &time, &but_usr1); });
    const int empty = epoll_create1(0);
    epoll_event event;
    in_wait("epoll_pwait", [&] { return epoll_pwait(empty, &event, 1, 10'000, &but_usr1); });
    in_wait("epoll_pwait2", [&] { return epoll_pwait2(empty, &event, 1, &time, &but_usr1); });
    timespec left = time;
    const struct {
      const sigset_t* mask;
      size_t bytes;
    } mask_and_bytes = {&but_usr1, 8};
    in_wait("SYS_rt_sigsuspend", [&] { return syscall(SYS_rt_sigsuspend, &but_usr1, 8); });
    in_wait("SYS_ppoll", [&] { return syscall(SYS_ppoll, nullptr, 0, &left, &but_usr1, 8); });
    in_wait("SYS_pselect6", [&] {
      return syscall(SYS_pselect6, 0, nullptr, nullptr, nullptr, &left, &mask_and_bytes);
    });
    in_wait("SYS_epoll_pwait",
            [&] { return syscall(SYS_epoll_pwait, empty, &event, 1, 10'000, &but_usr1, 8); });
    in_wait("SYS_epoll_pwait2",
            [&] { return syscall(SYS_epoll_pwait2, empty, &event, 1, &time, &but_usr1, 8); });
    // The mask of a handler, which the kernel has behind three words.
    long kernel_action[4];
    ASSERT_EQ(syscall(SYS_rt_sigaction, SIGUSR1, nullptr, kernel_action, 8), 0);
    kernel_action[3] = -1;
    ASSERT_EQ(syscall(SYS_rt_sigaction, SIGUSR1, kernel_action, nullptr, 8), 0);
    in_wait("SYS_rt_sigaction", [&] { return sigsuspend(&but_usr1); });
  });
}

// --- The program's handler of SIGSEGV ---

char* g_own_page;
char* g_armed;
int g_handled;
sigjmp_buf g_out;
jmp_buf g_plain_out;

void WriteInHandler() {
  ++g_handled;
  EXPECT_FALSE(SystemMayWrite(g_armed)) << "not armed";
  g_armed[3] = 1;
  EXPECT_EQ(read(File(), g_armed + kGranule, 10), 10);
}
void WriteAndRepair(int) {
  WriteInHandler();
  mprotect(g_own_page, 4096, PROT_READ | PROT_WRITE);
}
void WriteAndJump(int) {
  WriteInHandler();
  siglongjmp(g_out, 1);
}
template <class Open>
void OpenAndJump(Open open) {
  WriteInHandler();
  open();
  longjmp(g_plain_out, 1);
}
__attribute__((noinline)) void FaultInOwnPage() {
  volatile char frame[8 * 1024];
  frame[0] = 1;
  mprotect(g_own_page, 4096, PROT_NONE);
  *static_cast<volatile char*>(g_own_page) = frame[0];
}
__attribute__((noinline)) void FaultAndComeBack() {
  if (sigsetjmp(g_out, 1) == 0 && setjmp(g_plain_out) == 0) FaultInOwnPage();
}
sigset_t FaultAlone() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGSEGV);
  return set;
}

TEST(SystemCallsTest, TheProgramsHandlerOfFaultsMayWriteToTheHeap) {
  RunArmed([] {
    g_own_page =
        static_cast<char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    static char alternate[256 << 10];
    const stack_t stack = {alternate, 0, sizeof alternate};
    ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
    // All ways out after which the system would deliver the next fault.
    using Handler = void (*)(int);
    const Handler handlers[] = {
        WriteAndRepair,
        WriteAndJump,
        [](int) {
          OpenAndJump([] {
            const sigset_t set = FaultAlone();
            sigprocmask(SIG_UNBLOCK, &set, nullptr);
          });
        },
        [](int) {
          OpenAndJump([] {
            sigset_t none;
            sigemptyset(&none);
            pthread_sigmask(SIG_SETMASK, &none, nullptr);
          });
        },
        [](int) { OpenAndJump([] { sigrelse(SIGSEGV); }); },
        [](int) {
          OpenAndJump([] {
            const sigset_t set = FaultAlone();
            syscall(SYS_rt_sigprocmask, SIG_UNBLOCK, &set, nullptr, 8);
          });
        },
    };
    size_t next = 0;
    for (const int flags : {0, SA_NODEFER, SA_ONSTACK}) {
      for (const Handler handler : handlers) {
        struct sigaction action = {};
        action.sa_handler = handler;
        action.sa_flags = flags;
        ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
        for (int round = 0; round < 3; ++round) {
          g_armed = g_places->of[next++];
          const int before = g_handled;
          FaultAndComeBack();
          EXPECT_EQ(g_handled, before + 1);
          EXPECT_EQ(g_armed[3], 1);
          EXPECT_EQ(g_armed[kGranule], 'x');
        }
      }
    }
    ASSERT_LT(next, kCaseCount);
  });
}

// Its own faults in its handler end the program, though we have SIGSEGV open there.
TEST(SystemCallsTest, AFaultInTheProgramsHandlerOfFaultsEndsIt) {
  auto* calls = static_cast<int*>(
      mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  static int* called;
  called = calls;
  const auto result = RunIncremental(Tracking::kProtection, kSteps, [] {
    GC_INIT();
    MakePlaces();
    PrepareInputs();
    BeginArmed();
    g_own_page =
        static_cast<char*>(mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    struct sigaction action = {};
    action.sa_handler = [](int) {
      ++*called;
      g_armed = g_places->of[0];
      WriteInHandler();
      FaultInOwnPage();
    };
    ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
    FaultInOwnPage();
  });
  EXPECT_TRUE(result.ended_by(SIGSEGV)) << result.err;
  EXPECT_EQ(*calls, 1);
}

// A mask that holds it was set before it was needed.
TEST(SystemCallsTest, HandlersThatWereThereBeforeMayWriteToTheHeap) {
  const auto result = RunIncremental(Tracking::kProtection, kSteps, [] {
    struct sigaction action = {};
    action.sa_handler = [](int) { g_armed[3] = 1; };
    sigfillset(&action.sa_mask);
    ASSERT_EQ(sigaction(SIGUSR1, &action, nullptr), 0);
    GC_INIT();
    MakePlaces();
    BeginArmed();
    g_armed = g_places->of[0];
    EXPECT_FALSE(SystemMayWrite(g_armed)) << "not armed";
    EXPECT_EQ(raise(SIGUSR1), 0);
    EXPECT_EQ(g_armed[3], 1);
    FinishCycle();
  });
  EXPECT_CONCURRENT(result, 1);
}

// --- An alternate stack in the frame of a function that has returned ---

constexpr size_t kFrameBytes = 128 << 10;

__attribute__((noinline)) void LeaveAlternateStackBehind() {
  char frame[kFrameBytes];
  const stack_t stack = {frame + kFrameBytes / 2, 0, kFrameBytes / 4};
  ASSERT_EQ(sigaltstack(&stack, nullptr), 0);
  struct sigaction action = {};
  action.sa_handler = [](int) { abort(); };
  action.sa_flags = SA_ONSTACK;
  ASSERT_EQ(sigaction(SIGSEGV, &action, nullptr), 0);
}
__attribute__((noinline)) void WriteFromDeepDown(size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i) {
    EXPECT_FALSE(SystemMayWrite(g_places->of[i])) << "not armed";
    g_places->of[i][3] = 1;
  }
}
// With a frame where that stack was. Calls `until` with it below.
template <class F>
__attribute__((noinline)) bool FrameStaysWhole(F f) {
  volatile char frame[2 * kFrameBytes];
  for (size_t i = 0; i < sizeof frame; ++i) frame[i] = static_cast<char>(i * 7);
  f();
  for (size_t i = 0; i < sizeof frame; ++i) {
    if (frame[i] != static_cast<char>(i * 7)) return false;
  }
  return true;
}

TEST(SystemCallsTest, AnAlternateStackInAnEndedFrameIsNotWrittenTo) {
  for (const bool before : {true, false}) {
    const auto result = RunIncremental(Tracking::kProtection, kSteps, [before] {
      if (before) LeaveAlternateStackBehind();
      GC_INIT();
      MakePlaces();
      if (!before) LeaveAlternateStackBehind();
      BeginArmed();
      EXPECT_TRUE(FrameStaysWhole([] { WriteFromDeepDown(0, 5); }));
      FinishCycle();
    });
    EXPECT_CONCURRENT(result, 1) << "set before: " << before;
  }
}

// One thread has such a stack and runs when tracking is turned on by another.
TEST(SystemCallsTest, NorIsThatOfAThreadThatRunsAlready) {
  const auto result = RunInChild([] {
    setenv("GLEANER_WRITE_TRACKING", "mprotect", 1);
    setenv("GLEANER_SHORT_PAUSE", "0", 1);
    setenv("GC_PRINT_STATS", "1", 1);
    for (const char* entry : kSteps) putenv(const_cast<char*>(entry));
    GC_INIT();
    static pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, nullptr, 2);
    const auto run = [](void*) -> void* {
      LeaveAlternateStackBehind();
      EXPECT_TRUE(FrameStaysWhole([] {
        pthread_barrier_wait(&barrier);  // it runs
        pthread_barrier_wait(&barrier);  // armed
        WriteFromDeepDown(0, 5);
      }));
      return nullptr;
    };
    pthread_t thread;
    ASSERT_EQ(GC_pthread_create(&thread, nullptr, run, nullptr), 0);
    pthread_barrier_wait(&barrier);
    GC_enable_incremental();
    MakePlaces();
    BeginArmed();
    pthread_barrier_wait(&barrier);
    ASSERT_EQ(GC_pthread_join(thread, nullptr), 0);
    FinishCycle();
  });
  EXPECT_CONCURRENT(result, 1);
}

}  // namespace

#endif
