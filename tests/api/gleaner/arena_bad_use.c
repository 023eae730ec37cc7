/* gleaner_arena_* used wrongly: the result, a message that names the call and the address, and
   nothing changed. */
#include "capture.h"

#include <gleaner.h>
#include <sys/resource.h>

static struct captured said;
static char memory[4096];

static void bad_options(void) {
  struct gleaner_arena_options good = GLEANER_ARENA_OPTIONS, bad;
#define REFUSED_OPTION(field, value)                 \
  do {                                               \
    bad = good;                                      \
    bad.field = value;                               \
    errno = 0;                                       \
    CHECK_NULL(gleaner_arena_create(1 << 20, &bad)); \
    CHECK_EQ(errno, EINVAL);                         \
  } while (0)
  REFUSED_OPTION(size, 0);
  REFUSED_OPTION(size, sizeof good + 1);
  REFUSED_OPTION(policy, -1);
  REFUSED_OPTION(policy, 4);
  REFUSED_OPTION(flags, 4);
  REFUSED_OPTION(granularity, 0);
  REFUSED_OPTION(granularity, 8);
  REFUSED_OPTION(granularity, 300);
  REFUSED_OPTION(granularity, 8192);
  REFUSED_OPTION(threshold, 262145);
}

static void bad_pools(void) {
#define NOT_CREATED(call, number) \
  do {                            \
    errno = 0;                    \
    CHECK_NULL(call);             \
    CHECK_EQ(errno, number);      \
  } while (0)
  NOT_CREATED(gleaner_arena_create(0, NULL), EINVAL);
  NOT_CREATED(gleaner_arena_create_on(NULL, 4096, NULL), EINVAL);
  NOT_CREATED(gleaner_arena_create_on(memory, 0, NULL), EINVAL);
  NOT_CREATED(gleaner_arena_create_on(memory, 255, NULL), EINVAL);
  NOT_CREATED(gleaner_arena_create_on(memory, SIZE_MAX, NULL), EINVAL);
  NOT_CREATED(gleaner_arena_create_on((char *)UINTPTR_MAX, 1, NULL), EINVAL);
}

static void too_large_pools(void) {
  NOT_CREATED(gleaner_arena_create(SIZE_MAX, NULL), ENOMEM);
  NOT_CREATED(gleaner_arena_create(SIZE_MAX / 2, NULL), ENOMEM);
  NOT_CREATED(gleaner_arena_create((size_t)1 << 60, NULL), ENOMEM);
}

static void bad_requests(void) {
  gleaner_arena *arena = gleaner_arena_create(1 << 20, NULL);
  errno = 0;
  CHECK_NULL(gleaner_arena_allocate(arena, 100, 24));
  CHECK_EQ(errno, EINVAL);
  errno = 0;
  CHECK_NULL(gleaner_arena_allocate_zeroed(arena, 100, SIZE_MAX));
  CHECK_EQ(errno, EINVAL);
}

/* Refused, but not wrong. */
static void impossible_requests(void) {
  static const size_t sizes[] = {(1 << 20) + 1,  SIZE_MAX,     SIZE_MAX - 1,
                                 SIZE_MAX - 255, SIZE_MAX / 2, (size_t)1 << 63};
  gleaner_arena *arena = gleaner_arena_create(1 << 20, NULL);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    NOT_CREATED(gleaner_arena_allocate(arena, sizes[i], 0), ENOMEM);
    NOT_CREATED(gleaner_arena_allocate(arena, sizes[i], (size_t)1 << 63), ENOMEM);
    NOT_CREATED(gleaner_arena_allocate_zeroed(arena, sizes[i], 1), ENOMEM);
  }
  NOT_CREATED(gleaner_arena_allocate(arena, 1, (size_t)1 << 63), ENOMEM);
  CHECK(gleaner_arena_allocate(arena, 0, 0) != NULL);
  CHECK_EQ(gleaner_arena_destroy(arena), 0);
}

static void bad_frees(void) {
  gleaner_arena *arena = gleaner_arena_create(1 << 24, NULL);
  char *small = gleaner_arena_allocate(arena, 1000, 0);
  char *large = gleaner_arena_allocate(arena, 1000000, 0);
  struct gleaner_arena_stats before, after;
  fprintf(stderr, "small %p, large %p, memory %p\n", (void *)small, (void *)large, (void *)memory);
  gleaner_arena_get_stats(arena, &before, sizeof before);
  CHECK_EQ(gleaner_arena_free(arena, small + 1), EINVAL);
  CHECK_EQ(gleaner_arena_free(arena, small + 256), EINVAL);
  CHECK_EQ(gleaner_arena_free(arena, large + 256), EINVAL);
  CHECK_EQ(gleaner_arena_free(arena, large + 1), EINVAL);
  CHECK_EQ(gleaner_arena_free(arena, memory), EINVAL);
  CHECK_EQ(gleaner_arena_free(arena, (void *)8), EINVAL);
  CHECK_EQ(gleaner_arena_usable_size(arena, memory), 0);
  gleaner_arena_get_stats(arena, &after, sizeof after);
  CHECK_EQ(after.bad_frees, 6);
  after.bad_frees = 0;
  CHECK_EQ(memcmp(&before, &after, sizeof after), 0);
  CHECK_EQ(gleaner_arena_free(arena, small), 0);
  CHECK_EQ(gleaner_arena_free(arena, large), 0);
  CHECK_EQ(gleaner_arena_free(arena, small), EINVAL);
  CHECK_EQ(gleaner_arena_free(arena, large), EINVAL);
}

static void bad_arenas(void) {
  struct gleaner_arena_stats stats;
  gleaner_arena *arena = gleaner_arena_create_on(memory, sizeof memory, NULL), *next;
  CHECK_EQ(gleaner_arena_get_stats(arena, NULL, sizeof stats), 0);
  CHECK_EQ(gleaner_arena_destroy(arena), 0);
  CHECK_EQ(gleaner_arena_destroy(arena), EINVAL);
  CHECK_EQ(gleaner_arena_destroy(NULL), EINVAL);
  CHECK_EQ(gleaner_arena_destroy((gleaner_arena *)memory), EINVAL);
  /* An arena made later is not taken for it. */
  for (int i = 0; i < 20; i++) {
    next = gleaner_arena_create_on(memory, sizeof memory, NULL);
    CHECK(next != NULL && next != arena);
    CHECK_EQ(gleaner_arena_destroy(arena), EINVAL);
    CHECK_EQ(gleaner_arena_destroy(next), 0);
  }
  errno = 0;
  CHECK_NULL(gleaner_arena_allocate(arena, 1, 0));
  CHECK_EQ(errno, EINVAL);
  CHECK_EQ(gleaner_arena_free(arena, memory), EINVAL);
  CHECK_EQ(gleaner_arena_free(NULL, NULL), EINVAL);
  CHECK_EQ(gleaner_arena_usable_size(arena, memory), 0);
  CHECK_EQ(gleaner_arena_trim(arena), 0);
  CHECK_EQ(gleaner_arena_get_stats(arena, &stats, sizeof stats), 0);
}

/* Memory is refused in the middle: NULL, and everything that was there stays usable. */
static void refused_memory(void) {
  struct rlimit limit;
  gleaner_arena *arena = gleaner_arena_create(1 << 26, NULL), *small;
  void *block = gleaner_arena_allocate(arena, 5000, 0);
  getrlimit(RLIMIT_AS, &limit);
  limit.rlim_cur = 1 << 20; /* less than there is: every mapping is refused */
  CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  for (size_t bytes = 4096; bytes <= 1 << 24; bytes *= 2) {
    NOT_CREATED(gleaner_arena_create(bytes, NULL), ENOMEM);
  }
  NOT_CREATED(gleaner_arena_create_on(memory, sizeof memory, NULL), ENOMEM);
  for (size_t bytes = 1; bytes < 1 << 22; bytes *= 3) {
    CHECK(gleaner_arena_allocate(arena, bytes, 0) != NULL);
  }
  CHECK_EQ(gleaner_arena_free(arena, block), 0);
  CHECK_EQ(gleaner_arena_destroy(arena), 0);
  limit.rlim_cur = limit.rlim_max;
  CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
  small = gleaner_arena_create_on(memory, sizeof memory, NULL);
  CHECK(small != NULL);
  CHECK_EQ(gleaner_arena_destroy(small), 0);
}

static void silent(void (*fn)(void)) {
  CAPTURE_WELL(&said, fn);
  CHECK_SILENT_ABOUT(&said, "gleaner");
}

int main(void) {
  char address[64];
  CAPTURE_WELL(&said, bad_options);
  CHECK_EQ(count_text(&said, "gleaner: gleaner_arena_create: the option "), 10);
  CHECK_SAYS(&said,
             "gleaner_arena_create: the option size is 0; it may be what GLEANER_ARENA_OPTIONS "
             "says, of headers not newer than the library\n");
  CHECK_SAYS(&said, "the option policy is 4; it may be one of enum gleaner_arena_policy\n");
  CHECK_SAYS(&said, "the option flags is 4; it may be a sum of enum gleaner_arena_flag\n");
  CHECK_SAYS(&said, "the option granularity is 300; it may be a power of two from 16 to 4096\n");
  CHECK_SAYS(&said, "the option threshold is 262145; it may be 0 to 262144\n");

  CAPTURE_WELL(&said, bad_pools);
  CHECK_EQ(count_text(&said, "gleaner: gleaner_arena_create"), 6);
  CHECK_SAYS(&said, "gleaner_arena_create: 0 bytes");
  CHECK_SAYS(&said, "gleaner_arena_create_on: the memory is NULL");
  snprintf(address, sizeof address, "gleaner_arena_create_on(%p, 255)", (void *)memory);
  CHECK_SAYS(&said, address);
  CHECK_SAYS(&said, " in it, or it wraps around\n");

  CAPTURE_WELL(&said, bad_requests);
  CHECK_SAYS(&said, "the alignment 24 is no power of two");
  CHECK_EQ(count_text(&said, "gleaner: gleaner_arena_allocate"), 2);

  CAPTURE_WELL(&said, bad_frees);
  CHECK_EQ(count_text(&said, "gleaner: gleaner_arena_free("), 8);
  CHECK_EQ(count_text(&said, "no block in use begins there"), 6);
  CHECK_EQ(count_text(&said, "not in this arena"), 2);
  snprintf(address, sizeof address, ", %p): not in this arena", (void *)memory);
  CHECK_SAYS(&said, address);

  CAPTURE_WELL(&said, bad_arenas);
  CHECK_EQ(count_text(&said, "): no such arena (destroyed before?)"), 29);
  CHECK_SAYS(&said, "gleaner_arena_get_stats: the result is NULL");

  silent(too_large_pools);
  silent(impossible_requests);
  silent(refused_memory);
  return check_result();
}
