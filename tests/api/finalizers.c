/* Finalizers: the four orders over chains, cycles and shared objects; resurrection; what a
   registration returns; and what finalizers may do. Each shape is built kCount times, and counts
   are of shapes. */
#include "check.h"

enum { kCount = 2000 };

struct node {
  struct node *next;
  size_t place; /* in its shape */
  size_t magic;
  char payload[40];
};
enum { kMagic = 0x5eed };

typedef void (*register_fn)(void *, GC_finalization_proc, void *, GC_finalization_proc *, void **);

static size_t finalized[4]; /* by place */
static size_t spoilt;       /* objects that a finalizer found damaged */

static void GC_CALLBACK count(void *object, void *data) {
  struct node *n = (struct node *)object;
  if (n->magic != kMagic || data != (void *)finalized) spoilt++;
  if (n->next && n->next->magic != kMagic) spoilt++;
  finalized[n->place]++;
}

static struct node *new_node(size_t place, struct node *next) {
  struct node *n = GC_NEW(struct node);
  n->magic = kMagic;
  n->place = place;
  n->next = next;
  return n;
}

/* A shape: `length` objects, each referring to the next; if `cyclic` the last to the first. */
struct shape {
  size_t length;
  int cyclic;
  register_fn order[4];
};

static void *build(void *arg) {
  const struct shape *s = (const struct shape *)arg;
  size_t i, k;
  for (i = 0; i < kCount; i++) {
    struct node *all[4] = {NULL, NULL, NULL, NULL}, *next = NULL;
    for (k = s->length; k-- > 0;) next = all[k] = new_node(k, next);
    if (s->cyclic) all[s->length - 1]->next = all[0];
    for (k = 0; k < s->length; k++)
      if (s->order[k]) s->order[k](all[k], count, (void *)finalized, NULL, NULL);
  }
  return NULL;
}

/* Builds the shapes and drops them. */
static void build_shapes(size_t length, int cyclic, register_fn a, register_fn b, register_fn c) {
  struct shape s;
  s.length = length;
  s.cyclic = cyclic;
  s.order[0] = a;
  s.order[1] = b;
  s.order[2] = c;
  memset(finalized, 0, sizeof finalized);
  GC_disable();
  run_in_thread(build, &s);
  GC_enable();
}

#define PLAIN GC_register_finalizer
#define SELF GC_register_finalizer_ignore_self
#define NO_ORDER GC_register_finalizer_no_order
#define UNREACHABLE GC_register_finalizer_unreachable

static void chains(void) {
  register_fn orders[2];
  size_t i;
  orders[0] = PLAIN;
  orders[1] = SELF;
  for (i = 0; i < 2; i++) {
    build_shapes(3, 0, orders[i], orders[i], orders[i]);
    collect();
    CHECK_MOSTLY(finalized[0], kCount);
    CHECK_EQ(finalized[1], 0);
    CHECK_EQ(finalized[2], 0);
    collect();
    CHECK_MOSTLY(finalized[1], kCount);
    CHECK_LE(finalized[1], finalized[0]);
    CHECK_EQ(finalized[2], 0);
    collect();
    CHECK_MOSTLY(finalized[2], kCount);
    collect();
    CHECK_LE(finalized[0], kCount);
    CHECK_LE(finalized[2], kCount);
  }
  /* The order reaches through objects that have no finalizer. */
  build_shapes(3, 0, PLAIN, NULL, PLAIN);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  CHECK_EQ(finalized[2], 0);
  collect();
  CHECK_MOSTLY(finalized[2], kCount);

  /* no_order: all at once. */
  build_shapes(3, 0, NO_ORDER, NO_ORDER, NO_ORDER);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  CHECK_MOSTLY(finalized[1], kCount);
  CHECK_MOSTLY(finalized[2], kCount);

  /* What a no_order object refers to does not wait for it, unless it is registered as unreachable.
   */
  build_shapes(2, 0, NO_ORDER, PLAIN, NULL);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  CHECK_MOSTLY(finalized[1], kCount);
  build_shapes(2, 0, NO_ORDER, UNREACHABLE, NULL);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  CHECK_EQ(finalized[1], 0);
  collect();
  CHECK_MOSTLY(finalized[1], kCount);
  /* What a plain one refers to waits, of whatever order. */
  build_shapes(2, 0, PLAIN, NO_ORDER, NULL);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  CHECK_EQ(finalized[1], 0);
  collect();
  CHECK_MOSTLY(finalized[1], kCount);
  build_shapes(2, 0, PLAIN, UNREACHABLE, NULL);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  CHECK_EQ(finalized[1], 0);
  collect();
  CHECK_MOSTLY(finalized[1], kCount);
}

static void cycles(void) {
  /* A plain cycle is never finalized, nor one of ignore_self objects if it is longer than one. */
  build_shapes(2, 1, PLAIN, PLAIN, NULL);
  collect();
  collect();
  CHECK_EQ(finalized[0] + finalized[1], 0);
  build_shapes(1, 1, PLAIN, NULL, NULL);
  collect();
  CHECK_EQ(finalized[0], 0);
  build_shapes(2, 1, SELF, SELF, NULL);
  collect();
  CHECK_EQ(finalized[0] + finalized[1], 0);

  build_shapes(1, 1, SELF, NULL, NULL);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  build_shapes(1, 1, NO_ORDER, NULL, NULL);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  build_shapes(3, 1, NO_ORDER, NO_ORDER, NO_ORDER);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
  CHECK_MOSTLY(finalized[1], kCount);
  CHECK_MOSTLY(finalized[2], kCount);
  /* A cycle through objects without a finalizer. */
  build_shapes(3, 1, PLAIN, NULL, NULL);
  collect();
  CHECK_EQ(finalized[0], 0);
  build_shapes(3, 1, NO_ORDER, NULL, NULL);
  collect();
  CHECK_MOSTLY(finalized[0], kCount);
}

/* Objects that their finalizer makes reachable again. */
static struct node *rescued[kCount];
static size_t rescued_count;
static void GC_CALLBACK rescue(void *object, void *data) {
  (void)data;
  rescued[rescued_count++] = (struct node *)object;
}

static void *build_rescued(void *arg) {
  size_t i;
  struct watch *w = (struct watch *)arg;
  for (i = 0; i < kCount; i++) {
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
  size_t i;
  watch_init(&w, kCount);
  memset(finalized, 0, sizeof finalized);
  rescued_count = 0;
  GC_disable();
  run_in_thread(build_rescued, &w);
  GC_enable();
  collect();
  CHECK_MOSTLY(rescued_count, kCount);
  for (i = 0; i < 3; i++) collect();
  CHECK_LE(rescued_count, kCount); /* once each */
  CHECK_EQ(watch_gone(&w), 0);
  CHECK_EQ(finalized[1], 0); /* the tails are reachable */
  for (i = 0; i < rescued_count; i++)
    if (rescued[i]->magic != kMagic || rescued[i]->next->magic != kMagic) spoilt++;
  memset(rescued, 0, sizeof rescued);
  collect();
  CHECK_MOSTLY(watch_gone(&w), kCount);
  CHECK_MOSTLY(finalized[1], kCount);
}

static void GC_CALLBACK other(void *object, void *data) {
  (void)object;
  (void)data;
  spoilt++; /* always replaced before it could run */
}

static void *replaced(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < kCount; i++) {
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
  char *p = (char *)GC_malloc(100), *inside;

  memset(finalized, 0, sizeof finalized);
  GC_disable();
  run_in_thread(replaced, NULL);
  GC_enable();
  collect();
  CHECK_MOSTLY(finalized[0], kCount / 2);
  CHECK_LE(finalized[0], kCount / 2);

  /* Not in the heap: ignored. */
  GC_register_finalizer(outside, other, NULL, &old_fn, &old_data);
  CHECK(old_fn == NULL && old_data == NULL);

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

/* The data of a registration is kept for the call, what the object refers to as well. */
static size_t data_intact;
static void GC_CALLBACK check_data(void *object, void *data) {
  struct node *d = (struct node *)data;
  if (d->magic == kMagic && d->next->magic == kMagic && d->place == *(size_t *)object)
    data_intact++;
}

static void *with_data(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < kCount; i++) {
    size_t *n = (size_t *)GC_malloc_atomic(20);
    *n = i;
    GC_register_finalizer(n, check_data, new_node(i, new_node(0, NULL)), NULL, NULL);
  }
  return NULL;
}

static void *churn(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < 20 * kCount; i++)
    memset(GC_malloc(sizeof(struct node)), 0xff, sizeof(struct node));
  return NULL;
}

static void data_is_kept(void) {
  GC_disable();
  run_in_thread(with_data, NULL);
  GC_enable();
  GC_set_finalize_on_demand(1);
  collect();
  run_in_thread(churn, NULL);
  collect();
  GC_set_finalize_on_demand(0);
  GC_invoke_finalizers();
  CHECK_MOSTLY(data_intact, kCount);
}

/* A finalizer allocates, registers the next one, and collects. */
static size_t generations;
static void GC_CALLBACK again(void *object, void *data) {
  size_t left = (size_t)data;
  (void)object;
  generations++;
  memset(GC_malloc(1000), 1, 1000);
  if (left % 4 == 0) GC_gcollect();
  if (left) GC_register_finalizer(GC_malloc(32), again, (void *)(left - 1), NULL, NULL);
}

static void *start_again(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < 10; i++) GC_register_finalizer(GC_malloc(32), again, (void *)20, NULL, NULL);
  return NULL;
}

static void busy_finalizers(void) {
  size_t i;
  run_in_thread(start_again, NULL);
  for (i = 0; i < 60; i++) collect();
  CHECK_MOSTLY(generations, 10 * 21);
}

/* Finalizers run without explicit calls, from allocation. */
static void *allocate_until_finalized(void *arg) {
  size_t i;
  for (i = 0; i < 20000000 && finalized[0] < kCount / 2; i++) GC_malloc(100);
  *(size_t *)arg = i;
  return NULL;
}

static void during_allocation(void) {
  size_t i = 0;
  build_shapes(1, 0, PLAIN, NULL, NULL);
  run_in_thread(allocate_until_finalized, &i);
  CHECK_GE(finalized[0], kCount / 2);
}

int main(void) {
  GC_INIT();
  GC_set_warn_proc(GC_ignore_warn_proc); /* libgc warns of cycles */
  chains();
  cycles();
  resurrection();
  registrations();
  data_is_kept();
  busy_finalizers();
  during_allocation();
  CHECK_EQ(spoilt, 0);
  return check_result();
}
