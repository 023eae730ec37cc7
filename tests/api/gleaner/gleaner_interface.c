/* gleaner.h: the version and the statistics. Passes by default on libgc, which has neither. */
#include "check.h"

#include <gleaner.h>

struct node {
  struct node *next;
  char payload[100];
};
static struct node *list;

int main(void) {
  struct {
    struct gleaner_stats known;
    uint64_t unknown;
  } stats;
  if (!on_gleaner()) return 0;
  CHECK(strcmp(gleaner_version(), GLEANER_VERSION) == 0);
  GC_INIT();
  for (size_t i = 0; i < 100000; i++) {
    struct node *n = GC_NEW(struct node);
    n->next = list;
    list = n;
  }
  GC_gcollect();
  memset(&stats, 0x55, sizeof stats);
  CHECK_EQ(gleaner_get_stats(&stats.known, sizeof stats), sizeof stats.known);
  CHECK_EQ(stats.unknown, 0x5555555555555555);
  CHECK_GE(stats.known.collections, 1);
  CHECK_LE(stats.known.collections, GC_get_gc_no());
  CHECK_GE(stats.known.live_bytes, 100000 * sizeof(struct node));
  CHECK_LE(stats.known.live_bytes, 100000 * 2 * sizeof(struct node));
  CHECK_GE(stats.known.heap_bytes, stats.known.live_bytes);
  CHECK_GE(stats.known.last_pause_ns, 1);
  CHECK_GE(stats.known.max_pause_ns, stats.known.last_pause_ns);
  CHECK_GE(stats.known.total_pause_ns, stats.known.max_pause_ns);
  CHECK_EQ(stats.known.mean_pause_ns, stats.known.total_pause_ns / stats.known.collections);
  CHECK_GE(stats.known.mark_ns, 1);
  CHECK_LE(stats.known.mark_ns, stats.known.last_pause_ns);
  CHECK_GE(stats.known.markers, 1);
  CHECK_GE(stats.known.metadata_bytes, 1);
  CHECK_GE(stats.known.pages_taken, 100000 * sizeof(struct node) >> 15);
  CHECK_EQ(stats.known.remote_pages, 0); /* there is one thread */

  struct gleaner_stats previous = stats.known;
  list = NULL;
  collect();
  CHECK_EQ(gleaner_get_stats(&stats.known, sizeof stats.known), sizeof stats.known);
  CHECK_EQ(stats.known.collections, previous.collections + 1);
  CHECK_LE(stats.known.live_bytes, previous.live_bytes / 2);
  CHECK_GE(stats.known.bytes_freed_last, 90000 * sizeof(struct node));
  CHECK_GE(stats.known.total_pause_ns, previous.total_pause_ns + stats.known.last_pause_ns);

  /* A caller with an older, shorter structure. */
  memset(&stats, 0x55, sizeof stats);
  CHECK_EQ(gleaner_get_stats(&stats.known, 16), 16);
  CHECK_GE(stats.known.collections, 1);
  CHECK_EQ(stats.known.heap_bytes, 0x5555555555555555);
  return check_result();
}
