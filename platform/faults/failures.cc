#include "platform/faults/failures.h"

#ifdef GLEANER_VERIFY

#include "platform/common/units.h"

namespace gleaner::platform {

namespace {

// Accessed relaxed: nothing else is published with these.
uint32_t g_calls = 0;
uint32_t g_seed = 0;
uint32_t g_sorts = 0;
uint64_t g_made[8] = {};  // calls of each sort

__thread uint32_t t_draw __attribute__((tls_model("initial-exec"))) = 0;

}  // namespace

void SetFailures(uint32_t calls, uint32_t seed, uint32_t sorts) {
  // Relaxed, here and in Fails: numbers by themselves.
  __atomic_store_n(&g_seed, seed, __ATOMIC_RELAXED);
  __atomic_store_n(&g_sorts, sorts, __ATOMIC_RELAXED);
  __atomic_store_n(&g_calls, calls, __ATOMIC_RELAXED);
}

bool Fails(Failing sort) {
  const uint32_t calls = __atomic_load_n(&g_calls, __ATOMIC_RELAXED);  // a number by itself
  if (calls == 0 || (__atomic_load_n(&g_sorts, __ATOMIC_RELAXED) & SetOf(sort)) == 0) return false;
  const uint32_t seed = __atomic_load_n(&g_seed, __ATOMIC_RELAXED);  // a number by itself
  const auto kind = static_cast<uint64_t>(sort);
  const uint64_t made = __atomic_fetch_add(&g_made[kind], 1, __ATOMIC_RELAXED);  // a count
  const uint64_t in_a_row = made >> (seed % 4 * 2);
  if (Mix64(Mix64(seed * 8 + kind) ^ in_a_row) % calls != 0) return false;
  t_draw = static_cast<uint32_t>(Mix64(seed ^ made * 8 ^ kind) >> 32);
  return true;
}

uint32_t FailureDraw() { return t_draw; }

}  // namespace gleaner::platform

#endif
