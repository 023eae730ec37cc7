#include "runtime/threads.h"

#include <cerrno>
#include <cstring>
#include <new>

#include "alloc/hash_table.h"
#include "alloc/object.h"
#include "platform/clock.h"
#include "platform/fault_signal.h"
#include "platform/loaded_objects.h"
#include "platform/mappings.h"
#include "platform/memory.h"
#include "platform/stalls.h"
#include "platform/system_calls.h"
#include "runtime/dead_stack.h"
#include "runtime/runtime.h"
#include "runtime/variables.h"

namespace gleaner::runtime {

using gc::RootKind;
using platform::LoaderGeneration;
using platform::Range;
using platform::TlsModule;

constinit StaticRoots g_static_roots;

namespace {

constinit platform::Lock g_threads_lock(platform::LockRank::kThreads);
constexpr size_t kMaxThreads = size_t{1} << 16;  // each has a heap, of which there are fewer
constexpr size_t kMaxTlsModules = size_t{1} << 16;

struct Registry {
  // Guarded by g_threads_lock.
  alloc::ReservedArray<platform::StopRecord*> records;
  size_t count = 0;
  Thread* free = nullptr;
  uint64_t handshake = 0;  // number of the last BeginHandshakes
  // Results of threads that have ended and not been joined, by pthread_t: roots. There is room for
  // those of the registered threads, too.
  alloc::HashTable<void*> results;
  // Constant after Init.
  pthread_key_t exit_key = 0;
  bool tls_is_known = false;
  // What the loader had at the last look. Written inside WithLoaderLocked by the stopper.
  LoaderGeneration generation{~0ull, ~0ull};
  GC_has_static_roots_func filter = nullptr;
  gc::RangeSet main_segments;
  gc::RangeSet library_segments;
  alloc::ReservedArray<TlsModule> modules;
  size_t module_count = 0;
  bool is_complete = true;  // there was memory to note all of these
  // Words of stacks and thread-local storage that are not read in place. Of the collection under
  // way; guarded by the collector lock.
  gc::RootBuffer copied;
};
constinit Registry g_registry;

// The end of a thread is seen by a destructor of thread-specific data. Others' destructors may
// still use the heap, so ours lets them all have their turn and unregisters in the last round.
#ifdef __SANITIZE_THREAD__
constexpr int kExitRounds =
    PTHREAD_DESTRUCTOR_ITERATIONS - 1;  // it ends its own record in the last
#else
constexpr int kExitRounds = PTHREAD_DESTRUCTOR_ITERATIONS;
#endif
void OnThreadExit(void* value) {
  auto* thread = static_cast<Thread*>(value);
  if (platform::t_stop_record != thread) return;  // unregistered by hand
  if (++thread->exit_rounds < kExitRounds) {
    pthread_setspecific(g_registry.exit_key, thread);
    return;
  }
  // The C library keeps stacks of ended threads, which are roots of a malloc's.
  constexpr size_t kClearedBytes = 16 * kKiB;  // what it does not give back to the system itself
  const Addr here = AddressOf(__builtin_frame_address(0));
  if (g_malloc_support.strict_roots && thread->stack.Contains(here - 2 * kClearedBytes)) {
    ClearDeadStack(kClearedBytes);
  }
  Threads::Unregister();
}

// Whether an object is another collector, by its name.
bool IsCollector(const char* name) {
  const char* slash = name != nullptr ? strrchr(name, '/') : nullptr;
  const char* base = slash != nullptr ? slash + 1 : name;
  return base != nullptr &&
         (strncmp(base, "libgc.so", 8) == 0 || strncmp(base, "libgleaner.so", 13) == 0);
}

void NoteSegment(void*, const char* name, Range range) {
  if (IsCollector(name)) platform::LeaveDefaultSuspendSignal();
  if (g_has_static_roots != nullptr &&
      !g_has_static_roots(name, PointerAt<void>(range.begin), range.bytes())) {
    return;
  }
  const bool is_main = name == nullptr || name[0] == 0;
  if (!(is_main ? g_registry.main_segments : g_registry.library_segments).Add(range)) {
    g_registry.is_complete = false;
  }
}

// What is in the static block is found without the table; what is in one thread's is in all.
void NoteTls(void*, TlsModule module) {
  if (!g_registry.tls_is_known) return;
  const Addr block = platform::TlsTable(platform::CurrentThreadPointer()).BlockOf(module.id);
  if (platform::CurrentStaticTls().Contains(block)) return;
  if (!g_registry.modules.EnsureCommitted(g_registry.module_count + 1)) {
    g_registry.is_complete = false;
    return;
  }
  g_registry.modules[g_registry.module_count++] = module;
}

// Looks again at what the loader has, if that may have changed, or not all of it could be noted.
// Inside WithLoaderLocked, under the collector lock.
void RefreshLoadedObjects(void*) {
  if (!platform::LoaderCanBeAsked()) return;  // as it was before the fork
  const LoaderGeneration now = platform::CurrentLoaderGeneration();
  if (now != g_registry.generation || !g_registry.is_complete || g_has_static_roots != nullptr ||
      g_registry.filter != nullptr) {
    g_registry.generation = now;
    g_registry.filter = g_has_static_roots;
    g_registry.main_segments.Clear();
    g_registry.library_segments.Clear();
    g_registry.module_count = 0;
    g_registry.is_complete = true;
    platform::VisitLoadedObjects({NoteSegment, NoteTls, nullptr});
    platform::NoteLoaderIsKnown();
    platform::InterposeInNewObjects();
  }
}

// Takes a thread off the list. pre: the threads lock is held.
void RemoveLocked(Thread* thread) {
  Fibers::AbandonLocked(thread);
  alloc::ThreadHeaps::Abandon(thread->heap);
  platform::StopRecord* last = g_registry.records[--g_registry.count];
  g_registry.records[thread->index] = last;
  static_cast<Thread*>(last)->index = thread->index;
  thread->next_free = g_registry.free;
  g_registry.free = thread;
}

bool IsObject(const void* result) { return alloc::g_space.Contains(AddressOf(result)); }

// What a thread returned, if that is an object, becomes a root. pre: the threads lock is held.
void KeepResult(const Thread& thread) {
  if (IsObject(thread.result)) g_registry.results.Insert(thread.id, thread.result);
}

// A thread that has ended without telling us. Its result may be asked for yet. pre: the threads
// lock is held.
void ForgetLocked(Thread* ended) {
  KeepResult(*ended);
  RemoveLocked(ended);
}

// A thread that has ended without telling us had this number, which is in use again. pre: the
// threads lock is held.
void ForgetEnded(int32_t tid) {
  for (size_t i = 0; i < g_registry.count; ++i) {
    auto* thread = static_cast<Thread*>(g_registry.records[i]);
    if (thread->tid == tid) return ForgetLocked(thread);
  }
}

bool HasEnded(Thread* thread) {
  return thread != Threads::Current() && thread->life.HolderHasEnded();
}

// Threads that have ended without telling us. pre: the threads lock is held.
void ForgetEndedThreads() {
  for (size_t i = g_registry.count; i-- > 0;) {
    auto* thread = static_cast<Thread*>(g_registry.records[i]);
    if (HasEnded(thread)) ForgetLocked(thread);
  }
}

// Those of that name. pre: the threads lock is held.
void ForgetEndedNamed(pthread_t id) {
  for (size_t i = g_registry.count; i-- > 0;) {
    auto* thread = static_cast<Thread*>(g_registry.records[i]);
    if (pthread_equal(thread->id, id) && HasEnded(thread)) ForgetLocked(thread);
  }
}

struct StopAttempt {
  uint64_t patience_ns;
  bool report;
  bool stopped;
};

void StopThreads(void* context) {
  auto* attempt = static_cast<StopAttempt*>(context);
  g_threads_lock.Acquire();
  ForgetEndedThreads();
  attempt->stopped =
      platform::StopAll(g_registry.records.data(), g_registry.count, platform::t_stop_record,
                        attempt->patience_ns, attempt->report);
  if (!attempt->stopped) g_threads_lock.Release();
}

// Without all roots nothing is stopped: the next attempt may have the memory to note them.
void StopWithLoaderLocked(void* context) {
  RefreshLoadedObjects(nullptr);
  if (!g_registry.is_complete) return;
  StopThreads(context);
}

// How long to wait for all threads to stop before the stop is tried anew: doubled each time. A
// thread that has not answered at the end is reported; it would otherwise be a silent hang.
constexpr uint64_t kFirstPatienceNs = 10000000;
constexpr uint64_t kMostPatienceNs = 256 * kFirstPatienceNs;
constexpr int kAttemptsOfTryStop = 4;  // 150 ms, and pauses of at most as much between them

void AwaitNextAttempt(StopAttempt* attempt) {
  platform::PauseStop();
  // Of two collectors that give up for each other's sake one should be first the next time.
  platform::AwaitWithdrawn(platform::NowNs() % attempt->patience_ns);
  if (attempt->patience_ns < kMostPatienceNs) attempt->patience_ns *= 2;
}

// Calls stop(context) inside WithLoaderLocked until it has set attempt->stopped. Signals stay
// blocked, up to EndStop.
void TryUntilStopped(StopAttempt* attempt, void (*stop)(void*), void* context) {
  bool reported = false;
  for (;;) {
    platform::BeginStop();
    platform::WithLoaderLocked(stop, context);
    if (attempt->stopped) break;
    if (!g_registry.is_complete && attempt->patience_ns == kMostPatienceNs) {
      Fatal("no memory for the list of loaded objects");
    }
    AwaitNextAttempt(attempt);
    reported |= attempt->report;
    attempt->report = attempt->patience_ns == kMostPatienceNs && !reported;
  }
}

// Where the roots of one thread go: ranges to be read in place, and words copied from where memory
// may vanish meanwhile, or end before it is thought to.
struct ThreadRoots {
  gc::RootTasks* in_place;
  gc::RootBuffer* copied;
};

// Where memory of others begins above the address: what the library has reserved, or the stack of
// a thread.
Addr NextKnownMemory(Addr address) {
  struct Search {
    Addr above;
    Addr nearest;
  } search{address, ~Addr{0}};
  const auto look = [](void* context, Range range) {
    auto* s = static_cast<Search*>(context);
    if (range.begin > s->above && range.begin < s->nearest) s->nearest = range.begin;
  };
  platform::VisitReservations(look, &search);
  for (size_t i = 0; i < g_registry.count; ++i) {
    look(&search, static_cast<Thread*>(g_registry.records[i])->stack);
  }
  return search.nearest;
}

// Memory of which it is not known whether all of it is there, as far as it can be read: by a copy
// that a system call makes [inv.foreign-copied]. True if that is up to the end.
bool AddReadable(RootKind kind, Range range, const ThreadRoots& roots) {
  Addr at = range.begin;
  if (!roots.copied->CopyIfMapped(kind, &at, range.end)) {
    const Addr end = platform::EndOfReadable(at, range.end);
    roots.in_place->Add(kind, at, end);
    at = end;
  }
  return at >= AlignDown(range.end, kWordBytes);
}

// A stack of the program's own, in use from `low` on and thought to end at `end`. Where malloc is
// ours it may lie in a block, which the stack pointer keeps: a root itself, or in memory that is.
// True if all of it was there.
bool AddForeignStack(Addr low, Addr end, const ThreadRoots& roots) {
  alloc::ObjectRef block;
  if (!alloc::FindSlot(low, &block)) return AddReadable(RootKind::kStack, {low, end}, roots);
  const Addr block_end = block.base + block.bytes;
  roots.in_place->Add(RootKind::kStack, low, end < block_end ? end : block_end);
  return end <= block_end;
}

// The thread's own stack, of which nobody knows how much is in use.
void AddWholeStack(Range stack, const ThreadRoots& roots) {
  // Pages that cannot be read are those of a guard, below the others.
  for (Addr at = platform::LowestMapped(stack); at < stack.end;) {
    if (AddReadable(RootKind::kStack, {at, stack.end}, roots)) break;
    at = AlignDown(platform::EndOfReadable(at, stack.end), platform::OsPageBytes());
    at += platform::OsPageBytes();
  }
}

// What was interrupted for handlers on an alternate stack.
struct Interrupted {
  Thread& thread;
  const ThreadRoots& roots;
  Addr own_low = 0;  // on the thread's own stack; 0: not there
  bool on_fiber = false;
};

void AddInterrupted(void* context, Addr low) {
  auto* found = static_cast<Interrupted*>(context);
  const Range own = found->thread.stack;
  if (Threads::IsOnOwnStack(&found->thread, low + platform::kRedZoneBytes)) {
    if (low < own.begin) low = own.begin;
    if (found->own_low == 0 || low < found->own_low) found->own_low = low;
  } else if (Fiber* fiber = Fibers::FindWorldStopped(low + platform::kRedZoneBytes)) {
    if (low < fiber->stack.begin) low = fiber->stack.begin;
    if (low < fiber->live) fiber->live = low;
    found->on_fiber = true;
  } else {
    (void)AddForeignStack(low, NextKnownMemory(low), found->roots);
  }
}

// What the program says instead of the thread's stack pointer; 0: nothing else.
Addr CorrectedStackPointer(const Thread& thread) {
  const GC_sp_corrector_proc correct = g_sp_corrector;
  if (correct == nullptr) return 0;
  auto* stack_pointer = PointerAt<void>(thread.stack_pointer);
  correct(&stack_pointer, PointerAt<void>(thread.id));
  return AddressOf(stack_pointer) != thread.stack_pointer ? AddressOf(stack_pointer) : 0;
}

// True if that takes in the thread's own stack up to its end.
bool AddStacks(Thread& thread, const ThreadRoots& roots) {
  const Addr low = thread.stack_pointer;
  const Addr corrected = CorrectedStackPointer(thread);
  const Range own = thread.stack;
  const Addr bottom =
      thread.is_main && GC_stackbottom != nullptr ? AddressOf(GC_stackbottom) : thread.stack_bottom;
  const bool bottom_is_own = bottom > own.begin && bottom <= own.end;
  const Addr own_bottom = bottom_is_own ? bottom : own.end;
  // Where the own stack was left for a fiber; 0: it was not, as far as we know.
  Addr own_low = thread.own_stack_pointer;
  if (thread.alternate_stack_end != 0) {
    const Range alternate{low, thread.alternate_stack_end};
    (void)AddForeignStack(alternate.begin, alternate.end, roots);
    Interrupted found{thread, roots};
    platform::VisitInterruptedStacks(alternate, AddInterrupted, &found);
    if (found.own_low != 0) {
      own_low = found.own_low;
    } else if (!found.on_fiber) {
      own_low = 0;
    }
  } else if (Threads::IsOnOwnStack(&thread, low)) {
    own_low = low;
  } else if (Fiber* fiber = Fibers::FindWorldStopped(low)) {
    fiber->live = low;
  } else {
    // On a stack of the program's own. If the program has told where that ends, the program also
    // shows the stacks that it has left. If not, all that can be read above the stack pointer
    // counts, and the thread's own stack wherever it may be in use.
    const bool told = !bottom_is_own && bottom > low;
    if (told && AddForeignStack(low, bottom, roots) && corrected == 0) return false;
    if (!told) (void)AddForeignStack(low, NextKnownMemory(low), roots);
    own_low = 0;
  }
  if (corrected != 0 && !own.Contains(corrected)) {
    (void)AddForeignStack(corrected, NextKnownMemory(corrected), roots);
  } else if (corrected != 0) {
    AddWholeStack({own_low != 0 && own_low < corrected ? own_low : corrected, own.end}, roots);
    return true;
  }
  if (own_low == 0) {
    AddWholeStack(own, roots);
    return true;
  }
  const Addr own_end = own_low < own_bottom ? own_bottom : own.end;
  roots.in_place->Add(RootKind::kStack, own_low, own_end);
  return own_end == own.end;
}

void AddThreadRoots(Thread& thread, const ThreadRoots& roots) {
  // The C library has it beyond what is known to be the stack, perhaps.
  const Addr result = AddressOf(&thread.result);
  if (IsObject(thread.result)) roots.in_place->Add(RootKind::kData, result, result + kWordBytes);
  if (thread.stack_pointer == 0) return;  // it has ended
  const bool to_the_end = AddStacks(thread, roots);
  // The C library puts it at the end of stacks that it makes.
  if (!to_the_end || !thread.stack.Contains(thread.static_tls.begin)) {
    roots.in_place->Add(RootKind::kData, thread.static_tls.begin, thread.static_tls.end);
  }
  if (g_registry.module_count == 0) return;
  const platform::TlsTable table(thread.thread_pointer);
  for (size_t i = 0; i < g_registry.module_count; ++i) {
    const TlsModule& module = g_registry.modules[i];
    const Addr block = table.BlockOf(module.id);
    if (block != 0) (void)AddReadable(RootKind::kData, {block, block + module.bytes}, roots);
  }
}

// The stopped thread's part of a handshake.
void Greet(Thread* thread, gc::RootTasks* scratch, gc::RootBuffer* words) {
  thread->handshake = g_registry.handshake;
  thread->heap->RestoreRunsStopped();
  if (thread->stack_pointer == 0) return;  // it has ended
  scratch->Clear();
  AddThreadRoots(*thread, {scratch, words});
  // Others count as suspended (CopyRoots).
  if (const Fiber* fiber = Fibers::FindLocked(thread->stack_pointer); fiber != nullptr) {
    scratch->Add(RootKind::kStack, thread->stack_pointer, fiber->stack.end);
  }
  for (size_t i = 0; i < scratch->size(); ++i) {
    words->Copy(scratch->at(i).kind, scratch->at(i).range.begin, scratch->at(i).range.end);
  }
}

struct HandshakeAttempt {
  StopAttempt stop;
  Addr stack_pointer;
  gc::RootTasks* scratch;
  gc::RootBuffer* words;
  bool found;
};

// One thread that has not had its handshake. Only this thread is asked to stop.
void HandshakeWithLoaderLocked(void* context) {
  auto* attempt = static_cast<HandshakeAttempt*>(context);
  RefreshLoadedObjects(nullptr);
  platform::LockGuard guard(g_threads_lock);
  ForgetEndedThreads();
  attempt->stop.stopped = true;
  attempt->found = false;
  for (size_t i = 0; i < g_registry.count && !attempt->found; ++i) {
    platform::StopRecord* record = g_registry.records[i];
    auto* thread = static_cast<Thread*>(record);
    if (thread->handshake == g_registry.handshake) continue;
    attempt->found = true;
    if (thread == Threads::Current()) {
      platform::CriticalSection section;
      thread->stack_pointer = attempt->stack_pointer;
      thread->alternate_stack_end = platform::AlternateStackEnd(attempt->stack_pointer);
      Greet(thread, attempt->scratch, attempt->words);
    } else if (platform::StopAll(&record, 1, platform::t_stop_record, attempt->stop.patience_ns,
                                 attempt->stop.report)) {
      Greet(thread, attempt->scratch, attempt->words);
      platform::ResumeAll();
    } else {
      attempt->stop.stopped = false;
    }
  }
}

struct CopyCall {
  gc::RootPosition* position;
  gc::RootBuffer* words;
  bool more;
};

constexpr size_t kCopyBytes = 64 * kKiB;  // at once

struct StaticRange {
  CopyCall* call;
  size_t begin;  // as an offset into all ranges together
};

// Copies a piece if the next one is in this range.
void CopyPiece(void* context, Range range) {
  auto* at = static_cast<StaticRange*>(context);
  gc::RootPosition* position = at->call->position;
  const size_t begin = at->begin;
  at->begin += range.bytes();
  if (at->call->more || position->static_bytes < begin || position->static_bytes >= at->begin)
    return;
  const Addr from = range.begin + (position->static_bytes - begin);
  const Addr to = range.end - from > kCopyBytes ? from + kCopyBytes : range.end;
  at->call->words->Copy(RootKind::kData, from, to);
  position->static_bytes += to - from;
  at->call->more = true;
}

// The next piece of static data.
void CopyStaticWithLoaderLocked(void* context) {
  auto* call = static_cast<CopyCall*>(context);
  RefreshLoadedObjects(nullptr);
  StaticRange at{call, 0};
  call->more = false;
  Threads::ForEachStaticRoot(CopyPiece, &at);
}

enum Registration : uint32_t { kNotYet, kRegistered, kRefused };

struct StartInfo {
  void* (*start)(void*);    // null: the next one
  int (*start_c11)(void*);  // of a thread that thrd_create made
  void* argument;
  platform::Atomic<uint32_t> registration{kNotYet};
};

void* RunRegistered(void* data) {
  auto* info = static_cast<StartInfo*>(data);
  void* (*start)(void*) = info->start;
  int (*start_c11)(void*) = info->start_c11;
  void* argument = info->argument;
  const bool ok = Threads::Current() != nullptr || Threads::Register() != nullptr;
  // After the wake-up the parent may return and `info`, on its stack, be gone. A futex call on
  // memory that was reused at worst wakes somebody who looks again.
  info->registration.Store(ok ? kRegistered : kRefused, platform::memory_order_seq_cst);
  platform::FutexWakeAll(&info->registration);
  if (!ok) return nullptr;  // the parent says so
  void* result =
      start != nullptr
          ? start(argument)
          : PointerAt<void>(static_cast<Addr>(static_cast<intptr_t>(start_c11(argument))));
  if (Threads::Current() != nullptr) Threads::Current()->result = result;
  return result;
}

// The registered thread of that name, or null. Under the threads lock.
Thread* FindLocked(pthread_t id) {
  for (size_t i = 0; i < g_registry.count; ++i) {
    auto* thread = static_cast<Thread*>(g_registry.records[i]);
    if (pthread_equal(thread->id, id)) return thread;
  }
  return nullptr;
}

// Tells the program of each thread that the stop under way has parked.
void AnnounceParked(GC_EventType event) {
  if (g_on_thread_event == nullptr) return;
  for (size_t i = 0; i < g_registry.count; ++i) {
    auto* thread = static_cast<Thread*>(g_registry.records[i]);
    if (thread->IsParked()) {
      g_on_thread_event(event, PointerAt<void>(thread->id));
    }
  }
}

// Whether somebody may still ask for the calling thread's result. Without memory that is not known,
// and the result is kept until another thread has the name.
bool CurrentThreadIsJoinable() {
  pthread_attr_t attributes;
  if (pthread_getattr_np(pthread_self(), &attributes) != 0) return true;
  int state = PTHREAD_CREATE_JOINABLE;
  pthread_attr_getdetachstate(&attributes, &state);
  pthread_attr_destroy(&attributes);
  return state == PTHREAD_CREATE_JOINABLE;
}

// The calling thread stops being a mutator.
void RemoveFromList(Thread* thread) {
  platform::LockGuard guard(g_threads_lock);
  KeepResult(*thread);
  RemoveLocked(thread);
  alloc::t_heap = &alloc::g_no_heap;
  platform::AdoptRecord(nullptr);
  thread->life.Release();
}

// The calling thread is in Register, or was.
constinit __thread bool t_came_to_register = false;

void ForgetResult(pthread_t id) {
  platform::LockGuard guard(g_threads_lock);
  g_registry.results.Erase(id);
}

void* ResultOf(pthread_t id) {
  platform::LockGuard guard(g_threads_lock);
  ForgetEndedNamed(id);
  void** result = g_registry.results.Find(id);
  return result != nullptr ? *result : nullptr;
}

// The same for a thread whose name may be another's by now: that one's result is another one.
void ForgetResult(pthread_t id, const void* result) {
  platform::LockGuard guard(g_threads_lock);
  ForgetEndedNamed(id);
  void** found = g_registry.results.Find(id);
  if (found != nullptr && *found == result) g_registry.results.Erase(id);
}

}  // namespace

bool Threads::Init() {
  // Room for what an ordinary program has loaded: a collection without memory must not miss roots.
  constexpr size_t kUsualObjects = 256;
  if (!g_registry.records.Reserve(kMaxThreads) || !g_registry.modules.Reserve(kMaxTlsModules) ||
      !g_registry.modules.EnsureCommitted(kUsualObjects) ||
      !g_registry.main_segments.Prepare(kUsualObjects) ||
      !g_registry.library_segments.Prepare(kUsualObjects)) {
    return false;
  }
  if (pthread_key_create(&g_registry.exit_key, OnThreadExit) != 0) return false;
  g_registry.tls_is_known = platform::TlsLayoutIsKnown();
  if (!g_registry.tls_is_known) {
    Complain(
        "unknown layout of thread-local storage: pointers in that of objects loaded at run "
        "time are not seen");
  }
  return true;
}

size_t Threads::count() {
  platform::LockGuard guard(g_threads_lock);
  return g_registry.count;
}

platform::Lock& Threads::lock() { return g_threads_lock; }

bool Threads::HasComeToRegister() { return t_came_to_register; }

Thread* Threads::Register(Addr stack_bottom) {
  const platform::UncancellableSection section;
  const int32_t tid = platform::CurrentThreadId();
  t_came_to_register = true;
  const Range stack = platform::CurrentStackBounds();
  const Range static_tls = platform::CurrentStaticTls();
  Thread* thread = nullptr;
  platform::BeginStallsOfThread(tid);
  {
    platform::LockGuard guard(g_threads_lock);
    if (!g_registry.records.EnsureCommitted(g_registry.count + 1) ||
        !g_registry.results.Reserve(g_registry.results.size() + g_registry.count + 1)) {
      return nullptr;
    }
    thread = g_registry.free;
    if (thread != nullptr) {
      g_registry.free = thread->next_free;
    } else {
      void* memory = alloc::MetaAllocate(sizeof(Thread));
      if (memory == nullptr) return nullptr;
      thread = static_cast<Thread*>(memory);
    }
    new (thread) Thread();
    ForgetEnded(tid);
    thread->heap = alloc::ThreadHeaps::Acquire();
    if (thread->heap == nullptr) {
      thread->next_free = g_registry.free;
      g_registry.free = thread;
      return nullptr;
    }
    thread->tid = tid;
    thread->id = pthread_self();
    g_registry.results.Erase(thread->id);  // of an earlier thread that nobody joined through us
    thread->thread_pointer = platform::CurrentThreadPointer();
    thread->life.Take();
    thread->handshake = g_registry.handshake;
    thread->stack = stack;
    thread->static_tls = static_tls;
    thread->stack_bottom = stack_bottom != 0 ? stack_bottom : stack.end;
    // Not in the list yet: a stop under way does not wait for us, and we wait here for the lock.
    platform::AdoptRecord(thread);
    alloc::t_heap = thread->heap;
    thread->index = g_registry.count;
    g_registry.records[g_registry.count++] = thread;
  }
  platform::UnblockSuspendSignal();
  platform::UnblockFaultSignal();
  pthread_setspecific(g_registry.exit_key, thread);
  return thread;
}

void Threads::Unregister() {
  const platform::UncancellableSection section;
  Thread* thread = Current();
  const bool has_result = IsObject(thread->result);
  RemoveFromList(thread);
  platform::EndStallsOfThread();
  // Only now: if another thread detaches this one, either it finds the result or we see the change.
  if (has_result && !CurrentThreadIsJoinable()) ForgetResult(pthread_self());
}

void Threads::Stop() {
  StopAttempt attempt{kFirstPatienceNs, false, false};
  TryUntilStopped(&attempt, StopWithLoaderLocked, &attempt);
  AnnounceParked(GC_EVENT_THREAD_SUSPENDED);
}

bool Threads::TryStop() {
  StopAttempt attempt{kFirstPatienceNs, false, false};
  for (int i = 0; i < kAttemptsOfTryStop; ++i) {
    platform::BeginStop();
    StopThreads(&attempt);
    if (attempt.stopped) return true;
    AwaitNextAttempt(&attempt);
  }
  return false;
}

void Threads::Resume() {
  AnnounceParked(GC_EVENT_THREAD_UNSUSPENDED);
  platform::ResumeAll();
  g_threads_lock.Release();
  platform::EndStop();
}

void Threads::BeginHandshakes() {
  platform::LockGuard guard(g_threads_lock);
  ++g_registry.handshake;
}

bool Threads::Handshake(Addr stack_pointer, gc::RootTasks* scratch, gc::RootBuffer* words) {
  HandshakeAttempt attempt{{kFirstPatienceNs, false, false}, stack_pointer, scratch, words, false};
  TryUntilStopped(&attempt.stop, HandshakeWithLoaderLocked, &attempt);
  platform::EndStop();
  return attempt.found;
}

bool Threads::CopyRoots(gc::RootPosition* position, gc::RootBuffer* words) {
  CopyCall call{position, words, false};
  platform::WithLoaderLocked(CopyStaticWithLoaderLocked, &call);
  if (call.more) return true;
  platform::LockGuard guard(g_threads_lock);
  return Fibers::CopySuspendedLocked(&position->fiber, kCopyBytes, words);
}

// How far the first thread's stack may grow is a limit, which may have been raised over other
// mappings; below the stack itself nothing is mapped.
bool Threads::IsOnOwnStack(Thread* thread, Addr address) {
  if (!thread->stack.Contains(address)) return false;
  if (!thread->is_main || address >= thread->stack_mapped_from) return true;
  if (platform::LowestMapped({address, thread->stack.end}) != address) return false;
  thread->stack_mapped_from = address;
  return true;
}

void Threads::AddRoots(gc::RootTasks* roots) {
  Fibers::BeginRootsWorldStopped();
  g_registry.copied.Clear();
  for (size_t i = 0; i < g_registry.count; ++i) {
    AddThreadRoots(*static_cast<Thread*>(g_registry.records[i]), {roots, &g_registry.copied});
  }
  g_registry.copied.AddTo(roots);
  Fibers::AddRootsWorldStopped(roots);
  roots->Add(RootKind::kData, g_registry.results.storage_begin(), g_registry.results.storage_end());
  ForEachStaticRoot(
      [](void* tasks, Range range) {
        static_cast<gc::RootTasks*>(tasks)->Add(RootKind::kData, range.begin, range.end);
      },
      roots);
}

void Threads::ForEachStackWorldStopped(void (*f)(void* context, Range stack, bool is_main),
                                       void* context) {
  for (size_t i = 0; i < g_registry.count; ++i) {
    const auto& thread = *static_cast<Thread*>(g_registry.records[i]);
    // A thread that has ended without telling us has no stack: something else may be there.
    if (thread.stack_pointer != 0) f(context, thread.stack, thread.is_main);
  }
}

void Threads::ForEachStaticRoot(void (*f)(void* context, Range range), void* context) {
  const auto add = [f, context](Range range) {
    g_static_roots.excluded.ForEachGap(range, [f, context](Range part) { f(context, part); });
  };
  const bool libraries = GC_no_dls == 0;
  if (libraries || !g_static_roots.main_data_cleared) {
    for (size_t i = 0; i < g_registry.main_segments.size(); ++i)
      add(g_registry.main_segments.at(i));
  }
  if (libraries) {
    for (size_t i = 0; i < g_registry.library_segments.size(); ++i) {
      add(g_registry.library_segments.at(i));
    }
  }
  for (size_t i = 0; i < g_static_roots.added.size(); ++i) add(g_static_roots.added.at(i));
}

bool Threads::OverlapsStackLocked(Range range, Addr here) {
  for (size_t i = 0; i < g_registry.count; ++i) {
    const auto* thread = static_cast<Thread*>(g_registry.records[i]);
    Range used = thread->stack;
    if (thread == Current()) {
      used.begin = used.Contains(here) ? here : thread->own_stack_pointer;
      if (used.begin == 0) continue;  // on a stack that we do not know
    } else if (thread->is_main) {
      continue;  // how far it may grow is a limit that may have been raised over other mappings
    }
    if (used.begin < range.end && range.begin < used.end) return true;
  }
  return false;
}

void Threads::NoteOwnStack(Range stack) {
  if (Current() == nullptr || stack.begin == 0) return;
  platform::LockGuard guard(g_threads_lock);
  Current()->stack = stack;
}

namespace {
int StartRegistered(pthread_t* thread, const pthread_attr_t* attributes, StartInfo* info) {
  // The child uses `info`, which is on the caller's stack.
  const platform::UncancellableSection section;
  int detached = PTHREAD_CREATE_JOINABLE;
  if (attributes != nullptr) pthread_attr_getdetachstate(attributes, &detached);
  const int error = platform::RealPthreadCreate(thread, attributes, RunRegistered, info);
  if (error != 0) return error;
  // Until then the argument is kept by the caller's stack.
  while (info->registration.Load(platform::memory_order_seq_cst) == kNotYet) {
    platform::FutexWait(&info->registration, kNotYet);
  }
  if (info->registration.Load(platform::memory_order_seq_cst) == kRegistered) return 0;
  // There was no memory to register the thread. It ends without having called the program.
  if (detached == PTHREAD_CREATE_JOINABLE) pthread_join(*thread, nullptr);
  return EAGAIN;
}
}  // namespace

int Threads::Create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                    void* argument) {
  StartInfo info{start, nullptr, argument};
  return StartRegistered(thread, attributes, &info);
}

int Threads::CreateC11(thrd_t* thread, int (*start)(void*), void* argument) {
  StartInfo info{nullptr, start, argument};
  switch (StartRegistered(thread, nullptr, &info)) {
    case 0:
      return thrd_success;
    case ENOMEM:
      return thrd_nomem;
    default:
      return thrd_error;
  }
}

void Threads::Exit(void* result) {
  if (Current() != nullptr) Current()->result = result;
  pthread_exit(result);
}

int Threads::Join(pthread_t thread, void** result) {
  void* own;
  const int error = pthread_join(thread, &own);
  if (error != 0) return error;
  if (result != nullptr) *result = own;
  ForgetResult(thread, own);
  return 0;
}

int Threads::Detach(pthread_t thread) {
  const void* result = ResultOf(thread);
  const int error = pthread_detach(thread);
  if (error == 0 && result != nullptr) ForgetResult(thread, result);
  return error;
}

void Threads::Suspend(pthread_t id) {
  Stop();
  Thread* thread = FindLocked(id);
  if (thread != nullptr) platform::Suspend(thread);
  Resume();
}

void Threads::Unsuspend(pthread_t id) {
  platform::LockGuard guard(g_threads_lock);
  Thread* thread = FindLocked(id);
  if (thread != nullptr) platform::Unsuspend(thread);
}

bool Threads::IsSuspended(pthread_t id) {
  platform::LockGuard guard(g_threads_lock);
  const Thread* thread = FindLocked(id);
  return thread != nullptr && thread->suspended.Load(platform::memory_order_seq_cst) != 0;
}

bool Threads::IsDataOfLoadedObject(Addr address) {
  platform::WithLoaderLocked(RefreshLoadedObjects, nullptr);
  return g_registry.main_segments.Contains(address) ||
         g_registry.library_segments.Contains(address);
}

void Threads::PrepareFork() { platform::WithLoaderLocked(RefreshLoadedObjects, nullptr); }

void Threads::ResetAfterFork() {
  platform::DistrustLoader();
  g_threads_lock.ResetAfterFork();
  Thread* survivor = Current();
  g_registry.count = 0;
  if (survivor != nullptr) {
    survivor->life.Take();
    survivor->index = 0;
    g_registry.records[g_registry.count++] = survivor;
  }
  Fibers::ResetAfterFork(survivor);
}

}  // namespace gleaner::runtime
