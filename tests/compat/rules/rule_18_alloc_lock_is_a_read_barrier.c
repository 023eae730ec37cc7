/* Rule 18: GC_call_with_alloc_lock is the read barrier of weak references (guile, ecl): while the
   callback runs no link is cleared and nothing is freed, so a hidden pointer can be revealed. */
#include <sched.h>

#include "check.h"

enum { kSlots = 64, kThreads = 3, kReads = 20000, kHits = 50, kMagic = 0x3ea1 };

struct object {
  GC_word magic, number;
  char payload[48];
};
static GC_hidden_pointer slots[kSlots];

static void *new_object(size_t number) {
  struct object *o = GC_NEW(struct object);
  o->magic = kMagic;
  o->number = number;
  return o;
}

static void *GC_CALLBACK reveal(void *data) {
  GC_hidden_pointer *slot = (GC_hidden_pointer *)data;
  struct object *o = *slot ? (struct object *)GC_REVEAL_POINTER(*slot) : NULL;
  if (o != NULL) {
    /* Not freed, and not about to be: the link would have been cleared. */
    CHECK_EQ(o->magic, kMagic);
    CHECK_EQ(o->number, (size_t)(slot - slots));
  }
  return o;
}

static volatile int stop;
static size_t hits;

static void *read_weakly(void *arg) {
  size_t i, found = 0;
  for (i = 0; i < kReads || found < kHits; i++) {
    size_t n = (i * 7 + (size_t)arg) % kSlots;
    struct object *volatile o = (struct object *)GC_call_with_alloc_lock(reveal, &slots[n]);
    if (o == NULL) {
      if (i % 16 == 0) sched_yield(); /* the slots are filled by another thread */
      continue;
    }
    found++;
    if (i % 64 == 0) {
      GC_malloc(64);
      CHECK_EQ(o->magic, kMagic); /* strong from here on */
      CHECK_EQ(o->number, n);
    }
  }
  __sync_fetch_and_add(&hits, found);
  return NULL;
}

/* Every slot gets a new object now and then, which nobody else refers to. */
static volatile long renewing;
static void *renew(void *arg) {
  size_t i;
  (void)arg;
  renewing = task_self();
  for (i = 0; !stop; i++) {
    size_t n = i % kSlots;
    if (slots[n] == 0) {
      void *p = new_object(n);
      GC_hidden_pointer hidden = GC_HIDE_POINTER(p);
      GC_general_register_disappearing_link((void **)&slots[n], p);
      slots[n] = hidden;
    }
    if (n == 0) GC_gcollect();
  }
  return NULL;
}

static int links_cleared_meanwhile;
static void *GC_CALLBACK hold(void *data) {
  size_t i, before = 0, after = 0;
  GC_word collections = GC_get_gc_no();
  for (i = 0; i < kSlots; i++) before += slots[i] == 0;
  /* Meanwhile the renewing thread comes to wait for the lock, which it collects with. */
  await_task_state(renewing, 'S');
  for (i = 0; i < kSlots; i++) after += slots[i] == 0;
  /* The renewing thread may have filled some; cleared ones would be more. */
  links_cleared_meanwhile += after > before || GC_get_gc_no() != collections;
  return data;
}

int main(void) {
  pthread_t readers[kThreads], writer;
  size_t i;
  fail_after(50);
  GC_INIT();
  CHECK_EQ(pthread_create(&writer, NULL, renew, NULL), 0);
  for (i = 0; i < kThreads; i++)
    CHECK_EQ(pthread_create(&readers[i], NULL, read_weakly, (void *)i), 0);
  while (renewing == 0) sleep_ms(1);
  for (i = 0; i < 5; i++) CHECK_PTR(GC_call_with_alloc_lock(hold, &slots), &slots);
  for (i = 0; i < kThreads; i++) pthread_join(readers[i], NULL);
  stop = 1;
  pthread_join(writer, NULL);
  CHECK_EQ(links_cleared_meanwhile, 0);
  CHECK_GE(hits, kThreads * kHits);
  return check_result();
}
