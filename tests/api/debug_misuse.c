/* Wrong use of objects allocated with GC_DEBUG: the report names the call and the place of the
   allocation, and the program goes on. */
#include "capture.h"

static void double_free(void) {
  void *p;
  GC_INIT();
  p = GC_debug_malloc(20, "double.c", 11);
  GC_debug_free(p);
  GC_debug_free(p);
}

static void behind_the_end(void) {
  char *p;
  GC_INIT();
  p = (char *)GC_debug_malloc(24, "behind.c", 22);
  spoil(p, 24);
  GC_debug_free(p);
}

static void one_byte_behind(void) {
  char *p;
  GC_INIT();
  p = (char *)GC_debug_malloc(21, "byte.c", 23);
  spoil(p, 21);
  GC_debug_free(p);
}

static void before_the_start(void) {
  char *p;
  GC_INIT();
  p = (char *)GC_debug_malloc_atomic(24, "before.c", 33);
  spoil(p, -1);
  GC_debug_free(p);
}

static void whole_header(void) {
  char *p;
  int i;
  GC_INIT();
  p = (char *)GC_debug_malloc_atomic(24, "header.c", 34);
  for (i = 1; i <= 32; i++) spoil(p, -i);
  GC_debug_free(p);
}

static void damaged_then_resized(void) {
  char *p;
  GC_INIT();
  p = (char *)GC_debug_malloc(24, "resized.c", 44);
  memset(p, 'x', 24);
  spoil(p, 25);
  p = (char *)GC_debug_realloc(p, 100, "later.c", 45);
  CHECK_NE((intptr_t)p, 0);
  CHECK_EQ(p[23], 'x');
  CHECK_EQ(p[24], 0);
  GC_debug_free(p);
}

static void damaged_uncollectable(void) {
  char *p;
  GC_INIT();
  p = (char *)GC_debug_malloc_uncollectable(24, "uncollectable.c", 46);
  spoil(p, 24);
  GC_debug_free(p);
}

static void not_debugged(void) {
  void *p;
  GC_INIT();
  p = GC_malloc(24);
  GC_debug_free(p);
}

static void inside(void) {
  char *p;
  GC_INIT();
  p = (char *)GC_debug_malloc(24, "inside.c", 55);
  GC_debug_free(p + 8);
  if (on_gleaner()) { /* ignored */
    memset(p, 1, 24);
    GC_gcollect();
    GC_debug_free(p);
  }
}

static void resized_not_debugged(void) {
  char *p;
  GC_INIT();
  p = (char *)GC_malloc(24);
  p[23] = 'y';
  p = (char *)GC_debug_realloc(p, 100, "raw.c", 66);
  CHECK_NE((intptr_t)p, 0);
  CHECK_EQ(p[23], 'y');
}

static void foreign(void) {
  int local;
  GC_INIT();
  GC_debug_free(&local);
  fprintf(stderr, "went on\n");
}

static void resized_foreign(void) {
  int local;
  GC_INIT();
  CHECK_NULL(GC_debug_realloc(&local, 10, "foreign.c", 67));
}

static void resized_after_free(void) {
  char *p, *q;
  GC_INIT();
  p = (char *)GC_debug_malloc(24, "stale.c", 68);
  GC_debug_free(p);
  q = (char *)GC_debug_realloc(p, 48, "stale.c", 69);
  CHECK_NE((intptr_t)q, 0);
  CHECK_NE((intptr_t)q, (intptr_t)p);
}

static void used_after_free(void) {
  GC_word *p;
  GC_INIT();
  p = (GC_word *)GC_debug_malloc(2 * sizeof *p, "used.c", 70);
  p[0] = 1;
  GC_debug_free(p);
  CHECK_EQ(p[0], (GC_word)0xefbeaddedeadbeefUL);
  CHECK_EQ(p[1], (GC_word)0xefbeaddedeadbeefUL);
}

static void too_large(void) {
  volatile size_t most = (size_t)-1;
  GC_INIT();
  GC_set_warn_proc(GC_ignore_warn_proc);
  CHECK_NULL(GC_debug_malloc(most, "large.c", 71));
  CHECK_NULL(GC_debug_malloc_atomic(most - 31, "large.c", 72));
  CHECK_NULL(GC_debug_malloc_uncollectable(most - 40, "large.c", 73));
  CHECK_NULL(GC_debug_malloc_ignore_off_page(most / 2, "large.c", 74));
}

static size_t asked_for;
static void *GC_CALLBACK from_reserve(size_t bytes) {
  static char reserve[16];
  asked_for = bytes;
  return reserve;
}

static void oom_function_decides(void) {
  volatile size_t most = (size_t)-1;
  GC_INIT();
  GC_set_warn_proc(GC_ignore_warn_proc);
  GC_set_oom_fn(from_reserve);
  CHECK_NE((intptr_t)GC_debug_malloc(most - 100, "reserve.c", 75), 0);
  CHECK_GE(asked_for, most - 100);
}

static void stubborn_foreign(void) {
  int local = 0;
  GC_INIT();
  GC_debug_change_stubborn(&local);
  GC_debug_end_stubborn_change(&local);
}

static void null_text(void) {
  /* Without the attribute that says the text is there. */
  char *(*volatile copy)(const char *, size_t, const char *, int) = GC_debug_strndup;
  GC_INIT();
  CHECK_NULL(copy(NULL, 1, "null.c", 76));
}

int main(void) {
  static struct captured c;
  fail_after(50);

  capture(&c, double_free);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_free");
  if (on_gleaner()) CHECK_SAYS(&c, "double.c:11");

  capture(&c, behind_the_end);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_free");
  CHECK_SAYS(&c, "behind.c:22");

  capture(&c, before_the_start);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_free");
  CHECK_SAYS(&c, "before.c:33");

  capture(&c, damaged_then_resized);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "resized.c:44");
  CHECK_SILENT_ABOUT(&c, "later.c");
  if (on_gleaner()) CHECK_SAYS(&c, "GC_debug_realloc");

  capture(&c, damaged_uncollectable);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "uncollectable.c:46");

  capture(&c, not_debugged);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_free");

  capture(&c, inside);
  CHECK_ENDED_WELL(&c);
  CHECK_CAPTURED(&c, count_text(&c, "GC_debug_free") == 1);

  capture(&c, resized_not_debugged);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_realloc");

  capture(&c, foreign); /* libgc aborts */
  CHECK_CAPTURED(&c, was_aborted(&c) || ended_well(&c));
  CHECK_SAYS(&c, "free");

  capture(&c, used_after_free);
  CHECK_ENDED_WELL(&c);
  CHECK_SILENT_ABOUT(&c, "used.c");

  capture(&c, too_large);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_malloc");
  CHECK_SAYS(&c, "large.c:71");
  CHECK_SAYS(&c, "large.c:72");
  CHECK_SAYS(&c, "large.c:73");
  CHECK_SAYS(&c, "large.c:74");

  if (!on_gleaner()) return check_result();

  capture(&c, one_byte_behind);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "byte.c:23");

  capture(&c, whole_header);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "header.c:34");

  capture(&c, foreign);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_free");
  CHECK_SAYS(&c, "went on");

  capture(&c, resized_foreign);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_realloc");

  capture(&c, resized_after_free);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_realloc");
  CHECK_SAYS(&c, "stale.c:68");

  capture(&c, oom_function_decides);
  CHECK_ENDED_WELL(&c);

  capture(&c, stubborn_foreign);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_end_stubborn_change");

  capture(&c, null_text);
  CHECK_ENDED_WELL(&c);
  CHECK_SAYS(&c, "GC_debug_strndup");
  return check_result();
}
