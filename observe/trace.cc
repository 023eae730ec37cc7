#include "observe/trace.h"

#include <pthread.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/os/memory.h"
#include "platform/os/process.h"
#include "platform/threads/thread.h"

namespace gleaner::platform {

namespace {

constexpr size_t kRingWords = 4096;
constexpr size_t kMaxRings = 1024;
constexpr uint64_t kNeverNamed = ~uint64_t{0};

struct Ring {
  // Owner thread and its signal handlers.
  uint32_t thread;
  // Owner thread: its name as last emitted, and when it was last looked at. Of a thread that has
  // its name from the library, kNeverNamed.
  char name[16];
  uint64_t named_ns;
  // Number of the thread in the trace | of the system << 32, while the program may name the thread;
  // else 0. Written by the owner.
  Hint<uint64_t> nameable;
  Atomic<uint64_t> reserved;  // words ever reserved
  // Both sides: the handover of docs/design/invariants.md.
  Atomic<uint64_t> words[kRingWords];
  // The thread that drains.
  Atomic<uint64_t> consumed;  // words ever consumed
  Atomic<bool> taken;         // has an owner
  // Whose events it has: in a forked child another process's, until ResetTraceAfterFork has emptied
  // it. A child by a plain clone may have threads of its own before that.
  Atomic<pid_t> process;
};

// Of the thread that drains. No static data: in a program that is linked with the static library
// that is a root, and times may look like addresses.
constinit uint64_t* g_buffer = nullptr;  // constant after StartTrace
constinit Atomic<Ring*> g_rings[kMaxRings] = {};
constinit Tickets<uint32_t> g_threads{0};  // thread numbers given out
constinit Count<uint64_t> g_dropped{0};
constinit Count<uint64_t> g_untraced{0};

constinit __thread Ring* t_ring __attribute__((tls_model("initial-exec"))) = nullptr;

// Zero bytes; null if the system refuses.
void* NewMemory(size_t bytes) {
  bytes = AlignUp(bytes, OsPageBytes());
  void* p = Reserve(bytes, OsPageBytes());
  if (p == nullptr || Commit(p, bytes)) return p;
  Release(p, bytes);
  return nullptr;
}

Ring* NewRing() {
  void* p = NewMemory(sizeof(Ring));
  if (p == nullptr) return nullptr;
  auto* ring = static_cast<Ring*>(p);  // zero bytes are a ring
  // Relaxed, both: published with the pointer.
  ring->taken.Store(true, memory_order_relaxed);
  ring->process.Store(getpid(), memory_order_relaxed);
  return ring;
}

// A ring that a thread has left, or a new one.
Ring* TakeRing() {
  const pid_t self = getpid();
  for (Atomic<Ring*>& slot : g_rings) {
    // Acquire: pairs with the exchange that has published the ring.
    Ring* ring = slot.Load(memory_order_acquire);
    if (ring == nullptr) {
      Ring* fresh = NewRing();
      if (fresh == nullptr) return nullptr;
      // Acq_rel: publishes the fresh ring; sees another thread's that came first.
      if (slot.CompareExchange(ring, fresh, memory_order_acq_rel)) return fresh;
      Release(fresh, AlignUp(sizeof(Ring), OsPageBytes()));
    }
    // Acquire: pairs with the release in ResetTraceAfterFork, so that the ring is empty.
    if (ring->process.Load(memory_order_acquire) != self) continue;
    bool taken = false;
    // Acquire: pairs with the release of the thread that has left it, whose `reserved` this thread
    // goes on with.
    if (ring->taken.CompareExchange(taken, true, memory_order_acquire)) return ring;
  }
  return nullptr;
}

// Leaves the other half of the word alone, which somebody who enables a probe may change at once.
void SetTraceListens(bool listens) {
  uint32_t seen = g_listeners.Load(memory_order_relaxed);  // a hint
  // Acquire: the weakest order of CompareExchange.
  while (!g_listeners.CompareExchange(seen, listens ? seen | kTraceListens : seen & ~kTraceListens,
                                      memory_order_acquire)) {
  }
}

void EmitThread(TraceRole role, const char (&name)[16]) {
  uint64_t words[2];
  memcpy(words, name, sizeof words);
  EmitTrace(
      TraceEvent::kThread, NowNs(),
      {static_cast<uint64_t>(CurrentThreadId()), static_cast<uint64_t>(role), words[0], words[1]});
}

// Emits the name that the program has given to the calling thread, if it is another than before.
void LookAtName(Ring* ring) {
  if (ring->named_ns == kNeverNamed) return;
  ring->named_ns = CoarseNowNs();
  char name[16] = {};
  if (pthread_getname_np(pthread_self(), name, sizeof name) != 0 ||
      memcmp(name, ring->name, sizeof name) == 0) {
    return;
  }
  memcpy(ring->name, name, sizeof name);
  EmitThread(TraceRole::kMutator, name);
}

// How long the thread has been ready to run and had no processor; 0 if the system does not tell.
uint64_t WaitedNs(uint64_t tid) {
  char path[64];
  char text[96];
  snprintf(path, sizeof path, "/proc/self/task/%u/schedstat", static_cast<unsigned>(tid));
  if (ReadSmallFile(path, text, sizeof text) != 0) return 0;
  char* rest = nullptr;
  strtoull(text, &rest, 10);  // how long it has run
  return strtoull(rest, nullptr, 10);
}

}  // namespace

bool StartTrace() {
  if (g_buffer == nullptr) {
    g_buffer = static_cast<uint64_t*>(NewMemory(kRingWords * sizeof *g_buffer));
  }
  if (g_buffer == nullptr) return false;
  SetTraceListens(true);
  return true;
}
void StopTrace() { SetTraceListens(false); }

void BeginTraceOfThread(TraceRole role, const char* name) {
  if (!HasTrace() || t_ring != nullptr) return;
  Ring* ring = TakeRing();
  if (ring == nullptr) {
    g_untraced.Add(1);
    return;
  }
  ring->thread = g_threads.Take() + 1;
  std::atomic_signal_fence(std::memory_order_seq_cst);  // handlers see the number
  t_ring = ring;
  memset(ring->name, 0, sizeof ring->name);
  if (name != nullptr) {
    memcpy(ring->name, name, strnlen(name, sizeof ring->name));
    ring->named_ns = kNeverNamed;
  } else {
    pthread_getname_np(pthread_self(), ring->name, sizeof ring->name);
    ring->named_ns = 0;  // threads name themselves at once
    const auto tid = static_cast<uint64_t>(CurrentThreadId());
    ring->nameable.Set(tid << 32 | ring->thread);
  }
  EmitThread(role, ring->name);
}

void ContinueTraceOfThread() {
  constexpr uint64_t kEveryNs = 10'000'000;
  Ring* ring = t_ring;
  if (ring != nullptr && CoarseNowNs() - ring->named_ns >= kEveryNs) LookAtName(ring);
}

bool WriteEndsOfThreads(bool (*write)(void* context, const uint64_t* words, size_t count),
                        void* context) {
  for (Atomic<Ring*>& slot : g_rings) {
    const Ring* ring = slot.Load(memory_order_acquire);  // pairs with TakeRing
    if (ring == nullptr) break;
    const uint64_t nameable = ring->nameable.Get();
    if (nameable == 0 || ring->process.Load(memory_order_relaxed) != getpid()) continue;
    const uint64_t tid = nameable >> 32;
    char path[64];
    char name[24] = "";
    snprintf(path, sizeof path, "/proc/self/task/%u/comm", static_cast<unsigned>(tid));
    if (ReadSmallFile(path, name, sizeof name) != 0) continue;  // it has ended
    if (char* end = strrchr(name, '\n'); end != nullptr) memset(end, 0, name + sizeof name - end);
    constexpr size_t kWords = 6;
    uint64_t words[kWords] = {
        TraceHeader(TraceEvent::kThread, kWords, static_cast<uint32_t>(nameable)), NowNs(), tid,
        static_cast<uint64_t>(TraceRole::kMutator)};
    memcpy(&words[4], name, 16);
    if (!write(context, words, kWords)) return false;
    const uint64_t waited[] = {TraceHeader(TraceEvent::kWaited, 3, static_cast<uint32_t>(nameable)),
                               NowNs(), WaitedNs(tid)};
    if (!write(context, waited, 3)) return false;
  }
  return true;
}

void EndTraceOfThread() {
  Ring* ring = t_ring;
  if (ring == nullptr) return;
  if (HasTrace()) {
    LookAtName(ring);
    if (const uint64_t nameable = ring->nameable.Get(); nameable != 0) {
      EmitTrace(TraceEvent::kWaited, NowNs(), {WaitedNs(nameable >> 32)});
    }
    EmitTrace(TraceEvent::kThreadEnd, NowNs(), {});
  }
  ring->nameable.Set(0);
  t_ring = nullptr;  // handlers emit nothing from here on
  // Release: pairs with the exchange of the next owner.
  ring->taken.Store(false, memory_order_release);
}

void EmitTrace(TraceEvent event, uint64_t begin_ns, std::initializer_list<uint64_t> arguments) {
  if (IsProbed()) FireProbe(event, begin_ns, arguments.begin());
  Ring* const ring = t_ring;
  if (ring == nullptr) return;
  const size_t count = arguments.size() + 2;
  uint64_t at;
  do {
    // First, since it may pass what `reserved` was, if a handler comes between. Acquire: pairs with
    // the release of the consumer, so that the words have been set to 0.
    const uint64_t consumed = ring->consumed.Load(memory_order_acquire);
    at = ring->reserved.Load(memory_order_relaxed);  // this thread's and its handlers'
    if (at + count - consumed > kRingWords) {
      g_dropped.Add(1);
      return;
    }
    // Acquire: the weakest order of CompareExchange. It fails only if a handler came between.
  } while (!ring->reserved.CompareExchange(at, at + count, memory_order_acquire));
  // Relaxed: published by the header.
  size_t i = at + 1;
  ring->words[i++ % kRingWords].Store(begin_ns, memory_order_relaxed);
  for (const uint64_t argument : arguments) {
    ring->words[i++ % kRingWords].Store(argument, memory_order_relaxed);
  }
  // Release: publishes the record to the consumer.
  ring->words[at % kRingWords].Store(TraceHeader(event, count, ring->thread), memory_order_release);
}

bool DrainTrace(bool all, bool (*write)(void* context, const uint64_t* words, size_t count),
                void* context) {
  for (Atomic<Ring*>& slot : g_rings) {
    Ring* ring = slot.Load(memory_order_acquire);  // pairs with TakeRing
    if (ring == nullptr) break;
    uint64_t at = ring->consumed.Load(memory_order_relaxed);  // only this thread stores it
    // Relaxed: a hint; what is there is known by the headers.
    const uint64_t end = ring->reserved.Load(memory_order_relaxed);
    if (end == at || (!all && end - at < kRingWords / 4)) continue;
    size_t filled = 0;
    while (at < end) {
      // Acquire: pairs with the release in EmitTrace. 0: reserved, and not published yet.
      const uint64_t header = ring->words[at % kRingWords].Load(memory_order_acquire);
      if (header == 0) break;
      GLEANER_DCHECK(TraceWordsOf(header) >= 2 && TraceWordsOf(header) <= end - at,
                     "a ring of the trace holds %llx", static_cast<unsigned long long>(header));
      for (size_t left = TraceWordsOf(header); left != 0; --left, ++at) {
        Atomic<uint64_t>& word = ring->words[at % kRingWords];
        g_buffer[filled++] = word.Load(memory_order_relaxed);  // published by the header
        word.Store(0, memory_order_relaxed);                   // published by consumed
      }
    }
    ring->consumed.Store(at, memory_order_release);  // pairs with the load in EmitTrace
    if (filled != 0 && !write(context, g_buffer, filled)) return false;
  }
  return true;
}

bool IsTraceFilling() {
  const Ring* ring = t_ring;
  // Relaxed: a hint.
  return ring != nullptr &&
         ring->reserved.Load(memory_order_relaxed) - ring->consumed.Load(memory_order_relaxed) >=
             kRingWords / 4;
}

uint64_t DroppedTraceEvents() { return g_dropped.Get(); }
uint64_t UntracedThreads() { return g_untraced.Get(); }

void ResetTraceAfterFork() {
  const pid_t self = getpid();
  // Relaxed: only this call makes a ring of another process this one's.
  const auto is_own = [self](const Ring* ring) {
    return ring->process.Load(memory_order_relaxed) == self;
  };
  const bool stays = t_ring != nullptr && is_own(t_ring);
  bool is_alone = true;
  for (Atomic<Ring*>& slot : g_rings) {
    const Ring* ring = slot.Load(memory_order_acquire);  // pairs with TakeRing
    if (ring == nullptr) break;
    is_alone = is_alone && !is_own(ring);
  }
  // Relaxed, but where it says so: TakeRing leaves rings of another process alone.
  for (Atomic<Ring*>& slot : g_rings) {
    Ring* ring = slot.Load(memory_order_acquire);  // pairs with TakeRing
    if (ring == nullptr) break;
    if (is_own(ring)) continue;
    const uint64_t end = ring->reserved.Load(memory_order_relaxed);
    // The other words are 0 [inv.trace-ring], and not to be copied for the child.
    for (uint64_t at = ring->consumed.Load(memory_order_relaxed); at < end; ++at) {
      ring->words[at % kRingWords].Store(0, memory_order_relaxed);
    }
    ring->consumed.Store(end, memory_order_relaxed);
    // Else the parent's thread that has become the child's first one may be another than this.
    if (is_alone) ring->taken.Store(ring == t_ring, memory_order_relaxed);
    ring->nameable.Set(0);                            // of a thread of the parent
    ring->process.Store(self, memory_order_release);  // pairs with the load in TakeRing
  }
  g_dropped.Set(0);
  g_untraced.Set(0);
  if (is_alone) g_threads.Restart();
  if (t_ring == nullptr || stays) return;
  t_ring = nullptr;
  BeginTraceOfThread(TraceRole::kMutator, nullptr);
}

}  // namespace gleaner::platform
