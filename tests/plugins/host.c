/* A program that knows nothing of the library, which a plugin brings: the plugin's data are roots,
   and threads that have allocated by the plugin end after it was closed. usage: host PLUGIN */
#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kThreads = 4, kRounds = 3 };

struct plugin {
  void *handle;
  void (*start)(void), (*make)(void), (*collect)(void);
  unsigned (*lost)(void);
  void *(*allocate)(unsigned long);
};

static void *symbol(void *handle, const char *name) {
  void *found = dlsym(handle, name);
  if (found == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return found;
}

static struct plugin load(const char *path) {
  struct plugin p;
  p.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (p.handle == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  p.start = (void (*)(void))symbol(p.handle, "plugin_start");
  p.make = (void (*)(void))symbol(p.handle, "plugin_make");
  p.collect = (void (*)(void))symbol(p.handle, "plugin_collect");
  p.lost = (unsigned (*)(void))symbol(p.handle, "plugin_lost");
  p.allocate = (void *(*)(unsigned long))symbol(p.handle, "plugin_allocate");
  return p;
}

static struct plugin plugin;
static sem_t allocated, closed;

static void *use(void *arg) {
  int i;
  for (i = 0; i < 1000; i++) plugin.allocate(40);
  sem_post(&allocated);
  sem_wait(&closed);
  return arg;
}

int main(int argc, char **argv) {
  pthread_t threads[kThreads];
  int round, i;
  (void)argc;
  alarm(50);
  sem_init(&allocated, 0, 0);
  sem_init(&closed, 0, 0);
  for (round = 0; round < kRounds; round++) {
    unsigned lost;
    plugin = load(argv[1]);
    plugin.start();
    plugin.make();
    lost = plugin.lost();
    if (lost != 0) {
      fprintf(stderr, "%u objects of the plugin's lost\n", lost);
      return 1;
    }
    for (i = 0; i < kThreads; i++) pthread_create(&threads[i], NULL, use, NULL);
    for (i = 0; i < kThreads; i++) sem_wait(&allocated);
    plugin.collect();
    if (dlclose(plugin.handle) != 0) return 1;
    for (i = 0; i < kThreads; i++) sem_post(&closed);
    for (i = 0; i < kThreads; i++) pthread_join(threads[i], NULL);
  }
  return 0;
}
