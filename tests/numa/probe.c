/* What the kernel does with the memory of nodes: probe PATTERN... makes a mapping for each pattern
   and prints on which node each of its pages is, as `NODExPAGES` for runs of pages, and what
   numa_maps says of it.

   touch:CPU         first touched on the processor
   interleave:LIST   mbind to the nodes in turn, then touched
   cyclic:LIST:PAGES touched, then moved by move_pages: blocks of PAGES go to the nodes in turn
   bind:NODE         mbind to the node, then touched

   LIST is nodes with commas between them. A pattern may begin with `small+`: without huge pages. */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/mempolicy.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096ul
#define HUGE_PAGE (2ul << 20)
#define BYTES (8ul << 20)
#define PAGES (BYTES / PAGE)
#define MAX_NODES 16

static void fail(const char *format, ...) {
  const int error = errno;
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, ": %s\n", strerror(error));
  exit(1);
}

static int parse_nodes(const char *text, int *nodes) {
  int count = 0;
  char *end;
  do {
    nodes[count++] = (int)strtol(text, &end, 10);
    text = end + 1;
  } while (*end == ',' && count < MAX_NODES);
  return count;
}

static void set_policy(char *memory, int policy, const int *nodes, int count) {
  unsigned long mask = 0;
  int i;
  for (i = 0; i < count; i++) mask |= 1ul << nodes[i];
  if (syscall(SYS_mbind, memory, BYTES, policy, &mask, 8 * sizeof mask, 0) != 0) {
    fail("mbind to nodes %#lx", mask);
  }
}

/* Only the mapping is touched on the processor: the thread returns to where it may run. */
static void touch(char *memory, int processor) {
  cpu_set_t before, one;
  size_t i;
  CPU_ZERO(&one);
  if (processor >= 0) {
    CPU_SET(processor, &one);
    if (sched_getaffinity(0, sizeof before, &before) != 0) fail("sched_getaffinity");
    if (sched_setaffinity(0, sizeof one, &one) != 0) fail("sched_setaffinity to %d", processor);
  }
  for (i = 0; i < BYTES; i += PAGE) memory[i] = 1;
  if (processor >= 0) sched_setaffinity(0, sizeof before, &before);
}

/* The node of each page, after moving pages to `targets` unless that is null. */
static void move_pages(char *memory, const int *targets, int *nodes) {
  static void *pages[PAGES];
  size_t i;
  for (i = 0; i < PAGES; i++) pages[i] = memory + i * PAGE;
  if (syscall(SYS_move_pages, 0, PAGES, pages, targets, nodes, MPOL_MF_MOVE) != 0) {
    fail("move_pages");
  }
}

static void move_in_blocks(char *memory, const int *nodes, int count, size_t block) {
  static int targets[PAGES], results[PAGES];
  size_t i;
  if (block == 0) block = PAGES;
  for (i = 0; i < PAGES; i++) targets[i] = nodes[i / block % (size_t)count];
  move_pages(memory, targets, results);
}

static void print_nodes(char *memory) {
  static int nodes[PAGES];
  size_t i, begin = 0;
  move_pages(memory, NULL, nodes);
  for (i = 1; i <= PAGES; i++) {
    if (i == PAGES || nodes[i] != nodes[begin]) {
      printf(" %dx%zu", nodes[begin], i - begin);
      begin = i;
    }
  }
}

static void print_numa_maps(const char *memory) {
  FILE *file = fopen("/proc/self/numa_maps", "r");
  char line[4096];
  if (file == NULL) fail("/proc/self/numa_maps");
  while (fgets(line, sizeof line, file) != NULL) {
    char *rest;
    if (strtoul(line, &rest, 16) == (unsigned long)memory) printf(" |%s", rest);
  }
  fclose(file);
}

/* What follows the prefix, or null. */
static const char *after(const char *prefix, const char *text) {
  const size_t length = strlen(prefix);
  return strncmp(text, prefix, length) == 0 ? text + length : NULL;
}

static void place(char *memory, const char *pattern) {
  int nodes[MAX_NODES];
  const char *rest;
  if ((rest = after("small+", pattern)) != NULL) {
    if (madvise(memory, BYTES, MADV_NOHUGEPAGE) != 0) fail("madvise");
    pattern = rest;
  }
  if ((rest = after("touch:", pattern)) != NULL) {
    touch(memory, atoi(rest));
  } else if ((rest = after("interleave:", pattern)) != NULL) {
    set_policy(memory, MPOL_INTERLEAVE, nodes, parse_nodes(rest, nodes));
    touch(memory, -1);
  } else if ((rest = after("bind:", pattern)) != NULL) {
    set_policy(memory, MPOL_BIND, nodes, parse_nodes(rest, nodes));
    touch(memory, -1);
  } else if ((rest = after("cyclic:", pattern)) != NULL && strchr(rest, ':') != NULL) {
    touch(memory, -1);
    move_in_blocks(memory, nodes, parse_nodes(rest, nodes),
                   strtoul(strchr(rest, ':') + 1, NULL, 10));
  } else {
    errno = EINVAL;
    fail("%s", pattern);
  }
}

int main(int argc, char **argv) {
  int i;
  for (i = 1; i < argc; i++) {
    /* Between guards, so that no mapping is joined with another, and aligned for huge pages. */
    char *area = mmap(NULL, BYTES + 2 * HUGE_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *memory = (char *)(((unsigned long)area + HUGE_PAGE) & ~(HUGE_PAGE - 1));
    if (area == MAP_FAILED) fail("mmap");
    if (mprotect(memory, BYTES, PROT_READ | PROT_WRITE) != 0) fail("mprotect");
    printf("%s:", argv[i]);
    place(memory, argv[i]);
    print_nodes(memory);
    print_numa_maps(memory);
    munmap(area, BYTES + 2 * HUGE_PAGE);
  }
  return 0;
}
