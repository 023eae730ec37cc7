/* Whatever the first call is, the library starts by itself. Each call is tried in its own process.
 */
#include "check.h"

#include <sys/wait.h>

static void *by_malloc(void) { return GC_malloc(10); }
static void *by_malloc_atomic(void) { return GC_malloc_atomic(10); }
static void *by_large_malloc(void) { return GC_malloc(1000000); }
static void *by_uncollectable(void) { return GC_malloc_uncollectable(10); }
static void *by_realloc(void) { return GC_realloc(NULL, 10); }
static void *by_strdup(void) { return GC_strdup("text"); }
static void *by_memalign(void) { return GC_memalign(64, 10); }
static void *by_ignore_off_page(void) { return GC_malloc_ignore_off_page(200000); }
static void *by_collecting(void) {
  GC_gcollect();
  return GC_malloc(10);
}
static void *by_expanding(void) {
  CHECK_EQ(GC_expand_hp(1 << 20), 1);
  return GC_malloc(10);
}

int main(void) {
  static void *(*const first[])(void) = {
      by_malloc, by_malloc_atomic, by_large_malloc,    by_uncollectable, by_realloc,
      by_strdup, by_memalign,      by_ignore_off_page, by_collecting,    by_expanding};
  size_t i;
  for (i = 0; i < sizeof first / sizeof *first; i++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      void *volatile object = first[i]();
      CHECK(object != NULL);
      CHECK(GC_base(object) != NULL);
      GC_gcollect();
      _exit(check_result());
    }
    CHECK_EQ(waitpid(child, &status, 0), child);
    if (status != 0) {
      fprintf(stderr, "first call %zu: status 0x%x\n", i, status);
      check_failures++;
    }
  }
  return check_result();
}
