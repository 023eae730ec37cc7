/* Rule 23: GC_no_dls and GC_clear_roots (neko): then only ranges given to GC_add_roots count,
   beside stacks. GC_remove_roots takes sub-ranges. */
#include "check.h"

enum { kCount = 3000 };
static void *data[kCount]; /* in the program's data, which does not count any more */

static void *fill(void *arg) {
  size_t i;
  for (i = 0; i < kCount; i++) {
    data[i] = GC_malloc(40);
    watch_object((struct watch *)arg, i, data[i]);
  }
  return NULL;
}
static void make(struct watch *w) {
  watch_init(w, kCount);
  GC_disable();
  run_in_thread(fill, w);
  GC_enable();
}
static size_t gone_between(const struct watch *w, size_t from, size_t to) {
  size_t n = 0;
  for (; from < to; from++) n += w->links[from] == 0;
  return n;
}

int main(void) {
  struct watch w;
  const size_t third = kCount / 3;
  GC_no_dls = 1;
  GC_INIT();
  GC_clear_roots();
  make(&w);
  collect();
  CHECK_MOSTLY(watch_gone(&w), kCount);
  watch_end(&w);

  /* neko: the same again, and the range is named. */
  GC_add_roots(data, data + kCount);
  make(&w);
  collect();
  CHECK_EQ(watch_gone(&w), 0);
  GC_add_roots(data, data + kCount); /* twice is once */
  collect();
  CHECK_EQ(watch_gone(&w), 0);
  watch_end(&w);

  /* One range of two. */
  GC_clear_roots();
  GC_add_roots(data, data + third);
  GC_add_roots(data + 2 * third, data + kCount);
  make(&w);
  collect();
  CHECK_EQ(gone_between(&w, 0, third), 0);
  CHECK_MOSTLY(gone_between(&w, third, 2 * third), third);
  CHECK_EQ(gone_between(&w, 2 * third, kCount), 0);
  GC_remove_roots(data, data + third);
  collect();
  CHECK_MOSTLY(gone_between(&w, 0, third), third);
  CHECK_EQ(gone_between(&w, 2 * third, kCount), 0);
  watch_end(&w);

  /* The middle of one range. libgc 8.2.2 removes only what was added as a whole. */
  if (on_gleaner()) {
    GC_clear_roots();
    GC_add_roots(data, data + kCount);
    GC_remove_roots(data + third, data + 2 * third);
    make(&w);
    collect();
    CHECK_EQ(gone_between(&w, 0, third), 0);
    CHECK_MOSTLY(gone_between(&w, third, 2 * third), third);
    CHECK_EQ(gone_between(&w, 2 * third, kCount), 0);
  }
  return check_result();
}
