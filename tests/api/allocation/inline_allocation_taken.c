/* A program that takes GC_malloc's place sees every object: the path that is compiled in stays
 * closed. */
#define GLEANER_INLINE_MALLOC
#include "check.h"

static size_t calls;

void *GC_malloc(size_t bytes) {
  static void *(*next)(size_t);
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "GC_malloc");
  calls++;
  return next(bytes);
}

int main(void) {
  GC_INIT();
  calls = 0;
  for (size_t i = 0; i < 1000; i++) CHECK(GC_MALLOC(32) != NULL);
  CHECK_EQ(calls, 1000);
#ifdef GLEANER_HAS_BUMP
  CHECK(!gleaner_offers_bump());
#endif
  return check_result();
}
