/* GLEANER_MODE=auto, the default: the collector chooses the kind of collection, the program notices
   nothing, and can ask what was chosen. */
#include "check.h"

#include <dirent.h>
#include <gleaner.h>
#include <sys/resource.h>

#define LISTS 64

typedef struct node {
  struct node *next;
  long number;
  void *more[6];
} node;

static node *lists[LISTS];

static node *make_list(long length) {
  node *list = NULL;
  for (long i = 0; i < length; i++) {
    node *p = (node *)GC_MALLOC(sizeof *p);
    p->next = list;
    p->number = i;
    list = p;
  }
  return list;
}

static int is_intact(const node *list, long length) {
  for (; list != NULL && list->number == length - 1; list = list->next) length--;
  return list == NULL && length == 0;
}

static int threads(void) {
  DIR *tasks = opendir("/proc/self/task");
  const struct dirent *entry;
  int count = 0;
  while ((entry = readdir(tasks)) != NULL) count += entry->d_name[0] != '.';
  closedir(tasks);
  return count;
}

static struct gleaner_stats statistics(void) {
  struct gleaner_stats stats;
  CHECK_EQ(gleaner_get_stats(&stats, sizeof stats), sizeof stats);
  return stats;
}

static void change_lists(int rounds) {
  for (int i = 0; i < rounds; i++) {
    int which = i * 7 % LISTS;
    CHECK(lists[which] == NULL || is_intact(lists[which], 2000 + which));
    lists[which] = make_list(2000 + which);
  }
}

/* What was chosen last is told, to a caller with any size of structure. */
static void check_choice(void) {
  struct gleaner_choice choice, part;
  CHECK_EQ(gleaner_get_choice(&choice, sizeof choice), sizeof choice);
  CHECK_EQ(choice.collection, statistics().collections);
  CHECK_NE(strlen(choice.reason), 0);
  CHECK_NE(choice.actual_ns, 0);
  for (size_t size = 0; size < sizeof part; size++) {
    memset(&part, 0x5a, sizeof part);
    CHECK_EQ(gleaner_get_choice(&part, size), size);
    CHECK_EQ(memcmp(&part, &choice, size), 0);
    CHECK_EQ(((unsigned char *)&part)[size], 0x5a);
  }
  CHECK_EQ(gleaner_get_choice(NULL, sizeof choice), 0);
  GC_gcollect();
  CHECK_EQ(gleaner_get_choice(&choice, sizeof choice), sizeof choice);
  CHECK_EQ(strcmp(choice.reason, "only kind"), 0);
  CHECK_EQ(choice.price_permille, 0);
}

static struct gleaner_modes get_modes(void) {
  struct gleaner_modes result;
  CHECK_EQ(gleaner_get_modes(&result, sizeof result), sizeof result);
  return result;
}

/* A program that has no descriptor to spare when the collector would track writes: collections stop
   the program until there are descriptors, and not for good. */
static void refused_for_a_while(void *unused) {
  struct rlimit before;
  setenv("GLEANER_AUTO_AFTER", "0", 1);
  GC_INIT();
  if ((GC_get_supported_vdbs() & GC_VDB_SOFT) == 0) return; /* no userfaultfd */

  CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit none = before;
  none.rlim_cur = 0;
  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  GC_gcollect();
  struct gleaner_modes refused = get_modes();
  CHECK_EQ(refused.automatic, 1);
  CHECK_EQ(refused.concurrent + refused.generational, 0);
  CHECK_NE(strlen(refused.reason), 0);

  /* To ask what would be used changes nothing of what is told. */
  GC_incremental_protection_needs();
  struct gleaner_modes asked = get_modes();
  CHECK_EQ(strcmp(asked.reason, refused.reason), 0);

  CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  for (long collections = 0; collections < 100000 && !get_modes().concurrent; collections++)
    GC_gcollect();
  CHECK_EQ(get_modes().concurrent, 1);
  CHECK_EQ(get_modes().generational, 1);
  CHECK_EQ(strcmp(get_modes().tracking, "userfaultfd"), 0);
}

int main(void) {
  /* Of the environment nothing counts but what stands here. */
  unsetenv("GLEANER_MODE");
  unsetenv("GLEANER_CONCURRENT");
  unsetenv("GLEANER_GENERATIONAL");
  setenv("GC_MARKERS", "1", 1);
  CHECK_IN_CHILD(refused_for_a_while, NULL);
  setenv("GLEANER_AUTO_AFTER", "2000", 1);
  gleaner_set_pause_goal(0);
  GC_INIT();
  CHECK_EQ(gleaner_get_pause_goal(), 1);

  struct gleaner_modes modes = get_modes();
  CHECK_EQ(modes.automatic, 1);
  CHECK_EQ(modes.concurrent + modes.generational, 0);

  change_lists(2000);
  CHECK_GE(statistics().total_pause_ns, 2000000);
  modes = get_modes();
  if (strcmp(modes.tracking, "userfaultfd") == 0) {
    CHECK_EQ(modes.concurrent, 1);
    /* Every stop is longer than a nanosecond. */
    CHECK_NE(statistics().concurrent_collections, 0);
  } else {
    CHECK_EQ(modes.concurrent, 0);
  }
  /* One marker, no thread of the collector's own. */
  CHECK_EQ(threads(), 1);
  /* The program has not asked for it. */
  CHECK_EQ(GC_is_incremental_mode(), 0);
  /* Where the system refuses userfaultfd later, a program that asks gets mprotect. */
  if (strcmp(get_modes().tracking, "userfaultfd") == 0)
    CHECK_EQ(GC_incremental_protection_needs(), GC_PROTECTS_NONE);
  CHECK_EQ(GC_get_actual_vdb(), GC_VDB_NONE);
  check_choice();

  /* With all the time in the world no cycle is worth its trouble. */
  gleaner_set_pause_goal(UINT64_MAX);
  change_lists(200);
  {
    const uint64_t before = statistics().concurrent_collections;
    change_lists(1000);
    CHECK_LE(statistics().concurrent_collections, before + 1); /* one was under way */
  }

  GC_enable_incremental();
  modes = get_modes();
  CHECK_EQ(modes.automatic, 0);
  CHECK_EQ(GC_is_incremental_mode(), modes.concurrent);
  change_lists(500);
  return check_result();
}
