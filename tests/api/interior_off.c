/* all_interior_pointers = 0, as guile, ecl, nix and inkscape have it: in heap objects and static
   data only pointers to the base and to registered displacements count; on the stack all do. */
#include "check.h"

enum { kCount = 3000, kDisplacement = 24 };

struct node {
  char *other;
  char payload[56];
};

static char *slots[kCount];

struct making {
  struct watch watch;
  char **where;
  size_t offset;
};

static void *make(void *arg) {
  struct making *m = (struct making *)arg;
  size_t i;
  for (i = 0; i < kCount; i++) {
    struct node *n = GC_NEW(struct node);
    watch_object(&m->watch, i, n);
    m->where[i] = (char *)n + m->offset;
  }
  return NULL;
}

/* How many of the objects survive that are known by pointers `offset` bytes in. */
static size_t survivors(char **where, size_t offset) {
  struct making m;
  size_t gone;
  m.where = where;
  m.offset = offset;
  watch_init(&m.watch, kCount);
  GC_disable();
  run_in_thread(make, &m);
  GC_enable();
  collect();
  gone = watch_gone(&m.watch);
  watch_end(&m.watch);
  memset(where, 0, kCount * sizeof *where);
  return kCount - gone;
}

int main(void) {
  static const size_t ignored[] = {1, 8, 16, 32, 60};
  char **heap;
  size_t i;
  GC_set_all_interior_pointers(0);
  CHECK_EQ(GC_get_all_interior_pointers(), 0);
  GC_INIT();
  CHECK_EQ(GC_all_interior_pointers, 0);
  GC_register_displacement(kDisplacement);
  heap = (char **)GC_malloc(sizeof slots);

  CHECK_EQ(survivors(slots, 0), kCount);
  CHECK_EQ(survivors(heap, 0), kCount);
  CHECK_EQ(survivors(slots, kDisplacement), kCount);
  CHECK_EQ(survivors(heap, kDisplacement), kCount);
  for (i = 0; i < sizeof ignored / sizeof *ignored; i++) {
    CHECK_LE(survivors(slots, ignored[i]), kCount / 10);
    CHECK_LE(survivors(heap, ignored[i]), kCount / 10);
  }
  {
    char *on_stack[kCount];
    for (i = 0; i < sizeof ignored / sizeof *ignored; i++)
      CHECK_EQ(survivors(on_stack, ignored[i]), kCount);
  }
  CHECK_PTR(GC_base((char *)heap + 100), heap);
  return check_result();
}
