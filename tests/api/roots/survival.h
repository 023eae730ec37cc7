/* Which pointers keep their objects: many objects, each known by one pointer of the same sort, and
   each known by such an object. */
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
  for (size_t i = 0; i < k->watch.count; i++) {
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
  k.where = where;
  k.size = size;
  k.offset = offset;
  watch_init(&k.watch, count);
  make_in_thread(make_known, &k);
  collect();
  size_t gone = watch_gone(&k.watch);
  watch_end(&k.watch);
  memset(where, 0, count * sizeof *where);
  return gone;
}

/* Objects that are known by one object each, which is known only by a pointer in `where`. */
struct node {
  struct node *next;
  size_t number;
  char payload[48];
};
struct chains {
  struct watch watch; /* of the objects behind the first ones */
  void **where;
  size_t offset; /* of the pointers in the first ones */
};

static MAYBE_UNUSED NOINLINE void *make_chains(void *arg) {
  struct chains *c = (struct chains *)arg;
  for (size_t i = 0; i < c->watch.count; i++) {
    struct node *n = GC_NEW(struct node);
    n->number = i;
    n->next = GC_NEW(struct node);
    n->next->number = i;
    c->where[i] = (char *)n + c->offset;
    watch_object(&c->watch, i, n->next);
  }
  return NULL;
}
static MAYBE_UNUSED void make_in(struct chains *c, void **where, size_t count, size_t offset) {
  watch_init(&c->watch, count);
  c->where = where;
  c->offset = offset;
  make_in_thread(make_chains, c);
}

/* None is lost or overwritten. */
static MAYBE_UNUSED void expect_whole(const struct chains *c, const char *what) {
  size_t wrong = 0;
  for (size_t i = 0; i < c->watch.count; i++) {
    const struct node *n = (const struct node *)((char *)c->where[i] - c->offset);
    wrong += c->watch.links[i] == 0 || n->number != i || n->next->number != i;
  }
  if (wrong == 0) return;
  fprintf(stderr, "%s: %zu of %zu objects lost\n", what, wrong, c->watch.count);
  check_failures++;
}
static MAYBE_UNUSED void expect_kept(const struct chains *c, const char *what) {
  collect_and_overwrite(sizeof(struct node));
  expect_whole(c, what);
}
/* Hardly any is left. */
static MAYBE_UNUSED void expect_gone(struct chains *c, const char *what) {
  collect();
  size_t gone = watch_gone(&c->watch);
  watch_end(&c->watch);
  if (gone >= c->watch.count - c->watch.count / 10) return;
  fprintf(stderr, "%s: only %zu of %zu objects gone\n", what, gone, c->watch.count);
  check_failures++;
}
/* The same, when the pointers have been taken away. */
static MAYBE_UNUSED void expect_gone_when_cleared(struct chains *c, const char *what) {
  memset(c->where, 0, c->watch.count * sizeof *c->where);
  expect_gone(c, what);
}

#endif
