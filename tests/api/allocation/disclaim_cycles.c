/* Collections that concurrent mark go on where a kind has a disclaim procedure, which is
 * asked about whole objects or zeroed memory alone, though threads give objects back meanwhile. */
#include "check.h"

#include <gc/gc_disclaim.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gleaner.h>

enum { kThreads = 3, kSlots = 3000, kAlive = 0x600d, kGivenBack = 0xbad, kMaxLooks = 3000 };

struct object {
  struct object *child; /* of the same sort, or NULL */
  size_t alive;
  size_t number;
};

static int kind;
static volatile int stop;
static size_t asked, looks_without_mode;
static struct object **roots[kThreads];

static int disclaim(void *memory) {
  struct object *object = (struct object *)memory;
  if (object->alive == 0) {
    CHECK(object->child == NULL && object->number == 0);
    return 0;
  }
  CHECK_EQ(object->alive, kAlive);
  object->alive = 0xdead; /* and nobody asks again */
  asked++;
  return 0;
}

static struct object *make(size_t number) {
  struct object *object = (struct object *)GC_malloc_kind(number % 3 ? 40 : 300, kind);
  CHECK(object->child == NULL && object->alive == 0 && object->number == 0);
  object->number = number;
  object->alive = kAlive;
  return object;
}

static void give_back(struct object *object) {
  object->alive = kGivenBack; /* about such a one nobody is asked */
  GC_free(object);
}

/* Replaces, moves and gives back objects. */
static void *change(void *arg) {
  struct object **mine = (struct object **)arg;
  for (size_t i = 0; !stop; i++) {
    struct object **slot = &mine[i * 7919 % kSlots], *old = *slot;
    if (old != NULL) {
      CHECK_EQ(old->alive, kAlive);
      if (old->child != NULL) CHECK_EQ(old->child->alive, kAlive);
    }
    if (old != NULL && i % 3 == 0) {
      *slot = NULL;
      if (old->child != NULL) give_back(old->child);
      old->child = NULL;
      give_back(old);
      continue;
    }
    *slot = make(i);
    (*slot)->child = i % 2 ? make(i) : NULL;
  }
  return NULL;
}

/* That have been; starts the next. */
static size_t concurrent_collections(void) {
  struct gleaner_stats stats;
  GC_start_incremental_collection();
  stats.concurrent_collections = 0;
  gleaner_get_stats(&stats, sizeof stats);
  return stats.concurrent_collections;
}

/* Whether more are to come. A tracker that is lost is replaced soon; where system calls fail, it
 * may be lost for good. */
static int awaits_cycles(void) {
  looks_without_mode = GC_is_incremental_mode() ? 0 : looks_without_mode + 1;
  return looks_without_mode < kMaxLooks && concurrent_collections() < 12;
}

int main(void) {
  pthread_t threads[kThreads];
  fail_after(55);
  GC_INIT();
  if (!on_gleaner()) return 0;
  GC_enable_incremental();
  if (!GC_is_incremental_mode()) {
    fprintf(stderr, "no concurrent collections here\n");
    return 1;
  }
  kind = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
  GC_register_disclaim_proc(kind, disclaim, 1);
  for (size_t i = 0; i < kThreads; i++) {
    roots[i] = (struct object **)GC_malloc_uncollectable(kSlots * sizeof *roots[i]);
    CHECK_EQ(pthread_create(&threads[i], NULL, change, roots[i]), 0);
  }
  while (awaits_cycles()) sleep_ms(1);
  stop = 1;
  for (size_t i = 0; i < kThreads; i++) CHECK_EQ(pthread_join(threads[i], NULL), 0);
  if (looks_without_mode == kMaxLooks) {
    fprintf(stderr, "no concurrent collections any more\n");
    return check_result() == 0 ? 1 : 2; /* what was lost is no excuse for what is wrong */
  }
  CHECK_GE(asked, 1000);
  return check_result();
}
