/* A client of the library on machines with several memory nodes: places memory as it is told, and
   prints what the library says of it and on which node each OS page is, as the system tells.

   usage: client [OPTION] COMMAND [ARGUMENT...]
     --huge                            mapped memory asks for huge pages
     --policy                          the thread has a policy, which is there at the end, too
     --refuse, --refuse-later          a filter refuses mbind, set_mempolicy and get_mempolicy,
                                       from before the library starts, or from then on
     fresh PLACEMENT BYTES             an object by gleaner_malloc_placed
     thread PLACEMENT BYTES            an object by GC_malloc of a thread that has the placement
     existing PLACEMENT BYTES          an object that node 0 has touched, by gleaner_place
     mapped PLACEMENT BYTES            the same for memory by mmap, and its contents are checked
     malloc BYTES                      a block of malloc that this thread touches
     arena PLACEMENT BYTES             an arena, all of which this thread touches
     touch PATTERN THREADS BYTES       fresh memory by gleaner_first_touch
     again PLACEMENT BYTES             an object is placed and freed; then one without a placement
     relay THREADS ROUNDS BYTES        threads need memory one after the other
     markers MS                        collects for so long, prints on which processors its threads
                                       may run
     hold BYTES                        fills the heap with small objects, prints numa_maps
   Prints "pages=... placed=... elsewhere=... absent=... reduced=... error=..." and a line "nodes"
   of runs NODExCOUNT, with -1 for pages that are not resident. */
#define _GNU_SOURCE
#define GC_THREADS
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "gc.h"
#include "gleaner.h"

#define OS_PAGE ((size_t)4096)
#define HUGE_PAGE ((size_t)2 << 20)

static void fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  fprintf(stderr, " (errno %d)\n", errno);
  va_end(arguments);
  exit(1);
}

static int *nodes_of(char *memory, size_t pages) {
  void **addresses = malloc(pages * sizeof *addresses);
  int *nodes = malloc(pages * sizeof *nodes);
  size_t i;
  for (i = 0; i < pages; i++) addresses[i] = memory + i * OS_PAGE;
  if (syscall(SYS_move_pages, 0, pages, addresses, NULL, nodes, 0) != 0) fail("move_pages");
  free(addresses);
  return nodes;
}

/* Of the OS pages that lie in the memory as a whole. */
static void print_nodes(char *memory, size_t bytes) {
  char *begin = (char *)(((size_t)memory + OS_PAGE - 1) & ~(OS_PAGE - 1));
  const size_t pages = (size_t)(memory + bytes - begin) / OS_PAGE;
  int *nodes = nodes_of(begin, pages);
  size_t i, run;
  printf("first=%zu\nnodes", (size_t)begin / OS_PAGE);
  for (i = 0; i < pages; i += run) {
    for (run = 1; i + run < pages && nodes[i + run] == nodes[i]; run++) {
    }
    printf(" %dx%zu", nodes[i] < 0 ? -1 : nodes[i], run);
  }
  printf("\n");
  free(nodes);
}

static void print_placed(const struct gleaner_placed *placed) {
  printf("pages=%lu placed=%lu elsewhere=%lu absent=%lu reduced=%d error=%d\n", placed->pages,
         placed->placed, placed->elsewhere, placed->absent, placed->reduced, placed->error);
}

static struct gleaner_placement placement_of(const char *text) {
  struct gleaner_placement placement;
  if (gleaner_parse_placement(text, &placement) != 0) exit(2);
  return placement;
}

static void run_on(int processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(processor, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

/* A number that belongs to the place. */
static void fill(char *memory, size_t bytes) {
  size_t i;
  for (i = 0; i + sizeof i <= bytes; i += sizeof i) {
    const size_t value = i * 2654435761u;
    memcpy(memory + i, &value, sizeof value);
  }
}

static void check(const char *memory, size_t bytes) {
  size_t i, value;
  for (i = 0; i + sizeof i <= bytes; i += sizeof i) {
    memcpy(&value, memory + i, sizeof value);
    if (value != i * 2654435761u) fail("the contents have changed at %zu", i);
  }
}

static void check_zero(const char *memory, size_t bytes) {
  size_t i;
  for (i = 0; i < bytes; i++) {
    if (memory[i] != 0) fail("not zero at %zu", i);
  }
}

static char *map(size_t bytes, int huge) {
  char *area = mmap(NULL, bytes + 2 * HUGE_PAGE, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (area == MAP_FAILED) fail("mmap");
  area = (char *)(((size_t)area + HUGE_PAGE - 1) & ~(HUGE_PAGE - 1));
  if (huge) madvise(area, bytes, MADV_HUGEPAGE);
  return area;
}

static void place(const char *command, const char *text, size_t bytes, int huge) {
  const struct gleaner_placement placement = placement_of(text);
  struct gleaner_placed placed = {0, 0, 0, 0, 0, 0};
  char *memory;
  run_on(0);
  if (strcmp(command, "fresh") == 0) {
    memory = gleaner_malloc_placed(bytes, &placement, &placed, sizeof placed);
    if (memory == NULL) fail("no memory");
    print_placed(&placed);
    check_zero(memory, bytes); /* reads: absent pages stay absent */
    fill(memory, bytes);
  } else if (strcmp(command, "thread") == 0) {
    if (gleaner_set_thread_placement(&placement) != 0) fail("gleaner_set_thread_placement");
    memory = GC_MALLOC(bytes);
    if (gleaner_set_thread_placement(NULL) != 0) fail("gleaner_set_thread_placement");
    fill(memory, bytes);
  } else {
    memory = strcmp(command, "existing") == 0 ? GC_MALLOC_ATOMIC(bytes) : map(bytes, huge);
    fill(memory, bytes);
    if (gleaner_place(memory, bytes, &placement, &placed, sizeof placed) != 0) exit(2);
    print_placed(&placed);
  }
  check(memory, bytes);
  print_nodes(memory, bytes);
}

static void again(const char *text, size_t bytes) {
  const struct gleaner_placement placement = placement_of(text);
  char *memory = gleaner_malloc_placed(bytes, &placement, NULL, 0);
  char *next;
  fill(memory, bytes);
  GC_free(memory);
  run_on(0);
  next = GC_MALLOC(bytes);
  check_zero(next, bytes);
  fill(next, bytes);
  printf("same=%d\n", next == memory);
  print_nodes(next, bytes);
}

static void in_arena(const char *text, size_t bytes) {
  const struct gleaner_placement placement = placement_of(text);
  struct gleaner_arena_options options = GLEANER_ARENA_OPTIONS;
  gleaner_arena *arena;
  char *block;
  options.placement = &placement;
  run_on(0);
  arena = gleaner_arena_create(bytes, &options);
  if (arena == NULL) fail("gleaner_arena_create");
  block = gleaner_arena_allocate_zeroed(arena, bytes, OS_PAGE);
  if (block == NULL) fail("gleaner_arena_allocate");
  fill(block, bytes);
  print_nodes(block, bytes);
}

/* In each round one thread, which runs on its node, builds a list and drops it; the others wait. */
enum { ITEM_BYTES = 2016 };
struct item {
  struct item *next;
  char rest[ITEM_BYTES - sizeof(struct item *)];
};
static struct item *list;
static pthread_barrier_t barrier;
static long relay_threads, relay_rounds, relay_items;
static size_t relay_pages, relay_local;

static void count_local(int node) {
  const struct item *item;
  size_t count = 0, i;
  void **addresses = malloc((size_t)relay_items * sizeof *addresses);
  int *nodes = malloc((size_t)relay_items * sizeof *nodes);
  for (item = list; item != NULL; item = item->next) addresses[count++] = (void *)item;
  if (syscall(SYS_move_pages, 0, count, addresses, NULL, nodes, 0) != 0) fail("move_pages");
  for (i = 0; i < count; i++) relay_local += nodes[i] == node;
  relay_pages += count;
  free(addresses);
  free(nodes);
}

static __attribute__((noinline)) void take_turn(int node, int counts) {
  long i;
  for (i = 0; i < relay_items; i++) {
    struct item *item = GC_MALLOC(sizeof *item);
    if (item == NULL) fail("no memory");
    item->next = list;
    list = item;
  }
  if (counts) count_local(node);
  list = NULL;
}

/* Frames of take_turn may hold the last items, and those of the collector the address of the heap,
   which is that of the first: the stack below is scanned while this thread waits deeper in it. */
static __attribute__((noinline)) void clear_dead_stack(void) {
  volatile char dead[8192];
  size_t i;
  for (i = 0; i < sizeof dead; i++) dead[i] = 0;
}

static void *relay(void *number) {
  const long own = (long)number;
  unsigned processor, node;
  long round;
  run_on((int)own);
  if (getcpu(&processor, &node) != 0) fail("getcpu");
  for (round = 0; round < relay_rounds; round++) {
    pthread_barrier_wait(&barrier);
    if (round % relay_threads == own) {
      /* The first turn of each thread is in memory that nobody has had. */
      take_turn((int)node, round >= relay_threads);
      clear_dead_stack();
      GC_gcollect();
      clear_dead_stack();
    }
    pthread_barrier_wait(&barrier);
  }
  return NULL;
}

static void run_relay(long threads, long rounds, size_t bytes) {
  pthread_t *others = malloc((size_t)threads * sizeof *others);
  struct gleaner_stats stats;
  long i;
  relay_threads = threads;
  relay_rounds = rounds;
  relay_items = (long)(bytes / ITEM_BYTES);
  pthread_barrier_init(&barrier, NULL, (unsigned)threads);
  for (i = 0; i < threads; i++) {
    if (pthread_create(&others[i], NULL, relay, (void *)i) != 0) fail("pthread_create");
  }
  for (i = 0; i < threads; i++) pthread_join(others[i], NULL);
  gleaner_get_stats(&stats, sizeof stats);
  printf("items=%zu local=%zu pages_taken=%lu remote_pages=%lu heap_bytes=%lu\n", relay_pages,
         relay_local, stats.pages_taken, stats.remote_pages, stats.heap_bytes);
}

static void **list_of(size_t bytes) {
  void **kept = NULL;
  size_t i;
  for (i = 0; i < bytes / 16; i++) {
    void **object = GC_MALLOC(16);
    *object = kept;
    kept = object;
  }
  return kept;
}

static void print_threads(void) {
  char path[64], line[256];
  struct dirent *entry;
  DIR *tasks = opendir("/proc/self/task");
  if (tasks == NULL) fail("/proc/self/task");
  while ((entry = readdir(tasks)) != NULL) {
    FILE *file;
    snprintf(path, sizeof path, "/proc/self/task/%.20s/status", entry->d_name);
    file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (file == NULL) continue; /* it has ended */
    while (fgets(line, sizeof line, file) != NULL) {
      if (strncmp(line, "Cpus_allowed_list:", 18) == 0) printf("thread%s", line + 18);
    }
    fclose(file);
  }
  closedir(tasks);
}

/* Arrays of pointers, so that there is something for several markers to do. */
static void collect_for(long milliseconds) {
  enum { ARRAYS = 1024, POINTERS = 1024 };
  void ***arrays = GC_MALLOC(ARRAYS * sizeof *arrays);
  struct timespec begin, now;
  int i, j;
  for (i = 0; i < ARRAYS; i++) {
    arrays[i] = GC_MALLOC(POINTERS * sizeof **arrays);
    for (j = 0; j < POINTERS; j++) arrays[i][j] = GC_MALLOC(16);
  }
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do {
    GC_gcollect();
    clock_gettime(CLOCK_MONOTONIC, &now);
  } while ((now.tv_sec - begin.tv_sec) * 1000 + (now.tv_nsec - begin.tv_nsec) / 1000000 <
           milliseconds);
  print_threads();
  GC_reachable_here(arrays);
}

static void hold(size_t bytes) {
  void **kept = list_of(bytes);
  int c;
  FILE *file;
  GC_gcollect();
  file = fopen("/proc/self/numa_maps", "r");
  if (file == NULL) fail("/proc/self/numa_maps");
  while ((c = getc(file)) != EOF) putchar(c);
  fclose(file);
  GC_reachable_here(kept);
}

/* Makes the calls by which memory is placed fail with EPERM. */
static void refuse_placement(void) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_mempolicy, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_mempolicy, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    fail("prctl");
  }
}

static const unsigned long policy_nodes = 1 << 1 | 1 << 3;

static void set_policy(void) {
  if (syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &policy_nodes, 64) != 0) fail("set_mempolicy");
}

static void check_policy(void) {
  int mode;
  unsigned long nodes[16] = {0};
  if (syscall(SYS_get_mempolicy, &mode, nodes, 1024, NULL, 0) != 0) fail("get_mempolicy");
  if (mode != MPOL_INTERLEAVE || nodes[0] != policy_nodes) fail("the policy is %d", mode);
}

int main(int argc, char **argv) {
  const char *option = argc > 1 && strncmp(argv[1], "--", 2) == 0 ? argv[1] : "";
  const int huge = strcmp(option, "--huge") == 0;
  char **words = argv + 1 + (*option != 0);
  const int count = argc - 1 - (*option != 0);
  if (strcmp(option, "--refuse") == 0) {
    /* In a process with a limit the library does not start before the filter. */
    const struct rlimit limit = {(rlim_t)1 << 40, (rlim_t)1 << 40};
    if (setrlimit(RLIMIT_AS, &limit) != 0) fail("setrlimit");
    refuse_placement();
  }
  GC_INIT();
  if (strcmp(option, "--refuse-later") == 0) refuse_placement();
  if (strcmp(option, "--policy") == 0) set_policy();
  if (count == 3 && strcmp(words[0], "again") == 0) {
    again(words[1], strtoul(words[2], NULL, 10));
  } else if (count == 3 && strcmp(words[0], "arena") == 0) {
    in_arena(words[1], strtoul(words[2], NULL, 10));
  } else if (count == 3) {
    place(words[0], words[1], strtoul(words[2], NULL, 10), huge);
  } else if (count == 4 && strcmp(words[0], "touch") == 0) {
    const size_t bytes = strtoul(words[3], NULL, 10);
    char *memory = map(bytes, huge);
    const int error = gleaner_first_touch(memory, bytes, strtoul(words[1], NULL, 10),
                                          (unsigned)strtoul(words[2], NULL, 10));
    printf("error=%d\n", error);
    check_zero(memory, bytes);
    print_nodes(memory, bytes);
  } else if (count == 4 && strcmp(words[0], "relay") == 0) {
    run_relay(atol(words[1]), atol(words[2]), strtoul(words[3], NULL, 10));
  } else if (count == 2 && strcmp(words[0], "malloc") == 0) {
    const size_t bytes = strtoul(words[1], NULL, 10);
    char *memory = malloc(bytes);
    run_on(0);
    fill(memory, bytes);
    print_nodes(memory, bytes);
  } else if (count == 2 && strcmp(words[0], "markers") == 0) {
    collect_for(atol(words[1]));
  } else if (count == 2 && strcmp(words[0], "hold") == 0) {
    hold(strtoul(words[1], NULL, 10));
  } else {
    fprintf(stderr, "which command?\n");
    return 2;
  }
  if (strcmp(option, "--policy") == 0) check_policy();
  return 0;
}
