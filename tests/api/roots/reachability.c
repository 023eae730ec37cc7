/* What keeps objects: static data, stacks, registers, thread-local variables, uncollectable
   objects, added roots, the insides of objects; and what does not: hidden pointers,
   pointer-free objects, excluded and removed roots. */
#include "survival.h"

enum { kCount = 5000 };

static void *static_slots[kCount];
static void *initialized_slots[kCount] = {static_slots};

static void static_data(void) {
  struct chains c;
  static const size_t offsets[] = {0, 1, 8, 33, sizeof(struct node) - 1};
  for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++) {
    make_in(&c, static_slots, kCount, offsets[i]);
    expect_kept(&c, "static data");
    expect_gone_when_cleared(&c, "cleared static data");
  }
  make_in(&c, initialized_slots, kCount, 0);
  expect_kept(&c, "initialized data");
  expect_gone_when_cleared(&c, "cleared initialized data");
}

static NOINLINE void on_the_stack(size_t offset, const char *what) {
  void *volatile slots[kCount];
  struct chains c;
  make_in(&c, (void **)slots, kCount, offset);
  expect_kept(&c, what);
  expect_gone_when_cleared(&c, what);
}

static void *on_a_threads_stack(void *arg) {
  on_the_stack(0, "a thread's stack");
  return NULL;
}

static __thread void *tls_slots[64];

/* The program's own thread-local variables: made on another thread, and carried over out of the
   collector's sight. */
static void *thread_locals(void *unused) {
  struct chains c;
  void **slots = (void **)malloc(sizeof tls_slots);
  GC_disable();
  make_in(&c, slots, COUNT_OF(tls_slots), 0);
  memcpy(tls_slots, slots, sizeof tls_slots);
  free(slots);
  c.where = tls_slots;
  GC_enable();
  expect_kept(&c, "thread-local variables");
  expect_gone_when_cleared(&c, "cleared thread-local variables");
  return unused;
}

static void uncollectable(void) {
  struct chains c;
  void **holder = (void **)GC_malloc_uncollectable(kCount * sizeof(void *));
  GC_hidden_pointer hidden = GC_HIDE_POINTER(holder);
  make_in(&c, holder, kCount, 0);
  holder = NULL;
  c.where = NULL;
  CHECK_KEPT(&c.watch);
  c.where = (void **)GC_REVEAL_POINTER(hidden);
  expect_kept(&c, "uncollectable object");
  GC_free(GC_REVEAL_POINTER(hidden));
  expect_gone(&c, "freed uncollectable object");

  /* Pointer-free ones are not searched. */
  holder = (void **)GC_malloc_atomic_uncollectable(kCount * sizeof(void *));
  make_in(&c, holder, kCount, 0);
  expect_gone(&c, "atomic uncollectable object");
  GC_free(holder);
}

static void unsearched_memory(void) {
  struct chains c;
  void **holder = (void **)GC_malloc_atomic(kCount * sizeof(void *));
  make_in(&c, holder, kCount, 0);
  expect_gone(&c, "pointer-free object");
  GC_reachable_here(holder);

  make_in(&c, static_slots, kCount, 0);
  for (size_t i = 0; i < kCount; i++) static_slots[i] = (void *)GC_HIDE_POINTER(static_slots[i]);
  expect_gone(&c, "hidden pointers");
  memset(static_slots, 0, sizeof static_slots);
}

static void added_roots(void) {
  struct chains c;
  void **slots = (void **)calloc(kCount, sizeof *slots);
  make_in(&c, slots, kCount, 0);
  expect_gone(&c, "memory of malloc");

  GC_add_roots(slots, slots + kCount);
  CHECK(!GC_is_tmp_root(slots + 10));
  make_in(&c, slots, kCount, 0);
  expect_kept(&c, "added root");
  GC_remove_roots(slots, slots + kCount);
  expect_gone(&c, "removed root");

  /* Ends that are not aligned leave out the words they cut. */
  GC_add_roots((char *)slots - 3, (char *)(slots + kCount) + 3);
  make_in(&c, slots, kCount, 0);
  expect_kept(&c, "added root, unaligned");
  GC_remove_roots((char *)slots - 8, (char *)(slots + kCount) + 8);
  expect_gone(&c, "removed root, unaligned");

  /* Many, so that a table of fixed size would not do, each removed by itself. */
  if (on_gleaner()) {
    for (size_t i = 0; i < kCount; i++) slots[i] = calloc(4, sizeof(void *));
    for (size_t i = 0; i < kCount; i++) GC_add_roots(slots[i], (void **)slots[i] + 4);
    for (size_t i = 0; i < kCount; i++) GC_remove_roots(slots[i], (void **)slots[i] + 4);
    for (size_t i = 0; i < kCount; i++) free(slots[i]);

    /* Part of an added root. */
    GC_add_roots(slots, slots + kCount);
    make_in(&c, slots, kCount, 0);
    GC_remove_roots(slots + kCount / 2, slots + kCount);
    collect();
    CHECK_LE(watch_gone(&c.watch), (size_t)kCount / 2);
    CHECK_GE(watch_gone(&c.watch), (size_t)kCount / 2 - kCount / 20);
    GC_remove_roots(slots, slots + kCount);
    expect_gone(&c, "root removed in parts");
  }
  free(slots);
}

static void *excluded_slots[kCount];

static void excluded_roots(void) {
  struct chains c;
  CHECK(GC_is_tmp_root(excluded_slots));
  GC_exclude_static_roots(excluded_slots, excluded_slots + kCount);
  make_in(&c, excluded_slots, kCount, 0);
  expect_gone(&c, "excluded static data");
  /* What lies around it still counts. */
  make_in(&c, static_slots, kCount, 0);
  expect_kept(&c, "static data beside");
  expect_gone_when_cleared(&c, "static data beside, cleared");
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
