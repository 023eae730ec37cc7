/* GLEANER_MODE=auto in a program that has no descriptor to spare when the collector would track
   writes: collections stop the program until there are descriptors, and not for good. */
#include <gleaner.h>
#include <string.h>
#include <sys/resource.h>

#include "check.h"

static struct gleaner_modes modes(void) {
  struct gleaner_modes result;
  CHECK_EQ(gleaner_get_modes(&result, sizeof result), sizeof result);
  return result;
}

int main(void) {
  struct rlimit before, none;
  struct gleaner_modes refused, asked;
  long collections;
  unsetenv("GLEANER_MODE");
  unsetenv("GLEANER_CONCURRENT");
  unsetenv("GLEANER_GENERATIONAL");
  setenv("GLEANER_AUTO_AFTER", "0", 1);
  setenv("GC_MARKERS", "1", 1);
  GC_INIT();
  if ((GC_get_supported_vdbs() & GC_VDB_SOFT) == 0) return check_result(); /* no userfaultfd */

  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  none = before;
  none.rlim_cur = 0;
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  GC_gcollect();
  refused = modes();
  CHECK_EQ(refused.automatic, 1);
  CHECK_EQ(refused.concurrent + refused.generational, 0);
  CHECK_NE(strlen(refused.reason), 0);

  /* To ask what would be used changes nothing of what is told. */
  GC_incremental_protection_needs();
  asked = modes();
  CHECK_EQ(strcmp(asked.reason, refused.reason), 0);

  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (collections = 0; collections < 100000 && !modes().concurrent; collections++) GC_gcollect();
  CHECK_EQ(modes().concurrent, 1);
  CHECK_EQ(modes().generational, 1);
  CHECK_EQ(strcmp(modes().tracking, "userfaultfd"), 0);
  return check_result();
}
