/* A program for the tests of `gleaner top`. Its arguments are words of what to do, in turn:
 *   work        allocate, free, collect
 *   tell        print what the API says of the heap
 *   wait        until a line comes on standard input
 *   run         allocate in four threads until the process is killed
 *   fill        take memory that the kernel needs some time to take back
 *   map FILE    map the file as data, often
 *   leave       the first thread ends; another one goes on with the next word
 *   fork        the child goes on with the next word, the parent waits for it and ends
 *   exec FILE   another program, whoever executes it */
#define _GNU_SOURCE
#define GC_THREADS
#include <fcntl.h>
#include <gc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

static struct node *kept;

static void work(void) {
  kept = tree(12);
  for (int i = 0; i < 20; ++i) tree(14);
  GC_gcollect();
  for (int i = 0; i < 50; ++i) GC_FREE(GC_MALLOC(4000));
}

static void tell(void) {
  struct GC_prof_stats_s stats;
  GC_get_prof_stats(&stats, sizeof stats);
  printf(
      "heap_bytes %lu\nfree_bytes %lu\nallocated_since_bytes %lu\nallocated_bytes %lu\n"
      "freed_since_bytes %lu\ncollections %lu\n",
      (unsigned long)stats.heapsize_full, (unsigned long)stats.free_bytes_full,
      (unsigned long)stats.bytes_allocd_since_gc, (unsigned long)GC_get_total_bytes(),
      (unsigned long)stats.expl_freed_bytes_since_gc, (unsigned long)stats.gc_no);
}

static void *run(void *unused) {
  for (;;) tree(10);
  return unused;
}

static void fill(void) {
  const size_t bytes = (size_t)256 << 20;
  char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) abort();
  madvise(memory, bytes, MADV_NOHUGEPAGE);
  for (size_t i = 0; i < bytes; i += 4096) memory[i] = 1;
}

static void map_as_data(const char *path) {
  const int file = open(path, O_RDONLY);
  const off_t bytes = lseek(file, 0, SEEK_END);
  for (int i = 0; i < 5; ++i) {
    if (mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, file, 0) == MAP_FAILED) abort();
  }
  close(file);
}

static int go_on(char **words);

static void *go_on_as_thread(void *words) { exit(go_on(words)); }

/* Does what the words say. */
static int go_on(char **words) {
  for (; *words != NULL; ++words) {
    if (strcmp(*words, "work") == 0) {
      work();
    } else if (strcmp(*words, "tell") == 0) {
      tell();
    } else if (strcmp(*words, "wait") == 0) {
      printf("waiting\n");
      fflush(stdout);
      char line[16];
      if (fgets(line, sizeof line, stdin) == NULL) return 0;
    } else if (strcmp(*words, "run") == 0) {
      GC_INIT();
      pthread_t threads[3];
      for (int k = 0; k < 3; ++k) pthread_create(&threads[k], NULL, run, NULL);
      printf("waiting\n");
      fflush(stdout);
      run(NULL);
    } else if (strcmp(*words, "fill") == 0) {
      fill();
    } else if (strcmp(*words, "map") == 0) {
      map_as_data(*++words);
    } else if (strcmp(*words, "leave") == 0) {
      GC_INIT();
      pthread_t thread;
      pthread_create(&thread, NULL, go_on_as_thread, words + 1);
      pthread_exit(NULL);
    } else if (strcmp(*words, "fork") == 0) {
      const pid_t child = fork();
      if (child != 0) {
        waitpid(child, NULL, 0);
        return 0;
      }
      printf("child %d\n", getpid());
    } else if (strcmp(*words, "exec") == 0) {
      execv(words[1], words + 1);
      return 1;
    }
  }
  return 0;
}

int main(int argc, char **argv) {
  (void)argc;
  /* Readers that are no ancestors may read. */
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  return go_on(argv + 1);
}
