/* Allocation with GC_DEBUG (Rule 27: the object is 32 bytes behind its base): what the
   macros give, how such objects are resized, freed and collected, and that right use is not
   complained about. */
#define GC_DEBUG
#include "capture.h"

#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

enum { kCount = 2000 };

static void check_object(void *p, size_t size, int zero) {
  unsigned char *bytes = (unsigned char *)p;
  CHECK_NE((intptr_t)p, 0);
  CHECK_PTR((char *)GC_base(p), (char *)p - 32);
  CHECK_PTR((char *)GC_base((char *)p + size / 2), (char *)p - 32);
  CHECK_PTR(GC_USR_PTR_FROM_BASE(GC_base(p)), p);
  CHECK_EQ((uintptr_t)p % 16, 0);
  CHECK_GE(GC_size(GC_base(p)), size + 32);
  if (zero) {
    for (size_t i = 0; i < size; i++) CHECK_EQ(bytes[i], 0);
  }
  memset(p, 0x77, size);
  GC_FREE(p);
}

static void all_sorts(void) {
  static const size_t sizes[] = {0, 1, 7, 8, 9, 16, 20, 100, 1000, 2000, 5000, 20000, 300000};
  GC_INIT();
  CHECK_EQ(GC_debug_header_size, 32);
  CHECK_EQ(GC_get_debug_header_size(), 32);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    check_object(GC_MALLOC(sizes[i]), sizes[i], 1);
    check_object(GC_MALLOC_ATOMIC(sizes[i]), sizes[i], 0);
    check_object(GC_MALLOC_UNCOLLECTABLE(sizes[i]), sizes[i], 1);
    check_object(GC_MALLOC_ATOMIC_UNCOLLECTABLE(sizes[i]), sizes[i], 0);
    check_object(GC_MALLOC_IGNORE_OFF_PAGE(sizes[i]), sizes[i], 1);
    check_object(GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(sizes[i]), sizes[i], 0);
    check_object(GC_debug_malloc_replacement(sizes[i]), sizes[i], 1);
    check_object(GC_debug_malloc_stubborn(sizes[i], "debug_allocation.c", 1), sizes[i], 1);
  }
#define CHECK_KIND(object, kind) CHECK_EQ(GC_get_kind_and_size(GC_base(object), NULL), kind)
  CHECK_KIND(GC_MALLOC_ATOMIC(10), GC_I_PTRFREE);
  CHECK_KIND(GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(100000), GC_I_PTRFREE);
  CHECK_KIND(GC_MALLOC_UNCOLLECTABLE(10), 2);
  CHECK_KIND(GC_MALLOC_ATOMIC_UNCOLLECTABLE(10), 3);
  check_object(GC_NEW(double), sizeof(double), 1);
  check_object(GC_NEW_ATOMIC(double), sizeof(double), 0);
  check_object(GC_NEW_UNCOLLECTABLE(double), sizeof(double), 1);
  GC_FREE(NULL);
  GC_gcollect();
}

static void strings(void) {
  GC_INIT();
  char *copy = GC_STRDUP("seven");
  CHECK_EQ(strcmp(copy, "seven"), 0);
  CHECK_PTR((char *)GC_base(copy), copy - 32);
  GC_FREE(copy);
  copy = GC_STRNDUP("seven", 3);
  CHECK_EQ(strcmp(copy, "sev"), 0);
  GC_FREE(copy);
  CHECK_NULL(GC_STRDUP(NULL));
  GC_gcollect();
}

static void resizing(void) {
  GC_INIT();
  unsigned char *p = (unsigned char *)GC_REALLOC(NULL, 100);
  CHECK_PTR((char *)GC_base(p), (char *)p - 32);
  for (size_t i = 0; i < 100; i++) p[i] = (unsigned char)i;
  p = (unsigned char *)GC_REALLOC(p, 10000);
  CHECK_PTR((char *)GC_base(p), (char *)p - 32);
  for (size_t i = 0; i < 10000; i++) CHECK_EQ(p[i], i < 100 ? i : 0);
  p = (unsigned char *)GC_REALLOC(p, 10);
  for (size_t i = 0; i < 10; i++) CHECK_EQ(p[i], i);
  p = (unsigned char *)GC_debug_realloc_replacement(p, 20);
  for (size_t i = 0; i < 10; i++) CHECK_EQ(p[i], i);
  CHECK_NULL(GC_REALLOC(p, 0));
  p = (unsigned char *)GC_REALLOC(GC_MALLOC_UNCOLLECTABLE(10), 20);
  GC_FREE(p);
  if (on_gleaner())
    CHECK_NULL(GC_base(p)); /* was given back at once, so it was still uncollectable */
  GC_gcollect();
}

static char *volatile kept_objects[kCount]; /* static: what it refers to is kept */

static void *make_kept(void *arg) {
  struct watch *w = (struct watch *)arg;
  for (size_t i = 0; i < kCount; i++) {
    kept_objects[i] = (char *)GC_MALLOC(24);
    watch_object(w, i, GC_base(kept_objects[i]));
  }
  return NULL;
}

static void *make_garbage(void *arg) {
  struct watch *w = (struct watch *)arg;
  for (size_t i = 0; i < kCount; i++) watch_object(w, i, GC_base(GC_MALLOC(24)));
  return NULL;
}

static void *make_freed(void *arg) {
  struct watch *w = (struct watch *)arg;
  for (size_t i = 0; i < kCount; i++) {
    void *p = GC_MALLOC(24);
    GC_FREE(p);
    watch_object(w, i, GC_base(p));
  }
  return NULL;
}

static void life(int interior) {
  struct watch kept, garbage, freed;
  GC_set_all_interior_pointers(interior);
  GC_INIT();
  watch_init(&kept, kCount);
  watch_init(&garbage, kCount);
  watch_init(&freed, kCount);
  run_in_thread(make_kept, &kept);
  run_in_thread(make_garbage, &garbage);
  run_in_thread(make_freed, &freed);
  CHECK_KEPT(&kept);
  CHECK_MOSTLY(watch_gone(&garbage), kCount);
  CHECK_MOSTLY(watch_gone(&freed), kCount);
  memset((void *)kept_objects, 0, sizeof kept_objects);
  CHECK_GONE(&kept);
}

/* Without interior pointers those to registered displacements count, from what the program sees. */
static void *make_displaced(void *arg) {
  struct watch *w = (struct watch *)arg;
  for (size_t i = 0; i < kCount; i++) {
    char *p = (char *)GC_MALLOC(24);
    kept_objects[i] = p + (i % 2 ? 8 : 16);
    watch_object(w, i, GC_base(p));
  }
  return NULL;
}

static void displaced(void) {
  struct watch w;
  size_t even_gone = 0, odd_gone = 0;
  GC_set_all_interior_pointers(0);
  GC_INIT();
  GC_REGISTER_DISPLACEMENT(8);
  watch_init(&w, kCount);
  run_in_thread(make_displaced, &w);
  collect();
  for (size_t i = 0; i < kCount; i++) *(i % 2 ? &odd_gone : &even_gone) += w.links[i] == 0;
  CHECK_EQ(odd_gone, 0);
  CHECK_MOSTLY(even_gone, kCount / 2);
}

static void life_with_interior_pointers(void) { life(1); }
static void life_without(void) { life(0); }

/* The remains of debugged objects in memory that is used anew are no debugged objects. */
static void remains(void) {
  GC_INIT();
  for (size_t round = 0; round < 3; round++) {
    for (size_t i = 0; i < kCount; i++) {
      char *p = round == 0 ? (char *)GC_MALLOC_ATOMIC(88) : (char *)GC_malloc_atomic(128);
      if (round != 0) memset(p + 40, 0x33, 88);
    }
    collect();
  }
}

static void threads(void) {
  GC_INIT();
  run_in_threads(4, use_and_free, NULL, 20);
}

int main(void) {
  static void (*const cases[])(void) = {
      all_sorts,    strings,   resizing, life_with_interior_pointers,
      life_without, displaced, remains,  threads};
  static struct captured c;
  fail_after(50);
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    CAPTURE_WELL(&c, cases[i]);
    if (on_gleaner()) CHECK_CAPTURED(&c, c.text[0] == 0);
    CHECK_SILENT_ABOUT(&c, "debug_allocation.c");
  }
  return check_result();
}
