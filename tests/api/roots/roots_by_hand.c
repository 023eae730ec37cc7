/* A program that names all its roots itself, as neko does: GC_no_dls and GC_clear_roots. Then only
   ranges given to GC_add_roots count, beside stacks; GC_remove_roots takes sub-ranges. Also
   GC_is_tmp_root and the exclusion table. Rule 23. */
#include "check.h"

enum { kCount = 3000, kThird = kCount / 3 };

static void *in_data[kCount]; /* in the program's data */
static void *in_other_data[kCount];
static struct watch w;

static void *fill(void *unused) {
  for (size_t i = 0; i < kCount; i++) {
    in_data[i] = GC_malloc(48);
    watch_object(&w, i, in_data[i]);
  }
  return unused;
}

static void make(void) {
  watch_init(&w, kCount);
  make_in_thread(fill, NULL);
}

/* Of which thirds of the data the next collection keeps all objects, by bits: 1, 2 and 4. Of each
   other third it keeps hardly any. */
static void expect_kept(int line, unsigned thirds) {
  collect();
  for (size_t third = 0; third < 3; third++) {
    size_t gone = 0;
    for (size_t i = third * kThird; i < (third + 1) * kThird; i++) gone += w.links[i] == 0;
    if (thirds >> third & 1 ? gone == 0 : gone >= kThird - kThird / 10) continue;
    fprintf(stderr, "%d: of third %zu %zu are gone\n", line, third, gone);
    check_failures++;
  }
}
#define EXPECT_KEPT(thirds) expect_kept(__LINE__, thirds)

static NOINLINE void check_stack_counts(void) {
  void *volatile held = GC_malloc(100);
  memset(held, 7, 100);
  collect();
  memset(GC_malloc(100), 0, 100);
  CHECK(((char *)held)[99] == 7);
}

int main(void) {
  GC_no_dls = 1;
  GC_dont_precollect = 1;
  GC_INIT();
  CHECK_EQ(GC_get_no_dls(), 1);
  /* It says that shared objects are no roots: the program's own data still is. libgc loses that
     too. */
  make();
  EXPECT_KEPT(on_gleaner() ? 7 : 0);
  watch_end(&w);
  GC_clear_roots();
  make();
  EXPECT_KEPT(0);
  watch_end(&w);
  check_stack_counts();

  GC_add_roots(in_data, in_data + kCount);
  CHECK(!GC_is_tmp_root(in_data));
  make();
  EXPECT_KEPT(7);
  GC_add_roots(in_data, in_data + kCount); /* twice is once */
  EXPECT_KEPT(7);
  watch_end(&w);

  /* One range of two. */
  GC_clear_roots();
  GC_add_roots(in_data, in_data + kThird);
  GC_add_roots(in_data + 2 * kThird, in_data + kCount);
  make();
  EXPECT_KEPT(5);
  GC_remove_roots(in_data, in_data + kThird);
  EXPECT_KEPT(4);
  watch_end(&w);

  /* The middle of one range. libgc 8.2.2 removes only what was added as a whole. */
  if (on_gleaner()) {
    GC_clear_roots();
    GC_add_roots(in_data, in_data + kCount);
    GC_remove_roots(in_data + kThird, in_data + 2 * kThird);
    make();
    EXPECT_KEPT(5);
    watch_end(&w);
  }

  GC_clear_roots();
  GC_add_roots(in_data, in_data + kCount);
  GC_exclude_static_roots(in_data, in_data + kCount);
  make();
  EXPECT_KEPT(0);
  watch_end(&w);
  make();
  if (on_gleaner()) {
    /* libgc 8.2.2 crashes in the collection after this call. */
    GC_clear_exclusion_table();
    EXPECT_KEPT(7);
  }
  GC_clear_roots();
  GC_add_roots(in_other_data, in_other_data + kCount);
  EXPECT_KEPT(0);
  return check_result();
}
