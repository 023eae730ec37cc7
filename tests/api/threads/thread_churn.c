/* 10,000 threads, started and ended in batches (160, or as many as the argument says), many more at
   once than there are processors, while others allocate and collect: nothing that a live thread
   holds is lost, nothing of the dead ones stays, no table fills up. */
#include "check.h"

#include <gleaner.h>

enum { kBatch = 64, kBatches = 160, kFirst = 5 };

struct node {
  struct node *next;
  size_t number;
  char payload[48];
};

static struct watch objects;
static size_t wrong;

static void *work(void *arg) {
  size_t number = (size_t)arg, i;
  struct node *list = NULL, *volatile own = GC_NEW(struct node);
  own->number = number;
  watch_object(&objects, number, own);
  for (i = 0; i < 200; i++) {
    struct node *n = GC_NEW(struct node);
    n->next = list;
    n->number = number + i;
    list = n;
  }
  if (number % 97 == 0) GC_gcollect();
  for (; list; list = list->next)
    if (list->number != number + --i) __sync_fetch_and_add(&wrong, 1);
  if (own->number != number) __sync_fetch_and_add(&wrong, 1);
  return number % 2 ? own : NULL;
}

static volatile int stop;
static void *disturb(void *arg) {
  struct node *list = NULL;
  size_t i, n = 0;
  while (!stop) {
    for (list = NULL, i = 0; i < 1000; i++) {
      struct node *m = GC_NEW(struct node);
      m->next = list;
      m->number = i;
      list = m;
    }
    struct node *volatile keep = list;
    for (; list; list = list->next)
      if (list->number != --i) __sync_fetch_and_add(&wrong, 1);
    GC_reachable_here(keep);
    n++;
  }
  return (void *)n;
}

/* For threads: their heaps and records, which are used again and again. A heap is some 27 KiB. */
static size_t metadata_bytes(void) {
  struct gleaner_stats stats;
  if (!on_gleaner()) return 0;
  CHECK_EQ(gleaner_get_stats(&stats, sizeof stats), sizeof stats);
  return stats.metadata_bytes;
}

int main(int argc, char **argv) {
  const size_t threads = kBatch * (argc > 1 ? strtoul(argv[1], NULL, 10) : kBatches);
  pthread_t batch[kBatch], disturbing[2];
  size_t metadata = 0, heap = 0;
  fail_after(55);
  GC_INIT();
  watch_init(&objects, threads);
  for (size_t i = 0; i < 2; i++) CHECK_EQ(pthread_create(&disturbing[i], NULL, disturb, NULL), 0);
  for (size_t i = 0; i < threads; i += kBatch) {
    for (size_t k = 0; k < kBatch; k++)
      CHECK_EQ(pthread_create(&batch[k], NULL, work, (void *)(i + k)), 0);
    for (size_t k = 0; k < kBatch; k++) {
      void *result = NULL;
      CHECK_EQ(pthread_join(batch[k], &result), 0);
      if ((i + k) % 2) CHECK(result != NULL && ((struct node *)result)->number == i + k);
    }
    if (i / kBatch + 1 == kFirst) {
      metadata = metadata_bytes();
      heap = GC_get_heap_size();
    }
  }
  CHECK_LE(metadata_bytes(), metadata + (4 << 20));
  CHECK_LE(GC_get_heap_size(), heap + (32 << 20));
  stop = 1;
  for (size_t i = 0; i < 2; i++) CHECK_EQ(pthread_join(disturbing[i], NULL), 0);
  memset(batch, 0, sizeof batch);
  collect();
  collect();
  CHECK_EQ(wrong, 0);
  CHECK_MOSTLY(watch_gone(&objects), threads);
  CHECK_LE(GC_get_heap_size(), 512 << 20);
  return check_result();
}
