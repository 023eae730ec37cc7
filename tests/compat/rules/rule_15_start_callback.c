/* Rule 15: GC_start_callback runs at the start of each full collection, with the lock held and
   before anything is marked. */
#include "check.h"
#include "gc_mark.h"

static int starts, order_wrong, pushed;
static volatile int lock_taken;
static void (*previous)(void);

static void *GC_CALLBACK note(void *data) {
  lock_taken = 1;
  return data;
}
static void *take_lock(void *arg) { return GC_call_with_alloc_lock(note, arg); }

static pthread_t other;
static volatile long taker;
static int check_lock;
static void GC_CALLBACK on_start(void) {
  starts++;
  pushed = 0;
  if (check_lock) {
    /* The thread comes to wait for the lock, if it does not yet; it must not get it meanwhile. */
    lock_taken = 0;
    while (!lock_taken && task_state(taker) != 'S') sleep_ms(1);
    order_wrong += lock_taken != 0;
  }
}
static void GC_CALLBACK on_push(void) {
  pushed++;
  if (previous) previous();
}

static void *take_lock_often(void *arg) {
  volatile int *stop = (volatile int *)arg;
  taker = task_self();
  while (!*stop) take_lock(NULL);
  return NULL;
}

int main(void) {
  static volatile int stop;
  int i;
  CHECK(GC_get_start_callback() == NULL);
  GC_set_start_callback(on_start);
  CHECK(GC_get_start_callback() == on_start);
  GC_INIT();
  previous = GC_get_push_other_roots();
  GC_set_push_other_roots(on_push);
  starts = 0;
  for (i = 1; i <= 5; i++) {
    GC_word before = GC_get_gc_no();
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), before + 1);
    CHECK_EQ(starts, i);
    CHECK_EQ(pushed, 1);
  }
  CHECK_EQ(pthread_create(&other, NULL, take_lock_often, (void *)&stop), 0);
  while (taker == 0) sleep_ms(1);
  check_lock = 1;
  for (i = 0; i < 3; i++) GC_gcollect();
  check_lock = 0;
  stop = 1;
  pthread_join(other, NULL);
  CHECK_EQ(order_wrong, 0);
  /* Collections that allocation starts, too. */
  starts = 0;
  for (i = 0; i < 2000000 && starts == 0; i++) GC_malloc(64);
  CHECK_GE(starts, 1);
  GC_set_start_callback(NULL);
  starts = 0;
  GC_gcollect();
  CHECK_EQ(starts, 0);
  return check_result();
}
