/* gleaner.h's calls for memory nodes, on whatever machine: what they return, and that memory and
   contents are right. Where the memory lies is for tests/numa, which runs this program, too. */
#include "check.h"

#include <gleaner.h>
#include <sys/mman.h>

enum { OS_PAGE = 4096, BYTES = 100000 };

static struct gleaner_placement parsed(const char *text) {
  struct gleaner_placement placement;
  CHECK_EQ(gleaner_parse_placement(text, &placement), 0);
  return placement;
}

static char *map(size_t bytes, int protection) {
  char *p = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED);
  return p;
}

static int is_filled(const char *p, size_t bytes, char with) {
  for (size_t i = 0; i < bytes; i++) {
    if (p[i] != with) return 0;
  }
  return 1;
}

/* Memory of earlier objects, too, and without a collection between. */
static void placed_objects_are_zero(void) {
  static const char *const texts[] = {"local", "interleave", "cyclic:all:4k", "cyclic:all:2m"};
  for (size_t i = 0; i < 40; i++) {
    const struct gleaner_placement placement = parsed(texts[i % 4]);
    struct gleaner_placed placed;
    char *p;
    for (size_t size = 1; size <= BYTES; size = size * 7 + 3) {
      char *before = GC_MALLOC_ATOMIC(BYTES);
      memset(before, 0x5a, BYTES);
      GC_free(before);
      p = i % 2 ? gleaner_malloc_placed(size, &placement, &placed, sizeof placed)
                : gleaner_malloc_atomic_placed(size, &placement, &placed, sizeof placed);
      CHECK(p != NULL && GC_base(p) == p);
      CHECK_GE(GC_size(p), size);
      CHECK(is_filled(p, GC_size(p), 0));
      CHECK_EQ(placed.pages, placed.placed + placed.elsewhere + placed.absent);
      memset(p, 0x5a, size);
      GC_free(p);
    }
  }
}

/* Where there is one node, nothing is tried. */
static void try_all_patterns(char *memory, size_t bytes) {
  static const char *const texts[] = {"local",       "interleave", "cyclic:all:4k",
                                      "cyclic:0:8k", "bind:0",     "preferred:0"};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const struct gleaner_placement placement = parsed(texts[i]);
    struct gleaner_placed placed;
    CHECK_EQ(gleaner_place(memory, bytes, &placement, &placed, sizeof placed), 0);
    CHECK_EQ(placed.pages, bytes / OS_PAGE);
    CHECK_EQ(placed.pages, placed.placed + placed.elsewhere + placed.absent);
  }
}

static void memory_that_cannot_be_touched(void) {
  char *memory = map(16 * OS_PAGE, PROT_READ);
  try_all_patterns(memory, 16 * OS_PAGE);
  CHECK_EQ(gleaner_first_touch(memory, 16 * OS_PAGE, 0, 4), EACCES);
  CHECK_EQ(mprotect(memory, 16 * OS_PAGE, PROT_READ | PROT_WRITE), 0);
  CHECK_EQ(munmap(memory + 8 * OS_PAGE, 8 * OS_PAGE), 0);
  CHECK_EQ(gleaner_first_touch(memory, 8 * OS_PAGE, OS_PAGE, 4), 0);
  CHECK_EQ(gleaner_first_touch(memory, 16 * OS_PAGE, 0, 4), ENOMEM);
  try_all_patterns(memory, 16 * OS_PAGE);
  try_all_patterns(memory + 8 * OS_PAGE, 8 * OS_PAGE);
  try_all_patterns((char *)((size_t)&try_all_patterns & ~(size_t)(OS_PAGE - 1)), OS_PAGE);
}

/* Blocks larger than the memory, and so large that sums of them wrap around. */
static void large_blocks(void) {
  char *memory = map(16 * OS_PAGE, PROT_READ | PROT_WRITE);
  struct gleaner_placement placement = parsed("cyclic");
  struct gleaner_placed placed;
  memset(memory, 7, 16 * OS_PAGE);
  for (size_t block = OS_PAGE; block != 0; block *= 2) {
    placement.block_bytes = block;
    CHECK_EQ(gleaner_place(memory, 16 * OS_PAGE, &placement, &placed, sizeof placed), 0);
    CHECK_EQ(placed.placed, 16);
    CHECK_EQ(gleaner_first_touch(memory, 16 * OS_PAGE, block, 5), 0);
  }
  placement.block_bytes = SIZE_MAX - OS_PAGE + 1;
  CHECK_EQ(gleaner_place(memory, 16 * OS_PAGE, &placement, &placed, sizeof placed), 0);
  CHECK_EQ(gleaner_first_touch(memory, 16 * OS_PAGE, SIZE_MAX, 4096), 0);
  CHECK_EQ(gleaner_first_touch(memory, 16 * OS_PAGE, 1, 3), 0);
  CHECK_EQ(gleaner_first_touch(memory + 5, 0, 0, 3), 0);
  CHECK(is_filled(memory, 16 * OS_PAGE, 7));
}

/* A thread with the smallest stack. */
static void *on_a_small_stack(void *memory) {
  const struct gleaner_placement placement = parsed("interleave");
  CHECK_EQ(gleaner_set_thread_placement(&placement), 0);
  CHECK(GC_MALLOC(BYTES) != NULL);
  CHECK_EQ(gleaner_place(memory, BYTES, &placement, NULL, 0), 0);
  CHECK_EQ(gleaner_first_touch(memory, BYTES, 4096, 3), 0);
  return NULL;
}

static void small_stacks(void) {
  char *memory = GC_MALLOC_ATOMIC(BYTES);
  pthread_attr_t attributes;
  pthread_t thread;
  memset(memory, 9, BYTES);
  CHECK_EQ(pthread_attr_init(&attributes), 0);
  CHECK_EQ(pthread_attr_setstacksize(&attributes, 32768), 0);
  CHECK_EQ(pthread_create(&thread, &attributes, on_a_small_stack, memory), 0);
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK(is_filled(memory, BYTES, 9));
}

/* Threads place and touch one object at once, while collections go on. */
static char *shared;

static void *place_it(void *arg) {
  static const char *const texts[] = {"interleave", "cyclic:all:8k", "local"};
  for (size_t i = 0; i < 30; i++) {
    const struct gleaner_placement placement = parsed(texts[i % 3]);
    char *own = gleaner_malloc_placed(20000, &placement, NULL, 0);
    CHECK_EQ(gleaner_place(shared, BYTES, &placement, NULL, 0), 0);
    CHECK_EQ(gleaner_first_touch(shared, BYTES, 8192, 2), 0);
    CHECK(is_filled(own, 20000, 0));
    memset(own, 1, 20000);
    own = GC_REALLOC(own, i % 2 ? 60000 : 9000);
    CHECK(is_filled(own, 9000, 1));
    if (i % 3 != 0) GC_free(own);
  }
  return NULL;
}

static void many_threads(void) {
  shared = GC_MALLOC_ATOMIC(BYTES);
  memset(shared, 3, BYTES);
  run_in_threads(6, place_it, NULL, 10);
  CHECK(is_filled(shared, BYTES, 3));
}

static void wrong_memory(void) {
  const struct gleaner_placement placement = parsed("local");
  uint64_t pages[1];
  CHECK_EQ(gleaner_place((char *)UINTPTR_MAX - 2000, 1900, &placement, NULL, 0), EINVAL);
  CHECK_EQ(gleaner_place((char *)OS_PAGE, SIZE_MAX / 2, &placement, NULL, 0), EINVAL);
  CHECK_EQ(gleaner_count_pages((char *)UINTPTR_MAX - 2000, 1900, pages, 1), EINVAL);
  CHECK_EQ(gleaner_first_touch((char *)OS_PAGE, SIZE_MAX / 2, 0, 1), EINVAL);
}

int main(void) {
  fail_after(120);
  GC_INIT();
  if (!on_gleaner()) return check_result();
  placed_objects_are_zero();
  memory_that_cannot_be_touched();
  large_blocks();
  small_stacks();
  many_threads();
  wrong_memory();
  return check_result();
}
