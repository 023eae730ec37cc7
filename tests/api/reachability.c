/* What keeps objects: static data, stacks, registers, thread-local variables, uncollectable
   objects, added roots, the insides and ends of objects; and what does not: hidden pointers,
   pointer-free objects, excluded and removed roots. */
#include "check.h"

enum { kCount = 5000 };

struct node {
  struct node *next;
  size_t number;
  char payload[48];
};

/* Makes objects under watch and puts a pointer to object i, `offset` bytes in, into slots[i]. */
struct making {
  struct watch *watch;
  void **slots;
  size_t offset;
};

static NOINLINE void *make(void *arg) {
  struct making *m = (struct making *)arg;
  size_t i;
  for (i = 0; i < m->watch->count; i++) {
    struct node *n = GC_NEW(struct node);
    n->number = i;
    n->next = GC_NEW(struct node);
    n->next->number = i;
    m->slots[i] = (char *)n + m->offset;
    watch_object(m->watch, i, n->next);
  }
  return NULL;
}

/* Watches the objects behind those that the slots point to. */
static void make_in(struct watch *w, void **slots, size_t offset) {
  struct making m;
  m.watch = w;
  m.slots = slots;
  m.offset = offset;
  watch_init(w, kCount);
  GC_disable();
  run_in_thread(make, &m);
  GC_enable();
}

/* Overwrites freed objects, so that a wrongly freed one is noticed. */
static void *churn(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < 4 * kCount; i++)
    memset(GC_malloc(sizeof(struct node)), 0xff, sizeof(struct node));
  return NULL;
}

static void expect_kept(struct watch *w, void **slots, size_t offset, const char *where) {
  size_t i, wrong = 0;
  collect();
  run_in_thread(churn, NULL);
  collect();
  if (watch_gone(w) != 0) {
    fprintf(stderr, "%s: %zu of %zu objects lost\n", where, watch_gone(w), w->count);
    check_failures++;
  }
  for (i = 0; i < w->count; i++) {
    struct node *n = (struct node *)((char *)slots[i] - offset);
    if (w->links[i] && (n->number != i || n->next->number != i)) wrong++;
  }
  if (wrong) {
    fprintf(stderr, "%s: %zu of %zu objects overwritten\n", where, wrong, w->count);
    check_failures++;
  }
}

static void expect_gone(struct watch *w, const char *where) {
  collect();
  if (watch_gone(w) < w->count - w->count / 10) {
    fprintf(stderr, "%s: only %zu of %zu objects gone\n", where, watch_gone(w), w->count);
    check_failures++;
  }
  watch_end(w);
}

static void *static_slots[kCount];
static void *initialized_slots[kCount] = {static_slots};

static void static_data(void) {
  struct watch w;
  static const size_t offsets[] = {0, 1, 8, 33, sizeof(struct node) - 1};
  size_t i;
  for (i = 0; i < sizeof offsets / sizeof *offsets; i++) {
    make_in(&w, static_slots, offsets[i]);
    expect_kept(&w, static_slots, offsets[i], "static data");
    memset(static_slots, 0, sizeof static_slots);
    expect_gone(&w, "cleared static data");
  }
  make_in(&w, initialized_slots, 0);
  expect_kept(&w, initialized_slots, 0, "initialized data");
  memset(initialized_slots, 0, sizeof initialized_slots);
  expect_gone(&w, "cleared initialized data");
}

static NOINLINE void on_the_stack(size_t offset, const char *what) {
  void *volatile slots[kCount];
  struct watch w;
  make_in(&w, (void **)slots, offset);
  expect_kept(&w, (void **)slots, offset, what);
  memset((void *)slots, 0, sizeof slots);
  expect_gone(&w, what);
}

static void *on_a_threads_stack(void *arg) {
  (void)arg;
  on_the_stack(0, "a thread's stack");
  return NULL;
}

/* Only the address just behind each object. The sizes are ones that have no spare byte at the end.
 */
static void past_the_end(void) {
  on_the_stack(sizeof(struct node), "past the end on the stack");
  {
    struct watch w;
    make_in(&w, static_slots, sizeof(struct node));
    expect_kept(&w, static_slots, sizeof(struct node), "past the end in static data");
    memset(static_slots, 0, sizeof static_slots);
    expect_gone(&w, "past the end, cleared");
  }
}

static __thread void *tls_slots[64];

/* The program's own thread-local variables. */
static void *thread_locals(void *arg) {
  struct watch w;
  struct making m;
  (void)arg;
  watch_init(&w, 64);
  m.watch = &w;
  m.slots = (void **)malloc(sizeof tls_slots);
  m.offset = 0;
  GC_disable();
  {
    /* Made on another thread, and carried over out of the collector's sight. */
    size_t i;
    run_in_thread(make, &m);
    for (i = 0; i < 64; i++) tls_slots[i] = m.slots[i];
    free(m.slots);
  }
  GC_enable();
  expect_kept(&w, tls_slots, 0, "thread-local variables");
  memset(tls_slots, 0, sizeof tls_slots);
  expect_gone(&w, "cleared thread-local variables");
  return NULL;
}

static void uncollectable(void) {
  struct watch w;
  void **holder = (void **)GC_malloc_uncollectable(kCount * sizeof(void *));
  GC_hidden_pointer hidden = GC_HIDE_POINTER(holder);
  make_in(&w, holder, 0);
  holder = NULL;
  collect();
  CHECK_EQ(watch_gone(&w), 0);
  expect_kept(&w, (void **)GC_REVEAL_POINTER(hidden), 0, "uncollectable object");
  GC_free(GC_REVEAL_POINTER(hidden));
  expect_gone(&w, "freed uncollectable object");

  /* Pointer-free ones are not searched. */
  holder = (void **)GC_malloc_atomic_uncollectable(kCount * sizeof(void *));
  make_in(&w, holder, 0);
  expect_gone(&w, "atomic uncollectable object");
  GC_free(holder);
}

static void unsearched_memory(void) {
  struct watch w;
  void **holder = (void **)GC_malloc_atomic(kCount * sizeof(void *));
  size_t i;
  make_in(&w, holder, 0);
  expect_gone(&w, "pointer-free object");
  GC_reachable_here(holder);

  make_in(&w, static_slots, 0);
  for (i = 0; i < kCount; i++) static_slots[i] = (void *)GC_HIDE_POINTER(static_slots[i]);
  expect_gone(&w, "hidden pointers");
  memset(static_slots, 0, sizeof static_slots);
}

static void added_roots(void) {
  struct watch w;
  void **slots = (void **)calloc(kCount, sizeof *slots);
  make_in(&w, slots, 0);
  expect_gone(&w, "memory of malloc");

  GC_add_roots(slots, slots + kCount);
  CHECK(!GC_is_tmp_root(slots + 10));
  make_in(&w, slots, 0);
  expect_kept(&w, slots, 0, "added root");
  GC_remove_roots(slots, slots + kCount);
  expect_gone(&w, "removed root");

  /* Ends that are not aligned leave out the words they cut. */
  GC_add_roots((char *)slots - 3, (char *)(slots + kCount) + 3);
  make_in(&w, slots, 0);
  expect_kept(&w, slots, 0, "added root, unaligned");
  GC_remove_roots((char *)slots - 8, (char *)(slots + kCount) + 8);
  expect_gone(&w, "removed root, unaligned");

  /* Many, so that a table of fixed size would not do, each removed by itself. */
  if (on_gleaner()) {
    size_t i;
    for (i = 0; i < kCount; i++) slots[i] = calloc(4, sizeof(void *));
    for (i = 0; i < kCount; i++) GC_add_roots(slots[i], (void **)slots[i] + 4);
    for (i = 0; i < kCount; i++) GC_remove_roots(slots[i], (void **)slots[i] + 4);
    for (i = 0; i < kCount; i++) free(slots[i]);

    /* Part of an added root. */
    GC_add_roots(slots, slots + kCount);
    make_in(&w, slots, 0);
    GC_remove_roots(slots + kCount / 2, slots + kCount);
    collect();
    CHECK_LE(watch_gone(&w), (size_t)kCount / 2);
    CHECK_GE(watch_gone(&w), (size_t)kCount / 2 - kCount / 20);
    GC_remove_roots(slots, slots + kCount);
    expect_gone(&w, "root removed in parts");
  }
  free(slots);
}

static void *excluded_slots[kCount];

static void excluded_roots(void) {
  struct watch w;
  GC_exclude_static_roots(excluded_slots, excluded_slots + kCount);
  make_in(&w, excluded_slots, 0);
  expect_gone(&w, "excluded static data");
  /* What lies around it still counts. */
  make_in(&w, static_slots, 0);
  expect_kept(&w, static_slots, 0, "static data beside");
  memset(static_slots, 0, sizeof static_slots);
  expect_gone(&w, "static data beside, cleared");
}

/* A list through all memory that is only held by its head, with the collector at work meanwhile. */
static void long_list(void) {
  static struct node *head;
  struct node *n;
  size_t i;
  for (i = 0; i < 1000000; i++) {
    n = GC_NEW(struct node);
    n->number = i;
    n->next = head;
    head = n;
  }
  for (n = head; n; n = n->next) CHECK_EQ(n->number, --i);
  CHECK_EQ(i, 0);
  head = NULL;
}

int main(void) {
  GC_INIT();
  static_data();
  on_the_stack(0, "stack");
  on_the_stack(13, "interior on the stack");
  run_in_thread(on_a_threads_stack, NULL);
  past_the_end();
  /* libgc searches them only on threads that registered themselves with GC_get_stack_base. */
  if (on_gleaner()) {
    run_in_thread(thread_locals, NULL);
    thread_locals(NULL);
  }
  uncollectable();
  unsearched_memory();
  added_roots();
  excluded_roots();
  long_list();
  return check_result();
}
