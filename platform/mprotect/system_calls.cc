// One table with a row for each call by which the system writes into the program's memory, the
// types of which rows are made, and the same calls by their numbers. The file is long because the
// table is; the parts stay together because the types need headers of the operating system, which
// no header of this library includes.
#include "platform/mprotect/system_calls.h"

#include <aio.h>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <mqueue.h>
#include <net/if.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <resolv.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/msg.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysinfo.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <initializer_list>
#include <tuple>
#include <type_traits>
#include <utility>

#include "platform/loader/imports.h"
#include "platform/mprotect/call_buffers.h"
#include "platform/mprotect/open_signal.h"
#include "platform/threads/fault_signal.h"

namespace gleaner::platform {

namespace {

// The C library's function that kFunction replaces. Written by LookUpOriginals before kFunction is
// used anywhere.
template <auto kFunction>
constinit decltype(kFunction) g_original = nullptr;

// Sorted by name. Constant after LookUpOriginals.
constexpr size_t kMaxImports = 320;
constinit ReplacedImport g_imports[kMaxImports] = {};
constinit size_t g_import_count = 0;

// --- What a call writes ---
//
// A row of the table below names the memory that the call writes by types with AddTo(buffers,
// arguments...). The types' parameters are the numbers of arguments, from 0.

template <size_t kArgument>
auto Argument(const auto&... arguments) {
  return std::get<kArgument>(std::forward_as_tuple(arguments...));
}
template <size_t kArgument>
size_t Length(const auto&... arguments) {
  const auto count = Argument<kArgument>(arguments...);
  return count < 0 ? 0 : static_cast<size_t>(count);
}

// The object that the argument points to.
template <size_t kPointer>
struct Object {
  static void AddTo(CallBuffers& buffers, const auto&... arguments) {
    const auto p = Argument<kPointer>(arguments...);
    buffers.Add(p, sizeof *p);
  }
};
template <size_t kPointer, size_t kBytes>
struct Fixed {
  static void AddTo(CallBuffers& buffers, const auto&... arguments) {
    buffers.Add(Argument<kPointer>(arguments...), kBytes);
  }
};
// A buffer whose length is the product of the arguments kFactors.
template <size_t kPointer, size_t... kFactors>
struct Bytes {
  static void AddTo(CallBuffers& buffers, const auto&... arguments) {
    buffers.Add(Argument<kPointer>(arguments...), (Length<kFactors>(arguments...) * ...));
  }
};
template <size_t kPointer, size_t kCount>
struct Array {
  static void AddTo(CallBuffers& buffers, const auto&... arguments) {
    const auto p = Argument<kPointer>(arguments...);
    buffers.Add(p, Length<kCount>(arguments...) * sizeof *p);
  }
};
// A buffer whose length is stored where another argument points to, and the length itself.
template <size_t kPointer, size_t kLength>
struct Sized {
  static void AddTo(CallBuffers& buffers, const auto&... arguments) {
    buffers.AddSized(Argument<kPointer>(arguments...), Argument<kLength>(arguments...));
  }
};
template <size_t kPointer, size_t kCount>
struct Parts {
  static void AddTo(CallBuffers& buffers, const auto&... arguments) {
    buffers.AddParts(Argument<kPointer>(arguments...), Length<kCount>(arguments...));
  }
};
template <size_t kPointer>
struct Message {
  static void AddTo(CallBuffers& buffers, const auto&... arguments) {
    buffers.AddMessage(Argument<kPointer>(arguments...));
  }
};
template <size_t kPointer, size_t kCount>
struct Messages {
  static void AddTo(CallBuffers& buffers, const auto&... arguments) {
    buffers.AddMessages(Argument<kPointer>(arguments...), Length<kCount>(arguments...));
  }
};
// Memory that is written after the call, by the system or by a thread of the C library that takes
// no signals.
template <size_t kPointer, size_t kBytes>
struct Kept {
  static void AddTo(CallBuffers&, const auto&... arguments) {
    Keep(Argument<kPointer>(arguments...), Length<kBytes>(arguments...));
  }
  static void Keep(const volatile void* p, size_t bytes) {
    const int saved = errno;
    const Addr begin = AddressOf(p);
    ProtectionTracking::KeepOpen(begin, begin + bytes < begin ? ~Addr{0} : begin + bytes);
    errno = saved;
  }
};
template <class T>
void KeepObject(const T* object) {
  Kept<0, 1>::Keep(object, sizeof *object);
}

// The memory that an ioctl writes. The request's number tells the length, except for old requests,
// which write at most kMaxOfOldOnes bytes.
struct ByRequest {
  static void AddTo(CallBuffers& buffers, int, unsigned long request, void* p) {
    constexpr size_t kMaxOfOldOnes = 256;
    const size_t said = _IOC_SIZE(request);
    buffers.Add(p, said != 0 ? said : kMaxOfOldOnes);
    ifconf list;
    if (request == SIOCGIFCONF && p != nullptr && CopyFromProgram(&list, p, sizeof list) &&
        list.ifc_len > 0) {
      buffers.Add(list.ifc_buf, static_cast<size_t>(list.ifc_len));
    }
  }
};
struct MessageWithType {  // a message of a queue (msgrcv)
  static void AddTo(CallBuffers& buffers, int, void* p, size_t bytes, long, int) {
    if (bytes <= SIZE_MAX / 2) buffers.Add(p, sizeof(long) + bytes);
  }
};
struct ByteForEachPage {
  static void AddTo(CallBuffers& buffers, void*, size_t bytes, unsigned char* p) {
    buffers.Add(p, bytes / OsPageBytes() + 1);
  }
};
// Parts of another process or of this one; only those of this process are pinned.
struct PartsOfThisProcess {
  static void AddTo(CallBuffers& buffers, pid_t process, const iovec*, unsigned long,
                    const iovec* parts, unsigned long count, unsigned long) {
    if (process == getpid()) buffers.AddParts(parts, count);
  }
};
struct AsynchronousBuffer {
  template <class Block>
  static void AddTo(CallBuffers&, Block* block) {
    KeepObject(block);
    Kept<0, 1>::Keep(const_cast<const void*>(block->aio_buf), block->aio_nbytes);
  }
  template <class Block>
  static void AddTo(CallBuffers& buffers, int, Block* block) {
    AddTo(buffers, block);
  }
};
// Lists of blocks that threads of the C library, which take no signals, write to.
struct AsynchronousList {
  template <class Block>
  static void AddTo(CallBuffers& buffers, int, Block* const* list, int count, const void*) {
    for (int i = 0; i < count; ++i) {
      Block* block;
      if (!CopyFromProgram(&block, list + i, sizeof block)) return;
      if (block != nullptr) AddBlock(buffers, block);
    }
  }
  static void AddBlock(CallBuffers& buffers, aiocb* block) {
    AsynchronousBuffer::AddTo(buffers, block);
  }
  static void AddBlock(CallBuffers&, gaicb* request) { KeepObject(request); }
};
struct StreamBuffer {
  static void AddTo(CallBuffers&, FILE*, char* p) {
    Kept<0, 1>::Keep(p, p != nullptr ? BUFSIZ : 0);
  }
};
// A mutex that the system writes to: when its owner ends (robust), or for priority inheritance. For
// a mutex shared by processes the system wants a writable page when threads wait. The bits of the
// kind are glibc's.
struct MutexOfTheSystem {
  static void AddTo(CallBuffers&, const pthread_mutex_t* mutex, const auto&...) {
    constexpr int kRobust = 16, kInheritsPriority = 32, kShared = 128;
    if ((mutex->__data.__kind & (kRobust | kInheritsPriority | kShared)) != 0) KeepObject(mutex);
  }
};
struct SharedSemaphore {
  static void AddTo(CallBuffers&, sem_t* semaphore, int shared, unsigned) {
    if (shared != 0) KeepObject(semaphore);
  }
};
// Conditions, barriers and read-write locks that several processes share.
template <auto kGetShared>
struct Shared {
  static void AddTo(CallBuffers&, const auto* object, const auto* attributes, const auto&...) {
    int shared = PTHREAD_PROCESS_PRIVATE;
    if (attributes != nullptr && kGetShared(attributes, &shared) == 0 &&
        shared != PTHREAD_PROCESS_PRIVATE) {
      KeepObject(object);
    }
  }
};
// Futex operations that only read a word private to the process need no writable page.
struct FutexWord {
  static void AddTo(CallBuffers& buffers, uint32_t* word, int operation, uint32_t, const void*,
                    uint32_t* other, uint32_t) {
    const int command = operation & FUTEX_CMD_MASK;
    const bool reads = command == FUTEX_WAIT || command == FUTEX_WAKE ||
                       command == FUTEX_WAIT_BITSET || command == FUTEX_WAKE_BITSET ||
                       command == FUTEX_REQUEUE || command == FUTEX_CMP_REQUEUE;
    if (reads && (operation & FUTEX_PRIVATE_FLAG) != 0) return;
    buffers.Add(word, sizeof *word);
    buffers.Add(other, sizeof *other);
  }
};

// --- Rows of the table ---

template <size_t kSize>
struct Name {
  char text[kSize];
  constexpr Name(const char (&name)[kSize]) {
    for (size_t i = 0; i < kSize; ++i) text[i] = name[i];
  }
};
void LookUpOne(void* libc, const char* name, void* replacement, void** original) {
  void* found = dlsym(libc, name);
  if (found == nullptr) return;
  *original = found;
  size_t i = g_import_count++;
  GLEANER_CHECK(i < kMaxImports, "no room for %s", name);
  for (; i != 0 && strcmp(g_imports[i - 1].name, name) > 0; --i) g_imports[i] = g_imports[i - 1];
  g_imports[i] = {name, replacement, found};
}
// All names of one function of the C library.
template <Name... kNames>
struct Names {
  template <auto kFunction>
  static void LookUp([[maybe_unused]] void* libc) {
    (LookUpOne(libc, kNames.text, reinterpret_cast<void*>(kFunction),
               reinterpret_cast<void**>(&g_original<kFunction>)),
     ...);
  }
};

// Run replaces a function: it pins the memory that the call writes and makes the call. kNumber is
// the system call with the same arguments, or kNone.
constexpr long kNone = -1;
template <class AllNames, long kNumber, class Function, class... Outputs>
struct Call;
template <class AllNames, long kNumber, class R, class... A, class... Outputs>
struct Call<AllNames, kNumber, R(A...), Outputs...> {
  static R Run(A... arguments) {
    CallBuffers buffers;
    (Outputs::AddTo(buffers, arguments...), ...);
    buffers.Pin();
    return g_original<Run>(arguments...);
  }
  static void LookUp(void* libc) { AllNames::template LookUp<Run>(libc); }
  // Adds the memory that system call `number` writes, if it is kNumber. Returns whether it is.
  static bool AddRaw(CallBuffers& buffers, long number, const long* arguments) {
    if (kNumber == kNone || number != kNumber) return false;
    AddRaw(buffers, arguments, std::index_sequence_for<A...>());
    return true;
  }

 private:
  template <size_t... kArguments>
  static void AddRaw(CallBuffers& buffers, const long* arguments,
                     std::index_sequence<kArguments...>) {
    (Outputs::AddTo(buffers, As<A>(arguments[kArguments])...), ...);
  }
  template <class T>
  static T As(long argument) {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(argument);
    } else {
      return static_cast<T>(argument);
    }
  }
};
template <class AllNames, long kNumber, class R, class... A, class... Outputs>
struct Call<AllNames, kNumber, R(A...) noexcept, Outputs...>
    : Call<AllNames, kNumber, R(A...), Outputs...> {};

// A row for a replacement function of its own, kFunction.
template <class AllNames, auto kFunction>
struct Own {
  static void LookUp(void* libc) { AllNames::template LookUp<kFunction>(libc); }
  static bool AddRaw(CallBuffers&, long, const long*) { return false; }
};

template <class... Rows>
struct Table {
  static void LookUp(void* libc) { (Rows::LookUp(libc), ...); }
  static bool AddRaw(CallBuffers& buffers, long number, const long* arguments) {
    return (Rows::AddRaw(buffers, number, arguments) || ...);
  }
};

// --- Signals ---

// The set without SIGSEGV: a thread that stores into the heap must not block it.
const sigset_t* WithoutFault(const sigset_t* set, sigset_t* copy) {
  if (set == nullptr || !CopyFromProgram(copy, set, sizeof *copy)) return set;
  sigdelset(copy, SIGSEGV);
  return copy;
}
void OpenIfUnblocked(const sigset_t* set) {
  sigset_t copy;
  if (set == nullptr || !CopyFromProgram(&copy, set, sizeof copy)) return;
  if (sigismember(&copy, SIGSEGV) == 1) OpenFaultSignalForProgram();
}
int ChangeMask(int (*change)(int, const sigset_t*, sigset_t*), int how, const sigset_t* set,
               sigset_t* old) {
  CallBuffers buffers;
  buffers.Add(old, sizeof *old);
  buffers.Pin();
  sigset_t open;
  if (how != SIG_UNBLOCK) return change(how, WithoutFault(set, &open), old);
  OpenIfUnblocked(set);
  return change(how, set, old);
}
int Sigmask(int how, const sigset_t* set, sigset_t* old) {
  return ChangeMask(g_original<Sigmask>, how, set, old);
}
int ProcessMask(int how, const sigset_t* set, sigset_t* old) {
  return ChangeMask(g_original<ProcessMask>, how, set, old);
}
constexpr int kFaultBit = 1 << (SIGSEGV - 1);
int Sigblock(int mask) { return g_original<Sigblock>(mask & ~kFaultBit); }
int Sigsetmask(int mask) { return g_original<Sigsetmask>(mask & ~kFaultBit); }
int Sighold(int number) { return number == SIGSEGV ? 0 : g_original<Sighold>(number); }
int Sigrelse(int number) {
  if (number == SIGSEGV) OpenFaultSignalForProgram();
  return g_original<Sigrelse>(number);
}
int Sigsuspend(const sigset_t* mask) {
  sigset_t open;
  return g_original<Sigsuspend>(WithoutFault(mask, &open));
}
int SetMaskOfThreads(pthread_attr_t* attributes, const sigset_t* mask) {
  sigset_t open;
  return g_original<SetMaskOfThreads>(attributes, WithoutFault(mask, &open));
}
// The calls below set a mask while they wait; handlers that run meanwhile need SIGSEGV unblocked.
int Ppoll(pollfd* fds, nfds_t n, const timespec* timeout, const sigset_t* mask) {
  CallBuffers buffers;
  buffers.Add(fds, n * sizeof *fds);
  buffers.Pin();
  sigset_t open;
  return g_original<Ppoll>(fds, n, timeout, WithoutFault(mask, &open));
}
int CheckedPpoll(pollfd* fds, nfds_t n, const timespec* timeout, const sigset_t* mask,
                 size_t room) {
  CallBuffers buffers;
  buffers.Add(fds, n * sizeof *fds);
  buffers.Pin();
  sigset_t open;
  return g_original<CheckedPpoll>(fds, n, timeout, WithoutFault(mask, &open), room);
}
int Pselect(int n, fd_set* read, fd_set* write, fd_set* other, const timespec* timeout,
            const sigset_t* mask) {
  CallBuffers buffers;
  for (const fd_set* set : {read, write, other}) buffers.Add(set, sizeof *set);
  buffers.Pin();
  sigset_t open;
  return g_original<Pselect>(n, read, write, other, timeout, WithoutFault(mask, &open));
}
int EpollPwait(int fd, epoll_event* events, int n, int timeout, const sigset_t* mask) {
  CallBuffers buffers;
  if (n > 0) buffers.Add(events, static_cast<size_t>(n) * sizeof *events);
  buffers.Pin();
  sigset_t open;
  return g_original<EpollPwait>(fd, events, n, timeout, WithoutFault(mask, &open));
}
int EpollPwait2(int fd, epoll_event* events, int n, const timespec* timeout, const sigset_t* mask) {
  CallBuffers buffers;
  if (n > 0) buffers.Add(events, static_cast<size_t>(n) * sizeof *events);
  buffers.Pin();
  sigset_t open;
  return g_original<EpollPwait2>(fd, events, n, timeout, WithoutFault(mask, &open));
}

int Action(int number, const struct sigaction* action, struct sigaction* old) {
  if (number == SIGSEGV && ExchangeChainedAction(action, old)) return 0;
  if (action == nullptr || number < 1 || number > SIGRTMAX) {
    return g_original<Action>(number, action, old);
  }
  struct sigaction open = *action;
  sigdelset(&open.sa_mask, SIGSEGV);
  return g_original<Action>(number, &open, old);
}
// Removes SIGSEGV from the masks of the handlers that the program has installed so far. A handler
// that the program installs at the same instant may be lost.
void OpenFaultInHandlers() {
  for (int number = 1; number <= SIGRTMAX; ++number) {
    struct sigaction action;
    if (number == SIGSEGV || g_original<Action>(number, nullptr, &action) != 0) continue;
    if (sigismember(&action.sa_mask, SIGSEGV) != 1) continue;
    sigdelset(&action.sa_mask, SIGSEGV);
    g_original<Action>(number, &action, nullptr);
  }
}
// Sets the action of SIGSEGV for functions older than sigaction. False: the caller calls the C
// library's function.
bool ExchangeHandler(int number, sighandler_t handler, int flags, sighandler_t* old_handler) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  struct sigaction old;
  if (number != SIGSEGV || !ExchangeChainedAction(&action, &old)) return false;
  *old_handler = old.sa_handler;
  return true;
}
sighandler_t Handler(int number, sighandler_t handler) {
  sighandler_t old;
  if (ExchangeHandler(number, handler, SA_RESTART, &old)) return old;
  return g_original<Handler>(number, handler);
}
sighandler_t HandlerOnce(int number, sighandler_t handler) {
  sighandler_t old;
  constexpr auto kFlags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
  if (ExchangeHandler(number, handler, kFlags, &old)) return old;
  return g_original<HandlerOnce>(number, handler);
}
sighandler_t Sigset(int number, sighandler_t handler) {
  sighandler_t old;
  if (handler == SIG_HOLD && number == SIGSEGV)
    return SIG_HOLD;  // as if SIGSEGV had been blocked before
  if (ExchangeHandler(number, handler, 0, &old)) {
    OpenFaultSignalForProgram();
    return old;
  }
  return g_original<Sigset>(number, handler);
}
int Sigignore(int number) {
  sighandler_t old;
  if (ExchangeHandler(number, SIG_IGN, 0, &old)) return 0;
  return g_original<Sigignore>(number);
}

// The alternate stack to set for the thread: `copy`, which lies apart from the thread's own stack,
// or `next` itself if it cannot be read.
const stack_t* NewAlternateStack(const stack_t* next, stack_t* copy) {
  if (next == nullptr || !CopyFromProgram(copy, next, sizeof *copy)) return next;
  const Range own = t_stop_record != nullptr ? t_stop_record->stack : CurrentStackBounds();
  if (!KeepAlternateStackApart(copy->ss_flags, &copy->ss_sp, &copy->ss_size, own)) {
    Kept<0, 1>::Keep(copy->ss_sp, copy->ss_size);
  }
  return copy;
}
int AlternateStack(const stack_t* next, stack_t* old) {
  CallBuffers buffers;
  buffers.Add(old, sizeof *old);
  buffers.Pin();
  stack_t copy;
  return g_original<AlternateStack>(NewAlternateStack(next, &copy), old);
}

// --- The table ---

// Types of functions have no attributes: the warning says so.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"

using Data = Table<
    Call<Names<"read", "__read">, SYS_read, decltype(::read), Bytes<1, 2>>,
    Call<Names<"__read_chk">, kNone, ssize_t(int, void*, size_t, size_t), Bytes<1, 2>>,
    Call<Names<"pread", "pread64", "__pread64", "__libc_pread">, SYS_pread64, decltype(::pread),
         Bytes<1, 2>>,
    Call<Names<"__pread_chk", "__pread64_chk">, kNone, ssize_t(int, void*, size_t, off_t, size_t),
         Bytes<1, 2>>,
    Call<Names<"readv">, SYS_readv, decltype(::readv), Parts<1, 2>>,
    Call<Names<"preadv", "preadv64">, SYS_preadv, decltype(::preadv), Parts<1, 2>>,
    Call<Names<"preadv2", "preadv64v2">, SYS_preadv2, decltype(::preadv2), Parts<1, 2>>,
    Call<Names<"process_vm_readv">, SYS_process_vm_readv, decltype(::process_vm_readv),
         Parts<1, 2>>,
    Call<Names<"process_vm_writev">, SYS_process_vm_writev, decltype(::process_vm_writev),
         PartsOfThisProcess>,
    Call<Names<"vmsplice">, SYS_vmsplice, decltype(::vmsplice), Parts<1, 2>>,
    Call<Names<"splice">, SYS_splice, decltype(::splice), Object<1>, Object<3>>,
    Call<Names<"sendfile", "sendfile64">, SYS_sendfile, decltype(::sendfile), Object<2>>,
    Call<Names<"copy_file_range">, SYS_copy_file_range, decltype(::copy_file_range), Object<1>,
         Object<3>>,
    Call<Names<"getrandom">, SYS_getrandom, decltype(::getrandom), Bytes<0, 1>>,
    Call<Names<"getentropy">, kNone, decltype(::getentropy), Bytes<0, 1>>,
    Call<Names<"arc4random_buf">, kNone, void(void*, size_t), Bytes<0, 1>>,
    Call<Names<"eventfd_read">, kNone, decltype(::eventfd_read), Object<1>>,
    // A stream's buffer is the C library's, but a large part goes to the program's memory directly.
    Call<Names<"fread", "fread_unlocked", "_IO_fread">, kNone, decltype(::fread), Bytes<0, 1, 2>>,
    Call<Names<"__fread_chk", "__fread_unlocked_chk">, kNone,
         size_t(void*, size_t, size_t, size_t, FILE*), Bytes<0, 2, 3>>,
    Call<Names<"_IO_sgetn">, kNone, size_t(FILE*, void*, size_t), Bytes<1, 2>>,
    Call<Names<"setvbuf", "_IO_setvbuf">, kNone, decltype(::setvbuf), Kept<1, 3>>,
    Call<Names<"setbuffer", "_IO_setbuffer">, kNone, decltype(::setbuffer), Kept<1, 2>>,
    Call<Names<"setbuf">, kNone, decltype(::setbuf), StreamBuffer>,
    Call<Names<"aio_read", "aio_read64">, kNone, decltype(::aio_read), AsynchronousBuffer>,
    Call<Names<"aio_write", "aio_write64">, kNone, decltype(::aio_write), AsynchronousBuffer>,
    Call<Names<"aio_fsync", "aio_fsync64">, kNone, decltype(::aio_fsync), AsynchronousBuffer>,
    Call<Names<"lio_listio", "lio_listio64">, kNone, int(int, aiocb* const*, int, sigevent*),
         AsynchronousList>,
    Call<Names<"getaddrinfo_a">, kNone, int(int, gaicb* const*, int, sigevent*), AsynchronousList>>;

using Files = Table<
    Call<Names<"stat", "stat64">, kNone, decltype(::stat), Object<1>>,
    Call<Names<"lstat", "lstat64">, kNone, decltype(::lstat), Object<1>>,
    Call<Names<"fstat", "fstat64", "__fstat64">, SYS_fstat, decltype(::fstat), Object<1>>,
    Call<Names<"fstatat", "fstatat64">, SYS_newfstatat, decltype(::fstatat), Object<2>>,
    Call<Names<"__xstat", "__xstat64">, kNone, int(int, const char*, struct stat*), Object<2>>,
    Call<Names<"__lxstat", "__lxstat64">, kNone, int(int, const char*, struct stat*), Object<2>>,
    Call<Names<"__fxstat", "__fxstat64">, kNone, int(int, int, struct stat*), Object<2>>,
    Call<Names<"__fxstatat", "__fxstatat64">, kNone, int(int, int, const char*, struct stat*, int),
         Object<3>>,
    Call<Names<"statx">, SYS_statx, decltype(::statx), Object<4>>,
    Call<Names<"statfs", "statfs64", "__statfs">, SYS_statfs, decltype(::statfs), Object<1>>,
    Call<Names<"fstatfs", "fstatfs64">, SYS_fstatfs, decltype(::fstatfs), Object<1>>,
    Call<Names<"getxattr">, SYS_getxattr, decltype(::getxattr), Bytes<2, 3>>,
    Call<Names<"lgetxattr">, SYS_lgetxattr, decltype(::lgetxattr), Bytes<2, 3>>,
    Call<Names<"fgetxattr">, SYS_fgetxattr, decltype(::fgetxattr), Bytes<2, 3>>,
    Call<Names<"listxattr">, SYS_listxattr, decltype(::listxattr), Bytes<1, 2>>,
    Call<Names<"llistxattr">, SYS_llistxattr, decltype(::llistxattr), Bytes<1, 2>>,
    Call<Names<"flistxattr">, SYS_flistxattr, decltype(::flistxattr), Bytes<1, 2>>,
    Call<Names<"readlink">, kNone, decltype(::readlink), Bytes<1, 2>>,
    Call<Names<"readlinkat">, SYS_readlinkat, decltype(::readlinkat), Bytes<2, 3>>,
    Call<Names<"__readlink_chk">, kNone, ssize_t(const char*, char*, size_t, size_t), Bytes<1, 2>>,
    Call<Names<"__readlinkat_chk">, kNone, ssize_t(int, const char*, char*, size_t, size_t),
         Bytes<2, 3>>,
    Call<Names<"getcwd">, SYS_getcwd, decltype(::getcwd), Bytes<0, 1>>,
    Call<Names<"__getcwd_chk">, kNone, char*(char*, size_t, size_t), Bytes<0, 1>>,
    Call<Names<"ttyname_r">, kNone, decltype(::ttyname_r), Bytes<1, 2>>,
    Call<Names<"__ttyname_r_chk">, kNone, int(int, char*, size_t, size_t), Bytes<1, 2>>,
    Call<Names<"getdents64">, SYS_getdents64, decltype(::getdents64), Bytes<1, 2>>,
    Call<Names<"getdirentries", "getdirentries64">, kNone, decltype(::getdirentries), Bytes<1, 2>>,
    Call<Names<"name_to_handle_at">, SYS_name_to_handle_at, decltype(::name_to_handle_at),
         Fixed<2, sizeof(file_handle) + MAX_HANDLE_SZ>, Object<3>>,
    Call<Names<"pipe", "__pipe">, kNone, decltype(::pipe), Fixed<0, 2 * sizeof(int)>>,
    Call<Names<"pipe2">, SYS_pipe2, decltype(::pipe2), Fixed<0, 2 * sizeof(int)>>,
    Call<Names<"ioctl">, SYS_ioctl, int(int, unsigned long, void*), ByRequest>,
    // No command writes more.
    Call<Names<"fcntl", "fcntl64", "__fcntl", "__libc_fcntl64">, SYS_fcntl, int(int, int, void*),
         Fixed<2, 2 * sizeof(struct flock)>>,
    Call<Names<"quotactl">, SYS_quotactl, int(int, const char*, int, void*), Fixed<3, 256>>>;

using Query = int(const char*, int, int, unsigned char*, int);
using QueryDomain = int(const char*, const char*, int, int, unsigned char*, int);
using Send = int(const unsigned char*, int, unsigned char*, int);
using QueryOf = int(res_state, const char*, int, int, unsigned char*, int);
using QueryDomainOf = int(res_state, const char*, const char*, int, int, unsigned char*, int);
using SendOf = int(res_state, const unsigned char*, int, unsigned char*, int);
using Sockets = Table<
    Call<Names<"recv", "__recv">, kNone, decltype(::recv), Bytes<1, 2>>,
    Call<Names<"__recv_chk">, kNone, ssize_t(int, void*, size_t, size_t, int), Bytes<1, 2>>,
    Call<Names<"recvfrom">, SYS_recvfrom, decltype(::recvfrom), Bytes<1, 2>, Sized<4, 5>>,
    Call<Names<"__recvfrom_chk">, kNone,
         ssize_t(int, void*, size_t, size_t, int, sockaddr*, socklen_t*), Bytes<1, 2>, Sized<5, 6>>,
    Call<Names<"recvmsg">, SYS_recvmsg, decltype(::recvmsg), Message<1>>,
    Call<Names<"recvmmsg">, SYS_recvmmsg, decltype(::recvmmsg), Messages<1, 2>, Object<4>>,
    Call<Names<"accept">, SYS_accept, decltype(::accept), Sized<1, 2>>,
    Call<Names<"accept4">, SYS_accept4, decltype(::accept4), Sized<1, 2>>,
    Call<Names<"getsockname">, SYS_getsockname, decltype(::getsockname), Sized<1, 2>>,
    Call<Names<"getpeername">, SYS_getpeername, decltype(::getpeername), Sized<1, 2>>,
    Call<Names<"getsockopt">, SYS_getsockopt, decltype(::getsockopt), Sized<3, 4>>,
    Call<Names<"socketpair">, SYS_socketpair, decltype(::socketpair), Fixed<3, 2 * sizeof(int)>>,
    Call<Names<"sendmmsg", "__sendmmsg">, SYS_sendmmsg, decltype(::sendmmsg), Array<1, 2>>,
    // The answers of name servers, which are received into the program's memory.
    Call<Names<"res_query", "__res_query">, kNone, Query, Bytes<3, 4>>,
    Call<Names<"res_search", "__res_search">, kNone, Query, Bytes<3, 4>>,
    Call<Names<"res_querydomain", "__res_querydomain">, kNone, QueryDomain, Bytes<4, 5>>,
    Call<Names<"res_send", "__res_send">, kNone, Send, Bytes<2, 3>>,
    Call<Names<"res_nquery", "__res_nquery">, kNone, QueryOf, Bytes<4, 5>>,
    Call<Names<"res_nsearch", "__res_nsearch">, kNone, QueryOf, Bytes<4, 5>>,
    Call<Names<"res_nquerydomain", "__res_nquerydomain">, kNone, QueryDomainOf, Bytes<5, 6>>,
    Call<Names<"res_nsend", "__res_nsend">, kNone, SendOf, Bytes<3, 4>>>;

using Waiting = Table<
    Call<Names<"poll", "__poll">, kNone, decltype(::poll), Array<0, 1>>,
    Call<Names<"__poll_chk">, kNone, int(pollfd*, nfds_t, int, size_t), Array<0, 1>>,
    Own<Names<"ppoll">, Ppoll>, Own<Names<"__ppoll_chk">, CheckedPpoll>,
    Call<Names<"select", "__select">, kNone, decltype(::select), Object<1>, Object<2>, Object<3>,
         Object<4>>,
    Own<Names<"pselect">, Pselect>,
    Call<Names<"epoll_wait">, kNone, decltype(::epoll_wait), Array<1, 2>>,
    Own<Names<"epoll_pwait">, EpollPwait>, Own<Names<"epoll_pwait2">, EpollPwait2>,
    Call<Names<"wait", "__wait">, kNone, decltype(::wait), Object<0>>,
    Call<Names<"waitpid", "__waitpid">, kNone, decltype(::waitpid), Object<1>>,
    Call<Names<"wait3">, kNone, decltype(::wait3), Object<0>, Object<2>>,
    Call<Names<"wait4">, SYS_wait4, decltype(::wait4), Object<1>, Object<3>>,
    Call<Names<"posix_spawn">, kNone, decltype(::posix_spawn), Object<0>>,
    Call<Names<"posix_spawnp">, kNone, decltype(::posix_spawnp), Object<0>>,
    Call<Names<"waitid">, kNone, decltype(::waitid), Object<2>>,
    Call<Names<"nanosleep", "__nanosleep">, SYS_nanosleep, decltype(::nanosleep), Object<1>>,
    Call<Names<"clock_nanosleep">, SYS_clock_nanosleep, decltype(::clock_nanosleep), Object<3>>,
    Call<Names<"thrd_sleep">, kNone, decltype(::thrd_sleep), Object<1>>,
    Call<Names<"msgrcv", "__libc_msgrcv">, SYS_msgrcv, decltype(::msgrcv), MessageWithType>,
    Call<Names<"mq_receive">, kNone, decltype(::mq_receive), Bytes<1, 2>, Object<3>>,
    Call<Names<"mq_timedreceive">, SYS_mq_timedreceive, decltype(::mq_timedreceive), Bytes<1, 2>,
         Object<3>>,
    Call<Names<>, SYS_futex, int(uint32_t*, int, uint32_t, const void*, uint32_t*, uint32_t),
         FutexWord>>;

using Facts = Table<
    Call<Names<"clock_gettime", "__clock_gettime">, SYS_clock_gettime, decltype(::clock_gettime),
         Object<1>>,
    Call<Names<"clock_getres">, SYS_clock_getres, decltype(::clock_getres), Object<1>>,
    Call<Names<"timespec_get">, kNone, decltype(::timespec_get), Object<0>>,
    Call<Names<"timespec_getres">, kNone, int(timespec*, int), Object<0>>,
    Call<Names<"gettimeofday", "__gettimeofday">, SYS_gettimeofday, int(timeval*, void*), Object<0>,
         Fixed<1, 2 * sizeof(int)>>,
    Call<Names<"time">, kNone, decltype(::time), Object<0>>,
    Call<Names<"times">, SYS_times, decltype(::times), Object<0>>,
    Call<Names<"adjtimex", "ntp_adjtime">, SYS_adjtimex, int(timex*), Object<0>>,
    Call<Names<"clock_adjtime">, SYS_clock_adjtime, int(clockid_t, timex*), Object<1>>,
    Call<Names<"getitimer">, SYS_getitimer, int(int, itimerval*), Object<1>>,
    Call<Names<"setitimer">, SYS_setitimer, int(int, const itimerval*, itimerval*), Object<2>>,
    Call<Names<"timer_gettime">, kNone, decltype(::timer_gettime), Object<1>>,
    Call<Names<"timer_settime">, kNone, decltype(::timer_settime), Object<3>>,
    Call<Names<"timerfd_gettime">, SYS_timerfd_gettime, decltype(::timerfd_gettime), Object<1>>,
    Call<Names<"timerfd_settime">, SYS_timerfd_settime, decltype(::timerfd_settime), Object<3>>,
    Call<Names<"getrusage">, SYS_getrusage, int(int, rusage*), Object<1>>,
    Call<Names<"getrlimit", "getrlimit64", "__getrlimit">, SYS_getrlimit, int(int, rlimit*),
         Object<1>>,
    Call<Names<"prlimit", "prlimit64">, SYS_prlimit64, int(pid_t, int, const rlimit*, rlimit*),
         Object<3>>,
    Call<Names<"uname">, SYS_uname, decltype(::uname), Object<0>>,
    Call<Names<"sysinfo">, SYS_sysinfo, decltype(::sysinfo), Object<0>>,
    Call<Names<"mincore">, SYS_mincore, decltype(::mincore), ByteForEachPage>,
    Call<Names<"getcpu">, SYS_getcpu, int(unsigned*, unsigned*), Object<0>, Object<1>>,
    Call<Names<"sched_getaffinity">, SYS_sched_getaffinity, decltype(::sched_getaffinity),
         Bytes<2, 1>>,
    Call<Names<"pthread_getaffinity_np">, kNone, decltype(::pthread_getaffinity_np), Bytes<2, 1>>,
    Call<Names<"pthread_getname_np">, kNone, decltype(::pthread_getname_np), Bytes<1, 2>>,
    Call<Names<"sched_getparam", "__sched_getparam">, SYS_sched_getparam,
         decltype(::sched_getparam), Object<1>>,
    Call<Names<"sched_rr_get_interval">, SYS_sched_rr_get_interval,
         decltype(::sched_rr_get_interval), Object<1>>,
    Call<Names<"sched_getattr">, SYS_sched_getattr, int(pid_t, void*, unsigned, unsigned),
         Bytes<1, 2>>,
    Call<Names<"getgroups">, SYS_getgroups, decltype(::getgroups), Array<1, 0>>,
    Call<Names<"__getgroups_chk">, kNone, int(int, gid_t*, size_t), Array<1, 0>>,
    Call<Names<"getresuid">, SYS_getresuid, decltype(::getresuid), Object<0>, Object<1>, Object<2>>,
    Call<Names<"getresgid">, SYS_getresgid, decltype(::getresgid), Object<0>, Object<1>, Object<2>>,
    Call<Names<"capget">, SYS_capget, int(void*, void*), Fixed<0, 8>, Fixed<1, 24>>,
    // The largest things that they tell: what wait statuses, registers and queues of the system
    // have.
    Call<Names<"prctl">, SYS_prctl, int(int, void*, long, long, long), Fixed<1, 1024>>,
    Call<Names<"ptrace">, SYS_ptrace, long(long, pid_t, void*, void*), Fixed<3, 1024>>,
    Call<Names<"msgctl">, SYS_msgctl, int(int, int, void*), Fixed<2, 256>>,
    Call<Names<"shmctl">, SYS_shmctl, int(int, int, void*), Fixed<2, 256>>,
    Call<Names<"semctl">, SYS_semctl, int(int, int, int, void*), Fixed<3, 64 * kKiB>>,
    Call<Names<"klogctl">, SYS_syslog, int(int, char*, int), Bytes<1, 2>>,
    Call<Names<"mq_getattr">, kNone, decltype(::mq_getattr), Object<1>>,
    Call<Names<"mq_setattr">, kNone, decltype(::mq_setattr), Object<2>>>;

using SignalsAndThreads = Table<
    Own<Names<"pthread_sigmask">, Sigmask>, Own<Names<"sigprocmask">, ProcessMask>,
    Own<Names<"sigblock">, Sigblock>, Own<Names<"sigsetmask">, Sigsetmask>,
    Own<Names<"sighold">, Sighold>, Own<Names<"sigrelse">, Sigrelse>,
    Own<Names<"sigsuspend", "__sigsuspend">, Sigsuspend>,
    Own<Names<"pthread_attr_setsigmask_np">, SetMaskOfThreads>,
    Own<Names<"sigaction", "__sigaction">, Action>,
    Own<Names<"signal", "bsd_signal", "ssignal">, Handler>,
    Own<Names<"sysv_signal", "__sysv_signal">, HandlerOnce>, Own<Names<"sigset">, Sigset>,
    Own<Names<"sigignore">, Sigignore>,
    Call<Names<"sigpending">, kNone, decltype(::sigpending), Object<0>>,
    Call<Names<"sigwaitinfo">, kNone, decltype(::sigwaitinfo), Object<1>>,
    Call<Names<"sigtimedwait", "__sigtimedwait">, kNone, decltype(::sigtimedwait), Object<1>>,
    Own<Names<"sigaltstack">, AlternateStack>,
    Call<Names<"pthread_attr_setstack">, kNone, decltype(::pthread_attr_setstack), Kept<1, 2>>,
    Call<Names<"pthread_mutex_lock", "__pthread_mutex_lock">, kNone, decltype(::pthread_mutex_lock),
         MutexOfTheSystem>,
    Call<Names<"pthread_mutex_trylock", "__pthread_mutex_trylock">, kNone,
         decltype(::pthread_mutex_trylock), MutexOfTheSystem>,
    Call<Names<"pthread_mutex_timedlock">, kNone, decltype(::pthread_mutex_timedlock),
         MutexOfTheSystem>,
    Call<Names<"pthread_mutex_clocklock">, kNone, int(pthread_mutex_t*, clockid_t, const timespec*),
         MutexOfTheSystem>,
    Call<Names<"pthread_cond_init">, kNone, decltype(::pthread_cond_init),
         Shared<pthread_condattr_getpshared>>,
    Call<Names<"pthread_barrier_init">, kNone, decltype(::pthread_barrier_init),
         Shared<pthread_barrierattr_getpshared>>,
    Call<Names<"pthread_rwlock_init", "__pthread_rwlock_init">, kNone,
         decltype(::pthread_rwlock_init), Shared<pthread_rwlockattr_getpshared>>,
    Call<Names<"sem_init">, kNone, decltype(::sem_init), SharedSemaphore>>;

#pragma GCC diagnostic pop

using AllCalls = Table<Data, Files, Sockets, Waiting, Facts, SignalsAndThreads>;

// --- System calls by number ---

// The memory that a system call writes where an argument points to. For calls that have no row
// above with the same arguments.
struct Written {
  long number;
  uint8_t pointer;  // the argument with the address, from 0
  uint8_t count;    // the argument with the number of elements, or kOne
  uint16_t bytes;   // of an element
  bool later;       // the memory is written after the call, too
};
constexpr uint8_t kOne = UINT8_MAX;
constexpr bool kLater = true;
constexpr uint16_t kKernelMaskBytes = 8;
constexpr uint16_t kAsynchronousEventBytes = 32;

// Numbers of system calls newer than the headers.
constexpr long kCachestat = 451, kStatmount = 457, kListmount = 458, kListxattrat = 465;

constexpr Written kWritten[] = {
    {SYS_ppoll, 0, 1, sizeof(pollfd), false},
    {SYS_ppoll, 2, kOne, sizeof(timespec), false},
    {SYS_pselect6, 1, kOne, sizeof(fd_set), false},
    {SYS_pselect6, 2, kOne, sizeof(fd_set), false},
    {SYS_pselect6, 3, kOne, sizeof(fd_set), false},
    {SYS_pselect6, 4, kOne, sizeof(timespec), false},
    {SYS_epoll_pwait, 1, 2, sizeof(epoll_event), false},
    {SYS_epoll_pwait2, 1, 2, sizeof(epoll_event), false},
    {SYS_waitid, 2, kOne, sizeof(siginfo_t), false},
    {SYS_waitid, 4, kOne, sizeof(rusage), false},
    {SYS_rt_sigaction, 2, kOne, 64, false},
    {SYS_rt_sigprocmask, 2, 3, 1, false},
    {SYS_sigaltstack, 1, kOne, sizeof(stack_t), false},
    {SYS_rt_sigpending, 0, 1, 1, false},
    {SYS_rt_sigtimedwait, 1, kOne, sizeof(siginfo_t), false},
    {SYS_timer_create, 2, kOne, sizeof(int), false},
    {SYS_timer_gettime, 1, kOne, sizeof(itimerspec), false},
    {SYS_timer_settime, 3, kOne, sizeof(itimerspec), false},
    {SYS_mq_getsetattr, 2, kOne, sizeof(mq_attr), false},
    {SYS_get_mempolicy, 0, kOne, sizeof(int), false},
    {SYS_get_mempolicy, 1, kOne, 4 * kKiB, false},
    {SYS_move_pages, 4, 1, sizeof(int), false},
    {SYS_get_robust_list, 1, kOne, sizeof(void*), false},
    {SYS_get_robust_list, 2, kOne, sizeof(size_t), false},
    {SYS_set_tid_address, 0, kOne, sizeof(int), kLater},
    {SYS_rseq, 0, 1, 1, kLater},
    {SYS_io_setup, 1, kOne, sizeof(long), false},
    {SYS_io_getevents, 3, 2, kAsynchronousEventBytes, false},
    {SYS_io_pgetevents, 3, 2, kAsynchronousEventBytes, false},
    {SYS_io_cancel, 2, kOne, kAsynchronousEventBytes, false},
    {SYS_io_uring_setup, 1, kOne, 256, false},
    {SYS_lookup_dcookie, 1, 2, 1, false},
    {SYS_bpf, 1, 2, 1, false},
    {SYS_quotactl_fd, 3, kOne, 256, false},
    {SYS_sched_setattr, 1, kOne, sizeof(int), false},
    {kCachestat, 2, kOne, 64, false},
    {kStatmount, 1, 2, 1, false},
    {kListmount, 1, 2, 8, false},
    {kListxattrat, 3, 4, 1, false},
    {SYS_keyctl, 2, 3, 1, false},
    {SYS_keyctl, 1, 2, 1, false},
#if defined(__x86_64__)  // only x86-64 has these calls
    {SYS_stat, 1, kOne, sizeof(struct stat), false},
    {SYS_lstat, 1, kOne, sizeof(struct stat), false},
    {SYS_readlink, 1, 2, 1, false},
    {SYS_getdents, 1, 2, 1, false},
    {SYS_ustat, 1, kOne, 32, false},
    {SYS_pipe, 0, kOne, 2 * sizeof(int), false},
    {SYS_poll, 0, 1, sizeof(pollfd), false},
    {SYS_select, 1, kOne, sizeof(fd_set), false},
    {SYS_select, 2, kOne, sizeof(fd_set), false},
    {SYS_select, 3, kOne, sizeof(fd_set), false},
    {SYS_select, 4, kOne, sizeof(timeval), false},
    {SYS_epoll_wait, 1, 2, sizeof(epoll_event), false},
    {SYS_time, 0, kOne, sizeof(time_t), false},
    {SYS_modify_ldt, 1, 2, 1, false},
    {SYS_arch_prctl, 1, kOne, 8, false},
#endif
};

void AddWritten(CallBuffers& buffers, const Written& written, const long* arguments) {
  const void* p = PointerAt<void>(static_cast<Addr>(arguments[written.pointer]));
  size_t bytes = written.bytes;
  if (written.count != kOne && __builtin_mul_overflow(static_cast<size_t>(arguments[written.count]),
                                                      written.bytes, &bytes)) {
    return;  // the call is refused
  }
  buffers.Add(p, bytes);
  if (written.later) Kept<0, 1>::Keep(p, bytes);
}

// The kernel's struct sigaction.
struct KernelAction {
  sighandler_t handler;
  unsigned long flags;
  void (*restorer)();
  uint64_t mask;
};
constexpr uint64_t kKernelFaultBit = uint64_t{1} << (SIGSEGV - 1);

// rt_sigaction for SIGSEGV. False: the caller makes the system call.
bool ExchangeRaw(const KernelAction* action, KernelAction* old, long* result) {
  KernelAction copy;
  if ((action != nullptr && !CopyFromProgram(&copy, action, sizeof copy)) ||
      (old != nullptr && !CopyFromProgram(&copy, old, sizeof copy))) {
    errno = EFAULT;
    *result = -1;
    return true;
  }
  struct sigaction next = {};
  struct sigaction former;
  if (action != nullptr) {
    copy = *action;
    next.sa_handler = copy.handler;
    next.sa_flags = static_cast<int>(copy.flags);
    next.sa_mask.__val[0] = copy.mask;
  }
  if (!ExchangeChainedAction(action != nullptr ? &next : nullptr, &former)) return false;
  *result = 0;
  if (old == nullptr) return true;
  *old = {former.sa_handler, static_cast<unsigned>(former.sa_flags), former.sa_restorer,
          former.sa_mask.__val[0]};
  return true;
}

// The arguments of a call. Masks and structures with masks are replaced by copies without SIGSEGV.
class OpenArguments {
 public:
  OpenArguments(long number, const long* arguments) {
    memcpy(of_, arguments, sizeof of_);
    switch (number) {
      case SYS_rt_sigaction:
        if (Replace(&of_[1], &action_)) action_.mask &= ~kKernelFaultBit;
        break;
      case SYS_rt_sigprocmask:
        if (of_[0] != SIG_UNBLOCK) {
          OpenMask(&of_[1]);
        } else if (uint64_t mask; Copy(of_[1], &mask) && (mask & kKernelFaultBit) != 0) {
          OpenFaultSignalForProgram();
        }
        break;
      case SYS_rt_sigsuspend:
        OpenMask(&of_[0]);
        break;
      case SYS_ppoll:
        OpenMask(&of_[3]);
        break;
      case SYS_epoll_pwait:
      case SYS_epoll_pwait2:
        OpenMask(&of_[4]);
        break;
      case SYS_pselect6:
        if (Replace(&of_[5], &mask_and_bytes_)) OpenMask(&mask_and_bytes_.mask);
        break;
      case SYS_sigaltstack:
        of_[0] = static_cast<long>(AddressOf(
            NewAlternateStack(PointerAt<const stack_t>(static_cast<Addr>(of_[0])), &stack_)));
        break;
      default:
        break;
    }
  }
  long operator[](size_t i) const { return of_[i]; }

 private:
  template <class T>
  static bool Copy(long pointer, T* copy) {
    return pointer != 0 &&
           CopyFromProgram(copy, PointerAt<void>(static_cast<Addr>(pointer)), sizeof *copy);
  }
  template <class T>
  static bool Replace(long* pointer, T* copy) {
    if (!Copy(*pointer, copy)) return false;
    *pointer = static_cast<long>(AddressOf(copy));
    return true;
  }
  void OpenMask(long* pointer) {
    if (Replace(pointer, &mask_)) mask_ &= ~kKernelFaultBit;
  }

  long of_[6];
  KernelAction action_;
  uint64_t mask_;
  struct {
    long mask;
    size_t bytes;
  } mask_and_bytes_;
  stack_t stack_;
};

long RawCall(long number, long a, long b, long c, long d, long e, long f) {
  const long arguments[] = {a, b, c, d, e, f};
  CallBuffers buffers;
  AllCalls::AddRaw(buffers, number, arguments);
  for (const Written& written : kWritten) {
    if (written.number == number) AddWritten(buffers, written, arguments);
  }
  buffers.Pin();
  if (long result; number == SYS_rt_sigaction && a == SIGSEGV && d == kKernelMaskBytes &&
                   ExchangeRaw(PointerAt<const KernelAction>(static_cast<Addr>(b)),
                               PointerAt<KernelAction>(static_cast<Addr>(c)), &result)) {
    return result;
  }
  const OpenArguments open(number, arguments);
  return g_original<RawCall>(number, open[0], open[1], open[2], open[3], open[4], open[5]);
}

constinit Atomic<bool> g_found{false};

void LookUpOriginals() {
  void* libc = dlopen("libc.so.6", RTLD_LAZY | RTLD_NOLOAD);
  if (libc == nullptr) return;
  AllCalls::LookUp(libc);
  Own<Names<"syscall">, RawCall>::LookUp(libc);
  g_found.Store(true, memory_order_release);  // pairs with SystemCallsAreFound
}

constinit pthread_once_t g_looked_up = PTHREAD_ONCE_INIT;
constinit Atomic<bool> g_interposed{false};

}  // namespace

void FindSystemCalls() { pthread_once(&g_looked_up, LookUpOriginals); }

// Acquire: pairs with LookUpOriginals, so the originals are visible.
bool SystemCallsAreFound() { return g_found.Load(memory_order_acquire); }

void InterposeSystemCalls(bool loader_can_be_asked) {
  FindSystemCalls();
  ReplaceImports(g_imports, g_import_count, loader_can_be_asked);
  OpenFaultInHandlers();
  g_interposed.Store(true, memory_order_release);  // pairs with InterposeInNewObjects
}

void InterposeInNewObjects() {
  // Acquire: pairs with InterposeSystemCalls, so g_imports is visible.
  if (g_interposed.Load(memory_order_acquire)) ReplaceImports(g_imports, g_import_count);
}

int SigmaskOfProgram(int how, const sigset_t* set, sigset_t* old,
                     int (*set_mask)(int, const sigset_t*, sigset_t*)) {
  sigset_t open;
  sigset_t unsuspended;
  sigset_t before;
  // Relaxed: the flag stands by itself; no other data depends on it here.
  if (how != SIG_UNBLOCK && g_interposed.Load(memory_order_relaxed)) set = WithoutFault(set, &open);
  if (how != SIG_UNBLOCK) set = WithoutSuspend(set, &unsuspended);
  const int result = set_mask(how, set, old != nullptr ? &before : nullptr);
  if (result == 0 && old != nullptr) *old = before;
  return result;
}

}  // namespace gleaner::platform
