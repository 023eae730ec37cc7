// The functions that the shared libraries of the verify build call in place of the C library's
// functions for system calls (failures.h). Calls of NAME go to `__wrap_NAME`; `__real_NAME` is the
// C library's function.
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstddef>
#include <cstdlib>

#include "platform/faults/failures.h"

namespace {

using gleaner::platform::Failing;
using gleaner::platform::Fails;
using gleaner::platform::FailureDraw;

// Whether the call is to fail; then errno is one of `errors`.
template <class... Errors>
bool FailsWith(Failing sort, Errors... errors) {
  if (!Fails(sort)) return false;
  const int all[] = {errors...};
  errno = all[FailureDraw() % sizeof...(errors)];
  return true;
}

// A random smaller length: at least a byte, and a number of words if `bytes` is one.
size_t Shorter(size_t bytes) {
  constexpr size_t kWord = sizeof(uint64_t);
  if (bytes < 2) return bytes;
  if (bytes % kWord == 0)
    return bytes == kWord ? bytes : (1 + FailureDraw() % (bytes / kWord)) * kWord;
  return 1 + FailureDraw() % bytes;
}

}  // namespace

// Defines __wrap_NAME, which returns R and fails by the value `failed` with one of the errors.
#define FAILING(R, failed, NAME, PARAMETERS, ARGUMENTS, ...) \
  R __real_##NAME PARAMETERS;                                \
  R __wrap_##NAME PARAMETERS;                                \
  R __wrap_##NAME PARAMETERS { return FailsWith(__VA_ARGS__) ? failed : __real_##NAME ARGUMENTS; }

extern "C" {

// --- Memory ---

FAILING(void*, MAP_FAILED, mmap, (void* p, size_t n, int access, int flags, int fd, off_t at),
        (p, n, access, flags, fd, at), Failing::kMapping, ENOMEM, EAGAIN)
FAILING(int, -1, munmap, (void* p, size_t n), (p, n), Failing::kMapping, ENOMEM)
FAILING(int, -1, mprotect, (void* p, size_t n, int access), (p, n, access), Failing::kMapping,
        ENOMEM)
FAILING(int, -1, madvise, (void* p, size_t n, int advice), (p, n, advice), Failing::kAdvice, EAGAIN,
        ENOMEM, EINVAL)
FAILING(int, -1, mincore, (void* p, size_t n, unsigned char* pages), (p, n, pages),
        Failing::kAdvice, EAGAIN)
void* __real_mremap(void* p, size_t n, size_t to, int flags, void* place);
void* __wrap_mremap(void* p, size_t n, size_t to, int flags, ...);
void* __wrap_mremap(void* p, size_t n, size_t to, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  void* place = (flags & MREMAP_FIXED) != 0 ? va_arg(rest, void*) : nullptr;
  va_end(rest);
  if (FailsWith(Failing::kMapping, ENOMEM, EINVAL)) return MAP_FAILED;
  return __real_mremap(p, n, to, flags, place);
}

// --- Files ---
//
// Calls on standard error do not fail, but writes may be short: its messages say why a program
// ended.

int __real_open(const char* path, int flags, mode_t mode);
int __wrap_open(const char* path, int flags, ...);
int __wrap_open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(rest, mode_t) : 0;
  va_end(rest);
  if (FailsWith(Failing::kFile, EMFILE, ENFILE, ENOENT, EACCES, ENOMEM, EINTR)) return -1;
  return __real_open(path, flags, mode);
}
int __real_fcntl(int fd, int command, long argument);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...) {
  va_list rest;
  va_start(rest, command);
  const long argument = va_arg(rest, long);
  va_end(rest);
  if (fd != STDERR_FILENO && FailsWith(Failing::kFile, EMFILE, EINVAL)) return -1;
  return __real_fcntl(fd, command, argument);
}
FAILING(int, -1, flock, (int fd, int operation), (fd, operation), Failing::kFile, EINTR, ENOLCK,
        EWOULDBLOCK)
FAILING(int, -1, access, (const char* path, int mode), (path, mode), Failing::kFile, EACCES, ENOENT,
        ENOMEM)
int __real_fstat(int fd, struct stat* status);
int __wrap_fstat(int fd, struct stat* status);
int __wrap_fstat(int fd, struct stat* status) {
  if (fd != STDERR_FILENO && FailsWith(Failing::kFile, EIO, EACCES)) return -1;
  return __real_fstat(fd, status);
}
FAILING(int, -1, pipe2, (int* ends, int flags), (ends, flags), Failing::kFile, EMFILE, ENFILE)
FAILING(int, -1, memfd_create, (const char* name, unsigned flags), (name, flags), Failing::kFile,
        EMFILE, ENOMEM)
FAILING(int, -1, ftruncate, (int fd, off_t n), (fd, n), Failing::kFile, EINTR, EIO)
FAILING(int, -1, fchmod, (int fd, mode_t mode), (fd, mode), Failing::kFile, EINTR, EPERM)
FAILING(int, -1, fallocate, (int fd, int mode, off_t at, off_t n), (fd, mode, at, n),
        Failing::kFile, EINTR, ENOSPC, EOPNOTSUPP)
FAILING(ssize_t, -1, readlink, (const char* path, char* p, size_t n), (path, p, n), Failing::kFile,
        ENOENT, EACCES)
FAILING(char*, nullptr, getcwd, (char* p, size_t n), (p, n), Failing::kFile, ENOENT, EACCES)
int __real_ioctl(int fd, unsigned long request, void* argument);
int __wrap_ioctl(int fd, unsigned long request, void* argument);
int __wrap_ioctl(int fd, unsigned long request, void* argument) {
  if (FailsWith(Failing::kData, EINVAL, EPERM, ENOMEM, ENOTTY)) return -1;
  return __real_ioctl(fd, request, argument);
}
ssize_t __real_read(int fd, void* p, size_t n);
ssize_t __wrap_read(int fd, void* p, size_t n);
ssize_t __wrap_read(int fd, void* p, size_t n) {
  if (!FailsWith(Failing::kData, EIO, EINTR, 0, 0)) return __real_read(fd, p, n);
  return errno != 0 ? -1 : __real_read(fd, p, Shorter(n));
}
ssize_t __real_pread(int fd, void* p, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void* p, size_t n, off_t at);
ssize_t __wrap_pread(int fd, void* p, size_t n, off_t at) {
  if (!FailsWith(Failing::kData, EIO, EINTR, 0, 0)) return __real_pread(fd, p, n, at);
  return errno != 0 ? -1 : __real_pread(fd, p, Shorter(n), at);
}
ssize_t __real_write(int fd, const void* p, size_t n);
ssize_t __wrap_write(int fd, const void* p, size_t n);
ssize_t __wrap_write(int fd, const void* p, size_t n) {
  if (!FailsWith(Failing::kData, EINTR, 0, 0, 0)) return __real_write(fd, p, n);
  return errno != 0 ? -1 : __real_write(fd, p, Shorter(n));
}

// --- The process ---

FAILING(ssize_t, -1, process_vm_readv,
        (pid_t process, const iovec* to, unsigned long n, const iovec* from, unsigned long m,
         unsigned long flags),
        (process, to, n, from, m, flags), Failing::kProcess, EPERM, ENOSYS, ENOMEM)
FAILING(int, -1, getrlimit, (int resource, rlimit* limit), (resource, limit), Failing::kProcess,
        EPERM)
int __real_sigaltstack(const stack_t* next, stack_t* old);
int __wrap_sigaltstack(const stack_t* next, stack_t* old);
int __wrap_sigaltstack(const stack_t* next, stack_t* old) {
  // A call that only asks cannot fail.
  if (next != nullptr && FailsWith(Failing::kProcess, ENOMEM, EPERM)) return -1;
  return __real_sigaltstack(next, old);
}
FAILING(int, -1, sched_getcpu, (), (), Failing::kThread, ENOSYS)
FAILING(pid_t, -1, waitpid, (pid_t process, int* status, int options), (process, status, options),
        Failing::kWait, EINTR)
FAILING(int, -1, atexit, (void (*end)()), (end), Failing::kProcess, ENOMEM)
FAILING(int, -1, on_exit, (void (*end)(int, void*), void* argument), (end, argument),
        Failing::kProcess, ENOMEM)

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f) {
  switch (number) {
    case SYS_futex:
      if ((b & FUTEX_CMD_MASK) == FUTEX_WAIT && FailsWith(Failing::kWait, EINTR, EAGAIN)) return -1;
      break;
    case SYS_tgkill:
      if (FailsWith(Failing::kThread, EAGAIN)) return -1;
      break;
    case SYS_kcmp:
      if (FailsWith(Failing::kProcess, EPERM, ENOSYS)) return -1;
      break;
    case SYS_sched_getaffinity:
    case SYS_sched_setaffinity:
      if (FailsWith(Failing::kThread, EPERM, EINVAL)) return -1;
      break;
    case SYS_get_mempolicy:
      if (FailsWith(Failing::kProcess, EPERM, ENOSYS)) return -1;
      break;
    case SYS_mbind:
    case SYS_move_pages:
    case SYS_set_mempolicy:
      if (FailsWith(Failing::kAdvice, EPERM, ENOSYS, ENOMEM, EINVAL)) return -1;
      break;
    case SYS_userfaultfd:
      if (FailsWith(Failing::kFile, EPERM, ENOSYS, EMFILE, ENFILE, ENOMEM)) return -1;
      break;
    default:
      break;
  }
  return __real_syscall(number, a, b, c, d, e, f);
}

// Functions that return the error as their result.
#define FAILING_NUMBER(NAME, PARAMETERS, ARGUMENTS, ERROR) \
  int __real_##NAME PARAMETERS;                            \
  int __wrap_##NAME PARAMETERS;                            \
  int __wrap_##NAME PARAMETERS { return Fails(Failing::kThread) ? ERROR : __real_##NAME ARGUMENTS; }

FAILING_NUMBER(posix_spawn,
               (pid_t * child, const char* path, const posix_spawn_file_actions_t* actions,
                const posix_spawnattr_t* attributes, char* const* arguments,
                char* const* environment),
               (child, path, actions, attributes, arguments, environment), EAGAIN)
FAILING_NUMBER(pthread_getattr_np, (pthread_t thread, pthread_attr_t* attributes),
               (thread, attributes), ENOMEM)
FAILING_NUMBER(pthread_key_create, (pthread_key_t * key, void (*end)(void*)), (key, end), EAGAIN)
FAILING_NUMBER(pthread_setspecific, (pthread_key_t key, const void* value), (key, value), ENOMEM)

}  // extern "C"
