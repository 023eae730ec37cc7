/* Where the matrices of a BLAS with threads of its own are: blas LIBRARY [N [K]] allocates A (N x
   K), B (K x N) and C (N x N) by malloc, writes all of them from its only thread, and lets the
   library, which has cblas_dgemm, compute C += A B. It checks C, and prints how many threads there
   are and on which nodes the pages of each matrix are. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096ul
#define MAX_NODES 64

enum { COLUMN_MAJOR = 102, NOT_TRANSPOSED = 111 };
typedef void Dgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, double alpha,
                   const double *a, int lda, const double *b, int ldb, double beta, double *c,
                   int ldc);

static void fail(const char *what, const char *why) {
  fprintf(stderr, "%s: %s\n", what, why);
  exit(1);
}

static double *allocate(size_t numbers) {
  double *matrix = malloc(numbers * sizeof *matrix);
  if (matrix == NULL) fail("malloc", strerror(errno));
  return matrix;
}

static int nodes_there(void) {
  char path[64];
  int count = 0;
  do {
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d", count);
  } while (access(path, F_OK) == 0 && ++count < MAX_NODES);
  return count;
}

/* Of all pages that the matrix is on, if only in part. */
static void print_nodes(const char *name, const double *matrix, size_t numbers) {
  const unsigned long begin = (unsigned long)matrix & ~(PAGE - 1);
  const size_t pages = ((unsigned long)(matrix + numbers) - begin + PAGE - 1) / PAGE;
  size_t on_node[MAX_NODES] = {0}, i;
  const int nodes = nodes_there();
  int node;
  printf("%s", name);
  for (i = 0; i < pages; i++) {
    void *page = (void *)(begin + i * PAGE);
    int status;
    if (syscall(SYS_move_pages, 0, 1ul, &page, NULL, &status, 0) != 0) {
      fail("move_pages", strerror(errno));
    }
    if (status < 0 || status >= nodes) fail("move_pages", strerror(-status));
    on_node[status]++;
  }
  for (node = 0; node < nodes; node++) printf(" node%d=%zu", node, on_node[node]);
  printf("\n");
}

static void print_threads(void) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  int threads = 0;
  if (file == NULL) fail("/proc/self/status", strerror(errno));
  while (fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "Threads: %d", &threads) == 1) break;
  }
  fclose(file);
  printf("threads=%d\n", threads);
}

/* So that all first touches are of one node, however the scheduler moves threads. */
static void stay_on_this_processor(cpu_set_t *before) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  if (sched_getaffinity(0, sizeof *before, before) != 0 ||
      sched_setaffinity(0, sizeof one, &one) != 0) {
    fail("sched_setaffinity", strerror(errno));
  }
}

/* Integers, so that any order of the additions gives the same sums. */
static double value_of_a(int row) { return row % 7 + 1; }
static double value_of_b(int row, int column) { return row % 3 + column % 5; }

int main(int argc, char **argv) {
  const int n = argc > 2 ? atoi(argv[2]) : 1024;
  const int k = argc > 3 ? atoi(argv[3]) : 64;
  void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
  Dgemm *dgemm;
  double *a, *b, *c;
  cpu_set_t processors;
  int row, column;
  if (argc < 2 || n <= 0 || k <= 0) fail("usage", "blas LIBRARY [N [K]]");
  if (library == NULL) fail(argv[1], dlerror());
  *(void **)&dgemm = dlsym(library, "cblas_dgemm");
  if (dgemm == NULL) fail(argv[1], dlerror());
  a = allocate((size_t)n * (size_t)k);
  b = allocate((size_t)k * (size_t)n);
  c = allocate((size_t)n * (size_t)n);
  stay_on_this_processor(&processors);
  for (column = 0; column < k; column++) {
    for (row = 0; row < n; row++) a[(size_t)column * (size_t)n + (size_t)row] = value_of_a(row);
  }
  for (column = 0; column < n; column++) {
    for (row = 0; row < k; row++) {
      b[(size_t)column * (size_t)k + (size_t)row] = value_of_b(row, column);
    }
    for (row = 0; row < n; row++) c[(size_t)column * (size_t)n + (size_t)row] = 1;
  }
  sched_setaffinity(0, sizeof processors, &processors);
  dgemm(COLUMN_MAJOR, NOT_TRANSPOSED, NOT_TRANSPOSED, n, n, k, 1, a, n, b, k, 1, c, n);
  for (column = 0; column < n; column++) {
    double sum = 0;
    int i;
    for (i = 0; i < k; i++) sum += value_of_b(i, column);
    for (row = 0; row < n; row++) {
      if (c[(size_t)column * (size_t)n + (size_t)row] != 1 + value_of_a(row) * sum) {
        fail("cblas_dgemm", "a wrong product");
      }
    }
  }
  print_threads();
  print_nodes("A", a, (size_t)n * (size_t)k);
  print_nodes("B", b, (size_t)k * (size_t)n);
  print_nodes("C", c, (size_t)n * (size_t)n);
  return 0;
}
