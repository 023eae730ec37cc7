/* A program for the tests of `gleaner numa`: it has objects of each kind, a thread that waits, and
 * memory of its own, says where they are, and waits until its standard input ends. Arguments:
 *   mappings N   that many mappings more, which the kernel cannot join
 *   bytes N      small objects of that many bytes in all, some MB if not given
 *   exit         it ends at once */
#define GC_THREADS
#include <gc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/task_state.h"

#define LARGE_BYTES (6ul << 20)
#define POINTER_FREE_BYTES (9ul << 20)
#define OWN_BYTES (5ul << 20)
#define FREE_BYTES (1ul << 20)

struct node {
  struct node *next;
  char rest[56];
};

static struct node *volatile list;
static char *volatile texts[1000];
static char *volatile large, *volatile pointer_free;
static void *volatile uncollectable;
static char zeroes[3ul << 20]; /* data of the program */

static volatile long waiting;
static void *wait_for_ever(void *stack) {
  *(void **)stack = &stack;
  waiting = task_self();
  for (;;) pause();
}

static void map(long count) {
  long i;
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (i = 0; i < count; i++) {
    char *p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) break;
    *p = 1;
    if (i % 2 != 0) mprotect(p, page, PROT_READ);
  }
}

int main(int argc, char **argv) {
  unsigned long bytes = 4ul << 20, at;
  long mappings = 0;
  int i;
  static void *volatile stack;
  pthread_t thread;
  char *own;
  for (i = 1; i < argc; i++) {
    if (strcmp(argv[i], "exit") == 0) return 0;
    if (i + 1 < argc && strcmp(argv[i], "mappings") == 0) mappings = atol(argv[++i]);
    if (i + 1 < argc && strcmp(argv[i], "bytes") == 0) bytes = strtoul(argv[++i], NULL, 10);
  }
  GC_INIT();
  for (at = 0; at < bytes; at += sizeof(struct node)) {
    struct node *node = GC_MALLOC(sizeof *node);
    node->next = list;
    list = node;
  }
  for (i = 0; i < 1000; i++) texts[i] = memset(GC_MALLOC_ATOMIC(500), 1, 500);
  large = memset(GC_MALLOC(LARGE_BYTES), 1, LARGE_BYTES);
  pointer_free = memset(GC_MALLOC_ATOMIC(POINTER_FREE_BYTES), 1, POINTER_FREE_BYTES);
  uncollectable = memset(GC_MALLOC_UNCOLLECTABLE(100), 1, 100);
  memset(zeroes, 1, sizeof zeroes);
  GC_FREE(memset(GC_MALLOC(FREE_BYTES), 1, FREE_BYTES)); /* free pages */
  own = mmap(NULL, OWN_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  memset(own, 1, OWN_BYTES);
  map(mappings);
  pthread_create(&thread, NULL, wait_for_ever, (void *)&stack);
  while (waiting == 0) usleep(1000);
  await_task_state(waiting, 'S');
  printf("large %lu\npointer_free %lu\nwaiting\n", (unsigned long)large,
         (unsigned long)pointer_free);
  fflush(stdout);
  while (getchar() != EOF) {
  }
  return 0;
}
