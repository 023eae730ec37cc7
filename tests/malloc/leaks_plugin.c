/* A library that is loaded later and loses blocks. */
#include <stdlib.h>

__attribute__((noinline)) void* plugin_get(size_t bytes) {
  void* p = calloc(1, bytes);
  __asm__ volatile("" : : "r"(p) : "memory"); /* no tail call */
  return p;
}

void plugin_lose(void) {
  void** head = plugin_get(64);
  head[1] = plugin_get(32);
  __asm__ volatile("" : : "r"(head) : "memory");
}
