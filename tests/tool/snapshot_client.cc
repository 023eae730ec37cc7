// What tests/tool/why_test.py asks for: objects kept in one way or another, and a snapshot.
//
// usage: snapshot_client CASE SNAPSHOT; prints lines "NAME ADDRESS" of the objects.
#define GC_THREADS
#include <gc.h>
#include <gc/gc_typed.h>
#include <gleaner.h>
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

// Addresses that are not to keep an object are held this way.
constexpr uintptr_t kHidden = ~uintptr_t{0};

const char* g_file;

void Print(const char* name, uintptr_t address) {
  printf("%s 0x%zx\n", name, static_cast<size_t>(address));
}

void* Allocate(size_t bytes) {
  void* object = GC_MALLOC(bytes);
  if (object == nullptr) abort();
  return object;
}

// Overwrites what ended calls have left on the stack.
__attribute__((noinline)) void ClearStack() {
  char bytes[1 << 16];
  memset(bytes, 0, sizeof bytes);
  asm volatile("" : : "r"(bytes) : "memory");  // or the compiler leaves it out
}

void Take(const char* file) {
  ClearStack();
  const int error = gleaner_heap_snapshot(file);
  if (error == 0) return;
  fprintf(stderr, "%s: %s\n", file, strerror(error));
  exit(1);
}

struct Entry {
  Entry* next;
  void* value;
};

class Document {
 public:
  virtual ~Document() = default;
  static void* operator new(size_t bytes) { return Allocate(bytes); }
  static void operator delete(void*) {}
  char* text = static_cast<char*>(GC_MALLOC_ATOMIC(1000));
};

// A table of lists: entry i is in list i % 16.
struct Table {
  Entry* lists[16];
};
Table* g_map;
void* g_other[4];
volatile uintptr_t g_number;

void Insert(int i, void* value) {
  auto* entry = static_cast<Entry*>(Allocate(sizeof(Entry)));
  *entry = {g_map->lists[i % 16], value};
  g_map->lists[i % 16] = entry;
}

__attribute__((noinline)) void FillMap(int begin, int end) {
  for (int i = begin; i < end; ++i) Insert(i, new Document);
}

__attribute__((noinline)) void Map() {
  g_map = static_cast<Table*>(Allocate(sizeof(Table)));
  FillMap(0, 500);
  Print("table", reinterpret_cast<uintptr_t>(g_map));
  Print("entry", reinterpret_cast<uintptr_t>(g_map->lists[3]->next->next));
  Print("document", reinterpret_cast<uintptr_t>(g_map->lists[3]->next->next->value));
}

void TakeMap() {
  Map();
  Take(g_file);
}

// Before and after the map has doubled: the second file is named SNAPSHOT.2.
void TakeGrowth() {
  TakeMap();
  FillMap(500, 1000);
  char file[4096];
  snprintf(file, sizeof file, "%s.2", g_file);
  Take(file);
}

__attribute__((noinline)) uintptr_t MakeHidden() {
  return reinterpret_cast<uintptr_t>(Allocate(5000)) ^ kHidden;
}

uintptr_t g_hidden_object;
void* PointerOf(uintptr_t hidden) { return reinterpret_cast<void*>(hidden ^ kHidden); }

pthread_barrier_t g_barrier;

// Holds an object by a variable while the snapshot is taken.
__attribute__((noinline)) void HoldOnStack() {
  void* volatile held = Allocate(3000);
  Print("held", reinterpret_cast<uintptr_t>(held));
  pthread_barrier_wait(&g_barrier);
  pthread_barrier_wait(&g_barrier);
  if (held == nullptr) abort();
}

void* Worker(void*) {
  pthread_setname_np(pthread_self(), "holder");
  HoldOnStack();
  return nullptr;
}

void TakeStack() {
  pthread_barrier_init(&g_barrier, nullptr, 2);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, Worker, nullptr) != 0) abort();
  pthread_barrier_wait(&g_barrier);
  Take(g_file);
  pthread_barrier_wait(&g_barrier);
  pthread_join(thread, nullptr);
}

// A number that is an address in the middle of an object: nothing else refers to it.
void TakeNumber() {
  const uintptr_t hidden = MakeHidden();
  g_number = (hidden ^ kHidden) + 1001;
  Print("number", g_number);
  Take(g_file);
}

// The same, and a path of two objects by pointers.
__attribute__((noinline)) void MakeBoth() {
  void* object = Allocate(5000);
  g_number = reinterpret_cast<uintptr_t>(object) + 1001;
  auto* second = static_cast<Entry*>(Allocate(sizeof(Entry)));
  second->value = object;
  auto* first = static_cast<Entry*>(Allocate(sizeof(Entry)));
  first->next = second;
  g_other[2] = first;
  Print("both", reinterpret_cast<uintptr_t>(object));
}

void TakeBoth() {
  MakeBoth();
  Take(g_file);
}

// Ten thousand entries in a row.
__attribute__((noinline)) void MakeList() {
  for (int i = 0; i < 10000; ++i) {
    auto* entry = static_cast<Entry*>(Allocate(sizeof(Entry)));
    entry->next = static_cast<Entry*>(g_other[1]);
    g_other[1] = entry;
    if (i == 0) Print("last", reinterpret_cast<uintptr_t>(entry));
  }
}

void TakeList() {
  MakeList();
  Take(g_file);
}

// Kept without a word: an object that is not to be collected, and one that waits for its finalizer.
__attribute__((noinline)) void MakeWordless() {
  void* object = GC_MALLOC_UNCOLLECTABLE(700);
  if (object == nullptr) abort();
  Print("uncollectable", reinterpret_cast<uintptr_t>(object));
  object = Allocate(900);
  GC_REGISTER_FINALIZER(
      object, [](void*, void*) {}, nullptr, nullptr, nullptr);
  Print("finalized", reinterpret_cast<uintptr_t>(object));
}

void TakeWordless() {
  MakeWordless();
  Take(g_file);
}

// A list whose entries lie between objects of another size.
struct Pair {
  Entry entry;
  void* other[4];
};
__attribute__((noinline)) void MakePairs() {
  for (int i = 0; i < 1000; ++i) {
    auto* entry = static_cast<Entry*>(Allocate(sizeof(Entry)));
    auto* pair = static_cast<Pair*>(Allocate(sizeof(Pair)));
    pair->entry.next = static_cast<Entry*>(g_other[3]);
    entry->next = &pair->entry;
    g_other[3] = entry;
    if (i == 0) Print("pair", reinterpret_cast<uintptr_t>(pair));
  }
  // And no two alike in a row.
  void** last = &g_other[0];
  for (size_t i = 0; i < 200; ++i) {
    auto* next = static_cast<void**>(Allocate(16 * (1 + i * i % 61)));
    *last = next;
    last = next;
  }
  Print("different", reinterpret_cast<uintptr_t>(last));
}

void TakePairs() {
  MakePairs();
  Take(g_file);
}

// An object to whose middle a word leads that is known to be a pointer, and a number.
__attribute__((noinline)) void MakeKnown() {
  char* object = static_cast<char*>(Allocate(100));
  const GC_word bitmap[1] = {2};
  const GC_descr descriptor = GC_make_descriptor(bitmap, 4);
  auto** typed = static_cast<void**>(GC_MALLOC_EXPLICITLY_TYPED(32, descriptor));
  typed[1] = object + 8;
  g_other[0] = typed;
  g_number = reinterpret_cast<uintptr_t>(object) + 16;
  Print("object", reinterpret_cast<uintptr_t>(object));
}

void TakeKnown() {
  MakeKnown();
  Take(g_file);
}

// An object held by a variable below more of the stack than a snapshot has.
__attribute__((noinline)) void TakeBelow(int levels) {
  char bytes[4096];
  memset(bytes, 0, sizeof bytes);
  asm volatile("" : : "r"(bytes) : "memory");
  if (levels == 0) {
    Take(g_file);
  } else {
    TakeBelow(levels - 1);
  }
  asm volatile("" : : "r"(bytes) : "memory");  // no call in place of the return
}

__attribute__((noinline)) void TakeDeep() {
  void* volatile held = Allocate(3000);
  Print("held", reinterpret_cast<uintptr_t>(held));
  TakeBelow(200);
  if (held == nullptr) abort();
}

// Objects side by side: the word of the second one is one past the end of the first.
__attribute__((noinline)) void MakeNeighbours() {
  auto* before = static_cast<char*>(Allocate(16));
  for (;;) {
    auto* next = static_cast<char*>(Allocate(16));
    if (next == before + 16 || before == next + 16) {
      g_other[0] = next < before ? before : next;
      g_other[1] = next < before ? next : before;
      break;
    }
    before = next;
  }
  Print("first", reinterpret_cast<uintptr_t>(g_other[1]));
  Print("second", reinterpret_cast<uintptr_t>(g_other[0]));
}

void TakeNeighbours() {
  MakeNeighbours();
  Take((std::string(g_file) + ".2").c_str());
  g_other[1] = nullptr;
  Take(g_file);
}

// An object that only a handler on an alternate stack holds.
std::atomic<int> g_state;
void OnSignal(int) {
  void* volatile held = PointerOf(g_hidden_object);
  g_state = 1;
  while (g_state == 1) usleep(1000);
  if (held == nullptr) abort();
}

void* AlternateWorker(void*) {
  stack_t stack = {};
  stack.ss_size = 1 << 16;
  stack.ss_sp = malloc(stack.ss_size);
  struct sigaction action = {};
  action.sa_handler = OnSignal;
  action.sa_flags = SA_ONSTACK;
  if (sigaltstack(&stack, nullptr) != 0 || sigaction(SIGUSR1, &action, nullptr) != 0) abort();
  g_hidden_object = MakeHidden();
  Print("held", g_hidden_object ^ kHidden);
  ClearStack();
  raise(SIGUSR1);
  void* bytes = stack.ss_sp;
  stack.ss_flags = SS_DISABLE;
  sigaltstack(&stack, nullptr);
  free(bytes);
  return nullptr;
}

void TakeAlternate() {
  pthread_t thread;
  if (pthread_create(&thread, nullptr, AlternateWorker, nullptr) != 0) abort();
  while (g_state != 1) usleep(1000);
  Take(g_file);
  g_state = 2;
  pthread_join(thread, nullptr);
}

// Data of a finalizer of a live object, and a thread whose name is meant for a terminal.
void OnDeath(void*, void*) {}
__attribute__((noinline)) void MakeClosure() {
  void* data = Allocate(600);
  g_other[0] = Allocate(40);
  GC_REGISTER_FINALIZER(g_other[0], OnDeath, data, nullptr, nullptr);
  Print("data", reinterpret_cast<uintptr_t>(data));
  Print("owner", reinterpret_cast<uintptr_t>(g_other[0]));
}

#ifdef __x86_64__
// Holds an object by a register alone, which functions that it calls save.
__attribute__((noinline)) void TakeRegister() {
  register void* held __asm__("r12") = Allocate(3000);
  Print("held", reinterpret_cast<uintptr_t>(held));
  __asm__ volatile("" : "+r"(held));
  Take(g_file);
  __asm__ volatile("" : "+r"(held));
}
#endif

void* HostileWorker(void*) {
  pthread_setname_np(pthread_self(), "a\033[31m\nb");
  HoldOnStack();
  return nullptr;
}

void TakeHostile() {
  MakeClosure();
  pthread_barrier_init(&g_barrier, nullptr, 2);
  pthread_t thread;
  if (pthread_create(&thread, nullptr, HostileWorker, nullptr) != 0) abort();
  pthread_barrier_wait(&g_barrier);
  Take(g_file);
  pthread_barrier_wait(&g_barrier);
  pthread_join(thread, nullptr);
}

struct Case {
  const char* name;
  void (*run)();
};
constexpr Case kCases[] = {{"map", TakeMap},
                           {"growth", TakeGrowth},
                           {"stack", TakeStack},
                           {"number", TakeNumber},
                           {"both", TakeBoth},
                           {"list", TakeList},
                           {"wordless", TakeWordless},
                           {"pairs", TakePairs},
                           {"known", TakeKnown},
                           {"deep", TakeDeep},
                           {"hostile", TakeHostile},
                           {"neighbours", TakeNeighbours},
#ifdef __x86_64__
                           {"register", TakeRegister},
#endif
                           {"alternate", TakeAlternate}};

}  // namespace

int main(int argc, char** argv) {
  GC_INIT();
  if (argc != 3) return 2;
  g_file = argv[2];
  for (const Case& each : kCases) {
    if (strcmp(each.name, argv[1]) != 0) continue;
    each.run();
    return 0;
  }
  return 2;
}
