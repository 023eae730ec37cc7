/* An arena of 64 MiB for buffers that begin at huge pages, and a pool on memory of the program. */
#include <stdio.h>
#include <string.h>

#include "gleaner.h"

static char memory[1 << 20];

int main(void) {
  struct gleaner_arena_options options = GLEANER_ARENA_OPTIONS;
  struct gleaner_arena_stats stats;
  gleaner_arena *arena, *pool;
  char *buffer, *name;

  options.flags = GLEANER_ARENA_THREAD_SAFE | GLEANER_ARENA_HUGE_PAGES;
  options.resident_budget = 16 << 20;
  arena = gleaner_arena_create(64 << 20, &options);
  pool = gleaner_arena_create_on(memory, sizeof memory, NULL);
  if (arena == NULL || pool == NULL) return 1;

  buffer = gleaner_arena_allocate_zeroed(arena, 10 << 20, 2 << 20); /* a multiple of 2 MiB */
  name = gleaner_arena_allocate(pool, 100, 0);
  if (buffer == NULL || name == NULL || buffer[12345] != 0) return 1;
  strcpy(name, "a block of 256 bytes");

  if (gleaner_arena_allocate(arena, 60 << 20, 0) != NULL) return 1; /* full: NULL, ENOMEM */
  gleaner_arena_get_stats(arena, &stats, sizeof stats);
  printf("%s; %u MiB in use\n", name, (unsigned)(stats.used_bytes >> 20));

  if (gleaner_arena_free(arena, buffer) != 0) return 1;
  return gleaner_arena_destroy(arena) || gleaner_arena_destroy(pool); /* `name` goes with it */
}
