/* What ends the process, and how: by abort() and with a message, unless the program's abort
   function leaves before. What is only told goes on. */
#include "capture.h"

#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>

static void nothing(void) {}
static void warned(void) { GC_get_warn_proc()((char *)"a warning: %lu\n", 5); }
static void ignored_warning(void) { GC_ignore_warn_proc((char *)"a warning: %lu\n", 5); }
static void GC_CALLBACK tell(const char *reason) {
  fprintf(stderr, "told %s\n", reason != NULL ? "a reason" : "no reason");
}
static void GC_CALLBACK leave(const char *reason) { _exit(33); }
static void oom(void) { GC_abort_on_oom(); }
static void oom_told(void) {
  GC_set_abort_func(tell);
  GC_abort_on_oom();
}
static void oom_left(void) {
  GC_set_abort_func(leave);
  GC_abort_on_oom();
}
static void other_object(void) { GC_same_obj(GC_malloc(10), GC_malloc(1000)); }
static void other_object_left(void) {
  GC_set_abort_func(leave);
  other_object();
}
static void beyond_its_end(void) {
  void *p = GC_malloc(10);
  GC_pre_incr(&p, 1000);
}
static void invisible(void) { GC_is_visible(GC_malloc_atomic(10)); }
static void many_kinds(void) {
  for (int i = 0; i < 20; i++) GC_new_kind(GC_new_free_list(), 0, 1, 1);
}
static void many_kinds_left(void) {
  GC_set_abort_func(leave);
  many_kinds();
}
static struct GC_ms_entry *mark_nothing(GC_word *addr, struct GC_ms_entry *msp,
                                        struct GC_ms_entry *limit, GC_word env) {
  return msp;
}
static void many_procedures(void) {
  for (int i = 0; i < 70; i++) GC_new_proc(mark_nothing);
}
static void procedure_of_others(void) { GC_init_gcj_malloc(20, (void *)(uintptr_t)mark_nothing); }

enum { kAborts = -1 }; /* else a status */
static const struct {
  void (*fn)(void);
  int end_on_libgc, end_on_gleaner;
  const char *said; /* by Gleaner; NULL for nothing by either */
} cases[] = {
    {nothing, 0, 0, NULL},
    {warned, 0, 0, "a warning: 5"},
    {ignored_warning, 0, 0, NULL},
    {oom, 1, 1, "gleaner: "},
    {oom_told, 1, 1, "told no reason"},
    {oom_left, 33, 33, "gleaner: "},
    {other_object, kAborts, kAborts, "gleaner: fatal: GC_same_obj"},
    {other_object_left, 33, 33, "gleaner: fatal: GC_same_obj"},
    {beyond_its_end, kAborts, kAborts, "gleaner: fatal: "},
    {many_kinds, kAborts, kAborts, "gleaner: fatal: GC_new_kind: all 16 kinds are in use\n"},
    {many_kinds_left, 33, 33, "gleaner: fatal: GC_new_kind: all 16 kinds are in use\n"},
    {many_procedures, kAborts, kAborts, "gleaner: fatal: GC_new_proc: all 64 numbers are in use\n"},
    /* No place where pointers are looked for. libgc does not notice at the base of an object. */
    {invisible, 0, kAborts, "gleaner: fatal: GC_is_visible"},
    /* libgc aborts, Gleaner ignores it. */
    {procedure_of_others, kAborts, 0, "gleaner: GC_init_gcj_malloc"}};

static void (*chosen)(void);
static void run_chosen(void) {
  GC_INIT();
  chosen();
}

int main(void) {
  static struct captured c;
  fail_after(50);
  for (size_t i = 0; i < COUNT_OF(cases); i++) {
    const int end = on_gleaner() ? cases[i].end_on_gleaner : cases[i].end_on_libgc;
    chosen = cases[i].fn;
    capture(&c, run_chosen);
    CHECK_CAPTURED(
        &c, end == kAborts ? was_aborted(&c) : WIFEXITED(c.status) && WEXITSTATUS(c.status) == end);
    if (cases[i].said == NULL)
      CHECK_CAPTURED(&c, c.text[0] == 0);
    else if (on_gleaner())
      CHECK_SAYS(&c, cases[i].said);
    else if (chosen != many_kinds_left && chosen != invisible) /* libgc says it afterwards; never */
      CHECK_CAPTURED(&c, c.text[0] != 0);
    if (check_failures) fprintf(stderr, "  in case %zu\n", i);
  }
  return check_result();
}
