/* The loadable objects of plugin/, which lie beside the program. */
#ifndef GLEANER_TESTS_API_PLUGIN_H
#define GLEANER_TESTS_API_PLUGIN_H

#include "check.h"

#include <libgen.h>

static MAYBE_UNUSED const char *plugin_path(const char *name) {
  static char path[4200];
  char program[4096];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  program[n > 0 ? n : 0] = 0;
  snprintf(path, sizeof path, "%s/gleaner_api_plugin_%s.so", dirname(program), name);
  return path;
}

/* By GC_dlopen, which gc.h makes of dlopen. */
static MAYBE_UNUSED void *open_plugin(const char *name) {
  void *handle = dlopen(plugin_path(name), RTLD_NOW);
  if (handle != NULL) return handle;
  fprintf(stderr, "%s\n", dlerror());
  exit(1);
}

#endif
