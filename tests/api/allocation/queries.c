/* GC_base, GC_size, GC_is_heap_ptr and the checks of pointer arithmetic, for every size, with all
   interior pointers recognized. */
#include "check.h"

static void *failed_pointer;
static int failures;
static void GC_CALLBACK count_failure(void *p) {
  failed_pointer = p;
  failures++;
}
static void GC_CALLBACK count_failure_2(void *p, void *q) { count_failure(p); }

static void bases(void) {
  for (size_t size = 1; size < 1200000; size += size / 5 + 1) {
    char *p = (char *)GC_malloc(size);
    char *q = (char *)GC_malloc_atomic(size);
    char *r = (char *)GC_malloc_uncollectable(size);
    size_t step = size / 50 + 1;
    CHECK_GE(GC_size(p), size);
    CHECK_LE(GC_size(p), size + size / 2 + 64);
    for (size_t offset = 0; offset < size; offset += step) {
      CHECK_PTR(GC_base(p + offset), p);
      CHECK_PTR(GC_base(q + offset), q);
      CHECK_PTR(GC_base(r + offset), r);
      CHECK(GC_is_heap_ptr(p + offset));
    }
    CHECK_PTR(GC_base(p + GC_size(p) - 1), p);
    CHECK(GC_base(p + GC_size(p)) != p);
    CHECK(GC_base(p - 1) != p);
    /* Gleaner's objects have no byte of padding: one that the request fills ends there. */
    if (!on_gleaner() || size % 16 != 0) CHECK_PTR(GC_base(p + size), p);
    CHECK((char *)GC_least_plausible_heap_addr <= p && p < (char *)GC_greatest_plausible_heap_addr);
  }
}

static void outside_the_heap(void) {
  static int in_data;
  int on_stack = 0;
  void *from_malloc = malloc(100);
  void *others[8];
  others[0] = &in_data;
  others[1] = &on_stack;
  others[2] = from_malloc;
  others[3] = (void *)(uintptr_t)&outside_the_heap;
  others[4] = NULL;
  others[5] = (void *)(uintptr_t)-8;
  others[6] = (void *)(uintptr_t)-1;
  others[7] = (void *)8;
  for (size_t i = 0; i < COUNT_OF(others); i++) {
    CHECK_NULL(GC_base(others[i]));
    CHECK(!GC_is_heap_ptr(others[i]));
  }
  free(from_malloc);
}

static void pointer_checks(void) {
  enum { kLarge = 50000 };
  static char data[64] __attribute__((aligned(8)));
  char local[64] __attribute__((aligned(8)));
  char *large = (char *)GC_malloc(kLarge), *atomic = (char *)GC_malloc_atomic(100);
  char *p = (char *)GC_malloc(100), *other = (char *)GC_malloc(100), *walk = p;
  GC_same_obj_print_proc = count_failure_2;
  GC_is_valid_displacement_print_proc = count_failure;
  GC_is_visible_print_proc = count_failure;

#define QUIET(call, result) \
  CHECK_PTR(call, result);  \
  CHECK_EQ(failures, 0)
#define COMPLAINED(call, result) \
  failures = 0;                  \
  CHECK_PTR(call, result);       \
  CHECK_EQ(failures, 1);         \
  failures = 0
  QUIET(GC_same_obj(p + 10, p + 90), p + 10);
  QUIET(GC_same_obj(data, data + 10), data);
  QUIET(GC_same_obj(local, NULL), local);
  QUIET(GC_same_obj(large, large + kLarge - 1), large);
  COMPLAINED(GC_same_obj(p, other), p);
  COMPLAINED(GC_same_obj(p, data), p);
  COMPLAINED(GC_same_obj(local, p), local);
  COMPLAINED(GC_same_obj(large, p), large);
  QUIET(GC_is_valid_displacement(p), p);
  QUIET(GC_is_valid_displacement(p + 50), p + 50);
  QUIET(GC_is_valid_displacement(large + 40001), large + 40001);
  QUIET(GC_is_valid_displacement(data), data);
  QUIET(GC_is_valid_displacement(local), local);
  QUIET(GC_is_valid_displacement(NULL), NULL);
  QUIET(GC_is_visible(p), p);
  QUIET(GC_is_visible(p + 8), p + 8);
  QUIET(GC_is_visible(large + 40000), large + 40000);
  QUIET(GC_is_visible(local), local);
  QUIET(GC_is_visible(data), data);
  COMPLAINED(GC_is_visible(p + 4), p + 4); /* not aligned */
  /* No place where pointers are looked for; libgc notices only at the addresses behind it. */
  if (on_gleaner()) {
    COMPLAINED(GC_is_visible(atomic), atomic);
  }

  CHECK_PTR(GC_pre_incr((void **)&walk, 16), p + 16);
  CHECK_PTR(walk, p + 16);
  CHECK_PTR(GC_post_incr((void **)&walk, 8), p + 16);
  CHECK_PTR(walk, p + 24);
  CHECK_PTR(GC_pre_incr((void **)&walk, -24), p);
  CHECK_EQ(failures, 0);
  walk = large;
  QUIET(GC_pre_incr((void **)&walk, 40000), large + 40000);
  QUIET(GC_pre_incr((void **)&walk, -40000), large);
  walk = p;
  COMPLAINED(GC_post_incr((void **)&walk, 100000), p);

  CHECK_PTR(GC_PTR_ADD(p, 5), p + 5);
  walk = p;
  CHECK_PTR(GC_PRE_INCR(walk, 2), p + 2);
  CHECK_PTR(GC_POST_INCR(walk), p + 2);
  CHECK_PTR(GC_POST_DECR(walk), p + 3);
  CHECK_PTR(walk, p + 2);
}

static void size_map(void) {
  size_t previous = 0;
  for (int i = 0; i <= 2047; i++) {
    size_t size = GC_get_size_map_at(i);
    CHECK_GE(size, (size_t)i);
    CHECK_GE(size, previous);
    CHECK_EQ(size % 16, 0);
    CHECK_EQ(GC_size(GC_malloc((size_t)i)), size);
    CHECK_EQ(GC_size(GC_malloc_atomic((size_t)i)), size);
    /* The next multiple of 16, in libgc for one byte more. */
    if (i <= 128)
      CHECK_EQ(size, on_gleaner() ? (i > 1 ? (i + 15) / 16 : 1) * 16 : i / 16 * 16 + 16);
    previous = size;
  }
  for (int i = 256; i <= 65536; i *= 2) {
    CHECK_LE(GC_size(GC_malloc((size_t)i)), (size_t)(2 * i));
    /* Uncollectable objects have no padding in libgc either; it has fewer size classes. */
    if (on_gleaner() || i < 512 || i > 1024)
      CHECK_EQ(GC_size(GC_malloc_uncollectable((size_t)i - 8)), i);
  }
  CHECK_EQ(GC_get_size_map_at(-1), (size_t)-1);
  CHECK_EQ(GC_get_size_map_at(1 << 20), (size_t)-1);
}

static void hidden_pointers(void) {
  char *p = (char *)GC_malloc(10);
  GC_hidden_pointer hidden = GC_HIDE_POINTER(p);
  CHECK_PTR(GC_REVEAL_POINTER(hidden), p);
  CHECK(!GC_is_heap_ptr((void *)hidden));
  CHECK(!GC_is_tmp_root(p));
  CHECK_EQ(GC_HIDE_POINTER(NULL), ~(GC_hidden_pointer)0);
}

int main(void) {
  GC_INIT();
  bases();
  outside_the_heap();
  pointer_checks();
  size_map();
  hidden_pointers();
  return check_result();
}
