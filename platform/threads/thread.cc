#include "platform/threads/thread.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/faults/failures.h"
#include "platform/os/control_group.h"
#include "platform/os/filters.h"
#include "platform/os/next_call.h"
#include "platform/os/os_page.h"
#include "platform/os/processor_set.h"
#include "platform/os/readable.h"

extern "C" {
// The stack pointer at the entry of the program; ld.so exports it.
extern void* __libc_stack_end;  // NOLINT(bugprone-reserved-identifier)

// The C library's own name for its pthread_create, in statically linked programs only. Hidden, so
// that no library that exports such a name is meant.
__attribute__((weak, visibility("hidden"))) int __pthread_create(  // NOLINT
    pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
    void* argument) noexcept;

// CallOnStack. In assembly, since compilers find a function's caller by the stack pointer.
__attribute__((visibility("hidden"))) void gleaner_call_on_stack(gleaner::Addr end,
                                                                 void (*f)(void*), void* context);
}

#if defined(__x86_64__)
asm(R"(
  .pushsection .text
  .type gleaner_call_on_stack, @function
  .globl gleaner_call_on_stack
gleaner_call_on_stack:
  .cfi_startproc
  endbr64
  pushq %rbp
  .cfi_def_cfa_offset 16
  .cfi_offset %rbp, -16
  movq %rsp, %rbp
  .cfi_def_cfa_register %rbp
  movq %rdi, %rsp
  movq %rdx, %rdi
  callq *%rsi
  movq %rbp, %rsp
  popq %rbp
  .cfi_def_cfa %rsp, 8
  ret
  .cfi_endproc
  .size gleaner_call_on_stack, . - gleaner_call_on_stack
  .popsection
)");
#elif defined(__aarch64__)
asm(R"(
  .pushsection .text
  .type gleaner_call_on_stack, %function
  .globl gleaner_call_on_stack
gleaner_call_on_stack:
  .cfi_startproc
  hint #34
  stp x29, x30, [sp, #-16]!
  .cfi_def_cfa_offset 16
  .cfi_offset x29, -16
  .cfi_offset x30, -8
  mov x29, sp
  .cfi_def_cfa_register x29
  mov sp, x0
  mov x0, x2
  blr x1
  mov sp, x29
  ldp x29, x30, [sp], #16
  .cfi_def_cfa sp, 0
  .cfi_restore x29
  .cfi_restore x30
  ret
  .cfi_endproc
  .size gleaner_call_on_stack, . - gleaner_call_on_stack
  .popsection
)");
#endif

namespace gleaner::platform {
namespace {

// The layout of a thread's table of blocks: entry -1 holds the number of entries, entry 0 a
// generation, each other entry a block and the address to free. The table's address is in the
// thread's descriptor.
constexpr Addr kUnallocatedBlock = ~Addr{0};
#if defined(__x86_64__)
constexpr size_t kDtvOffset = 8;
#else
constexpr size_t kDtvOffset = 0;
#endif

// The offset of the interrupted stack pointer in a signal frame.
#if defined(__x86_64__)
constexpr size_t kStackPointerOffset =
    offsetof(ucontext_t, uc_mcontext.gregs) + REG_RSP * sizeof(greg_t);
#else
constexpr size_t kStackPointerOffset = offsetof(ucontext_t, uc_mcontext.sp);
#endif

uint64_t DigestOf(const ProcessorSet& processors) {
  uint64_t digest = 0;
  for (int i = 0; i < ProcessorSet::kWords; ++i) digest = Mix64(digest ^ processors.words()[i]) + 1;
  return digest;
}

int CompareTls(dl_phdr_info* info, size_t, void* all_equal) {
  if (info->dlpi_tls_modid == 0 || info->dlpi_tls_data == nullptr) return 0;
  const TlsTable table(CurrentThreadPointer());
  if (table.BlockOf(info->dlpi_tls_modid) != AddressOf(info->dlpi_tls_data)) {
    *static_cast<bool*>(all_equal) = false;
  }
  return 0;
}

// The block that the C library puts at the upper end of each stack on which it starts a thread:
// thread-local storage and the thread's descriptor. All 0: unknown.
struct StaticBlock {
  size_t bytes;
  size_t alignment;
  size_t descriptor_bytes;
};

StaticBlock LayoutOfStaticBlock() {
  struct Layout {
    void (*get)(size_t* bytes, size_t* alignment);
    const uint32_t* descriptor_bytes;
  };
  static constinit Layout known = {};  // racing threads store the same values
  Layout layout;
  // Relaxed, all four: only the pointers themselves are published.
  layout.get = __atomic_load_n(&known.get, __ATOMIC_RELAXED);
  layout.descriptor_bytes = __atomic_load_n(&known.descriptor_bytes, __ATOMIC_RELAXED);
  if (layout.get == nullptr || layout.descriptor_bytes == nullptr) {
    layout.get =
        reinterpret_cast<decltype(layout.get)>(dlsym(RTLD_DEFAULT, "_dl_get_tls_static_info"));
    layout.descriptor_bytes =
        static_cast<const uint32_t*>(dlsym(RTLD_DEFAULT, "_thread_db_sizeof_pthread"));
    __atomic_store_n(&known.get, layout.get, __ATOMIC_RELAXED);
    __atomic_store_n(&known.descriptor_bytes, layout.descriptor_bytes, __ATOMIC_RELAXED);
  }
  if (layout.get == nullptr || layout.descriptor_bytes == nullptr) return {};
  StaticBlock block = {0, 0, *layout.descriptor_bytes};
  layout.get(&block.bytes, &block.alignment);
  return block;
}

// The end of the stack of a thread that the C library has started, computed from the block at its
// end. The block is aligned, so padding of less than the alignment may follow it. A stack from the
// C library ends at a page end. A stack from the program is taken to end with the block.
Addr EndOfThreadsBlock() {
  const Addr here = CurrentThreadPointer();
  const StaticBlock block = LayoutOfStaticBlock();
#if defined(__x86_64__)
  const Addr end = here + block.descriptor_bytes;
#else
  const Addr end = here + block.bytes;
#endif
  const Addr page_end = AlignUp(end, OsPageBytes());
  return page_end - end < block.alignment ? page_end : end;
}

}  // namespace

int32_t CurrentThreadId() { return static_cast<int32_t>(syscall(SYS_gettid)); }

Range CurrentStackBounds() {
  const bool is_first = CurrentThreadId() == getpid();
  Range first;
  if (is_first) {
    const Addr end = AddressOf(__libc_stack_end);
    rlimit limit;
    size_t bytes = 8 * kMiB;
    if (getrlimit(RLIMIT_STACK, &limit) == 0) {
      bytes = limit.rlim_cur == RLIM_INFINITY ? 1 * kGiB : limit.rlim_cur;
    }
    first = {end > bytes ? end - bytes : 0, end};
    // If not, the thread runs on a stack of the program's, or is the only thread of a child whose
    // parent forked in another thread.
    if (first.Contains(AddressOf(__builtin_frame_address(0)))) return first;
  }
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) {  // fails without memory
    if (is_first) return first;
    const Addr frame = AddressOf(__builtin_frame_address(0));
    const Addr end = EndOfThreadsBlock();
    GLEANER_CHECK(frame < end && EndOfReadable(frame, end) == end,
                  "the C library does not know the stack of thread %d", CurrentThreadId());
    return {BeginOfReadable(frame), end};
  }
  void* base = nullptr;
  size_t bytes = 0;
  pthread_attr_getstack(&attributes, &base, &bytes);
  pthread_attr_destroy(&attributes);
  return {AddressOf(base), AddressOf(base) + bytes};
}

bool IsOnOwnStack(const void* p) {
  // In a thread made by the C library, the thread's descriptor lies above all frames.
  const Addr end =
      CurrentThreadId() == getpid() ? AddressOf(__libc_stack_end) : CurrentThreadPointer();
  const Addr a = AddressOf(p);
  const Addr frame = AddressOf(__builtin_frame_address(0));
  return a >= frame && a < end && CurrentStackBounds().Contains(a) &&
         CurrentStackBounds().Contains(frame);
}

Addr AlternateStackEnd(Addr stack_pointer) {
  stack_t alternate;
  if (HasFilter()) return 0;
  if (sigaltstack(nullptr, &alternate) != 0 || (alternate.ss_flags & SS_DISABLE) != 0) return 0;
  const Addr begin = AddressOf(alternate.ss_sp);
  return stack_pointer - begin < alternate.ss_size ? begin + alternate.ss_size : 0;
}

void CallOnStack(Addr end, void (*f)(void*), void* context) {
  gleaner_call_on_stack(end, f, context);
}

namespace {

// Calls f for the signal frames in `frames` on alternate stacks that `fits` accepts.
template <class Fits>
void VisitSignalFrames(Range frames, Fits fits, void (*f)(void*, Addr), void* context) {
  constexpr size_t kStackOffset = offsetof(ucontext_t, uc_stack);
  for (Addr at = AlignUp(frames.begin, kWordBytes); at + sizeof(ucontext_t) <= frames.end;
       at += kWordBytes) {
    const Addr begin = LoadForeignWord(at + kStackOffset + offsetof(stack_t, ss_sp));
    const size_t bytes = LoadForeignWord(at + kStackOffset + offsetof(stack_t, ss_size));
    if (!fits(at, Range{begin, begin + bytes})) continue;
    const Addr low = LoadForeignWord(at + kStackPointerOffset) - kRedZoneBytes;
    if (low + kRedZoneBytes - begin >= bytes) f(context, low);
  }
}

}  // namespace

void VisitInterruptedStacks(Range alternate, void (*f)(void*, Addr), void* context) {
  const auto fits = [alternate](Addr at, Range stack) {
    return stack.begin <= at && stack.end == alternate.end;
  };
  VisitSignalFrames(alternate, fits, f, context);
}

void VisitInterruptedStacks(Range stack, Addr low, void (*f)(void*, Addr), void* context) {
  const auto fits = [stack](Addr at, Range array) {
    return stack.begin <= array.begin && array.begin <= at && at < array.end &&
           array.end <= stack.end;
  };
  VisitSignalFrames({low, stack.end}, fits, f, context);
}

void LifeMark::Take() {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&mutex_, &attributes);
  pthread_mutexattr_destroy(&attributes);
  pthread_mutex_lock(&mutex_);
}

void LifeMark::Release() { pthread_mutex_unlock(&mutex_); }

bool LifeMark::HolderHasEnded() {
  const int error = pthread_mutex_trylock(&mutex_);
  if (error == EOWNERDEAD) pthread_mutex_consistent(&mutex_);
  if (error == 0 || error == EOWNERDEAD) pthread_mutex_unlock(&mutex_);
  return error == EOWNERDEAD;
}

namespace {
constinit NextCall<int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)> g_next_create(
    "pthread_create", &__pthread_create);
constinit __thread bool t_creates_thread __attribute__((tls_model("initial-exec"))) = false;
}  // namespace

int CreateThread(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                 void* argument) {
#ifdef __SANITIZE_ADDRESS__
  // The tests of this library, built with AddressSanitizer, cancel threads and make holes in the
  // address space. The sanitizer takes the frames of a cancelled thread for live ones, and maps
  // memory into holes for each thread that it sees.
  return NextPthreadCreate(thread, attributes, start, argument);
#else
  if (Fails(Failing::kThread)) return EAGAIN;
  t_creates_thread = true;
  const int error = pthread_create(thread, attributes, start, argument);
  t_creates_thread = false;
  return error;
#endif
}

bool IsCreatingThread() { return t_creates_thread; }

int NextPthreadCreate(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                      void* argument) {
  if (Fails(Failing::kThread)) return EAGAIN;
  return g_next_create.get()(thread, attributes, start, argument);
}

bool NotifiesByThread(const sigevent& event) { return event.sigev_notify == SIGEV_THREAD; }

namespace {

struct Scheduling {
  bool is_noted;
  int policy;
  sched_param parameters;
  int nice;
};
constinit Scheduling g_of_process = {};  // constant once there are helpers

Scheduling SchedulingOf(int32_t thread) {
  Scheduling found = {};
  found.policy = sched_getscheduler(thread) & ~SCHED_RESET_ON_FORK;
  errno = 0;
  found.nice = getpriority(PRIO_PROCESS, static_cast<id_t>(thread));
  found.is_noted = errno == 0 && sched_getparam(thread, &found.parameters) == 0;
  return found;
}

// Bytes of a stack that the C library takes for static thread-local storage.
size_t StaticTlsBytes() {
  size_t bytes = LayoutOfStaticBlock().bytes;
  if (bytes != 0) return bytes;
  // The C library does not tell, as in a program that is linked statically.
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* sum) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const auto& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_TLS) continue;
          *static_cast<size_t*>(sum) += segment.p_memsz + segment.p_align;
        }
        return 0;
      },
      &bytes);
  return bytes;
}

// Creates the thread, on the processors unless they are null. 0, or the error.
int CreateHelper(const ProcessorSet* processors, void* (*start)(void*), void* argument) {
  constexpr size_t kStackBytes = 256 * kKiB;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, AlignUp(kStackBytes + StaticTlsBytes(), OsPageBytes()));
  if (processors != nullptr) {
    (void)pthread_attr_setaffinity_np(&attributes, sizeof *processors,
                                      reinterpret_cast<const cpu_set_t*>(processors->words()));
  }
  pthread_t thread;
  const int error = CreateThread(&thread, &attributes, start, argument);
  pthread_attr_destroy(&attributes);
  return error;
}

}  // namespace

void RecordSchedulingOfProcess() {
  RecordAffinityOfProcess();
  if (!g_of_process.is_noted) g_of_process = SchedulingOf(getpid());
}

bool StartHelperThread(void* (*start)(void*), void* argument) {
  static constinit Atomic<bool> has_told{false};
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ProcessorSet wanted;
  ProcessorSet own;
  const bool differs = GetAffinityOfProcess(&wanted) && GetAffinity(0, &own) && !(wanted == own);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  int error = CreateHelper(differs ? &wanted : nullptr, start, argument);
  // The control group may have lost all of these processors.
  if (error == EINVAL && differs) error = CreateHelper(nullptr, start, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0 && !has_told.Exchange(true, memory_order_seq_cst)) {
    Complain("the system refuses a thread that would help the collector: errno %d", error);
  }
  return error == 0;
}

namespace {
// Written by FindThreadSanitizer, before there are other threads of the library.
constinit bool g_has_thread_sanitizer = false;
using Annotation = void (*)(const char* file, int line);
constinit Annotation g_ignore[2] = {};
}  // namespace

void FindThreadSanitizer() {
  g_has_thread_sanitizer = dlsym(RTLD_DEFAULT, "__tsan_init") != nullptr;
  if (!g_has_thread_sanitizer) return;
  g_ignore[0] = reinterpret_cast<Annotation>(dlsym(RTLD_DEFAULT, "AnnotateIgnoreReadsBegin"));
  g_ignore[1] = reinterpret_cast<Annotation>(dlsym(RTLD_DEFAULT, "AnnotateIgnoreWritesBegin"));
}

bool HasThreadSanitizer() { return g_has_thread_sanitizer; }

void BeginHelper(const char* name) {
#ifndef __SANITIZE_THREAD__
  for (const Annotation ignore : g_ignore) {
    if (ignore != nullptr) ignore(__FILE__, __LINE__);
  }
#endif
  if (HasFilter()) return;
  prctl(PR_SET_NAME, name, 0, 0, 0);
  if (!g_of_process.is_noted) return;
  const Scheduling wanted = g_of_process;
  const Scheduling own = SchedulingOf(0);
  // Refused without the right to what the first thread had and this thread's creator has not.
  if (own.policy != wanted.policy ||
      own.parameters.sched_priority != wanted.parameters.sched_priority) {
    (void)sched_setscheduler(0, wanted.policy, &wanted.parameters);
  }
  if (own.nice != wanted.nice) (void)setpriority(PRIO_PROCESS, 0, wanted.nice);
}

int UsableCpuCount() {
  ProcessorSet processors;
  const int affinity = GetAffinityOfProcess(&processors) ? processors.Count() : 0;
  const int quota = ControlGroupProcessors();
  const int cpus = affinity < quota ? affinity : quota;
  return cpus < 1 ? 1 : cpus;
}

void HelperPlacement::Announce() { tid_.Set(static_cast<int32_t>(syscall(SYS_gettid))); }

void HelperPlacement::Forget() {
  tid_.Set(0);
  kept_off_ = 0;
}

void HelperPlacement::KeepOffThisCpu() {
  const int32_t tid = tid_.Get();
  const int cpu = sched_getcpu();
  if (tid == 0 || cpu < 0 || cpu + 1 == kept_off_ || HasFilter()) return;
  ProcessorSet mask;
  if (!GetAffinity(tid, &mask)) return;
  // Returns the processor that was removed last, unless the mask has been changed from outside
  // since.
  if (kept_off_ != 0 && DigestOf(mask) == set_digest_) mask.Add(kept_off_ - 1);
  // The helper may have bound itself to other processors: then nothing is removed, or put back.
  const bool had = mask.Has(cpu);
  mask.Remove(cpu);
  if (mask.IsEmpty() || !SetAffinity(tid, mask)) return;
  set_digest_ = DigestOf(mask);
  kept_off_ = had ? cpu + 1 : 0;
}

// While the owner replaces its table, the old table has been freed. The C library's allocator has
// then put an address into entry -1, which is more than any number of entries; the other entries
// are unchanged while the memory waits in the owner's cache of free blocks. Another thread can get
// the memory only if that cache was full; then the blocks that the table led to are not seen in
// this stop.
TlsTable::TlsTable(Addr thread_pointer) : table_(LoadForeignWord(thread_pointer + kDtvOffset)) {
  if (table_ == 0) return;
  read_ = CopyIfMapped(window_, table_ - sizeof(Entry), sizeof window_) / sizeof(Entry);
}

Addr TlsTable::BlockOf(size_t module) const {
  if (read_ == 0 || module > window_[0].block) return 0;
  Entry entry = {};
  if (module + 1 < read_) {
    entry = window_[module + 1];
  } else if (CopyIfMapped(&entry, table_ + module * sizeof entry, sizeof entry) < sizeof entry) {
    return 0;
  }
  return entry.block == kUnallocatedBlock ? 0 : entry.block;
}

Range CurrentStaticTls() {
  const StaticBlock block = LayoutOfStaticBlock();
  if (block.bytes == 0) return {};
  const Addr here = CurrentThreadPointer();
#if defined(__x86_64__)
  // The size includes the descriptor, which lies at the block's other end.
  return {here - (block.bytes - block.descriptor_bytes), here};
#else
  return {here, here + block.bytes};
#endif
}

bool TlsLayoutIsKnown() {
  bool all_equal = true;
  dl_iterate_phdr(CompareTls, &all_equal);
  return all_equal;
}

}  // namespace gleaner::platform
