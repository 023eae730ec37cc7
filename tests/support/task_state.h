/* What the system says of a thread of this process, in C and C++. */
#ifndef GLEANER_TESTS_SUPPORT_TASK_STATE_H_
#define GLEANER_TESTS_SUPPORT_TASK_STATE_H_

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The caller's number. */
static __attribute__((unused)) long task_self(void) { return syscall(SYS_gettid); }

/* 'R' while the thread runs, 'S' while it sleeps in the system, 'Z' for a first thread that has
   ended before the others, 0 for any other that has. Uses no heap; a stopped world may ask. */
static __attribute__((unused)) char task_state(long tid) {
  char path[64], text[512];
  const char *after_name = NULL;
  ssize_t n;
  const int saved = errno;
  int fd;
  snprintf(path, sizeof path, "/proc/self/task/%ld/stat", tid);
  fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) {
    n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    after_name = strrchr(text, ')');
  }
  errno = saved;
  return after_name != NULL ? after_name[2] : 0;
}

/* Returns when the thread is in that state. */
static __attribute__((unused)) void await_task_state(long tid, char state) {
  const struct timespec a_moment = {0, 100000};
  while (task_state(tid) != state) nanosleep(&a_moment, NULL);
}

#endif
