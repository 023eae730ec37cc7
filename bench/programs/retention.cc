// How many objects a collection still finds after their last use. Nothing refers to them any more
// but what a conservative collector cannot tell from a reference: words that are left over in the
// stack, in registers, in the library's own memory.
//
// In each round a thread goes down a number of frames, makes a few objects there, uses them in one
// of several ways, and comes back. Then it allocates something else, goes down as many frames,
// whose memory it does not write, and collects. Frames that are not written whole show what lay
// there before, as in every program.
#define GC_THREADS
#include <pthread.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

constexpr int kDepths[] = {0, 4, 16, 64, 256};
constexpr uint64_t kObjects = 8;  // of a round
constexpr size_t kObjectBytes = 48;
constexpr size_t kUnwrittenBytes = 160;  // of each frame

struct Object {
  Object* next;
  uint64_t data[kObjectBytes / 8 - 1];
};

struct Round;
using Step = void (*)(Round*);

// What one round is about. The collector does not look for references here: it comes from malloc.
struct Round {
  Step use;
  int frames;
  uint64_t between;  // objects that are allocated before the collection
  uint64_t sum;
  GC_word links[kObjects];  // hidden addresses; 0 when the object is gone
};

// Objects whose finalizers have run, as of a guardian. Nothing else runs while they do.
Object* g_queue;
Object** g_vector;

// Calls `step` so many frames further down. Each frame has room that nobody writes.
__attribute__((noinline)) void Descend(int frames, Step step, Round* round) {
  char unwritten[kUnwrittenBytes];
  asm volatile("" : : "r"(unwritten) : "memory");
  if (frames == 0) {
    step(round);
  } else {
    Descend(frames - 1, step, round);
  }
  asm volatile("" : : "r"(unwritten) : "memory");
}

__attribute__((noinline)) Object* New(Round* round, uint64_t index) {
  auto* object = static_cast<Object*>(GC_malloc(sizeof(Object)));
  if (object == nullptr) bench::Fail("no memory");
  object->data[0] = index;
  round->links[index] = GC_HIDE_POINTER(object);
  GC_register_long_link(reinterpret_cast<void**>(&round->links[index]), object);
  return object;
}

__attribute__((noinline)) void Use(const Object* object, Round* round) {
  round->sum += object->data[0];
}

// --- The ways to use objects ---

void InLocals(Round* round) {
  Object* volatile objects[kObjects];
  for (uint64_t i = 0; i < kObjects; ++i) objects[i] = New(round, i);
  for (uint64_t i = 0; i < kObjects; ++i) Use(objects[i], round);
}

// In those that a called function must leave as they are.
void InRegisters(Round* round) {
  for (uint64_t i = 0; i < kObjects; i += 4) {
    Object* a = New(round, i);
    Object* b = New(round, i + 1);
    Object* c = New(round, i + 2);
    Object* d = New(round, i + 3);
    for (int uses = 0; uses < 2; ++uses) {
      asm volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d) : : "memory");
      Use(a, round);
      Use(b, round);
      Use(c, round);
      Use(d, round);
    }
  }
}

__attribute__((noinline)) void PassOn(int frames, Round* round, Object* a, Object* b, Object* c,
                                      Object* d, Object* e, Object* f, Object* g, Object* h) {
  if (frames > 0) {
    PassOn(frames - 1, round, b, c, d, e, f, g, h, a);
    asm volatile("" ::: "memory");  // no tail call
    return;
  }
  for (const Object* object : {a, b, c, d, e, f, g, h}) Use(object, round);
}
void AsArguments(Round* round) {
  Object* o[kObjects];
  for (uint64_t i = 0; i < kObjects; ++i) o[i] = New(round, i);
  PassOn(8, round, o[0], o[1], o[2], o[3], o[4], o[5], o[6], o[7]);
}

void InVector(Round* round) {
  for (uint64_t i = 0; i < kObjects; ++i) g_vector[i] = New(round, i);
  for (uint64_t i = 0; i < kObjects; ++i) Use(g_vector[i], round);
  for (uint64_t i = 0; i < kObjects; ++i) g_vector[i] = nullptr;
}

// A reference that the collector does not follow, in an object that lives.
void WithWeakReferences(Round* round) {
  for (uint64_t i = 0; i < kObjects; ++i) {
    Object* object = New(round, i);
    auto* box = static_cast<GC_word*>(GC_malloc_atomic(sizeof(GC_word)));
    *box = reinterpret_cast<GC_word>(object);
    GC_general_register_disappearing_link(reinterpret_cast<void**>(box), object);
    g_vector[kObjects + i] = reinterpret_cast<Object*>(box);
  }
  for (uint64_t i = 0; i < kObjects; ++i) {
    Use(*reinterpret_cast<Object**>(g_vector[kObjects + i]), round);
  }
}

void Ignore(void*, void*) {}
void WithFinalizers(Round* round) {
  for (uint64_t i = 0; i < kObjects; ++i) {
    Object* object = New(round, i);
    GC_register_finalizer_no_order(object, Ignore, nullptr, nullptr, nullptr);
    Use(object, round);
  }
}

void Enqueue(void* of_object, void*) {
  auto* object = static_cast<Object*>(of_object);
  object->next = g_queue;
  g_queue = object;
}
void WithGuardian(Round* round) {
  for (uint64_t i = 0; i < kObjects; ++i) {
    Object* object = New(round, i);
    GC_register_finalizer_no_order(object, Enqueue, nullptr, nullptr, nullptr);
    Use(object, round);
  }
}

struct Way {
  const char* name;
  Step use;
};
constexpr Way kWays[] = {{"locals", InLocals},         {"registers", InRegisters},
                         {"arguments", AsArguments},   {"vector", InVector},
                         {"weak", WithWeakReferences}, {"finalizers", WithFinalizers},
                         {"guardian", WithGuardian}};

// --- A round ---

__attribute__((noinline)) void AllocateOthers(uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) {
    auto* words = static_cast<uint64_t*>(GC_malloc(16 + 16 * (i % 8)));
    words[0] = i;
  }
}

// Twice, for what finalizers have had a reference to.
void Collect(Round*) {
  for (int i = 0; i < 2; ++i) {
    GC_gcollect();
    while (g_queue != nullptr) g_queue = g_queue->next;
  }
}

__attribute__((noinline)) void UseObjects(Round* round) {
  Descend(round->frames, round->use, round);
}

// What the thread does that does not use any of the objects.
__attribute__((noinline)) void GoOn(Round* round, Step step) {
  AllocateOthers(round->between);
  Descend(round->frames, step, round);
}

struct Meeting {
  Round* round;
  pthread_barrier_t ready, done;
};
// Set while there is a thread that waits.
Meeting* g_meeting;

void* WaitForMain(void*) {
  pthread_barrier_wait(&g_meeting->ready);
  pthread_barrier_wait(&g_meeting->done);
  return nullptr;
}
void Wait(Round*) { WaitForMain(nullptr); }
void WaitBlocked(Round*) { GC_do_blocking(WaitForMain, nullptr); }

void* UseAndCollect(void* of_round) {
  auto* round = static_cast<Round*>(of_round);
  UseObjects(round);
  GoOn(round, Collect);
  return nullptr;
}
void* UseAndWait(void* of_round) {
  auto* round = static_cast<Round*>(of_round);
  UseObjects(round);
  GoOn(round, Wait);
  return nullptr;
}
void* UseAndBlock(void* of_round) {
  auto* round = static_cast<Round*>(of_round);
  UseObjects(round);
  GoOn(round, WaitBlocked);
  return nullptr;
}
void* UseAndEnd(void* of_round) {
  UseObjects(static_cast<Round*>(of_round));
  return nullptr;
}

enum class Who { kMain, kOther, kWaiting, kBlocked, kEnded };

void RunRound(Who who, Round* round) {
  if (who == Who::kMain) {
    UseAndCollect(round);
    return;
  }
  void* (*const body)(void*) = who == Who::kOther     ? UseAndCollect
                               : who == Who::kWaiting ? UseAndWait
                               : who == Who::kBlocked ? UseAndBlock
                                                      : UseAndEnd;
  Meeting meeting{};
  g_meeting = &meeting;
  pthread_barrier_init(&meeting.ready, nullptr, 2);
  pthread_barrier_init(&meeting.done, nullptr, 2);
  pthread_t thread;
  const int error = pthread_create(&thread, nullptr, body, round);
  if (error != 0) bench::Fail("pthread_create: %s", std::strerror(error));
  if (who == Who::kWaiting || who == Who::kBlocked) {
    pthread_barrier_wait(&meeting.ready);
    Collect(round);
    pthread_barrier_wait(&meeting.done);
  }
  pthread_join(thread, nullptr);
  if (who == Who::kEnded) GoOn(round, Collect);
  pthread_barrier_destroy(&meeting.ready);
  pthread_barrier_destroy(&meeting.done);
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t rounds;
  uint64_t between;
  int way;
  int who;
  bench::Options options("retention", "objects that collections find after their last use");
  options.Number("rounds", &rounds, 25, 25, 1, 1 << 20,
                 "rounds at each depth that count, of 8 objects");
  options.Number("between", &between, 1000, 1000, 0, 1 << 30,
                 "objects that are allocated between use and collection");
  std::vector<std::string> ways;
  for (const Way& each : kWays) ways.push_back(each.name);
  options.Choice("use", &way, ways, "how objects are used");
  options.Choice("thread", &who, {"main", "other", "waiting", "blocked", "ended"},
                 "which thread uses them: the main one or another, which collects then, or one "
                 "that waits, waits in GC_do_blocking, or has ended when the main one does");
  options.Parse(argc, argv);
  bench::InitGc(options);
  g_vector = static_cast<Object**>(GC_malloc_uncollectable(2 * kObjects * sizeof(Object*)));

  bench::ResultLine result("retention");
  auto* round = static_cast<Round*>(std::calloc(1, sizeof(Round)));
  round->use = kWays[way].use;
  round->between = between;
  const bench::Measurement measurement = bench::RunThreads(1, [&](int) {
    for (const int frames : kDepths) {
      round->frames = frames;
      uint64_t held = 0;
      for (uint64_t i = 0; i <= rounds; ++i) {
        RunRound(static_cast<Who>(who), round);
        for (GC_word& link : round->links) {
          held +=
              i != 0 && link != 0 ? 1 : 0;  // the first round calls functions for the first time
          if (link != 0) GC_unregister_long_link(reinterpret_cast<void**>(&link));
          link = 0;
        }
      }
      result.Count(("held_" + std::to_string(frames)).c_str(), held);
    }
  });
  result.Count("objects", rounds * kObjects);
  result.Hex("checksum", round->sum);
  bench::AddGcResult(measurement, &result);
  result.Print();
}
