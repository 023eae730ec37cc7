/* Which pointers keep their objects: many objects, each known by one pointer of the same sort. */
#ifndef GLEANER_TESTS_API_SURVIVAL_H
#define GLEANER_TESTS_API_SURVIVAL_H

#include "check.h"

struct known {
  struct watch watch;
  char **where;
  size_t size, offset;
};

static MAYBE_UNUSED void *make_known(void *arg) {
  struct known *k = (struct known *)arg;
  size_t i;
  for (i = 0; i < k->watch.count; i++) {
    char *p = (char *)GC_malloc(k->size);
    watch_object(&k->watch, i, p);
    k->where[i] = p + k->offset;
  }
  return NULL;
}

/* Makes `count` objects of `size` bytes, each known only by a pointer `offset` bytes in, in its
   element of `where`. How many of them a collection takes; `where` is cleared then. */
static MAYBE_UNUSED size_t count_gone(char **where, size_t count, size_t size, size_t offset) {
  struct known k;
  size_t gone;
  k.where = where;
  k.size = size;
  k.offset = offset;
  watch_init(&k.watch, count);
  GC_disable();
  run_in_thread(make_known, &k);
  GC_enable();
  collect();
  gone = watch_gone(&k.watch);
  watch_end(&k.watch);
  memset(where, 0, count * sizeof *where);
  return gone;
}

#endif
