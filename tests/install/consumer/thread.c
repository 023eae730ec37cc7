// A program with a thread of its own, for sanitizers, which have to see each thread begin and end.
#define GC_THREADS
#include <gc.h>
#include <pthread.h>
#include <stdio.h>

static void* build(void* argument) {
  void** list = NULL;
  for (int i = 0; i < 5000; i++) {
    void** cell = GC_MALLOC(sizeof *cell);
    *cell = list;
    list = cell;
  }
  GC_gcollect();
  long cells = 0;
  for (; list != NULL; list = *list) cells++;
  return cells == 5000 ? argument : NULL;
}

int main(void) {
  GC_INIT();
  pthread_t thread;
  void* result = NULL;
  if (pthread_create(&thread, NULL, build, &thread) != 0) return 1;
  pthread_join(thread, &result);
  puts(result == &thread ? "consumer: ok" : "consumer: wrong");
  return 0;
}
