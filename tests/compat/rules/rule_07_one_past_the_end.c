/* Rule 7: with all_interior_pointers 1 a pointer one past the end keeps the object. libgc adds a
   byte to every object for that. Gleaner does not: what it promises by default is this for pointers
   on stacks, in registers and in static data; for pointers in heap objects an option adds the byte
   (pad_objects), which a program that needs it sets. */
#include "survival.h"

enum { kCount = 500 };
static char *data[kCount];

int main(void) {
  static const size_t sizes[] = {1,   8,   15,   16,   32,   48,   64,   96,   112,   128,  160,
                                 256, 512, 1000, 1024, 2048, 3000, 4096, 8192, 16384, 65536};
  char *stack[kCount];
  size_t i;
  GC_INIT();
  for (i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    CHECK_EQ(count_gone(stack, kCount, sizes[i], sizes[i]), 0);
    CHECK_EQ(count_gone(data, kCount, sizes[i], sizes[i]), 0);
    /* The last byte itself still belongs to the object. */
    CHECK_EQ(GC_size(GC_malloc(sizes[i])) >= sizes[i], 1);
  }
  return check_result();
}
