/* Rule 27: memory of GC_MALLOC and uncollectable memory is zero, also where garbage was; atomic
   memory is not cleared. GC_debug_malloc returns base + 32, and GC_base the raw base. */
#include "check.h"
#include "gc_mark.h"

static int is_zero(const void *p, size_t bytes) {
  const char *c = (const char *)p;
  while (bytes--)
    if (*c++) return 0;
  return 1;
}

static void *dirty(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < 50000; i++) {
    size_t bytes = 16 + i * 16 % 3000;
    memset(GC_malloc(bytes), 0xa5, bytes);
    memset(GC_malloc_atomic(bytes), 0xa5, bytes);
  }
  for (i = 0; i < 100; i++) memset(GC_malloc(100000), 0xa5, 100000);
  return NULL;
}

static void zeroing(void) {
  size_t i, not_cleared = 0;
  for (i = 0; i < 3; i++) {
    run_in_thread(dirty, NULL);
    collect();
  }
  for (i = 0; i < 20000; i++) {
    size_t bytes = 1 + i * 7 % 3000;
    CHECK(is_zero(GC_malloc(bytes), bytes));
    if (i % 16 == 0) {
      void *p = GC_malloc_uncollectable(bytes);
      CHECK(is_zero(p, bytes));
      memset(p, 0xa5, bytes);
      GC_free(p);
      p = GC_malloc_uncollectable(bytes);
      CHECK(is_zero(p, bytes));
      GC_free(p);
    }
    not_cleared += !is_zero(GC_malloc_atomic(bytes), bytes);
  }
  CHECK(is_zero(GC_malloc(100000), 100000));
  CHECK(is_zero(GC_malloc_ignore_off_page(100000), 100000));
  CHECK_GE(not_cleared, 1);
}

static void debug_base(void) {
  char *p = (char *)GC_debug_malloc(100, "file.c", 1);
  CHECK_EQ(GC_get_debug_header_size(), 32);
  CHECK_PTR(GC_base(p), p - 32);
  CHECK_PTR(GC_base(p + 50), p - 32);
  CHECK_PTR(GC_USR_PTR_FROM_BASE(GC_base(p)), p);
  CHECK_GE(GC_size(GC_base(p)), 132);
  CHECK(is_zero(p, 100));
  memset(p, 1, 100);
  GC_gcollect();
  CHECK_EQ(p[99], 1);
  p = (char *)GC_debug_realloc(p, 200, "file.c", 2);
  CHECK_EQ(p[99], 1);
  CHECK_PTR(GC_base(p), p - 32);
  GC_debug_free(p);
  p = (char *)GC_debug_malloc_atomic(10, "file.c", 3);
  CHECK_PTR(GC_base(p), p - 32);
}

int main(void) {
  GC_INIT();
  zeroing();
  debug_base();
  return check_result();
}
