/* Wrong use of objects allocated with GC_DEBUG: the report names the call and the place of the
   allocation, and the program goes on. */
#include "capture.h"

static void double_free(void) {
  void *p = GC_debug_malloc(20, "double.c", 11);
  GC_debug_free(p);
  GC_debug_free(p);
}

static void behind_the_end(void) {
  char *p = (char *)GC_debug_malloc(24, "behind.c", 22);
  spoil(p, 24);
  GC_debug_free(p);
}

static void one_byte_behind(void) {
  char *p = (char *)GC_debug_malloc(21, "byte.c", 23);
  spoil(p, 21);
  GC_debug_free(p);
}

static void before_the_start(void) {
  char *p = (char *)GC_debug_malloc_atomic(24, "before.c", 33);
  spoil(p, -1);
  GC_debug_free(p);
}

static void whole_header(void) {
  char *p = (char *)GC_debug_malloc_atomic(24, "header.c", 34);
  for (int i = 1; i <= 32; i++) spoil(p, -i);
  GC_debug_free(p);
}

static void damaged_then_resized(void) {
  char *p = (char *)GC_debug_malloc(24, "resized.c", 44);
  memset(p, 'x', 24);
  spoil(p, 25);
  p = (char *)GC_debug_realloc(p, 100, "later.c", 45);
  CHECK_NE((intptr_t)p, 0);
  CHECK_EQ(p[23], 'x');
  CHECK_EQ(p[24], 0);
  GC_debug_free(p);
}

static void damaged_uncollectable(void) {
  char *p = (char *)GC_debug_malloc_uncollectable(24, "uncollectable.c", 46);
  spoil(p, 24);
  GC_debug_free(p);
}

static void not_debugged(void) {
  void *p = GC_malloc(24);
  GC_debug_free(p);
}

static void inside(void) {
  char *p = (char *)GC_debug_malloc(24, "inside.c", 55);
  GC_debug_free(p + 8);
  if (on_gleaner()) { /* ignored */
    memset(p, 1, 24);
    GC_gcollect();
    GC_debug_free(p);
  }
}

static void resized_not_debugged(void) {
  char *p = (char *)GC_malloc(24);
  p[23] = 'y';
  p = (char *)GC_debug_realloc(p, 100, "raw.c", 66);
  CHECK_NE((intptr_t)p, 0);
  CHECK_EQ(p[23], 'y');
}

static void foreign(void) {
  int local;
  GC_debug_free(&local);
  fprintf(stderr, "went on\n");
}

static void resized_foreign(void) {
  int local;
  CHECK_NULL(GC_debug_realloc(&local, 10, "foreign.c", 67));
}

static void resized_after_free(void) {
  char *p = (char *)GC_debug_malloc(24, "stale.c", 68);
  GC_debug_free(p);
  char *q = (char *)GC_debug_realloc(p, 48, "stale.c", 69);
  CHECK_NE((intptr_t)q, 0);
  CHECK_NE((intptr_t)q, (intptr_t)p);
}

static void used_after_free(void) {
  GC_word *p = (GC_word *)GC_debug_malloc(2 * sizeof *p, "used.c", 70);
  p[0] = 1;
  GC_debug_free(p);
  CHECK_EQ(p[0], (GC_word)0xefbeaddedeadbeefUL);
  CHECK_EQ(p[1], (GC_word)0xefbeaddedeadbeefUL);
}

static void too_large(void) {
  volatile size_t max = (size_t)-1;
  GC_set_warn_proc(GC_ignore_warn_proc);
  CHECK_NULL(GC_debug_malloc(max, "large.c", 71));
  CHECK_NULL(GC_debug_malloc_atomic(max - 31, "large.c", 72));
  CHECK_NULL(GC_debug_malloc_uncollectable(max - 40, "large.c", 73));
  CHECK_NULL(GC_debug_malloc_ignore_off_page(max / 2, "large.c", 74));
}

static size_t asked_for;
static void *GC_CALLBACK from_reserve(size_t bytes) {
  static char reserve[16];
  asked_for = bytes;
  return reserve;
}

static void oom_function_decides(void) {
  volatile size_t max = (size_t)-1;
  GC_set_warn_proc(GC_ignore_warn_proc);
  GC_set_oom_fn(from_reserve);
  CHECK_NE((intptr_t)GC_debug_malloc(max - 100, "reserve.c", 75), 0);
  CHECK_GE(asked_for, max - 100);
}

static void stubborn_foreign(void) {
  int local = 0;
  GC_debug_change_stubborn(&local);
  GC_debug_end_stubborn_change(&local);
}

static void null_text(void) {
  /* Without the attribute that says the text is there. */
  char *(*volatile copy)(const char *, size_t, const char *, int) = GC_debug_strndup;
  CHECK_NULL(copy(NULL, 1, "null.c", 76));
}

static const struct {
  void (*fn)(void);
  int on_libgc; /* or it aborts there, or says nothing */
  const char *says[4];
  const char *says_on_gleaner;
} cases[] = {
    {double_free, 1, {"GC_debug_free"}, "double.c:11"},
    {behind_the_end, 1, {"GC_debug_free", "behind.c:22"}, NULL},
    {before_the_start, 1, {"GC_debug_free", "before.c:33"}, NULL},
    {damaged_then_resized, 1, {"resized.c:44"}, "GC_debug_realloc"},
    {damaged_uncollectable, 1, {"uncollectable.c:46"}, NULL},
    {not_debugged,
     1,
     {"GC_debug_free"},
     "): the object was allocated without debugging information\n"},
    {inside, 1, {"GC_debug_free"}, NULL},
    {resized_not_debugged,
     1,
     {"GC_debug_realloc"},
     ", 100): the object was allocated without debugging information\n"},
    {used_after_free, 1, {NULL}, NULL},
    {too_large, 1, {"large.c:71", "large.c:72", "large.c:73", "large.c:74"}, "GC_debug_malloc"},
    {one_byte_behind, 0, {"byte.c:23"}, NULL},
    {whole_header, 0, {"header.c:34"}, NULL},
    {foreign, 0, {"GC_debug_free", "went on"}, NULL},
    {resized_foreign, 0, {"GC_debug_realloc"}, NULL},
    {resized_after_free, 0, {"GC_debug_realloc", "stale.c:68"}, NULL},
    {oom_function_decides, 0, {NULL}, NULL},
    {stubborn_foreign, 0, {"GC_debug_end_stubborn_change"}, NULL},
    {null_text, 0, {"GC_debug_strndup"}, NULL}};

static void (*chosen)(void);
static void run_chosen(void) {
  GC_INIT();
  chosen();
}

int main(void) {
  static struct captured c;
  fail_after(50);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    if (!cases[i].on_libgc && !on_gleaner()) continue;
    chosen = cases[i].fn;
    CAPTURE_WELL(&c, run_chosen);
    for (size_t j = 0; j < COUNT_OF(cases[i].says) && cases[i].says[j] != NULL; j++)
      CHECK_SAYS(&c, cases[i].says[j]);
    if (cases[i].says_on_gleaner != NULL && on_gleaner()) CHECK_SAYS(&c, cases[i].says_on_gleaner);
    if (chosen == damaged_then_resized) CHECK_SILENT_ABOUT(&c, "later.c");
    if (chosen == inside) CHECK_CAPTURED(&c, count_text(&c, "GC_debug_free") == 1);
    if (chosen == used_after_free) CHECK_SILENT_ABOUT(&c, "used.c");
  }
  chosen = foreign; /* libgc aborts */
  capture(&c, run_chosen);
  CHECK_CAPTURED(&c, was_aborted(&c) || ended_well(&c));
  CHECK_SAYS(&c, "free");
  return check_result();
}
