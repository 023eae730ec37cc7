/* Threads that allocate little and end: what they have allocated counts, though none of them
   allocates enough to report it. */
#include "check.h"

enum { kThreads = 4000, kBytes = 60000 };

typedef struct node {
  struct node *next;
  void *more[7];
} node;

static node *kept;

static void *allocate_a_little(void *unused) {
  for (size_t done = 0; done < kBytes; done += 100) GC_MALLOC(100);
  return NULL;
}

int main(void) {
  GC_INIT();
  /* A large heap may grow by much before a collection, so that threads report seldom. */
  for (int i = 0; i < 600000; i++) {
    node *p = (node *)GC_MALLOC(sizeof *p);
    p->next = kept;
    kept = p;
  }
  GC_gcollect();
  GC_word before = GC_get_gc_no();
  for (int i = 0; i < kThreads; i++) {
    pthread_t thread;
    CHECK_EQ(GC_pthread_create(&thread, NULL, allocate_a_little, NULL), 0);
    CHECK_EQ(GC_pthread_join(thread, NULL), 0);
  }
  /* They have allocated 240 MB. */
  CHECK_GE(GC_get_gc_no(), before + 2);
  CHECK_NE((intptr_t)kept, 0);
  return check_result();
}
