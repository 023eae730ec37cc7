/* A program for which the library writes files, for output_test.py. It sees the descriptors of
 * these files as they are locked.
 *
 * usage: CLIENT closed|child
 *   closed  has closed its standard streams; ends with status 9 if a file gets one of their numbers
 *   child   leaves a child behind that was forked while a file was locked, and prints its number */
#define _GNU_SOURCE
#include <fcntl.h>
#include <gc.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_closed;
static pid_t child;

/* In place of the C library's, also for the library. */
int flock(int fd, int operation) {
  if (is_closed && fd <= STDERR_FILENO) _exit(9);
  const int result = (int)syscall(SYS_flock, fd, operation);
  /* Forks as a program does whose fork handlers do not run. */
  if (!is_closed && child == 0 && (operation & LOCK_EX) != 0) {
    child = _Fork();
    if (child == 0) {
      close(STDOUT_FILENO);
      close(STDERR_FILENO);
      alarm(60); /* in case that nobody ends it */
      for (;;) pause();
    }
    dprintf(STDOUT_FILENO, "%d\n", (int)child);
  }
  return result;
}

int main(int argc, char **argv) {
  is_closed = argc > 1 && strcmp(argv[1], "closed") == 0;
  if (is_closed) {
    for (int fd = 0; fd <= STDERR_FILENO; fd++) close(fd);
  }
  GC_INIT();
  for (int fd = 0; is_closed && fd <= STDERR_FILENO; fd++) {
    if (fcntl(fd, F_GETFD) != -1) return 9;
  }
  for (int i = 0; i < 1000; i++) __asm__ volatile("" ::"r"(GC_malloc(64)));
  GC_gcollect();
  return 0;
}
