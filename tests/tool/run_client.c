/* What tests/tool/run_test.py runs: run_client MODE. Allocates 64 MB, then ends as MODE says. */
#include <gc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void allocate(size_t megabytes) {
  size_t i;
  for (i = 0; i < megabytes << 10; i++) {
    if (GC_MALLOC(1024) == NULL) abort();
  }
}

static void on_term(int number) {
  (void)number;
  _exit(42);
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "idle") == 0) return 0;
  GC_INIT();
  if (strcmp(mode, "child") == 0) {
    const pid_t child = fork();
    if (child == 0) {
      allocate(1024);
      exit(0);
    }
    waitpid(child, NULL, 0);
  }
  allocate(64);
  if (strcmp(mode, "exit") == 0) return argc > 2 ? atoi(argv[2]) : 0;
  if (strcmp(mode, "_exit") == 0) _exit(5);
  if (strcmp(mode, "crash") == 0) raise(SIGSEGV);
  if (strcmp(mode, "exec") == 0) {
    execl(argv[0], argv[0], "exit", "6", (char *)NULL);
    return 1;
  }
  if (strcmp(mode, "wait") == 0) {
    signal(SIGTERM, on_term);
    puts("waiting");
    fflush(stdout);
    for (;;) pause();
  }
  return strcmp(mode, "child") != 0;
}
