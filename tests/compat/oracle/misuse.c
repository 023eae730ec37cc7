/* Debug objects, and wrong use: what is reported, and what ends the process. */
#include "gc_gcj.h"
#include "gc_inline.h"
#include "gc_mark.h"
#include "gc_typed.h"
#include "oracle.h"

static void debug_objects(void) {
  char *p = (char *)GC_debug_malloc(100, "file.c", 1), *q;
  size_t i, dirty = 0;
  SHOW(p - (char *)GC_base(p));
  SHOW(p - (char *)GC_base(p + 99));
  SHOW(GC_size(GC_base(p)) >= 132);
  for (i = 0; i < 100; i++) dirty += p[i] != 0;
  SHOW(dirty);
  memset(p, 7, 100);
  q = (char *)GC_debug_realloc(p, 300, "file.c", 2);
  SHOW(q[99]);
  SHOW(q - (char *)GC_base(q));
  GC_debug_free(q);
  GC_debug_free(NULL);
  SHOW(GC_debug_realloc(NULL, 10, "file.c", 3) != NULL);
  SHOW(GC_debug_realloc(GC_debug_malloc(10, "file.c", 4), 0, "file.c", 5) == NULL);
  p = (char *)GC_debug_malloc_atomic(10, "file.c", 6);
  SHOW(GC_get_kind_and_size(GC_base(p), NULL));
  p = (char *)GC_debug_malloc_uncollectable(10, "file.c", 7);
  SHOW(GC_get_kind_and_size(GC_base(p), NULL));
  p = (char *)GC_debug_malloc_ignore_off_page(100000, "file.c", 8);
  SHOW(p - (char *)GC_base(p));
  p = (char *)GC_debug_malloc_atomic_ignore_off_page(100000, "file.c", 9);
  SHOW(GC_get_kind_and_size(GC_base(p), NULL));
  p = (char *)GC_debug_malloc_atomic_uncollectable(10, "file.c", 10);
  SHOW(GC_get_kind_and_size(GC_base(p), NULL));
  p = GC_debug_strdup("some text", "file.c", 11);
  SHOW_TEXT("GC_debug_strdup", p);
  SHOW(p - (char *)GC_base(p));
  SHOW(GC_debug_strdup(NULL, "file.c", 12) == NULL);
  SHOW_TEXT("GC_debug_strndup", GC_debug_strndup("some text", 4, "file.c", 13));
  p = (char *)GC_debug_malloc_stubborn(10, "file.c", 14);
  SHOW(p - (char *)GC_base(p));
  SHOW(GC_debug_malloc_replacement(10) != NULL);
  SHOW(GC_debug_realloc_replacement(NULL, 10) != NULL);
  p = (char *)GC_debug_generic_or_special_malloc(10, 1, "file.c", 15);
  SHOW(p - (char *)GC_base(p));
}

static NOINLINE size_t opaque(size_t n) {
  __asm__ volatile("" : "+r"(n));
  return n;
}

/* Each runs in a process of its own. */
static void nothing(void) {}
static void warned(void) { GC_get_warn_proc()((char *)"a warning: %lu\n", 5); }
static void ignored_warning(void) { GC_ignore_warn_proc((char *)"a warning: %lu\n", 5); }
static void abort_on_oom(void) { GC_abort_on_oom(); }
static void GC_CALLBACK on_abort(const char *reason) {
  SHOW_TEXT("the abort function gets", reason != NULL ? "a reason" : "nothing");
}
static void abort_on_oom_told(void) {
  GC_set_abort_func(on_abort);
  GC_abort_on_oom();
}
static void GC_CALLBACK leave(const char *reason) {
  (void)reason;
  _exit(33);
}
static void abort_on_oom_left(void) {
  GC_set_abort_func(leave);
  GC_abort_on_oom();
}
static void same_obj(void) { GC_same_obj(GC_malloc(10), GC_malloc(1000)); }
static void same_obj_told(void) {
  GC_set_abort_func(leave);
  same_obj();
}
static void pre_incr(void) {
  void *p = GC_malloc(10);
  GC_pre_incr(&p, 1000);
}
static void visible(void) { GC_is_visible(GC_malloc_atomic(10)); }
static void many_kinds(void) {
  int i;
  for (i = 0; i < 20; i++) GC_new_kind(GC_new_free_list(), 0, 1, 1);
}
static struct GC_ms_entry *mark_nothing(GC_word *addr, struct GC_ms_entry *msp,
                                        struct GC_ms_entry *limit, GC_word env) {
  (void)addr;
  (void)limit;
  (void)env;
  return msp;
}
static void many_procs(void) {
  int i;
  for (i = 0; i < 70; i++) GC_new_proc(mark_nothing);
}
static void kinds_told(void) {
  GC_set_abort_func(leave);
  many_kinds();
}
static void gcj_index(void) { GC_init_gcj_malloc(20, (void *)(uintptr_t)mark_nothing); }
static void overrun(void) {
  char *p = (char *)GC_debug_malloc(20, "file.c", 1);
  memset(p + opaque(20), 1, 8);
  GC_debug_free(p);
}
static void overrun_found_by_collection(void) {
  char *volatile p = (char *)GC_debug_malloc(24, "file.c", 1);
  memset(p + opaque(24), 1, 8);
  GC_gcollect();
  GC_reachable_here(p);
}
static void freed_twice(void) {
  char *p = (char *)GC_debug_malloc(20, "file.c", 1);
  GC_debug_free(p);
  GC_debug_free(p);
}
static void freed_inside(void) {
  char *p = (char *)GC_debug_malloc(200, "file.c", 1);
  GC_debug_free(p + 16);
}
static void plain_freed_as_debug(void) { GC_debug_free(GC_malloc(100)); }
static void realloc_plain_as_debug(void) { GC_debug_realloc(GC_malloc(100), 200, "file.c", 1); }
static void leak(void) {
  size_t i;
  GC_set_find_leak(1);
  for (i = 0; i < 1000; i++) GC_debug_malloc(50, "file.c", 1);
  collect();
  collect();
}
static void no_leak(void) {
  GC_set_find_leak(1);
  collect();
  collect();
}
static void dump(void) {
  dup2(2, 1); /* libgc dumps to stdout */
  GC_dump();
}
static void free_outside(void) {
  static char in_data[100];
  GC_free(in_data + 16);
}

#define END_OF(fn) oracle_show_end_of(#fn, fn)
static void ends(void) {
  END_OF(nothing);
  END_OF(warned);
  END_OF(ignored_warning);
  END_OF(abort_on_oom);
  END_OF(abort_on_oom_told);
  END_OF(abort_on_oom_left);
  END_OF(same_obj);
  END_OF(same_obj_told);
  END_OF(pre_incr);
  END_OF(visible);
  END_OF(many_kinds);
  END_OF(many_procs);
  END_OF(kinds_told);
  END_OF(gcj_index);
  END_OF(overrun);
  END_OF(overrun_found_by_collection);
  END_OF(freed_twice);
  END_OF(freed_inside);
  END_OF(plain_freed_as_debug);
  END_OF(realloc_plain_as_debug);
  END_OF(leak);
  END_OF(no_leak);
  END_OF(dump);
  END_OF(free_outside);
}

const struct oracle_section misuse_sections[] = {
    {"debug_objects", debug_objects, 1}, {"ends", ends, 1}, {NULL, NULL, 0}};
