/* Multiplies matrices with threads of its own, each of which has its rows. Before one thread fills
   the matrices, gleaner_first_touch brings each row's memory to the node of the thread that will
   work on it. Where there is one memory node, that changes nothing. */
#include <gc.h>
#include <gleaner.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4, ROWS = 64 * THREADS, COLUMNS = 256 };

/* Global, so that the collector finds the matrices. */
static double (*a)[COLUMNS], (*b)[COLUMNS], (*c)[COLUMNS];

static void *multiply_rows(void *first) {
  const int begin = (int)(long)first * (ROWS / THREADS);
  int i, j, k;
  for (i = begin; i < begin + ROWS / THREADS; i++) {
    for (k = 0; k < COLUMNS; k++) {
      for (j = 0; j < COLUMNS; j++) c[i][j] += a[i][k] * b[k][j];
    }
  }
  return NULL;
}

static void *new_matrix(size_t rows) {
  const size_t bytes = rows * COLUMNS * sizeof(double);
  /* Fresh memory of a large object has not been touched yet. */
  void *matrix = GC_MALLOC_ATOMIC(bytes);
  /* As the loop divides the rows: one share for each thread. The loop over blocks of rows, one for
     each thread in turn, would have the bytes of such a block in place of 0. */
  const int error = gleaner_first_touch(matrix, bytes, 0, THREADS);
  if (error != 0)
    fprintf(stderr, "first touch: error %d; the matrix is there all the same\n", error);
  return matrix;
}

static void print_pages(const char *name, const void *matrix, size_t bytes) {
  uint64_t pages[4];
  int node;
  if (gleaner_count_pages(matrix, bytes, pages, 4) != 0) return;
  printf("%s:", name);
  for (node = 0; node < 4; node++) printf(" node%d=%lu", node, (unsigned long)pages[node]);
  printf("\n");
}

int main(void) {
  pthread_t threads[THREADS];
  int i, j;
  GC_INIT();
  a = new_matrix(ROWS);
  b = new_matrix(COLUMNS);
  c = new_matrix(ROWS);
  for (i = 0; i < COLUMNS; i++) {
    for (j = 0; j < COLUMNS; j++) b[i][j] = i == j ? 2 : 0; /* twice the identity */
  }
  for (i = 0; i < ROWS; i++) {
    for (j = 0; j < COLUMNS; j++) {
      a[i][j] = i + j;
      c[i][j] = 0;
    }
  }
  for (i = 0; i < THREADS; i++) {
    if (pthread_create(&threads[i], NULL, multiply_rows, (void *)(long)i) != 0) return 1;
  }
  for (i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (i = 0; i < ROWS; i++) {
    for (j = 0; j < COLUMNS; j++) {
      if (c[i][j] != 2.0 * (i + j)) {
        printf("wrong: c[%d][%d] is %g\n", i, j, c[i][j]);
        return 1;
      }
    }
  }
  print_pages("a", a, sizeof(double[ROWS][COLUMNS]));
  return 0;
}
