/* Opens the plug-in with RTLD_DEEPBIND in a program without a C++ library. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
  if (!(condition)) return fprintf(stderr, "%d: %s\n", __LINE__, #condition), 1

int main(int argc, char** argv) {
  CHECK(argc == 2);
  void* plugin = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  CHECK(plugin != NULL);
  void (*free_text)(void) = (void (*)(void))dlsym(plugin, "FreeText");
  void* (*allocate)(size_t) = (void* (*)(size_t))dlsym(plugin, "Allocate");
  void (*release)(void*) = (void (*)(void*))dlsym(plugin, "Free");
  int (*throws)(void) = (int (*)(void))dlsym(plugin, "ThrowsAfterHandler");
  CHECK(free_text != NULL && allocate != NULL && release != NULL && throws != NULL);
  free_text();
  release(strdup("text"));
  free(allocate(100));
  CHECK(throws() == 1);
  return 0;
}
