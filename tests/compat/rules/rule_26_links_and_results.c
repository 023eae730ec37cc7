/* Rule 26: what links, realloc, strdup, memalign and the statistics return. */
#include "check.h"

static GC_hidden_pointer links[3];

int main(void) {
  struct GC_prof_stats_s stats;
  char *p, *q;
  void *aligned = &links;
  size_t i;
  GC_INIT();
  p = (char *)GC_malloc(64);
  links[0] = links[1] = GC_HIDE_POINTER(p);

  CHECK_EQ(GC_general_register_disappearing_link((void **)&links[0], p), 0);
  CHECK_EQ(GC_general_register_disappearing_link((void **)&links[0], p), 1);
  CHECK_EQ(GC_move_disappearing_link((void **)&links[1], (void **)&links[2]), 4);
  CHECK_EQ(GC_move_disappearing_link((void **)&links[0], (void **)&links[2]), 0);
  CHECK_EQ(GC_unregister_disappearing_link((void **)&links[0]), 0);
  CHECK_EQ(GC_unregister_disappearing_link((void **)&links[2]), 1);
  CHECK_EQ(GC_unregister_disappearing_link((void **)&links[2]), 0);
  CHECK_EQ(GC_register_long_link((void **)&links[0], p), 0);
  CHECK_EQ(GC_register_long_link((void **)&links[0], p), 1);
  CHECK_EQ(GC_move_long_link((void **)&links[1], (void **)&links[2]), 4);
  CHECK_EQ(GC_unregister_long_link((void **)&links[0]), 1);
  CHECK_EQ(GC_unregister_long_link((void **)&links[0]), 0);

  CHECK_NULL(GC_strdup(NULL));
  q = GC_strdup("text");
  CHECK_EQ(strcmp(q, "text"), 0);
  CHECK_EQ(strcmp(GC_strndup("text", 2), "te"), 0);

  q = (char *)GC_malloc(100);
  CHECK_NULL(GC_realloc(q, 0));
  CHECK(GC_realloc(NULL, 10) != NULL);
  q = (char *)GC_malloc(1000);
  for (i = 0; i < 1000; i++) q[i] = (char)i;
  p = (char *)GC_realloc(q, 900);
  CHECK_PTR(p, q); /* not by half: it stays */
  p = (char *)GC_realloc(q, 100);
  CHECK(p != q);
  CHECK_LE(GC_size(p), 500);
  for (i = 0; i < 100; i++) CHECK_EQ(p[i], (char)i);
  q = (char *)GC_realloc(p, 5000);
  for (i = 0; i < 100; i++) CHECK_EQ(q[i], (char)i);

  CHECK_EQ(GC_posix_memalign(&aligned, 3, 100), 22);
  CHECK_EQ(GC_posix_memalign(&aligned, 2, 100), 22);
  CHECK_PTR(aligned, &links);
  CHECK_EQ(GC_posix_memalign(&aligned, 64, 100), 0);
  CHECK_EQ((uintptr_t)aligned % 64, 0);
  CHECK_EQ((uintptr_t)GC_memalign(256, 10) % 256, 0);

  CHECK_EQ(sizeof stats, 96);
  CHECK_EQ(GC_get_prof_stats(&stats, sizeof stats), 96);
  CHECK_GE(stats.heapsize_full, 1);
  CHECK_EQ(stats.gc_no, GC_get_gc_no());
  memset(&stats, 0x11, sizeof stats);
  CHECK_EQ(GC_get_prof_stats(&stats, 16), 16);
  CHECK_EQ(((unsigned char *)&stats)[16], 0x11);
  return check_result();
}
