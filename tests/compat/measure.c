/* measure RESULT PROGRAM [ARGUMENT...]: runs the program with this process's environment and
   standard streams and writes "seconds processor_seconds peak_rss_kb status" to the file RESULT:
   wall time from before fork to the end; processor time and the largest resident set of the program
   and of the children it waited for; and the exit status as a shell gives it (128 + n after signal
   n).

   A child starts with the peak of the process that it was forked from; this one is small enough to
   hide nothing, unlike the Python that calls it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static double now_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double seconds_of(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec * 1e-6; }

int main(int argc, char **argv) {
  struct rusage usage;
  double started;
  int status;
  pid_t child;
  FILE *result;

  if (argc < 3) {
    fprintf(stderr, "usage: measure RESULT PROGRAM [ARGUMENT...]\n");
    return 2;
  }
  started = now_seconds();
  child = fork();
  if (child == 0) {
    execvp(argv[2], argv + 2);
    perror(argv[2]);
    _exit(127);
  }
  if (child < 0 || wait4(child, &status, 0, &usage) != child) {
    perror("measure");
    return 2;
  }
  result = fopen(argv[1], "w");
  if (!result) {
    perror(argv[1]);
    return 2;
  }
  fprintf(result, "%.6f %.6f %ld %d\n", now_seconds() - started,
          seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime), usage.ru_maxrss,
          WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
  return fclose(result) ? 2 : 0;
}
