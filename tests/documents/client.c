/* What the commands of the documents run: collects, and loses a block of malloc's. */
#include <gc.h>
#include <stdio.h>
#include <stdlib.h>

static void lose(void) {
  for (int i = 0; i < 20000; ++i) {
    char *volatile lost = malloc(1000);
    lost[0] = 1;
  }
}

int main(void) {
  GC_INIT();
  lose();
  void **volatile list = NULL;
  for (int i = 0; i < 100000; ++i) {
    void **node = GC_MALLOC(64);
    node[0] = i % 100 != 0 ? list : NULL;
    list = node;
  }
  GC_gcollect();
  puts("client: ok");
  return GC_get_gc_no() == 0;
}
