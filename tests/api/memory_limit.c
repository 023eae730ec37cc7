/* The soft limit of the process's memory. */
#include <gleaner.h>

#include "check.h"

static int g_warnings;
static GC_word g_limit;

static void GC_CALLBACK on_warning(char *message, GC_word argument) {
  if (strstr(message, "memory limit") == NULL) return;
  ++g_warnings;
  g_limit = argument;
}

static void allocate(size_t bytes) {
  size_t i;
  for (i = 0; i < bytes / 64; ++i) CHECK(GC_MALLOC(64) != NULL);
}

static size_t anonymous_bytes(void) {
  unsigned long size, resident, shared;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  CHECK_EQ(fscanf(file, "%lu %lu %lu", &size, &resident, &shared), 3);
  fclose(file);
  return (resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

/* 32 MiB live, and much garbage, below a limit of 44 MiB for the heap. Marking pointer-free objects
   costs so little that the limit is never let go. */
static void stay_below(void) {
  enum { kLive = 8192, kBytes = 4096, kRounds = 20 };
  const size_t most = (size_t)44 << 20;
  struct gleaner_modes modes;
  void **live = GC_MALLOC(kLive * sizeof *live);
  size_t highest = 0;
  int i;
  for (i = 0; i < kLive; ++i) live[i] = memset(GC_MALLOC_ATOMIC(kBytes), 1, kBytes);
  GC_gcollect();
  gleaner_set_memory_limit(anonymous_bytes() - GC_get_heap_size() + most);
  GC_gcollect();
  for (i = 0; i < kRounds * kLive; ++i) {
    live[i % kLive] = memset(GC_MALLOC_ATOMIC(kBytes), 1, kBytes);
    if (GC_get_heap_size() > highest) highest = GC_get_heap_size();
  }
  CHECK_EQ(gleaner_get_modes(&modes, sizeof modes), sizeof modes);
  if (modes.automatic || !modes.concurrent) CHECK(highest <= most + (1 << 20));
  CHECK_EQ(g_warnings, 0);
}

int main(void) {
  GC_word before;
  GC_INIT();
  GC_set_warn_proc(on_warning);
  /* No limit. */
  gleaner_set_memory_limit(UINT64_MAX);
  CHECK_EQ(gleaner_get_memory_limit(), 0);
  allocate(40u << 20);
  CHECK_EQ(g_warnings, 0);

  stay_below();

  /* One that cannot be kept is let go, with one warning, and the program goes on. */
  gleaner_set_memory_limit(4096);
  CHECK_EQ(gleaner_get_memory_limit(), 4096);
  before = GC_get_gc_no();
  allocate(40u << 20);
  CHECK_EQ(g_warnings, 1);
  CHECK_EQ(g_limit, 4096);
  CHECK(GC_get_gc_no() > before);

  /* Another one is told of again. */
  gleaner_set_memory_limit(8192);
  allocate(40u << 20);
  CHECK_EQ(g_warnings, 2);
  CHECK_EQ(g_limit, 8192);

  /* There is room enough below this one. */
  gleaner_set_memory_limit((uint64_t)1 << 40);
  allocate(40u << 20);
  CHECK_EQ(g_warnings, 2);
  return check_result();
}
