/* Roots that the program pushes: GC_push_other_roots runs with the world stopped, once in each
   collection; crystal calls GC_push_all_eager on the stacks of fibers, ecl GC_push_conditional and
   then GC_set_mark_bit on the base. Rule 14. */
#include "survival.h"

#include <gc/gc_mark.h>

enum { kCount = 1000, kHidden = 8 };
enum { kEager = 1, kConditional = 2, kAll = 4, kAsEcl = 8, kMarkAlone = 16 };

static void **memory; /* of malloc, where the collector does not look by itself */
static GC_hidden_pointer hidden_object;
static int how, pushes;
static void (*previous)(void);

static void GC_CALLBACK push(void) {
  void *p = hidden_object ? GC_REVEAL_POINTER(hidden_object) : NULL;
  pushes++;
  if (how & kEager) GC_push_all_eager(memory, memory + kCount);
  if (how & kConditional) GC_push_conditional(memory, memory + kCount, 1);
  if (how & kAll) GC_push_all(memory, memory + kCount);
  if (how & kAsEcl) GC_push_conditional(p, (void **)p + kHidden, 1);
  if (how & (kAsEcl | kMarkAlone)) GC_set_mark_bit(p);
  if (previous) previous();
}

/* How many objects of 48 bytes a collection takes that are pushed that way. */
static size_t gone(int procedure, size_t offset) {
  how = procedure;
  size_t result = count_gone((char **)memory, kCount, 48, offset);
  how = 0;
  return result;
}

/* What is pushed is searched, too. */
static struct watch children;
static void *make_parents(void *unused) {
  for (size_t i = 0; i < kCount; i++) {
    void **parent = (void **)(memory[i] = GC_malloc(48));
    parent[1] = GC_malloc(32);
    watch_object(&children, i, parent[1]);
  }
  return unused;
}
static void expect_children_kept(int procedure) {
  watch_init(&children, kCount);
  how = procedure;
  make_in_thread(make_parents, NULL);
  CHECK_KEPT(&children);
  CHECK(GC_is_marked(memory[0]));
  how = 0;
  CHECK_GONE(&children);
  watch_end(&children);
}

/* An object that nothing points to, with pointers in it; the last one watched is itself. */
static struct watch hidden;
static void *make_hidden(void *unused) {
  void **p = (void **)GC_malloc(kHidden * sizeof *p);
  for (size_t i = 0; i < kHidden; i++) {
    p[i] = GC_malloc(32);
    watch_object(&hidden, i, p[i]);
  }
  watch_object(&hidden, kHidden, p);
  hidden_object = GC_HIDE_POINTER(p);
  return unused;
}
static void hidden_objects(void) {
  watch_init(&hidden, kHidden + 1);
  make_in_thread(make_hidden, NULL);
  how = kAsEcl;
  for (int i = 0; i < 3; i++) {
    CHECK_KEPT(&hidden);
  }
  how = kMarkAlone; /* it is not searched */
  collect();
  CHECK_NE(hidden.links[kHidden], 0);
  CHECK_GE(watch_gone(&hidden), kHidden - 1);
  hidden_object = 0;
  how = 0;
  watch_end(&hidden);
}

static volatile int stop, ran_while_pushing;
static volatile size_t ticks;
static volatile long ticker;
static void *tick(void *unused) {
  ticker = task_self();
  while (!stop) {
    ticks++;
    GC_malloc(16);
  }
  return unused;
}
static void GC_CALLBACK watch_the_others(void) {
  size_t before = ticks;
  if (previous) previous();
  if (task_self() == ticker) return; /* it collects by itself */
  while (ticks == before && task_state(ticker) != 'S') sleep_ms(1);
  ran_while_pushing += before != ticks;
}
static void in_a_stopped_world(void) {
  pthread_t thread;
  GC_set_push_other_roots(watch_the_others);
  CHECK_EQ(pthread_create(&thread, NULL, tick, NULL), 0);
  while (ticks == 0) sleep_ms(1);
  for (int i = 0; i < 5; i++) GC_gcollect();
  stop = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(ran_while_pushing, 0);
}

int main(void) {
  fail_after(50);
  GC_set_all_interior_pointers(0);
  GC_INIT();
  memory = (void **)calloc(kCount, sizeof *memory);
  previous = GC_get_push_other_roots();
  GC_set_push_other_roots(push);
  CHECK(GC_get_push_other_roots() == push && GC_push_other_roots == push);
  GC_gcollect();
  CHECK_EQ(pushes, 1);
  GC_push_other_roots = previous; /* read at each collection */
  GC_gcollect();
  CHECK_EQ(pushes, 1);
  GC_push_other_roots = push;

  CHECK_MOSTLY(gone(0, 0), kCount);
  CHECK_EQ(gone(kEager, 0), 0);
  CHECK_EQ(gone(kEager, 30), 0); /* as on stacks */
  CHECK_EQ(gone(kConditional, 0), 0);
  CHECK_EQ(gone(kAll, 0), 0);
  CHECK_GE(pushes, 6);
  expect_children_kept(kEager);
  expect_children_kept(kAll);
  hidden_objects();
  in_a_stopped_world();
  return check_result();
}
