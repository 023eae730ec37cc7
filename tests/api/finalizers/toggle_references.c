/* Objects that toggle: the collector asks at each collection whether its reference to an object is
   strong, weak or none. */
#include "check.h"

#include <gc/javaxfc.h>

enum { kCount = 1000 };

static GC_ToggleRefStatus decision;
static size_t decisions;
static GC_ToggleRefStatus GC_CALLBACK decide(void *object) {
  CHECK(object != NULL);
  decisions++;
  return decision;
}

static struct watch objects;
static void *make(void *is_strong) {
  for (size_t i = 0; i < kCount; i++) {
    void *object = GC_malloc(48);
    CHECK_EQ(GC_toggleref_add(object, is_strong != NULL), GC_SUCCESS);
    watch_object(&objects, i, object);
  }
  return NULL;
}

/* From strong or weak to what the program decides: whether the objects stay then. */
static void toggle(int is_strong, GC_ToggleRefStatus then, int stay) {
  watch_init(&objects, kCount);
  make_in_thread(make, is_strong ? &objects : NULL);
  decision = then;
  decisions = 0;
  collect();
  CHECK_GE(decisions, kCount);
  if (stay)
    CHECK_EQ(watch_gone(&objects), 0);
  else
    CHECK_MOSTLY(watch_gone(&objects), kCount);
  decision = GC_TOGGLE_REF_WEAK;
  collect();
  CHECK_GONE(&objects);
  decision = GC_TOGGLE_REF_STRONG;
  collect(); /* asks about none but those that are left */
  watch_end(&objects);
}

int main(void) {
  GC_INIT();
  CHECK(GC_get_toggleref_func() == 0);
  CHECK_EQ(GC_toggleref_add(GC_malloc(10), 1), GC_SUCCESS); /* nobody is asked yet */
  GC_set_toggleref_func(decide);
  CHECK(GC_get_toggleref_func() == decide);
  toggle(1, GC_TOGGLE_REF_STRONG, 1);
  toggle(1, GC_TOGGLE_REF_WEAK, 0);
  toggle(1, GC_TOGGLE_REF_DROP, 0);
  toggle(0, GC_TOGGLE_REF_WEAK, 0);
  toggle(0, GC_TOGGLE_REF_STRONG, 1);
  GC_set_toggleref_func(0);
  return check_result();
}
