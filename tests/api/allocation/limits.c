/* A program that lowers its limit on address space while it runs, or locks all its memory, goes on:
 * its own malloc, files and threads work, the heap grows under the limit, and the refusal there is
 * NULL, as on libgc. */
#include "check.h"

#include <grp.h>
#include <sys/mman.h>
#include <sys/resource.h>

static const size_t MiB = 1 << 20;

static void *touch(void *arg) {
  size_t *sum = arg, i;
  for (i = 0; i < 1000; i++) *sum += (size_t)GC_MALLOC(100) != 0;
  return NULL;
}

/* What the C library maps for a program. */
static void use_the_system(void) {
  pthread_t thread;
  size_t sum = 0;
  FILE *file = fopen("/dev/null", "w");
  void *block = malloc(50 * MiB),
       *mapped = mmap(NULL, 20 * MiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(file != NULL);
  CHECK(block != NULL);
  CHECK(mapped != MAP_FAILED);
  CHECK_EQ(GC_pthread_create(&thread, NULL, touch, &sum), 0);
  CHECK_EQ(GC_pthread_join(thread, NULL), 0);
  CHECK_EQ(sum, 1000);
  if (file != NULL) fclose(file);
  free(block);
  munmap(mapped, 20 * MiB);
}

typedef struct node {
  struct node *next;
  size_t *data; /* pointer-free */
  size_t number, padding[61];
} node;

/* A list as long as can be had, at most `bytes` large. Looks at all of it, and returns its size. */
static NOINLINE size_t fill(size_t bytes) {
  const size_t bytes_each = sizeof(node) + 512;
  node *list = NULL, *n;
  size_t count = 0, seen = 0;
  while (count < bytes / bytes_each) {
    n = GC_MALLOC(sizeof(node));
    if (n == NULL) break;
    n->data = GC_MALLOC_ATOMIC(512);
    if (n->data == NULL) break;
    memset(n->data, 0x55, 512);
    n->data[0] = n->number = count++;
    n->next = list;
    list = n;
  }
  for (n = list; n != NULL; n = n->next, seen++) {
    CHECK_EQ(n->number, count - seen - 1);
    CHECK_EQ(n->data[0], n->number);
    CHECK_EQ(n->data[63], 0x5555555555555555);
  }
  CHECK_EQ(seen, count);
  return count * bytes_each;
}

static int mode_may_be_lost;

/* Until NULL. Where memory runs out while a cycle begins, there is none for the tables of tracking,
 * and collections go on without it: the mode is looked at before. */
static void fill_up(void) {
  const int failures = check_failures;
  if (!mode_may_be_lost) check_result();
  if (check_failures != failures) fprintf(stderr, "before memory runs out\n");
  fill(3000 * MiB);
  mode_may_be_lost = 1;
}

static int result(void) { return mode_may_be_lost ? check_failures != 0 : check_result(); }

static int limit(int resource, size_t bytes) {
  struct rlimit both;
  getrlimit(resource, &both);
  both.rlim_cur = bytes;
  return setrlimit(resource, &both);
}

static void lower_the_limit(void) {
  fill(80 * MiB);
  CHECK_EQ(limit(RLIMIT_AS, 1024 * MiB), 0);
  use_the_system();
  CHECK_GE(fill(300 * MiB), 299 * MiB);
  GC_gcollect();
  use_the_system();
  CHECK_EQ(limit(RLIMIT_AS, 700 * MiB), 0);
  fill_up();
  GC_gcollect();
  GC_gcollect_and_unmap();
  if (on_gleaner()) CHECK_GE(fill(60 * MiB), 59 * MiB); /* libgc may take the list for reachable */
  /* The limit is gone, and so the heap grows again. */
  CHECK_EQ(limit(RLIMIT_AS, RLIM_INFINITY), 0);
  use_the_system();
  CHECK_GE(fill(200 * MiB), 199 * MiB);
}

/* What the heap might use later leaves it room now. */
static void lower_it_far(void) {
  CHECK_EQ(limit(RLIMIT_AS, 150 * MiB), 0);
  CHECK_GE(fill(64 * MiB), 63 * MiB);
  mode_may_be_lost = 1;
}

static void lower_it_by_prlimit(void) {
  const struct rlimit both = {1024 * MiB, RLIM_INFINITY};
  CHECK_EQ(prlimit(0, RLIMIT_AS, &both, NULL), 0);
  use_the_system();
  CHECK_GE(fill(200 * MiB), 199 * MiB);
}

/* No function of the library's is called. */
static void lower_it_from_outside(void) {
  const struct rlimit both = {1024 * MiB, RLIM_INFINITY};
  const pid_t self = getpid();
  const pid_t other = fork();
  if (other == 0) _exit(prlimit(self, RLIMIT_AS, &both, NULL) == 0 ? 0 : 1);
  CHECK_CHILD(other);
  GC_gcollect();
  use_the_system();
  CHECK_GE(fill(200 * MiB), 199 * MiB);
}

/* Raising the limit on locked memory takes a right that containers do not give, locking without a
 * limit one that ordinary users have not. */
static void lock_all_memory(void) {
  const struct rlimit enough = {1024 * MiB, 1024 * MiB};
  const int raised =
      limit(RLIMIT_MEMLOCK, 1024 * MiB) == 0 || setrlimit(RLIMIT_MEMLOCK, &enough) == 0;
  fill(20 * MiB);
  if (raised && geteuid() == 0) {
    CHECK_EQ(setgroups(0, NULL), 0);
    CHECK_EQ(setresgid(65534, 65534, 65534), 0);
    CHECK_EQ(setresuid(65534, 65534, 65534), 0);
  }
  int locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
  if (raised) CHECK(locked);
  use_the_system();
  CHECK_GE(fill(100 * MiB), 99 * MiB);
  if (raised && locked) fill_up();
  GC_gcollect();
  CHECK_EQ(munlockall(), 0);
  use_the_system();
}

/* A child of vfork has a limit of its own, and its parent's memory. */
static void limit_of_a_child(void) {
  const pid_t child = vfork();
  if (child == 0) _exit(limit(RLIMIT_AS, 100 * MiB) == 0 ? 0 : 1);
  CHECK_CHILD(child);
  CHECK_GE(fill(200 * MiB), 199 * MiB);
}

static void limit_of_a_forked_child(void) {
  const pid_t child = fork();
  if (child == 0) {
    lower_the_limit();
    _exit(result());
  }
  CHECK_CHILD(child);
}

int main(void) {
  static void (*const cases[])(void) = {
      lower_the_limit, lower_it_far,     lower_it_by_prlimit,    lower_it_from_outside,
      lock_all_memory, limit_of_a_child, limit_of_a_forked_child};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const pid_t child = fork();
    if (child == 0) {
      GC_INIT();
      cases[i]();
      exit(result());
    }
    CHECK_CHILD(child);
  }
  return check_result();
}
