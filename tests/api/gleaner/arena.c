/* gleaner_arena_*: what each call promises, for every policy, on memory of both kinds; threads;
 * fork. */
#include "check.h"

#include <gleaner.h>

enum { kKiB = 1024, kMiB = 1024 * 1024 };

static struct gleaner_arena_options options_of(int policy, unsigned flags, size_t threshold) {
  struct gleaner_arena_options options = GLEANER_ARENA_OPTIONS;
  options.policy = policy;
  options.flags = flags;
  options.threshold = threshold;
  return options;
}

static struct gleaner_arena_stats stats_of(gleaner_arena *arena) {
  struct gleaner_arena_stats stats;
  CHECK_EQ(gleaner_arena_get_stats(arena, &stats, sizeof stats), sizeof stats);
  return stats;
}

static int is_all(const char *p, char value, size_t bytes) {
  return bytes == 0 || (p[0] == value && memcmp(p, p + 1, bytes - 1) == 0);
}

static void basics(gleaner_arena *arena) {
  static const size_t sizes[] = {0, 1, 255, 256, 257, 4096, 100000, 131072, 131073, 1000000};
  char *blocks[sizeof sizes / sizeof *sizes];
  struct gleaner_arena_stats stats = stats_of(arena);
  CHECK_EQ(stats.used_blocks, 0);
  CHECK_EQ(stats.used_bytes, 0);
  CHECK_EQ(stats.free_blocks != 0, 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const size_t alignment = (size_t)1 << (2 * i);
    blocks[i] = gleaner_arena_allocate(arena, sizes[i], alignment);
    CHECK(blocks[i] != NULL);
    CHECK_EQ((uintptr_t)blocks[i] % alignment, 0);
    CHECK_EQ((uintptr_t)blocks[i] % 256, 0);
    CHECK_GE(gleaner_arena_usable_size(arena, blocks[i]), sizes[i] != 0 ? sizes[i] : 1);
    memset(blocks[i], (int)i + 1, gleaner_arena_usable_size(arena, blocks[i]));
  }
  stats = stats_of(arena);
  CHECK_EQ(stats.used_blocks, sizeof sizes / sizeof *sizes);
  CHECK_EQ(stats.allocations - stats.frees, stats.used_blocks);
  CHECK_LE(stats.used_bytes, stats.pool_bytes);
  CHECK_LE(stats.largest_free, stats.pool_bytes - stats.used_bytes);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK(is_all(blocks[i], (char)(i + 1), gleaner_arena_usable_size(arena, blocks[i])));
    CHECK_EQ(gleaner_arena_free(arena, blocks[i]), 0);
    CHECK_EQ(gleaner_arena_usable_size(arena, blocks[i]), 0);
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    blocks[i] = gleaner_arena_allocate_zeroed(arena, sizes[i], 0);
    CHECK(blocks[i] != NULL);
    CHECK(is_all(blocks[i], 0, gleaner_arena_usable_size(arena, blocks[i])));
  }
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK_EQ(gleaner_arena_free(arena, blocks[i]), 0);
  }
  CHECK_EQ(gleaner_arena_free(arena, NULL), 0);
  CHECK_EQ(stats_of(arena).used_bytes, 0);
}

/* To the last block; refused; and from the first block again. */
static void fill(gleaner_arena *arena) {
  enum { kMax = 8192 };
  static char *blocks[kMax];
  const struct gleaner_arena_stats before = stats_of(arena);
  size_t count = 0, i;
  while (count < kMax && (blocks[count] = gleaner_arena_allocate(arena, 16384, 0)) != NULL) {
    count++;
  }
  CHECK_GE(count, before.pool_bytes / 16384 * 3 / 4);
  errno = 0;
  CHECK_NULL(gleaner_arena_allocate(arena, 16384, 0));
  CHECK_EQ(errno, ENOMEM);
  CHECK_EQ(stats_of(arena).failures, before.failures + 2);
  CHECK_EQ(gleaner_arena_free(arena, blocks[count / 2]), 0);
  blocks[count / 2] = gleaner_arena_allocate(arena, 16000, 0);
  CHECK(blocks[count / 2] != NULL);
  for (i = 0; i < count; i++) CHECK_EQ(gleaner_arena_free(arena, blocks[i]), 0);
  CHECK_EQ(stats_of(arena).used_blocks, 0);
}

static void residency(void) {
  struct gleaner_arena_options options = options_of(GLEANER_ARENA_BINNED, 0, 0);
  options.resident_budget = 8 * kMiB;
  options.decay_ms = 0;
  gleaner_arena *arena = gleaner_arena_create(64 * kMiB, &options);
  char *block = gleaner_arena_allocate(arena, 32 * kMiB, 0);
  memset(block, 1, 32 * kMiB);
  CHECK_EQ(gleaner_arena_free(arena, block), 0);
  CHECK_EQ(stats_of(arena).idle_bytes, 8 * kMiB);
  CHECK_EQ(stats_of(arena).discarded_bytes, 24 * kMiB);
  CHECK_EQ(gleaner_arena_trim(arena), 8 * kMiB);
  CHECK_EQ(stats_of(arena).idle_bytes, 0);
  CHECK_EQ(gleaner_arena_destroy(arena), 0);
}

/* Blocks of several threads do not overlap, and one thread frees what another has allocated. */
enum { kThreads = 4, kRounds = 20000, kShared = 64 };
static gleaner_arena *shared_arena;
static char *shared_blocks[kShared];
static volatile int stop_threads;

static void *churn(void *argument) {
  uint64_t state = (uintptr_t)argument;
  for (int i = 0; i < kRounds && !stop_threads; i++) {
    size_t usable;
    state = state * 6364136223846793005u + 1442695040888963407u;
    size_t size = (state >> 33) % (state >> 62 ? 3000 : 200000);
    char *block = gleaner_arena_allocate(shared_arena, size, 0);
    if (block != NULL) {
      usable = gleaner_arena_usable_size(shared_arena, block);
      block[0] = block[usable - 1] = (char)usable;
    }
    char *old =
        __atomic_exchange_n(&shared_blocks[(state >> 40) % kShared], block, __ATOMIC_ACQ_REL);
    if (old == NULL) continue;
    usable = gleaner_arena_usable_size(shared_arena, old);
    CHECK_NE(usable, 0);
    CHECK_EQ(old[0], (char)usable);
    CHECK_EQ(old[usable - 1], (char)usable);
    CHECK_EQ(gleaner_arena_free(shared_arena, old), 0);
  }
  return NULL;
}

static void churn_in_child(void *unused) { churn((void *)(uintptr_t)99); }

static void threads(int policy) {
  struct gleaner_arena_options options =
      options_of(policy, GLEANER_ARENA_THREAD_SAFE, policy % 2 ? 0 : 65536);
  pthread_t ids[kThreads];
  stop_threads = 0;
  shared_arena = gleaner_arena_create(32 * kMiB, &options);
  for (size_t i = 0; i < kThreads; i++) {
    CHECK_EQ(pthread_create(&ids[i], NULL, churn, (void *)(i + 1)), 0);
  }
  /* The child's copy is whole, whatever the threads were doing. */
  for (int forks = 0; forks < 5; forks++) CHECK_IN_CHILD(churn_in_child, NULL);
  for (size_t i = 0; i < kThreads; i++) CHECK_EQ(pthread_join(ids[i], NULL), 0);
  for (size_t i = 0; i < kShared; i++) {
    CHECK_EQ(gleaner_arena_free(shared_arena, shared_blocks[i]), 0);
    shared_blocks[i] = NULL;
  }
  CHECK_EQ(stats_of(shared_arena).used_blocks, 0);
  CHECK_EQ(stats_of(shared_arena).bad_frees, 0);
  CHECK_EQ(gleaner_arena_destroy(shared_arena), 0);
}

int main(void) {
  static char memory[20 * kMiB];
  gleaner_arena *arena = gleaner_arena_create(40 * kMiB, NULL);
  basics(arena);
  fill(arena);
  CHECK_EQ(gleaner_arena_destroy(arena), 0);
  for (int policy = GLEANER_ARENA_BINNED; policy <= GLEANER_ARENA_BUDDY; policy++) {
    for (size_t threshold = 0; threshold <= 131072; threshold += 131072) {
      struct gleaner_arena_options options =
          options_of(policy, GLEANER_ARENA_HUGE_PAGES, threshold);
      arena = gleaner_arena_create(64 * kMiB, &options);
      basics(arena);
      fill(arena);
      CHECK_EQ(gleaner_arena_destroy(arena), 0);
      memset(memory, 0x5a, sizeof memory);
      arena = gleaner_arena_create_on(memory + 77, sizeof memory - 1000, &options);
      basics(arena);
      fill(arena);
      CHECK_EQ(gleaner_arena_trim(arena), 0);
      CHECK_EQ(gleaner_arena_destroy(arena), 0);
      CHECK(is_all(memory, 0x5a, 77));
      CHECK(is_all(memory + sizeof memory - 923, 0x5a, 923));
    }
    threads(policy);
  }
  residency();
  return check_result();
}
