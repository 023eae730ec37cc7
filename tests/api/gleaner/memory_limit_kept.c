/* A soft limit that the program can be kept below. */
#include <gleaner.h>

#include "check.h"

static int g_warnings;

static void GC_CALLBACK on_warning(char *message, GC_word argument) {
  g_warnings += strstr(message, "memory limit") != NULL;
}

static size_t anonymous_bytes(void) {
  unsigned long size, resident, shared;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file != NULL);
  CHECK_EQ(fscanf(file, "%lu %lu %lu", &size, &resident, &shared), 3);
  fclose(file);
  return (resident - shared) * (size_t)sysconf(_SC_PAGESIZE);
}

enum { kLive = 8192, kBytes = 4096, kRounds = 6, kUses = 200 };

/* An object that is used, so that the program takes far more processor time than its collections,
   also where markers wait for a processor that others keep busy. */
static void *used_object(void) {
  volatile char *object = GC_MALLOC_ATOMIC(kBytes);
  for (int i = 0; i < kUses; ++i) memset((void *)object, i, kBytes);
  return (void *)object;
}

/* 32 MiB live, and much garbage, below a limit of 44 MiB for the heap. The limit would be let go if
   collections took more than half of the processor time. */
static void stay_below(void) {
  const size_t max = (size_t)44 << 20;
  struct gleaner_modes modes;
  void **live = GC_MALLOC(kLive * sizeof *live);
  size_t highest = 0;
  for (int i = 0; i < kLive; ++i) live[i] = used_object();
  GC_gcollect();
  gleaner_set_memory_limit(anonymous_bytes() - GC_get_heap_size() + max);
  GC_gcollect();
  for (int i = 0; i < kRounds * kLive; ++i) {
    live[i % kLive] = used_object();
    if (GC_get_heap_size() > highest) highest = GC_get_heap_size();
  }
  CHECK_EQ(gleaner_get_modes(&modes, sizeof modes), sizeof modes);
  if (modes.automatic || !modes.concurrent) CHECK(highest <= max + (1 << 20));
  CHECK_EQ(g_warnings, 0);
}

int main(void) {
  GC_INIT();
  GC_set_warn_proc(on_warning);
  stay_below();
  return check_result();
}
