/* Rule 6: with all_interior_pointers 0 (guile, ecl, neko, nix, inkscape), interior pointers in heap
   objects and static data count only at registered displacements; on stacks they always count. */
#include "check.h"

enum { kCount = 2000, kDisplacement = 1, kLate = 24 };

static char *data[kCount];
static char **heap;

struct making {
  struct watch watch;
  char **where;
  size_t offset, size;
};

static void *make(void *arg) {
  struct making *m = (struct making *)arg;
  size_t i;
  for (i = 0; i < m->watch.count; i++) {
    char *p = (char *)GC_malloc(m->size);
    watch_object(&m->watch, i, p);
    m->where[i] = p + m->offset;
  }
  return NULL;
}

static size_t gone(char **where, size_t offset, size_t size, size_t count) {
  struct making m;
  size_t result;
  m.where = where;
  m.offset = offset;
  m.size = size;
  watch_init(&m.watch, count);
  GC_disable();
  run_in_thread(make, &m);
  GC_enable();
  collect();
  result = watch_gone(&m.watch);
  watch_end(&m.watch);
  memset(where, 0, count * sizeof *where);
  return result;
}

int main(void) {
  char *stack[kCount];
  GC_set_all_interior_pointers(0);
  GC_register_displacement(kDisplacement); /* ecl: pointer tags */
  GC_INIT();
  heap = (char **)GC_malloc(sizeof data);
  CHECK_EQ(gone(data, 0, 64, kCount), 0);
  CHECK_EQ(gone(heap, 0, 64, kCount), 0);
  CHECK_EQ(gone(data, kDisplacement, 64, kCount), 0);
  CHECK_EQ(gone(heap, kDisplacement, 64, kCount), 0);
  CHECK_MOSTLY(gone(data, 16, 64, kCount), kCount);
  CHECK_MOSTLY(gone(heap, 16, 64, kCount), kCount);
  CHECK_MOSTLY(gone(data, kLate, 64, kCount), kCount);
  GC_register_displacement(kLate);
  CHECK_EQ(gone(data, kLate, 64, kCount), 0);
  CHECK_EQ(gone(heap, kLate, 64, kCount), 0);
  CHECK_EQ(gone(stack, 40, 64, kCount), 0);
  CHECK_EQ(gone(stack, 63, 64, kCount), 0);
  /* Large ones likewise. */
  CHECK_EQ(gone(data, kLate, 20000, 50), 0);
  CHECK_EQ(gone(stack, 15000, 20000, 50), 0);
  CHECK_MOSTLY(gone(data, 15000, 20000, 50), 50);
  return check_result();
}
