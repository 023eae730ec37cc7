/* A collection looks at all objects allocated with GC_DEBUG, and names those that were damaged. */
#include "capture.h"

static char *kept[6];

static void damage(void) {
  GC_INIT();
  for (size_t i = 0; i < 6; i++) kept[i] = (char *)GC_debug_malloc(24, "kept.c", (int)i);
  for (size_t i = 6; i < 500; i++) {
    char *p = (char *)GC_debug_malloc_atomic(100, "intact.c", (int)i);
    memset(p, 0xff, 100);
  }
  spoil(kept[1], 24);
  spoil(kept[3], -5);
  GC_gcollect();
  fprintf(stderr, "second\n");
  GC_gcollect();
}

static void freed_meanwhile(void) {
  GC_INIT();
  for (size_t i = 0; i < 6; i++) {
    kept[i] = (char *)GC_debug_malloc(24, "freed.c", (int)i);
    GC_debug_free(kept[i]);
  }
  GC_gcollect(); /* still referred to, and empty: no damage */
  GC_gcollect();
}

enum { kRaw = 5000 }; /* enough to reuse what was freed */
static char *kept_raw[kRaw];

/* Given back behind the debug allocator's back. */
static void freed_raw(void) {
  GC_INIT();
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < 1000; i++) {
      kept_raw[i] = (char *)GC_base(GC_debug_malloc(24, "raw.c", (int)i));
    }
    for (size_t i = 0; i < 1000; i++) GC_free(kept_raw[i]);
    for (size_t i = 0; i < kRaw; i++) {
      kept_raw[i] = (char *)GC_malloc(64);
      memset(kept_raw[i], 0x11, 64);
    }
    GC_gcollect();
  }
}

static void *damage_one(void *object) {
  spoil(object, 26);
  return NULL;
}

static void damage_by_thread(void) {
  GC_INIT();
  for (size_t i = 0; i < 6; i++) kept[i] = (char *)GC_debug_malloc(24, "thread.c", (int)i);
  run_in_thread(damage_one, kept[2]);
  GC_gcollect();
}

static void aborting(void) {
  setenv("GC_ABORT_ON_LEAK", "1", 1);
  damage();
}

int main(void) {
  static struct captured c;
  fail_after(50);
  CAPTURE_WELL(&c, damage);
  CHECK_SAYS(&c, "kept.c:1");
  CHECK_SAYS(&c, "kept.c:3");
  CHECK_SILENT_ABOUT(&c, "kept.c:0");
  CHECK_SILENT_ABOUT(&c, "kept.c:2");
  CHECK_SILENT_ABOUT(&c, "kept.c:4");
  CHECK_SILENT_ABOUT(&c, "intact.c");
  if (on_gleaner()) CHECK_CAPTURED(&c, count_text(&c, "kept.c:1") == 1);

  CAPTURE_WELL(&c, freed_meanwhile);
  CHECK_SILENT_ABOUT(&c, "freed.c");

  CAPTURE_WELL(&c, damage_by_thread);
  CHECK_SAYS(&c, "thread.c:2");

  capture(&c, aborting);
  CHECK_CAPTURED(&c, was_aborted(&c));
  CHECK_SAYS(&c, "kept.c:1");
  CHECK_SILENT_ABOUT(&c, "second");

  if (!on_gleaner()) return check_result();
  CAPTURE_WELL(&c, freed_raw);
  CHECK_CAPTURED(&c, c.text[0] == 0);
  return check_result();
}
