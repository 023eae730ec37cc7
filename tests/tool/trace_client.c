/* A program that collects, for the tests of collector traces: work; then, as its argument says,
 * what programs do to a trace. */
#define _GNU_SOURCE
#define GC_THREADS
#include <errno.h>
#include <fcntl.h>
#include <gc.h>
#include <gleaner.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client.h"

static void *work(void *unused) {
  for (int i = 0; i < 40; ++i) tree(14);
  return unused;
}

static void work_on(void) { work(NULL); }

static void work_in_threads(int count) {
  pthread_t threads[16];
  for (int i = 0; i < count; ++i) pthread_create(&threads[i], NULL, work, NULL);
  for (int i = 0; i < count; ++i) pthread_join(threads[i], NULL);
}

/* Collects until a report has written to the trace; what was in the rings before is in the file. */
static void work_until_drained(const char *trace) {
  struct stat before, now;
  if (stat(trace, &before) != 0) before.st_size = 0;
  do {
    work(NULL);
    if (stat(trace, &now) != 0) now.st_size = 0;
  } while (now.st_size == before.st_size);
}

/* Whether the trace has the name of a thread by now. */
static int is_traced(const char *trace, const char *name) {
  struct stat now;
  const int fd = open(trace, O_RDONLY);
  if (fd < 0 || fstat(fd, &now) != 0) exit(6);
  void *text = mmap(NULL, (size_t)now.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (text == MAP_FAILED) exit(6);
  const int is = memmem(text, (size_t)now.st_size, name, strlen(name)) != NULL;
  munmap(text, (size_t)now.st_size);
  return is;
}

/* Names itself first, as threads do; or waits until who has created it has named it. */
static pthread_barrier_t is_named;
static void *work_by_name(void *name) {
  if (name != NULL) {
    pthread_setname_np(pthread_self(), name);
  } else {
    pthread_barrier_wait(&is_named);
  }
  return work(name);
}
static void *wait_for_ever(void *unused) {
  for (;;) pause();
  return unused;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "work";
  GC_INIT();
  work(NULL);
  if (strcmp(what, "threads") == 0) {
    work_in_threads(4);
  } else if (strcmp(what, "named") == 0 || strcmp(what, "named-killed") == 0) {
    pthread_t threads[3];
    pthread_barrier_init(&is_named, NULL, 2);
    pthread_create(&threads[0], NULL, work_by_name, "by-itself");
    pthread_create(&threads[1], NULL, work_by_name, NULL);
    pthread_setname_np(threads[1], "by-another");
    pthread_barrier_wait(&is_named);
    pthread_create(&threads[2], NULL, wait_for_ever, NULL);
    pthread_setname_np(threads[2], "asleep");
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    pthread_setname_np(pthread_self(), "renamed");
    if (strcmp(what, "named-killed") == 0) {
      static const char *const names[] = {"by-itself", "by-another", "renamed"};
      for (int i = 0; i < 3; ++i) {
        while (!is_traced(getenv("GLEANER_TRACE"), names[i])) work(NULL);
      }
      raise(SIGKILL);
    }
  } else if (strcmp(what, "no-collection") == 0) {
    GC_disable();
  } else if (strcmp(what, "spans") == 0) {
    gleaner_trace_end("never begun", 0);
    gleaner_trace_end("of the future", UINT64_MAX);
    const uint64_t outer = gleaner_trace_begin();
    for (int i = 0; i < 2000; ++i) { /* more than the ring holds */
      gleaner_trace_end("a name of more than twenty-four bytes", gleaner_trace_begin());
    }
    gleaner_trace_end("\"outer\" <&\n>", outer);
    gleaner_trace_end("", gleaner_trace_begin());
  } else if (strcmp(what, "fork") == 0) {
    in_child(work_on);
    work(NULL);
  } else if (strcmp(what, "fork-exec") == 0) { /* the child makes no file */
    in_program("/bin/true", "true", NULL);
  } else if (strcmp(what, "fork-exit") == 0) { /* nor does this one */
    in_child(NULL);
  } else if (strcmp(what, "fork-briefly") == 0) { /* but this one, which ends at once */
    in_child(GC_gcollect);
  } else if (strcmp(what, "clone") == 0) { /* a child that no handler of fork sees */
    const pid_t child = _Fork();
    if (child == 0) {
      char path[4200];
      snprintf(path, sizeof path, "%s.%d", getenv("GLEANER_TRACE"), getpid());
      work_until_drained(path); /* there is a file now */
      work_until_drained(path);
      _exit(0);
    }
    await_child(child);
    work(NULL);
  } else if (strcmp(what, "spawn") == 0) { /* another traced program, while this one runs */
    in_program("/proc/self/exe", argv[0], "work");
  } else if (strcmp(what, "close-spawn") == 0) { /* the lock is gone, the process is not */
    close_descriptors();
    in_program("/proc/self/exe", argv[0], "work");
    work(NULL);
  } else if (strcmp(what, "vfork") == 0) { /* a child in this one's memory, with its rings */
    const pid_t child = vfork();
    if (child == 0) {
      work(NULL);
      _exit(0);
    }
    await_child(child);
    work(NULL);
  } else if (strcmp(what, "exec") == 0) {
    execl("/proc/self/exe", argv[0], "work", (char *)NULL);
    return 4;
  } else if (strcmp(what, "close") == 0) {
    close_descriptors();
    work(NULL);
  } else if (strcmp(what, "replace") == 0) { /* the numbers are other files' now */
    for (int fd = 3; fd < 1024; ++fd) dup2(0, fd);
    work(NULL);
  } else if (strcmp(what, "kill") == 0) {
    work_until_drained(getenv("GLEANER_TRACE"));
    raise(SIGKILL);
  } else if (strcmp(what, "_exit") == 0) {
    _exit(0);
  } else if (strcmp(what, "limit") == 0) { /* of the size of files */
    const struct rlimit limit = {4096, 4096};
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 5;
    work(NULL);
    work_in_threads(4);
  }
  printf("collections %lu\n", (unsigned long)GC_get_gc_no());
  return 0;
}
