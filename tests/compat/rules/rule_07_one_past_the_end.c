/* Rule 7: with all_interior_pointers 1 a pointer one past the end keeps the object. libgc adds a
   byte to every object for that. Gleaner does not: what it promises by default is this for pointers
   on stacks, in registers and in static data; for pointers in heap objects an option adds the byte
   (pad_objects), which a program that needs it sets. */
#include "check.h"

enum { kCount = 500 };
static char *data[kCount];

struct making {
  struct watch watch;
  char **where;
  size_t size;
};

static void *make(void *arg) {
  struct making *m = (struct making *)arg;
  size_t i;
  for (i = 0; i < kCount; i++) {
    char *p = (char *)GC_malloc(m->size);
    watch_object(&m->watch, i, p);
    m->where[i] = p + m->size;
  }
  return NULL;
}

static size_t gone(char **where, size_t size) {
  struct making m;
  size_t result;
  m.where = where;
  m.size = size;
  watch_init(&m.watch, kCount);
  GC_disable();
  run_in_thread(make, &m);
  GC_enable();
  collect();
  result = watch_gone(&m.watch);
  watch_end(&m.watch);
  memset(where, 0, kCount * sizeof *where);
  return result;
}

int main(void) {
  static const size_t sizes[] = {1,   8,   15,   16,   32,   48,   64,   96,   112,   128,  160,
                                 256, 512, 1000, 1024, 2048, 3000, 4096, 8192, 16384, 65536};
  char *stack[kCount];
  size_t i;
  GC_INIT();
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK_EQ(gone(stack, sizes[i]), 0);
    CHECK_EQ(gone(data, sizes[i]), 0);
    /* The last byte itself still belongs to the object. */
    CHECK_EQ(GC_size(GC_malloc(sizes[i])) >= sizes[i], 1);
  }
  return check_result();
}
