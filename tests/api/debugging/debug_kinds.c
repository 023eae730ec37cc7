/* Allocation with checks of kinds of the program's own and of objects described by their type. */
#include "capture.h"

#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>

enum { kCount = 1000 };

/* Static: what they refer to is kept. */
static void **volatile parents[3][kCount];

struct making {
  int kind;
  struct watch watch;
  void **volatile *parents;
};

/* Parents of the kind, each with a plain child under watch. */
static void *make_parents(void *arg) {
  struct making *m = (struct making *)arg;
  for (size_t i = 0; i < kCount; i++) {
    void **p = (void **)GC_debug_generic_or_special_malloc(24, m->kind, "kinds.c", 11);
    CHECK_PTR((char *)GC_base(p), (char *)p - GC_get_debug_header_size());
    p[0] = GC_malloc(40);
    m->parents[i] = p;
    watch_object(&m->watch, i, p[0]);
  }
  return NULL;
}

/* Pointer-free objects keep nothing, others do; the program's kind is searched by its length. */
static void generic(void) {
  struct making m[3];
  GC_INIT();
  m[0].kind = 0;
  m[1].kind = 1;
  m[2].kind = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
  for (size_t i = 0; i < 3; i++) {
    watch_init(&m[i].watch, kCount);
    m[i].parents = parents[i];
    run_in_thread(make_parents, &m[i]);
  }
  CHECK_GONE(&m[0].watch);
  CHECK_EQ(watch_gone(&m[1].watch), 0);
  CHECK_EQ(watch_gone(&m[2].watch), 0);
  memset((void *)parents, 0, sizeof parents);
  collect();
  for (size_t i = 0; i < 3; i++) CHECK_MOSTLY(watch_gone(&m[i].watch), kCount);
}

static void damaged(void) {
  GC_INIT();
  int kind = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
  char *p = (char *)GC_debug_generic_or_special_malloc(40, kind, "damaged.c", 13);
  if (on_gleaner()) { /* libgc aborts */
    p = (char *)GC_debug_realloc(p, 24, "damaged.c", 12);
    p = (char *)GC_debug_realloc(p, 40, "damaged.c", 13);
  }
  spoil(p, 40);
  GC_debug_free(p);
}

/* --- Objects with a type --- */

static size_t with_debug_environment, with_other;

/* Marks the second word of an object whose first word is not zero. */
static struct GC_ms_entry *mark_second(GC_word *address, struct GC_ms_entry *top,
                                       struct GC_ms_entry *limit, GC_word environment) {
  void **object = (void **)((char *)address + (environment ? GC_get_debug_header_size() : 0));
  __sync_fetch_and_add(environment ? &with_debug_environment : &with_other, 1);
  if (object[0] == NULL || object[1] == NULL) return top;
  return GC_MARK_AND_PUSH(object[1], top, limit, &object[1]);
}

static GC_word type[2] = {0, 2 * sizeof(GC_word) | GC_DS_LENGTH};

static void *make_typed(void *arg) {
  struct making *m = (struct making *)arg;
  for (size_t i = 0; i < kCount; i++) {
    void **p = (void **)GC_debug_gcj_malloc(24, type, "typed.c", 14);
    CHECK_PTR(p[0], type);
    CHECK_PTR((char *)GC_base(p), (char *)p - GC_get_debug_header_size());
    p[1] = GC_malloc(40);
    m->parents[i] = p;
    watch_object(&m->watch, i, p[1]);
  }
  return NULL;
}

static void typed(void) {
  struct making m;
  GC_INIT();
  GC_init_gcj_malloc(0, (void *)mark_second);
  watch_init(&m.watch, kCount);
  m.parents = parents[0];
  run_in_thread(make_typed, &m);
  CHECK_KEPT(&m.watch);
  CHECK_GE(with_debug_environment, kCount);
  CHECK_EQ(with_other, 0);
  GC_debug_free(parents[0][0]);
  memset((void *)parents, 0, sizeof parents);
  CHECK_GONE(&m.watch);
}

static void unknown(void) {
  GC_INIT();
  errno = 0;
  CHECK_NULL(GC_debug_generic_or_special_malloc(24, 15, "unknown.c", 15));
  CHECK_EQ(errno, EINVAL);
  CHECK_NULL(GC_debug_generic_or_special_malloc(24, -1, "unknown.c", 16));
  CHECK_NE((intptr_t)GC_debug_gcj_malloc(24, type, "unknown.c", 17), 0);
}

int main(void) {
  static struct captured c;
  fail_after(50);
  CAPTURE_WELL(&c, generic);
  CAPTURE_WELL(&c, typed);
  CAPTURE_WELL(&c, damaged);
  CHECK_SAYS(&c, "damaged.c:13");
  if (!on_gleaner()) return check_result();
  CAPTURE_WELL(&c, unknown);
  CHECK_SAYS(&c, "GC_debug_generic_or_special_malloc: there is no kind 15 (unknown.c:15)\n");
  CHECK_SAYS(&c, "unknown.c:16");
  CHECK_SAYS(&c, "GC_debug_gcj_malloc");
  return check_result();
}
