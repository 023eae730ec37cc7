/* A plugin that opens a collector by its path: the way to have a second library of the same SONAME.
   Deep binding keeps that library's own calls to itself. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "collector.h"

void plugin_collector(struct collector *c, const char *library);

void plugin_collector(struct collector *c, const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    abort();
  }
#define FILL(name, result, parameters) *(void **)&c->name = dlsym(handle, "GC_" #name);
  COLLECTOR_FUNCTIONS(FILL)
#undef FILL
}
