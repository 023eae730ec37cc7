// libgleaner_record.so: replaces the malloc family. Each call is passed on to the next allocator in
// the loader's order, and recorded.
//
// A call inside another one on the same thread is passed on and not recorded: an allocator built on
// another function of the family, a signal handler, or an allocation of the recorder. Memory asked
// for while the next allocator is being looked up comes from a small buffer and is never freed,
// since dlsym may allocate.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "platform/os/os_page.h"
#include "platform/os/standard_error.h"
#include "record/trace_writer.h"
#include "runtime/process/options.h"

#define RECORD_EXPORT extern "C" __attribute__((visibility("default")))

namespace gleaner::record {
namespace {

using platform::Atomic;
using platform::memory_order_acquire;
using platform::memory_order_relaxed;
using platform::memory_order_release;

struct NextAllocator {
  void* (*malloc)(size_t);
  void (*free)(void*);
  void* (*calloc)(size_t, size_t);
  void* (*realloc)(void*, size_t);
  int (*posix_memalign)(void**, size_t, size_t);
  void* (*aligned_alloc)(size_t, size_t);
  void* (*memalign)(size_t, size_t);
  void* (*valloc)(size_t);
  void* (*pvalloc)(size_t);
};

enum Stage : uint32_t { kUnresolved, kResolving, kResolved };

// Written by the thread that resolves; constant once g_stage is kResolved.
NextAllocator g_next;
Atomic<uint32_t> g_stage{kUnresolved};

enum Start : uint32_t { kNotStarted, kStarting, kStarted };
Atomic<uint32_t> g_start{kNotStarted};
TraceWriter g_writer;
pthread_key_t g_thread_end;

// Owner thread only.
constinit thread_local Stream t_stream;
thread_local bool t_inside = false;  // the thread is in a call that is being recorded
thread_local bool t_resolving = false;

// --- Memory during the look-up of the next allocator ---

constexpr size_t kEarlyBytes = 64 * kKiB;
alignas(16) char g_early[kEarlyBytes];
Atomic<size_t> g_early_used{0};

void* AllocateEarly(size_t size) {
  // Relaxed: only the thread that resolves gets here; the others wait.
  const size_t at = g_early_used.FetchAdd(AlignUp(size, 16) + 16, memory_order_relaxed);
  if (size > kEarlyBytes || at > kEarlyBytes - AlignUp(size, 16) - 16) {
    errno = ENOMEM;
    return nullptr;
  }
  memcpy(g_early + at, &size, sizeof size);
  return g_early + at + 16;
}
bool IsEarly(const void* p) { return AddressOf(p) - AddressOf(g_early) < kEarlyBytes; }
size_t EarlySize(const void* p) {
  size_t size;
  memcpy(&size, static_cast<const char*>(p) - 16, sizeof size);
  return size;
}

// --- Start ---

template <class F>
void Find(F* function, const char* name) {
  *function = reinterpret_cast<F>(dlsym(RTLD_NEXT, name));
}

void Resolve() {
  t_resolving = true;
  Find(&g_next.malloc, "malloc");
  Find(&g_next.free, "free");
  Find(&g_next.calloc, "calloc");
  Find(&g_next.realloc, "realloc");
  Find(&g_next.posix_memalign, "posix_memalign");
  Find(&g_next.aligned_alloc, "aligned_alloc");
  Find(&g_next.memalign, "memalign");
  Find(&g_next.valloc, "valloc");
  Find(&g_next.pvalloc, "pvalloc");
  t_resolving = false;
  if (g_next.malloc == nullptr || g_next.free == nullptr || g_next.calloc == nullptr ||
      g_next.realloc == nullptr) {
    Fatal("record: the program has no allocator behind this one");
  }
}

// Looks the next allocator up if need be. False: the calling thread is inside the look-up.
bool Resolved() {
  // Acquire pairs with the release below: a thread that sees kResolved sees g_next.
  if (GLEANER_LIKELY(g_stage.Load(memory_order_acquire) == kResolved)) return true;
  if (t_resolving) return false;
  uint32_t stage = kUnresolved;
  // Acquire: kUnresolved has no writes to see; the exchange only elects the thread that resolves.
  if (g_stage.CompareExchange(stage, kResolving, memory_order_acquire)) {
    Resolve();
    g_stage.Store(kResolved, memory_order_release);  // pairs with the acquire loads
  } else {
    // Acquire: pairs with the release of kResolved.
    while (g_stage.Load(memory_order_acquire) != kResolved) sched_yield();
  }
  return true;
}

void OnThreadEnd(void* stream) {
  const bool inside = t_inside;
  t_inside = true;
  g_writer.EndThread(static_cast<Stream*>(stream));
  t_inside = inside;
}

// Starts the recording in the first call after the C library has set up the environment. pre:
// t_inside.
void StartIfPossible() {
  if (!runtime::HasEnvironment()) return;
  uint32_t start = kNotStarted;
  // Acquire: only elects the thread that starts.
  if (!g_start.CompareExchange(start, kStarting, memory_order_acquire)) return;
  RecordStandardError();
  runtime::ReadOptions();
  runtime::StartTestDevices();
  const char* path = runtime::g_options.record_file;
  const bool children = runtime::g_options.record_children;
  if (path != nullptr) {
    int error = pthread_key_create(&g_thread_end, OnThreadEnd);
    if (error == 0) error = g_writer.Start(path, runtime::g_options.record_limit, children);
    // An existing file belongs to the first program.
    if (error != 0 && (children || error != EEXIST))
      Complain("record: cannot write to %s: %s", path, strerrordesc_np(error));
  }
  // Release: pairs with Enter and AtExit, which so see the writer set up.
  g_start.Store(kStarted, memory_order_release);
}

// --- One call ---

// Whether the call is to be recorded. If so, t_inside is set until the call's end.
bool Enter() {
  if (t_inside) return false;
  t_inside = true;
  // Acquire: pairs with the release in StartIfPossible.
  if (GLEANER_UNLIKELY(g_start.Load(memory_order_acquire) != kStarted)) StartIfPossible();
  if (g_writer.IsRecording()) {
    if (GLEANER_UNLIKELY(t_stream.thread == 0 && !t_stream.ended)) {
      pthread_setspecific(g_thread_end, &t_stream);
    }
    return true;
  }
  t_inside = false;
  return false;
}

class Call {
 public:
  Call() : recorded_(Enter()) {}
  ~Call() {
    if (recorded_) t_inside = false;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void* Allocated(void* p, size_t size, size_t alignment = 0, bool zeroed = false) const {
    if (recorded_ && p != nullptr) {
      const int error = errno;
      g_writer.Allocated(&t_stream, size, alignment, zeroed, p);
      errno = error;
    }
    return p;
  }
  bool recorded() const { return recorded_; }

 private:
  const bool recorded_;
};

void* Refuse() {
  errno = ENOMEM;
  return nullptr;
}

void* Resize(void* p, size_t size) {
  const Call call;
  if (p == nullptr) return call.Allocated(g_next.realloc(p, size), size);
  if (!call.recorded()) return g_next.realloc(p, size);
  const int error = errno;
  const uint64_t begin = g_writer.Resizing(&t_stream);
  errno = error;
  void* result = g_next.realloc(p, size);
  if (begin != 0) {
    const int after = errno;
    if (result != nullptr) {
      g_writer.Resized(&t_stream, begin, p, size, result);
    } else if (size == 0) {
      g_writer.Freed(&t_stream, begin, p);
    }
    errno = after;
  }
  return result;
}

__attribute__((destructor)) void AtExit() {
  // Acquire: pairs with the release in StartIfPossible.
  if (g_start.Load(memory_order_acquire) == kStarted) g_writer.Finish();
}

}  // namespace
}  // namespace gleaner::record

using namespace gleaner::record;

RECORD_EXPORT void* malloc(size_t size) {
  if (!Resolved()) return AllocateEarly(size);
  const Call call;
  return call.Allocated(g_next.malloc(size), size);
}

RECORD_EXPORT void free(void* p) {
  if (p == nullptr || IsEarly(p)) return;
  if (!Resolved()) return;
  const Call call;
  if (call.recorded()) {
    const int error = errno;
    g_writer.Freeing(&t_stream, p);
    errno = error;
  }
  g_next.free(p);
}

RECORD_EXPORT void* calloc(size_t count, size_t size) {
  if (!Resolved()) {
    size_t bytes;  // g_early is zero, and no part of it is handed out twice
    return __builtin_mul_overflow(count, size, &bytes) ? Refuse() : AllocateEarly(bytes);
  }
  const Call call;
  return call.Allocated(g_next.calloc(count, size), count * size, 0, true);
}

RECORD_EXPORT void* realloc(void* p, size_t size) {
  if (!Resolved() || IsEarly(p)) {
    void* fresh = malloc(size);
    if (fresh != nullptr && p != nullptr) {
      const size_t old = EarlySize(p);
      memcpy(fresh, p, old < size ? old : size);
    }
    return fresh;
  }
  return Resize(p, size);
}

RECORD_EXPORT void* reallocarray(void* p, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return Refuse();
  return realloc(p, bytes);
}

RECORD_EXPORT int posix_memalign(void** result, size_t alignment, size_t size) {
  if (!Resolved() || g_next.posix_memalign == nullptr) return ENOMEM;
  const Call call;
  const int error = g_next.posix_memalign(result, alignment, size);
  if (error == 0) call.Allocated(*result, size, alignment);
  return error;
}

RECORD_EXPORT void* aligned_alloc(size_t alignment, size_t size) {
  if (!Resolved() || g_next.aligned_alloc == nullptr) return Refuse();
  const Call call;
  return call.Allocated(g_next.aligned_alloc(alignment, size), size, alignment);
}

RECORD_EXPORT void* memalign(size_t alignment, size_t size) {
  if (!Resolved() || g_next.memalign == nullptr) return Refuse();
  const Call call;
  return call.Allocated(g_next.memalign(alignment, size), size, alignment);
}

RECORD_EXPORT void* valloc(size_t size) {
  if (!Resolved() || g_next.valloc == nullptr) return Refuse();
  const Call call;
  return call.Allocated(g_next.valloc(size), size, gleaner::platform::OsPageBytes());
}

RECORD_EXPORT void* pvalloc(size_t size) {
  if (!Resolved() || g_next.pvalloc == nullptr) return Refuse();
  const size_t page = gleaner::platform::OsPageBytes();
  const Call call;
  return call.Allocated(g_next.pvalloc(size), gleaner::AlignUp(size, page), page);
}
