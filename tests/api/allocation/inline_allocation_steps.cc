// The allocation path that is compiled into programs, interrupted after each of its instructions by
// a full collection. Whatever the thread has read or written of its bump by then, the objects that
// it has made live, those that it is about to make are no other object, and none is lost.
#define GLEANER_INLINE_MALLOC
#include <gc.h>
#include <signal.h>
#include <ucontext.h>
#include <x86intrin.h>

#include "check.h"

namespace {

constexpr unsigned long long kTrapFlag = 0x100;
constexpr size_t kBytes = 48;

struct Node {
  Node *next;
  uintptr_t number;
  uintptr_t rest[4];
};
static_assert(sizeof(Node) == kBytes, "a size that has the path");

// The code that is interrupted: all other code goes at full speed, above all the library's.
#define STEPPED __attribute__((noinline, section("stepped")))
extern "C" const char __start_stepped[], __stop_stepped[];

volatile unsigned long g_steps;

void OnStep(int, siginfo_t *, void *context) {
  const auto at = reinterpret_cast<const char *>(
      static_cast<ucontext_t *>(context)->uc_mcontext.gregs[REG_RIP]);
  if (at < __start_stepped || at >= __stop_stepped) return;
  g_steps = g_steps + 1;
  GC_gcollect();
}

// `count` new nodes, the last one first.
STEPPED Node *Make(Node *next, uintptr_t count) {
  __writeeflags(__readeflags() | kTrapFlag);
  for (uintptr_t i = 0; i < count; ++i) {
    auto *node = static_cast<Node *>(GC_MALLOC(kBytes));
    node->next = next;
    node->number = i;
    next = node;
  }
  __writeeflags(__readeflags() & ~kTrapFlag);
  return next;
}

NOINLINE void Try(uintptr_t before) {
  // So that the path begins at another place of a window.
  Node *list = nullptr;
  for (uintptr_t i = 0; i < before; ++i) {
    auto *node = static_cast<Node *>(GC_MALLOC(kBytes));
    node->next = list;
    node->number = 1000 + i;
    list = node;
  }
  constexpr uintptr_t kCount = 12;
  list = Make(list, kCount);
  // What the collections have freed is used again, once a collection has listed its page.
  for (int i = 0; i < 4000; ++i) {
    if (i % 1000 == 0) GC_gcollect();
    memset(GC_MALLOC(kBytes), 0xee, kBytes);
  }
  for (uintptr_t i = kCount; i-- != 0; list = list->next) {
    CHECK_EQ(list->number, i);
    for (const uintptr_t word : list->rest) CHECK_EQ(word, 0);
  }
  for (uintptr_t i = before; i-- != 0; list = list->next) CHECK_EQ(list->number, 1000 + i);
  CHECK(list == nullptr);
}

}  // namespace

int main() {
  GC_INIT();
#ifdef GLEANER_HAS_BUMP
  CHECK_EQ(gleaner_offers_bump(), on_gleaner());
#endif
  struct sigaction action = {};
  action.sa_sigaction = OnStep;
  action.sa_flags = SA_SIGINFO;
  CHECK_EQ(sigaction(SIGTRAP, &action, nullptr), 0);
  constexpr uintptr_t kBefore[] = {0, 1, 40, 80, 84};
  for (const uintptr_t before : kBefore) Try(before);
  fprintf(stderr, "%lu steps\n", static_cast<unsigned long>(g_steps));
  CHECK_GE(g_steps, 500);
  return check_result();
}
