/* The library's own threads, which whichever thread comes first creates: they run where the
 * process may, with the policy, the nice value and under the name that are theirs, and on stacks
 * that hold what the program's thread-local storage takes of them. */
#include "check.h"

#include <dirent.h>
#include <sched.h>
#include <sys/resource.h>

/* More than the stack of a helper would be without it. The C library takes it from each stack. */
static __thread char local[400000];

struct expected {
  cpu_set_t processors;
  int policy, nice;
};

static int is_as_expected(pid_t thread, const struct expected *expected, int *is_ours) {
  char path[64], name[64] = "";
  cpu_set_t own;
  snprintf(path, sizeof path, "/proc/self/task/%d/comm", (int)thread);
  FILE *file = fopen(path, "r");
  *is_ours = 0;
  if (file == NULL) return 1; /* it has ended */
  if (fgets(name, sizeof name, file) == NULL) name[0] = 0;
  fclose(file);
  *is_ours = strncmp(name, "gleaner-", 8) == 0;
  if (!*is_ours) return 0;
  if (sched_getaffinity(thread, sizeof own, &own) != 0) return 0;
  /* A helper is kept off its waker's processor for a while. */
  CPU_XOR(&own, &own, &expected->processors);
  return CPU_COUNT(&own) <= 1 && sched_getscheduler(thread) == expected->policy &&
         getpriority(PRIO_PROCESS, (id_t)thread) == expected->nice;
}

/* The threads but the caller. A helper that was just created sets the rest itself, so this one
   waits for it; fail_after ends a wait that is in vain. */
static size_t await_helpers(const struct expected *expected) {
  for (;;) {
    size_t helpers = 0, others = 0;
    DIR *tasks = opendir("/proc/self/task");
    const struct dirent *entry;
    while ((entry = readdir(tasks)) != NULL) {
      const pid_t thread = atoi(entry->d_name);
      int is_ours;
      if (thread <= 0 || thread == getpid()) continue;
      if (!is_as_expected(thread, expected, &is_ours)) {
        others++;
      } else if (is_ours) {
        helpers++;
      }
    }
    closedir(tasks);
    if (others == 0) return helpers;
    GC_gcollect();
    sched_yield();
  }
}

int main(void) {
  struct expected expected;
  cpu_set_t one;
  fail_after(50);
  setenv("GLEANER_MARKERS", "3", 0);
  local[0] = local[sizeof local - 1] = 1;
  CHECK_EQ(sched_getaffinity(0, sizeof expected.processors, &expected.processors), 0);
  expected.policy = sched_getscheduler(0);
  expected.nice = getpriority(PRIO_PROCESS, 0);

  /* What a program does to its first thread, which then collects first. */
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
  if (expected.policy == SCHED_OTHER || expected.policy == SCHED_BATCH) {
    const struct sched_param none = {0};
    CHECK_EQ(
        sched_setscheduler(0, expected.policy == SCHED_OTHER ? SCHED_BATCH : SCHED_OTHER, &none),
        0);
  }
  if (geteuid() == 0 && expected.nice < 15) CHECK_EQ(setpriority(PRIO_PROCESS, 0, 15), 0);

  GC_INIT();
  struct tree *tree = make_tree(17);
  for (int i = 0; i < 5; i++) GC_gcollect();
  CHECK_EQ(count_tree(tree, 17), 1 << 17);
  if (on_gleaner()) CHECK_GE(await_helpers(&expected), 2);
  CHECK_EQ(count_tree(tree, 17), 1 << 17);
  return check_result();
}
