/* Starting, refusing and observing collections: GC_gcollect, stop functions, disable and enable,
   the count of collections, start callback and events. Rules 15 (GC_start_callback runs at
   the start, lock held, before anything is marked), 21 (GC_disable and GC_enable nest). */
#include "check.h"

#include <gc/gc_mark.h>

static size_t stop_calls;
static int GC_CALLBACK never_stop(void) {
  stop_calls++;
  return 0;
}
static int GC_CALLBACK always_stop(void) {
  stop_calls++;
  return 1;
}

/* The number of collections that a piece of code does. */
#define COUNT_COLLECTIONS(count, code) \
  do {                                 \
    GC_word before = GC_get_gc_no();   \
    code;                              \
    count = GC_get_gc_no() - before;   \
  } while (0)

struct node {
  struct node *next;
  char payload[100];
};

/* Something to mark, for long enough that a stop function is asked. */
static struct node *list;

static void counting(void) {
  GC_word n;
  COUNT_COLLECTIONS(n, GC_gcollect());
  CHECK_EQ(n, 1);
  CHECK_EQ(GC_gc_no, GC_get_gc_no());
  COUNT_COLLECTIONS(n, GC_gcollect_and_unmap());
  CHECK_EQ(n, 1);
  COUNT_COLLECTIONS(n, for (size_t i = 0; i < 3000000; i++) GC_malloc(100));
  CHECK_GE(n, 1);
}

static void stopping(void) {
  GC_word n;
  int done;
  COUNT_COLLECTIONS(n, done = GC_try_to_collect(never_stop));
  CHECK_EQ(done, 1);
  CHECK_EQ(n, 1);
  CHECK_GE(stop_calls, 1);
  COUNT_COLLECTIONS(n, done = GC_try_to_collect(always_stop));
  CHECK_EQ(done, 0);
  CHECK_EQ(n, 0);

  GC_set_stop_func(always_stop);
  CHECK(GC_get_stop_func() == always_stop);
  COUNT_COLLECTIONS(n, GC_gcollect());
  CHECK_EQ(n, 0);
  COUNT_COLLECTIONS(n, done = GC_try_to_collect(never_stop));
  CHECK_EQ(done, 1);
  COUNT_COLLECTIONS(n, GC_gcollect_and_unmap());
  CHECK_GE(n, 1);
  GC_set_stop_func(never_stop);
  COUNT_COLLECTIONS(n, GC_gcollect());
  CHECK_EQ(n, 1);
}

static void disabling(void) {
  GC_word n;
  CHECK(!GC_is_disabled());
  for (size_t i = 1; i <= 2; i++) {
    GC_disable();
    CHECK(GC_is_disabled());
    CHECK_EQ(GC_dont_gc, i);
  }
  COUNT_COLLECTIONS(n, {
    GC_gcollect();
    GC_collect_a_little();
    CHECK_EQ(GC_try_to_collect(never_stop), 0);
    for (size_t i = 0; i < 1000000; i++) GC_malloc(100);
  });
  CHECK_EQ(n, 0);
  GC_enable();
  CHECK(GC_is_disabled());
  CHECK_EQ(GC_dont_gc, 1);
  COUNT_COLLECTIONS(n, GC_gcollect());
  CHECK_EQ(n, 0);
  GC_enable();
  CHECK(!GC_is_disabled());
  COUNT_COLLECTIONS(n, GC_gcollect());
  CHECK_EQ(n, 1);

  /* The variable itself. */
  GC_dont_gc = 1;
  CHECK(GC_is_disabled());
  COUNT_COLLECTIONS(n, GC_gcollect());
  CHECK_EQ(n, 0);
  GC_dont_gc = 0;

  GC_set_disable_automatic_collection(1);
  CHECK(GC_get_disable_automatic_collection());
  COUNT_COLLECTIONS(n, for (size_t i = 0; i < 500000; i++) GC_malloc(100));
  CHECK_EQ(n, 0);
  COUNT_COLLECTIONS(n, GC_gcollect());
  CHECK_EQ(n, 1);
  GC_set_disable_automatic_collection(0);
  CHECK_EQ(GC_collect_a_little(), 0);
}

static GC_EventType events[100];
static size_t when[GC_EVENT_THREAD_UNSUSPENDED + 1];
static size_t event_count, starts, resizes;
static GC_word resized_to;
static void GC_CALLBACK on_event(GC_EventType event) {
  if (event_count < 100) events[event_count] = event;
  event_count++;
}
static void GC_CALLBACK on_resize(GC_word bytes) {
  resizes++;
  resized_to = bytes;
}

/* Each once, and in order; memory may be reclaimed while threads are stopped, as Gleaner does, or
   afterwards, as libgc does. */
static void check_events(void) {
  CHECK_EQ(event_count, 10);
  for (size_t i = 0; i < event_count; i++) when[events[i]] = i;
  for (size_t i = 0; i < event_count; i++) CHECK_EQ(events[when[i]], i);
  CHECK_EQ(events[0], GC_EVENT_START);
  CHECK_EQ(events[1], GC_EVENT_PRE_STOP_WORLD);
  CHECK_EQ(events[2], GC_EVENT_POST_STOP_WORLD);
  CHECK_EQ(events[3], GC_EVENT_MARK_START);
  CHECK_EQ(events[4], GC_EVENT_MARK_END);
  CHECK_EQ(when[GC_EVENT_POST_START_WORLD], when[GC_EVENT_PRE_START_WORLD] + 1);
  CHECK_EQ(when[GC_EVENT_RECLAIM_END], when[GC_EVENT_RECLAIM_START] + 1);
  CHECK_EQ(events[9], GC_EVENT_END);
  event_count = 0;
}

static void observing(void) {
  GC_set_on_collection_event(on_event);
  GC_gcollect();
  check_events();
  CHECK_EQ(GC_try_to_collect(never_stop), 1);
  check_events();
  GC_set_on_collection_event(NULL);

  GC_set_on_heap_resize(on_resize);
  CHECK_EQ(GC_expand_hp(8 << 20), 1);
  CHECK_GE(resizes, 1);
  CHECK_EQ(resized_to, GC_get_heap_size());
  GC_on_heap_resize = NULL;
  CHECK(GC_get_on_heap_resize() == NULL);
}

static size_t pushed;
static GC_push_other_roots_proc previous_push;
static void GC_CALLBACK push(void) {
  pushed++;
  if (previous_push) previous_push();
}

/* Another thread comes to wait for the lock, if it does not yet; it must not get it meanwhile. */
static volatile int look_for_taker, lock_taken, stop_taking, lock_was_free;
static volatile long taker;
static void GC_CALLBACK on_start(void) {
  starts++;
  pushed = 0;
  if (!look_for_taker) return;
  lock_taken = 0;
  while (!lock_taken && task_state(taker) != 'S') sleep_ms(1);
  lock_was_free += lock_taken;
}
static void *GC_CALLBACK note(void *data) {
  lock_taken = 1;
  return data;
}
static void *take_lock_often(void *unused) {
  taker = task_self();
  while (!stop_taking) GC_call_with_alloc_lock(note, NULL);
  return unused;
}

static void start_callback(void) {
  pthread_t thread;
  CHECK(GC_get_start_callback() == NULL);
  GC_set_start_callback(on_start);
  previous_push = GC_get_push_other_roots();
  GC_set_push_other_roots(push);
  for (size_t i = 1; i <= 5; i++) {
    GC_gcollect();
    CHECK_EQ(starts, i);
    CHECK_EQ(pushed, 1);
  }
  GC_set_push_other_roots(previous_push);
  CHECK_EQ(pthread_create(&thread, NULL, take_lock_often, NULL), 0);
  while (taker == 0) sleep_ms(1);
  look_for_taker = 1;
  for (size_t i = 0; i < 3; i++) GC_gcollect();
  look_for_taker = 0;
  stop_taking = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
  CHECK_EQ(lock_was_free, 0);
  /* Collections that allocation starts, too. */
  starts = 0;
  for (size_t i = 0; i < 2000000 && starts == 0; i++) GC_malloc(64);
  CHECK_GE(starts, 1);
  GC_set_start_callback(NULL);
  starts = 0;
  GC_gcollect();
  CHECK_EQ(starts, 0);
}

static size_t resident_bytes(void) {
  unsigned long pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  CHECK(file && fscanf(file, "%*u %lu", &pages) == 1);
  if (file) fclose(file);
  return pages * 4096;
}

/* A list that is taken apart, so that a word that is left over keeps one object of it. */
static __attribute__((noinline)) void make_peak(size_t bytes) {
  void **last = malloc(sizeof *last);
  GC_add_roots(last, last + 1);
  *last = NULL;
  for (size_t i = 0; i < bytes / 16; i++) {
    void **p = GC_MALLOC(16);
    *p = *last;
    *last = p;
  }
  CHECK_GE(resident_bytes(), bytes);
  while (*last) {
    void **p = *last;
    *last = *p;
    *p = NULL;
  }
  GC_remove_roots(last, last + 1);
  free(last);
}

/* What a peak of small objects took goes back, the collector's own tables about it, too: a byte for
   each 16, which would be 12 MB here. */
static void shrinking(void) {
  GC_gcollect_and_unmap();
  size_t before = resident_bytes();
  make_peak((size_t)192 << 20);
  GC_gcollect_and_unmap();
  CHECK_GE(before + ((size_t)6 << 20), resident_bytes());
}

int main(void) {
  size_t i;
  GC_INIT();
  if (on_gleaner()) shrinking();
  for (i = 0; i < 200000; i++) {
    struct node *n = GC_NEW(struct node);
    n->next = list;
    list = n;
  }
  counting();
  stopping();
  disabling();
  observing();
  start_callback();
  for (i = 0; list; list = list->next) i++;
  CHECK_EQ(i, 200000);
  return check_result();
}
