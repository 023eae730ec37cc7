/* Rule 14: GC_push_other_roots runs with the world stopped: crystal calls GC_push_all_eager on the
   stacks of fibers; ecl GC_push_conditional, and then GC_set_mark_bit on the base. */
#include "survival.h"

/* After check.h, which asks for threads. */
#include "gc_mark.h"

enum { kCount = 1000 };

/* Memory that the collector does not look at by itself. */
static void **eager, **conditional;
static char *hidden_area;
static GC_hidden_pointer ecl_object;
static int how, pushes;
static void (*previous)(void);

static void GC_CALLBACK push(void) {
  pushes++;
  if (how & 1) GC_push_all_eager(eager, eager + kCount);
  if (how & 2) GC_push_conditional(conditional, conditional + kCount, 1);
  if (how & 4) GC_push_all(conditional, conditional + kCount);
  if (how & 8) {
    void *p = GC_REVEAL_POINTER(ecl_object);
    GC_push_conditional(p, (char *)p + 64, 1);
    GC_set_mark_bit(p);
  }
  if (previous) previous();
}

/* The objects that a collection takes, with that way of pushing roots. */
static size_t gone(void **where, size_t offset, int procedure) {
  size_t result;
  how = procedure;
  result = count_gone((char **)where, kCount, 48, offset);
  how = 0;
  return result;
}

/* ecl's way: an object that nothing points to, with pointers in it. */
static struct watch ecl_watch;
static void *make_hidden(void *arg) {
  void **p = (void **)GC_malloc(64);
  size_t i;
  (void)arg;
  for (i = 0; i < 8; i++) {
    p[i] = GC_malloc(32);
    watch_object(&ecl_watch, i, p[i]);
  }
  watch_object(&ecl_watch, 8, p);
  return (void *)GC_HIDE_POINTER(p);
}

static volatile int stop, ran_while_pushing;
static volatile size_t ticks;
static volatile long ticker;
static void *tick(void *arg) {
  (void)arg;
  ticker = task_self();
  while (!stop) {
    ticks++;
    GC_malloc(16);
  }
  return NULL;
}
static void GC_CALLBACK watch_the_others(void) {
  size_t before = ticks;
  if (task_self() == ticker) return; /* it collects by itself */
  while (ticks == before && task_state(ticker) != 'S') sleep_ms(1);
  ran_while_pushing += before != ticks;
}

int main(void) {
  pthread_t thread;
  int i;
  GC_set_all_interior_pointers(0);
  GC_INIT();
  /* malloc's memory is no root. */
  eager = (void **)calloc(kCount, sizeof *eager);
  conditional = (void **)calloc(kCount, sizeof *conditional);
  hidden_area = NULL;
  previous = GC_get_push_other_roots();
  GC_set_push_other_roots(push);
  CHECK(GC_get_push_other_roots() == push);

  CHECK_MOSTLY(gone(eager, 0, 0), kCount);
  CHECK_EQ(gone(eager, 0, 1), 0);
  CHECK_EQ(gone(eager, 30, 1), 0); /* as on stacks */
  CHECK_EQ(gone(conditional, 0, 2), 0);
  CHECK_EQ(gone(conditional, 0, 4), 0);
  CHECK_GE(pushes, 5);

  watch_init(&ecl_watch, 9);
  GC_disable();
  ecl_object = (GC_hidden_pointer)run_in_thread(make_hidden, NULL);
  GC_enable();
  how = 8;
  for (i = 0; i < 3; i++) {
    collect();
    CHECK_EQ(watch_gone(&ecl_watch), 0);
  }
  how = 0;
  watch_end(&ecl_watch);

  GC_set_push_other_roots(watch_the_others);
  CHECK_EQ(pthread_create(&thread, NULL, tick, NULL), 0);
  while (ticks == 0) sleep_ms(1);
  for (i = 0; i < 5; i++) GC_gcollect();
  stop = 1;
  pthread_join(thread, NULL);
  CHECK_EQ(ran_while_pushing, 0);
  return check_result();
}
