// Each way to store with the barrier, interrupted after each of its instructions by a collector
// that takes the card and scans the slot: all interleavings of the two there are, since a processor
// lets others see stores in their order (x86-64 only). The processor's trap flag makes the
// interruptions.
//
// Whatever is taken when, the collector has seen the value in the end. And where it is stopped for
// good between the store and the card, the value is in a register or on the stack, where a final
// pause finds it: the callers have its complement only.
#define GC_THREADS
#include <gleaner.hpp>
#include <signal.h>
#include <ucontext.h>
#include <x86intrin.h>

#include "check.h"

namespace {

constexpr unsigned long long kTrapFlag = 0x100;
constexpr size_t kRedZone = 128;  // below the stack pointer, for leaf functions
constexpr size_t kElements = 100;
constexpr size_t kElement = 37;

struct Pair {
  void *first;
  uintptr_t second;
};

// What the collector knows. Handler and test are one thread.
struct {
  void *volatile *slot;
  uintptr_t hidden;     // complement of the value
  uintptr_t stack_end;  // of the frames that may have the value
  unsigned long steps;
  unsigned long fetches;  // that took a mark
  unsigned long unkept;   // times at which nobody would have found the value
  bool seen;
} collector;

unsigned char *CardOf(void *volatile *slot) {
  return &gleaner_card_table[(reinterpret_cast<uintptr_t>(slot) >> GLEANER_CARD_SHIFT) &
                             gleaner_card_mask];
}

__attribute__((no_sanitize("address"))) bool IsHeld(const mcontext_t &registers) {
  for (const greg_t r : registers.gregs) {
    if (static_cast<uintptr_t>(r) == ~collector.hidden) return true;
  }
  const auto top = static_cast<uintptr_t>(registers.gregs[REG_RSP]) - kRedZone;
  for (uintptr_t at = top & -sizeof at; at < collector.stack_end; at += sizeof at) {
    if (*reinterpret_cast<volatile uintptr_t *>(at) == ~collector.hidden) return true;
  }
  return false;
}

void FetchAndScan() {
  if (__atomic_exchange_n(CardOf(collector.slot), 0, __ATOMIC_ACQUIRE) == 0) return;
  ++collector.fetches;
  collector.seen |= reinterpret_cast<uintptr_t>(*collector.slot) == ~collector.hidden;
}

void OnStep(int, siginfo_t *, void *context) {
  ++collector.steps;
  FetchAndScan();
  const bool stored = reinterpret_cast<uintptr_t>(*collector.slot) == ~collector.hidden;
  if (stored && !collector.seen && !IsHeld(static_cast<ucontext_t *>(context)->uc_mcontext)) {
    ++collector.unkept;
  }
}

// In the register of results, which is the first to be used for something else.
NOINLINE void *Reveal(uintptr_t hidden) {
  __asm__ volatile("");  // not known to be without effects
  return reinterpret_cast<void *>(~hidden);
}

gc::array<void *> pointers;
gc::array<Pair> pairs;

struct Way {
  const char *name;
  void (*store)(void **slot, uintptr_t hidden);
  void **slot;
};

NOINLINE void ByMacro(void **slot, uintptr_t hidden) { GLEANER_STORE(slot, Reveal(hidden)); }
NOINLINE void ByCall(void **slot, uintptr_t hidden) {
  GC_ptr_store_and_dirty(slot, Reveal(hidden));
}
NOINLINE void ByPtr(void **slot, uintptr_t hidden) {
  *reinterpret_cast<gc::ptr<void> *>(slot) = Reveal(hidden);
}
NOINLINE void ByElement(void **, uintptr_t hidden) { pointers[kElement] = Reveal(hidden); }
NOINLINE void ByStruct(void **, uintptr_t hidden) { pairs[kElement] = Pair{Reveal(hidden), 1}; }
NOINLINE void ByFill(void **, uintptr_t hidden) { pointers.fill(Reveal(hidden)); }

NOINLINE void Try(const Way &way, uintptr_t hidden) {
  *way.slot = nullptr;
  way.store(way.slot, hidden);  // binds what is bound by the first call
  *way.slot = nullptr;
  scrub_stack();
  *CardOf(way.slot) = 0;
  collector = {};
  collector.slot = way.slot;
  collector.hidden = hidden;
  collector.stack_end = reinterpret_cast<uintptr_t>(__builtin_frame_address(0));
  __writeeflags(__readeflags() | kTrapFlag);
  way.store(way.slot, hidden);
  __writeeflags(__readeflags() & ~kTrapFlag);
  FetchAndScan();
  fprintf(stderr, "%s: %lu steps, %lu fetches\n", way.name, collector.steps, collector.fetches);
  CHECK_GE(collector.steps, 6);
  CHECK_GE(collector.fetches, 1);
  CHECK(collector.seen);
  CHECK_EQ(collector.unkept, 0);
}

}  // namespace

int main() {
  GC_set_manual_vdb_allowed(1);
  GC_INIT();
  GC_enable_incremental();
  CHECK_EQ(GC_get_actual_vdb(), GC_VDB_MANUAL);
  GC_disable();  // no collection but the test's
  struct sigaction action = {};
  action.sa_sigaction = OnStep;
  action.sa_flags = SA_SIGINFO;
  CHECK_EQ(sigaction(SIGTRAP, &action, nullptr), 0);

  auto *slots = static_cast<void **>(GC_malloc(kElements * sizeof(void *)));
  pointers = gc::array<void *>(kElements);
  pairs = gc::array<Pair>(kElements);
  const uintptr_t hidden = ~reinterpret_cast<uintptr_t>(GC_malloc_uncollectable(16));
  const Way ways[] = {
      {"GLEANER_STORE", ByMacro, &slots[kElement]},
      {"GC_ptr_store_and_dirty", ByCall, &slots[kElement]},
      {"gc::ptr", ByPtr, &slots[kElement]},
      {"gc::array of pointers", ByElement, &pointers.data()[kElement]},
      {"gc::array of structures", ByStruct, &pairs.data()[kElement].first},
      {"gc::array::fill", ByFill, &pointers.data()[kElement]},
  };
  for (const Way &way : ways) Try(way, hidden);
  return check_result();
}
