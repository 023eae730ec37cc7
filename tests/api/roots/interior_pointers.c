/* Pointers to the inside of objects, and one past their end. Rules 6, 7. */
#include "survival.h"

enum { kCount = 1000, kDisplacement = 1, kLate = 24, kLarge = 20000 };

static char *data[kCount];
static char **heap;

static int complaints;
static void GC_CALLBACK complain(void *p) { complaints++; }
static int is_valid(char *p) {
  complaints = 0;
  CHECK_PTR(GC_is_valid_displacement(p), p);
  return complaints == 0;
}

/* With all_interior_pointers 0 (guile, ecl, neko, nix, inkscape), those in heap objects and static
   data count only at registered displacements; those on stacks always count. */
static void not_counted(void *unused) {
  static const size_t ignored[] = {8, 16, 32, 60};
  char *stack[kCount];
  GC_set_all_interior_pointers(0);
  GC_register_displacement(kDisplacement); /* ecl: pointer tags */
  GC_INIT();
  GC_is_valid_displacement_print_proc = complain;
  heap = (char **)GC_malloc(sizeof data);
  CHECK_EQ(count_gone(data, kCount, 64, 0), 0);
  CHECK_EQ(count_gone(heap, kCount, 64, 0), 0);
  CHECK_EQ(count_gone(data, kCount, 64, kDisplacement), 0);
  CHECK_EQ(count_gone(heap, kCount, 64, kDisplacement), 0);
  for (size_t i = 0; i < COUNT_OF(ignored); i++) {
    CHECK_MOSTLY(count_gone(data, kCount, 64, ignored[i]), kCount);
    CHECK_MOSTLY(count_gone(heap, kCount, 64, ignored[i]), kCount);
    CHECK_EQ(count_gone(stack, kCount, 64, ignored[i]), 0);
  }
  CHECK(is_valid((char *)heap) && is_valid((char *)heap + kDisplacement));
  CHECK(!is_valid((char *)heap + kLate));
  CHECK_MOSTLY(count_gone(data, kCount, 64, kLate), kCount);
  GC_register_displacement(kLate);
  CHECK(is_valid((char *)heap + kLate));
  CHECK_EQ(count_gone(data, kCount, 64, kLate), 0);
  CHECK_EQ(count_gone(heap, kCount, 64, kLate), 0);
  CHECK_EQ(count_gone(stack, kCount, 64, 63), 0);
  /* Large ones likewise. */
  CHECK_EQ(count_gone(data, 50, kLarge, kLate), 0);
  CHECK_EQ(count_gone(stack, 50, kLarge, 15000), 0);
  CHECK_MOSTLY(count_gone(data, 50, kLarge, 15000), 50);
  CHECK_PTR(GC_base((char *)heap + 100), heap);
}

/* With all_interior_pointers 1 a pointer one past the end keeps the object. libgc adds a byte to
   every object for that. Gleaner adds none: it promises this of pointers on stacks, in registers
   and in static data; for those in heap objects the option pad_objects adds the byte. */
static void past_the_end(void *unused) {
  static const size_t sizes[] = {1,   8,   15,   16,   32,   48,   64,   96,   112,   128,  160,
                                 256, 512, 1000, 1024, 2048, 3000, 4096, 8192, 16384, 65536};
  char *stack[kCount];
  GC_INIT();
  for (size_t i = 0; i < COUNT_OF(sizes); i++) {
    CHECK_EQ(count_gone(stack, kCount / 2, sizes[i], sizes[i]), 0);
    CHECK_EQ(count_gone(data, kCount / 2, sizes[i], sizes[i]), 0);
  }
}

int main(void) {
  CHECK_IN_CHILD(not_counted, NULL);
  CHECK_IN_CHILD(past_the_end, NULL);
  return check_result();
}
