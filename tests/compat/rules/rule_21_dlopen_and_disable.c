/* Rule 21: GC_dlopen disables collection meanwhile; GC_disable and GC_enable nest. */
#include <link.h>

#include "check.h"

int main(int argc, char **argv) {
  GC_word before;
  void *handle;
  int *seen;
  int i;
  GC_INIT();
  before = GC_get_gc_no();
  for (i = 1; i <= 5; i++) {
    GC_disable();
    CHECK_NE(GC_is_disabled(), 0);
    CHECK_EQ(GC_dont_gc, i);
  }
  for (i = 4; i >= 0; i--) {
    GC_gcollect();
    CHECK_EQ(GC_get_gc_no(), before);
    GC_enable();
    CHECK_EQ(GC_is_disabled() != 0, i != 0);
    CHECK_EQ(GC_dont_gc, i);
  }
  GC_gcollect();
  CHECK_EQ(GC_get_gc_no(), before + 1);

  /* It opens what dlopen opens, and leaves the count as it was. */
  handle = GC_dlopen("libm.so.6", RTLD_NOW);
  CHECK(handle != NULL);
  CHECK(dlsym(handle, "cos") != NULL);
  CHECK_EQ(GC_dont_gc, 0);
  CHECK_NULL(GC_dlopen("no such library", RTLD_NOW));
  CHECK_EQ(GC_dont_gc, 0);
  CHECK_EQ(dlclose(handle), 0);

  /* What runs while it is opened cannot collect. */
  CHECK_EQ(argc, 2);
  handle = GC_dlopen(argv[1], RTLD_NOW);
  CHECK(handle != NULL);
  if (handle != NULL) {
    CHECK((seen = dlsym(handle, "disabled_while_opened")) != NULL && *seen == 1);
    CHECK((seen = dlsym(handle, "collected_while_opened")) != NULL && *seen == 0);
  }
  CHECK_EQ(GC_dont_gc, 0);
  GC_disable();
  CHECK(GC_dlopen(NULL, RTLD_NOW) != NULL);
  CHECK_EQ(GC_dont_gc, 1);
  GC_enable();
  GC_gcollect();
  CHECK_EQ(GC_get_gc_no(), before + 2);
  return check_result();
}
