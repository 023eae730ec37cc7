/* Rule 6: with all_interior_pointers 0 (guile, ecl, neko, nix, inkscape), interior pointers in heap
   objects and static data count only at registered displacements; on stacks they always count. */
#include "survival.h"

enum { kCount = 2000, kDisplacement = 1, kLate = 24 };

static char *data[kCount];
static char **heap;

int main(void) {
  static const size_t ignored[] = {8, 16, 32, 60};
  char *stack[kCount];
  size_t i;
  GC_set_all_interior_pointers(0);
  GC_register_displacement(kDisplacement); /* ecl: pointer tags */
  GC_INIT();
  heap = (char **)GC_malloc(sizeof data);
  CHECK_EQ(count_gone(data, kCount, 64, 0), 0);
  CHECK_EQ(count_gone(heap, kCount, 64, 0), 0);
  CHECK_EQ(count_gone(data, kCount, 64, kDisplacement), 0);
  CHECK_EQ(count_gone(heap, kCount, 64, kDisplacement), 0);
  for (i = 0; i < sizeof ignored / sizeof *ignored; i++) {
    CHECK_MOSTLY(count_gone(data, kCount, 64, ignored[i]), kCount);
    CHECK_MOSTLY(count_gone(heap, kCount, 64, ignored[i]), kCount);
    CHECK_EQ(count_gone(stack, kCount, 64, ignored[i]), 0);
  }
  CHECK_MOSTLY(count_gone(data, kCount, 64, kLate), kCount);
  GC_register_displacement(kLate);
  CHECK_EQ(count_gone(data, kCount, 64, kLate), 0);
  CHECK_EQ(count_gone(heap, kCount, 64, kLate), 0);
  CHECK_EQ(count_gone(stack, kCount, 64, 63), 0);
  /* Large ones likewise. */
  CHECK_EQ(count_gone(data, 50, 20000, kLate), 0);
  CHECK_EQ(count_gone(stack, 50, 20000, 15000), 0);
  CHECK_MOSTLY(count_gone(data, 50, 20000, 15000), 50);
  CHECK_PTR(GC_base((char *)heap + 100), heap);
  return check_result();
}
