/* A program that names all its roots itself, as neko does: GC_no_dls and GC_clear_roots. Also
   GC_is_tmp_root and the exclusion table. */
#include "check.h"

enum { kCount = 2000 };

static void *in_data[kCount];
static void *in_other_data[kCount];

static void *fill(void *arg) {
  struct watch *w = (struct watch *)arg;
  size_t i;
  for (i = 0; i < kCount; i++) {
    in_data[i] = GC_malloc(48);
    watch_object(w, i, in_data[i]);
  }
  return NULL;
}

static void make(struct watch *w) {
  watch_init(w, kCount);
  GC_disable();
  run_in_thread(fill, w);
  GC_enable();
}

static NOINLINE void check_stack_counts(void) {
  void *volatile held = GC_malloc(100);
  memset(held, 7, 100);
  collect();
  memset(GC_malloc(100), 0, 100);
  CHECK(((char *)held)[99] == 7);
}

int main(void) {
  struct watch w;
  GC_no_dls = 1;
  GC_dont_precollect = 1;
  GC_INIT();
  CHECK_EQ(GC_get_no_dls(), 1);
  GC_clear_roots();

  make(&w);
  collect();
  CHECK_MOSTLY(watch_gone(&w), kCount);
  watch_end(&w);
  check_stack_counts();

  GC_add_roots(in_data, in_data + kCount);
  CHECK(!GC_is_tmp_root(in_data));
  make(&w);
  collect();
  CHECK_EQ(watch_gone(&w), 0);

  GC_exclude_static_roots(in_data, in_data + kCount);
  collect();
  CHECK_MOSTLY(watch_gone(&w), kCount);
  watch_end(&w);
  make(&w);
  if (on_gleaner()) {
    /* libgc 8.2.2 crashes in the collection after this call. */
    GC_clear_exclusion_table();
    collect();
    CHECK_EQ(watch_gone(&w), 0);
  }

  GC_clear_roots();
  GC_add_roots(in_other_data, in_other_data + kCount);
  collect();
  CHECK_MOSTLY(watch_gone(&w), kCount);
  return check_result();
}
