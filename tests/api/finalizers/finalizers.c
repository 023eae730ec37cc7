/* Finalizers: the four orders over chains, cycles and shared objects; resurrection; what a
   registration returns; pointers into an object; and what finalizers may do. Each shape is built
   kCount times, and counts are of shapes. Rule 25. */
#include "check.h"

#include <gc/javaxfc.h>

enum { kCount = 2000, kRounds = 4 };

struct node {
  struct node *next;
  size_t place; /* in its shape */
  size_t magic;
  char payload[40];
};
enum { kMagic = 0x5eed };

typedef void (*register_fn)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);

static size_t finalized[4]; /* by place; of what is not a shape of the table below */
static size_t spoilt;       /* objects that a finalizer found damaged */

static void GC_CALLBACK count(void *object, void *data) {
  struct node *n = (struct node *)object;
  if (n->magic != kMagic || (n->next && n->next->magic != kMagic)) spoilt++;
  ((size_t *)data)[n->place]++;
}

static struct node *new_node(size_t place, struct node *next) {
  struct node *n = GC_NEW(struct node);
  n->magic = kMagic;
  n->place = place;
  n->next = next;
  return n;
}

#define PLAIN GC_register_finalizer
#define SELF GC_register_finalizer_ignore_self
#define NO_ORDER GC_register_finalizer_no_order
#define UNREACHABLE GC_register_finalizer_unreachable

/* `length` objects, each referring to the next; if `cyclic` the last to the first. By the
   collection with that number each has been finalized; 0 if it never is. */
struct shape {
  size_t length;
  int cyclic;
  register_fn order[3];
  size_t by[3];
  size_t finalized[3];
};
static struct shape shapes[] = {
    {3, 0, {PLAIN, PLAIN, PLAIN}, {1, 2, 3}, {0}},
    {3, 0, {SELF, SELF, SELF}, {1, 2, 3}, {0}},
    {3, 0, {UNREACHABLE, UNREACHABLE, UNREACHABLE}, {1, 2, 3}, {0}},
    /* Objects without a finalizer do not change the order. */
    {3, 0, {PLAIN, NULL, PLAIN}, {1, 0, 2}, {0}},
    {2, 0, {PLAIN, NULL}, {1, 0}, {0}},
    {3, 0, {NO_ORDER, NO_ORDER, NO_ORDER}, {1, 1, 1}, {0}},
    /* What a no_order object refers to does not wait for it, unless it is registered as
     * unreachable.
     */
    {2, 0, {NO_ORDER, PLAIN}, {1, 1}, {0}},
    {2, 0, {NO_ORDER, UNREACHABLE}, {1, 2}, {0}},
    /* What a plain one refers to waits, of whatever order. */
    {2, 0, {PLAIN, NO_ORDER}, {1, 2}, {0}},
    {2, 0, {PLAIN, UNREACHABLE}, {1, 2}, {0}},
    /* A plain cycle is never finalized, nor one of ignore_self objects if it is longer than one. */
    {1, 1, {PLAIN}, {0}, {0}},
    {2, 1, {PLAIN, PLAIN}, {0, 0}, {0}},
    {3, 1, {PLAIN, NULL, NULL}, {0, 0, 0}, {0}},
    {1, 1, {SELF}, {1}, {0}},
    {2, 1, {SELF, SELF}, {0, 0}, {0}},
    {1, 1, {UNREACHABLE}, {0}, {0}},
    {1, 1, {NO_ORDER}, {1}, {0}},
    {3, 1, {NO_ORDER, NULL, NULL}, {1, 0, 0}, {0}},
    {3, 1, {NO_ORDER, NO_ORDER, NO_ORDER}, {1, 1, 1}, {0}}};

static void *build(void *arg) {
  struct shape *s = (struct shape *)arg;
  for (size_t i = 0; i < kCount; i++) {
    struct node *all[3] = {NULL, NULL, NULL}, *next = NULL;
    for (size_t k = s->length; k-- > 0;) next = all[k] = new_node(k, next);
    if (s->cyclic) all[s->length - 1]->next = all[0];
    for (size_t k = 0; k < s->length; k++)
      if (s->order[k]) s->order[k](all[k], count, s->finalized, NULL, NULL);
  }
  return NULL;
}

static void check_shape(struct shape *s) {
  memset(s->finalized, 0, sizeof s->finalized);
  make_in_thread(build, s);
  for (size_t round = 1; round <= kRounds; round++) {
    collect();
    for (size_t k = 0; k < s->length; k++) {
      const int is_due = s->by[k] != 0 && s->by[k] <= round;
      const size_t n = s->finalized[k];
      if (is_due ? n >= kCount - kCount / 10 && n <= kCount : n == 0) continue;
      fprintf(stderr, "shape %zu, collection %zu: %zu of place %zu\n", (size_t)(s - shapes), round,
              n, k);
      check_failures++;
    }
  }
}

static size_t warnings;
static void GC_CALLBACK count_warning(char *format, GC_word argument) {
  warnings++;
  CHECK_EQ(strncmp(format, "GC Warning: ", 12), 0);
}

static void orders(void) {
  for (size_t i = 0; i < COUNT_OF(shapes); i++) check_shape(&shapes[i]);
  /* Some cycles are told of. */
  warnings = 0;
  GC_set_warn_proc(count_warning);
  check_shape(&shapes[11]);
  CHECK_GE(warnings, 1);
  GC_set_warn_proc(GC_ignore_warn_proc);
  GC_set_java_finalization(0);
  check_shape(&shapes[0]);
  check_shape(&shapes[5]);
  if (on_gleaner()) check_shape(&shapes[2]); /* libgc has this order for Java alone */
  GC_set_java_finalization(1);
}

/* Objects that their finalizer makes reachable again. */
static struct node *rescued[kCount];
static size_t rescued_count;
static void GC_CALLBACK rescue(void *object, void *data) {
  rescued[rescued_count++] = (struct node *)object;
}

static void *build_rescued(void *arg) {
  struct watch *w = (struct watch *)arg;
  for (size_t i = 0; i < kCount; i++) {
    struct node *tail = new_node(1, NULL);
    struct node *n = new_node(0, tail);
    GC_register_finalizer_no_order(n, rescue, NULL, NULL, NULL);
    GC_register_finalizer_unreachable(tail, count, (void *)finalized, NULL, NULL);
    w->links[i] = GC_HIDE_POINTER(n);
    GC_register_long_link((void **)&w->links[i], n);
  }
  return NULL;
}

static void resurrection(void) {
  struct watch w;
  watch_init(&w, kCount);
  memset(finalized, 0, sizeof finalized);
  rescued_count = 0;
  make_in_thread(build_rescued, &w);
  collect();
  CHECK_MOSTLY(rescued_count, kCount);
  for (size_t i = 0; i < 3; i++) collect();
  CHECK_LE(rescued_count, kCount); /* once each */
  CHECK_EQ(watch_gone(&w), 0);
  CHECK_EQ(finalized[1], 0); /* the tails are reachable */
  for (size_t i = 0; i < rescued_count; i++)
    if (rescued[i]->magic != kMagic || rescued[i]->next->magic != kMagic) spoilt++;
  memset(rescued, 0, sizeof rescued);
  CHECK_GONE(&w);
  CHECK_MOSTLY(finalized[1], kCount);
}

static void GC_CALLBACK other(void *object, void *data) {
  spoilt++; /* always replaced before it could run */
}

static void *replaced(void *arg) {
  for (size_t i = 0; i < kCount; i++) {
    struct node *n = new_node(0, NULL);
    GC_finalization_proc old_fn = other;
    void *old_data = &old_fn;
    int a, b;
    GC_register_finalizer(n, other, &a, &old_fn, &old_data);
    CHECK(old_fn == NULL && old_data == NULL);
    GC_register_finalizer_ignore_self(n, other, &b, &old_fn, &old_data);
    CHECK(old_fn == other && old_data == &a);
    GC_register_finalizer_no_order(n, count, (void *)finalized, &old_fn, &old_data);
    CHECK(old_fn == other && old_data == &b);
    GC_register_finalizer_unreachable(n, NULL, NULL, &old_fn, &old_data);
    CHECK(old_fn == count && old_data == (void *)finalized);
    old_fn = other;
    GC_register_finalizer(n, NULL, NULL, &old_fn, &old_data);
    CHECK(old_fn == NULL && old_data == NULL);
    /* Half of them get one in the end; either place for the old values may be missing. */
    if (i % 2) continue;
    GC_REGISTER_FINALIZER(n, other, &a, NULL, &old_data);
    GC_REGISTER_FINALIZER_NO_ORDER(n, count, (void *)finalized, &old_fn, NULL);
    CHECK(old_fn == other);
  }
  return NULL;
}

static void registrations(void) {
  GC_finalization_proc old_fn = other;
  void *old_data = &old_fn;
  static char outside[64];
  const register_fn orders[] = {PLAIN, SELF, NO_ORDER, UNREACHABLE};
  char *p = (char *)GC_malloc(100), *inside;

  memset(finalized, 0, sizeof finalized);
  make_in_thread(replaced, NULL);
  collect();
  CHECK_MOSTLY(finalized[0], kCount / 2);
  CHECK_LE(finalized[0], kCount / 2);

  for (size_t i = 0; i < COUNT_OF(orders); i++) {
    /* Each says what it replaces, whatever the other's order. */
    old_fn = other;
    old_data = &old_fn;
    orders[i](p, count, finalized, &old_fn, &old_data);
    CHECK(old_fn == NULL && old_data == NULL);
    orders[i](p, NULL, NULL, &old_fn, &old_data);
    CHECK(old_fn == count && old_data == (void *)finalized);
    /* Not in the heap: ignored. */
    orders[i](outside, other, NULL, &old_fn, &old_data);
    CHECK(old_fn == NULL && old_data == NULL);
  }

  /* Inside an object, as ecl's tagged pointers are: a finalizer of its own. (From the second
     granule on libgc runs it while the object is in use, and may crash.) */
  inside = p + (on_gleaner() ? 16 : 1);
  old_fn = other;
  old_data = &old_fn;
  GC_register_finalizer(inside, other, &spoilt, &old_fn, &old_data);
  CHECK(old_fn == NULL && old_data == NULL);
  GC_register_finalizer(p, NULL, NULL, &old_fn, &old_data);
  CHECK(old_fn == NULL && old_data == NULL);
  collect();
  GC_register_finalizer(inside, NULL, NULL, &old_fn, &old_data);
  CHECK(old_fn == other && old_data == &spoilt);

  /* An uncollectable object may have one, which never runs. */
  GC_register_finalizer(GC_malloc_uncollectable(100), other, NULL, NULL, NULL);
  collect();
  GC_reachable_here(p);
}

/* That pointer is passed, when the object has gone and not before. */
static size_t inside_runs, other_pointers;
static char *tagged[kCount];
static void GC_CALLBACK count_inside(void *object, void *data) {
  inside_runs++;
  other_pointers += GC_HIDE_POINTER(object) != (GC_hidden_pointer)data;
}
static void *register_inside(void *arg) {
  for (size_t i = 0; i < kCount; i++) {
    char *p = (char *)GC_NEW(struct node) + 1;
    if (arg) tagged[i] = p;
    GC_register_finalizer_no_order(p, count_inside, (void *)GC_HIDE_POINTER(p), NULL, NULL);
  }
  return NULL;
}
static void inside_objects(void) {
  run_in_thread(register_inside, NULL);
  collect();
  CHECK_MOSTLY(inside_runs, kCount);
  collect();
  inside_runs = 0;
  run_in_thread(register_inside, tagged);
  collect();
  CHECK_LE(inside_runs, kCount / 10); /* late ones of before */
  memset(tagged, 0, sizeof tagged);
  collect();
  CHECK_MOSTLY(inside_runs, kCount);
  CHECK_EQ(other_pointers, 0);
}

/* The data of a registration is kept for the call, what the object refers to as well. */
static size_t data_intact;
static void GC_CALLBACK check_data(void *object, void *data) {
  struct node *d = (struct node *)data;
  if (d->magic == kMagic && d->next->magic == kMagic && d->place == *(size_t *)object)
    data_intact++;
}

static void *with_data(void *arg) {
  for (size_t i = 0; i < kCount; i++) {
    size_t *n = (size_t *)GC_malloc_atomic(20);
    *n = i;
    GC_register_finalizer(n, check_data, new_node(i, new_node(0, NULL)), NULL, NULL);
  }
  return NULL;
}

static void data_is_kept(void) {
  make_in_thread(with_data, NULL);
  GC_set_finalize_on_demand(1);
  collect();
  run_in_thread(overwrite, (void *)sizeof(struct node));
  collect();
  GC_set_finalize_on_demand(0);
  GC_invoke_finalizers();
  CHECK_MOSTLY(data_intact, kCount);
}

/* A finalizer allocates, registers the next one, and collects. */
static size_t generations;
static void GC_CALLBACK again(void *object, void *data) {
  size_t left = (size_t)data;
  generations++;
  memset(GC_malloc(1000), 1, 1000);
  if (left % 4 == 0) GC_gcollect();
  if (left) GC_register_finalizer(GC_malloc(32), again, (void *)(left - 1), NULL, NULL);
}

static void *start_again(void *arg) {
  for (size_t i = 0; i < 10; i++)
    GC_register_finalizer(GC_malloc(32), again, (void *)20, NULL, NULL);
  return NULL;
}

static void busy_finalizers(void) {
  run_in_thread(start_again, NULL);
  for (size_t i = 0; i < 60; i++) collect();
  CHECK_MOSTLY(generations, 10 * 21);
}

/* Finalizers run without explicit calls, from allocation. */
static void *allocate_until_finalized(void *shape) {
  for (size_t i = 0; i < 20000000 && ((struct shape *)shape)->finalized[0] < kCount / 2; i++)
    GC_malloc(100);
  return NULL;
}

static void during_allocation(void) {
  struct shape *single = &shapes[4];
  memset(single->finalized, 0, sizeof single->finalized);
  make_in_thread(build, single);
  run_in_thread(allocate_until_finalized, single);
  CHECK_GE(single->finalized[0], kCount / 2);
}

int main(void) {
  GC_INIT();
  GC_set_warn_proc(GC_ignore_warn_proc); /* of cycles */
  orders();
  resurrection();
  registrations();
  inside_objects();
  data_is_kept();
  busy_finalizers();
  during_allocation();
  CHECK_EQ(spoilt, 0);
  return check_result();
}
