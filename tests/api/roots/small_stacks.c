/* Threads with the least stack that the system grants allocate and collect. */
#include "check.h"

#include <limits.h>

enum { kThreads = 3, kLists = 30, kLength = 2000 };

struct node {
  struct node *next;
  size_t number;
  char rest[48];
};

static size_t finalized;

static void count(void *object, void *data) { __sync_fetch_and_add(&finalized, 1); }

/* The collector's own calls of the program are not to be short of stack either. */
static void on_event(GC_EventType event) {
  volatile char words[20000];
  for (size_t i = 0; i < sizeof words; i += 512) words[i] = (char)event;
}

/* Most of them are lost, and one of them is looked at when others have been made. */
static void *allocate(void *arg) {
  struct node *kept = NULL;
  for (size_t list = 0; list < kLists; list++) {
    struct node *first = NULL;
    size_t found = 0;
    for (size_t i = 0; i < kLength; i++) {
      struct node *n = GC_NEW(struct node);
      n->next = first;
      n->number = i;
      first = n;
      if (i % 100 == 0) (void)GC_MALLOC_ATOMIC(100000);
    }
    GC_register_finalizer(GC_MALLOC(16), count, NULL, NULL, NULL);
    if (list % 10 == 0) GC_gcollect();
    for (; kept != NULL; kept = kept->next) found += kept->number == kLength - 1 - found;
    if (list != 0) CHECK_EQ(found, kLength);
    kept = first;
  }
  return NULL;
}

int main(void) {
  pthread_attr_t attributes;
  pthread_t threads[kThreads];
  fail_after(50);
  GC_INIT();
  GC_set_on_collection_event(on_event);
  GC_word before = GC_get_gc_no();
  CHECK_EQ(pthread_attr_init(&attributes), 0);
  CHECK_EQ(pthread_attr_setstacksize(&attributes, on_gleaner() ? PTHREAD_STACK_MIN : 131072), 0);
  for (size_t i = 0; i < kThreads; i++)
    CHECK_EQ(pthread_create(&threads[i], &attributes, allocate, NULL), 0);
  for (size_t i = 0; i < kThreads; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  CHECK_GE(GC_get_gc_no() - before, 5);
  collect();
  collect();
  CHECK_GE(finalized, kThreads * kLists / 2);
  return check_result();
}
