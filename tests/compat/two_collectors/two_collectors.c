/*
 * Two collectors in one process: the program's, and that of a plugin which is linked to another
 * library. Both allocate, check what they hold, and collect, with threads of their own and with
 * threads that both know. Nothing either keeps may be lost, and both must go on collecting.
 *
 *   two_collectors PLUGIN LIBRARY WHO...
 *     LIBRARY  what a plugin that opens its collector itself is to open
 *     deep     open the plugin with RTLD_DEEPBIND: it gets its own library. Without that its calls
 *              bind to the program's collector, and there is only one
 *     first    the plugin's collector starts before the program's
 *     shared   also threads that both collectors know
 *     fork     at the end children fork and go on
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collector.h"

enum { kThreads = 3, kRounds = 60, kDepth = 12, kMaxHeapBytes = 128 << 20 };

struct node {
  struct node *left, *right;
  char *text; /* pointer-free */
  uintptr_t check;
};

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  abort();
}

static struct node *grow(const struct collector *c, unsigned depth) {
  struct node *n = (struct node *)c->malloc(sizeof *n);
  if (n->left || n->right || n->check) fail("a new object is not zero");
  n->text = (char *)c->malloc_atomic(24);
  memset(n->text, (int)(depth + 1), 24);
  n->check = ~(uintptr_t)n;
  if (depth) {
    n->left = grow(c, depth - 1);
    n->right = grow(c, depth - 1);
  }
  return n;
}

static void inspect(const struct node *n, unsigned depth) {
  if (n->check != ~(uintptr_t)n || n->text[0] != (char)(depth + 1) ||
      n->text[23] != (char)(depth + 1)) {
    fail("an object in use was overwritten");
  }
  if (depth) {
    inspect(n->left, depth - 1);
    inspect(n->right, depth - 1);
  }
}

static void work(const struct collector *c, unsigned rounds) {
  struct node *kept = grow(c, kDepth);
  unsigned i;
  for (i = 0; i < rounds; i++) {
    struct node *fresh = grow(c, kDepth);
    if (i % 4 == 0) c->gcollect();
    inspect(kept, kDepth);
    if (i % 2 == 0) kept = fresh;
  }
  inspect(kept, kDepth);
}

static void *work_alone(void *arg) {
  work((const struct collector *)arg, kRounds);
  return NULL;
}

/* Threads of the program's collector that register with the plugin's too. */
static struct collector host, plugin;
static void *work_for_both(void *arg) {
  struct GC_stack_base base;
  struct node *in_host, *in_plugin;
  int registered, i;
  (void)arg;
  plugin.get_stack_base(&base);
  registered = plugin.register_my_thread(&base);
  in_host = grow(&host, kDepth);
  in_plugin = grow(&plugin, kDepth);
  for (i = 0; i < 6; i++) {
    work(&host, 4);
    work(&plugin, 4);
    inspect(in_host, kDepth);
    inspect(in_plugin, kDepth);
  }
  if (registered == GC_SUCCESS) plugin.unregister_my_thread();
  return NULL;
}

static void in_child(void) {
  alarm(120);
  work(&host, 8);
  work(&plugin, 8);
}

int main(int argc, char **argv) {
  void (*fill)(struct collector *, const char *);
  void *handle;
  pthread_t threads[3][kThreads];
  struct node *in_host, *in_plugin;
  int i, deep = 0, first = 0, shared = 0, with_fork = 0;
  if (argc < 3) return 2;
  alarm(400);
  for (i = 3; i < argc; i++) {
    deep |= !strcmp(argv[i], "deep");
    first |= !strcmp(argv[i], "first");
    shared |= !strcmp(argv[i], "shared");
    with_fork |= !strcmp(argv[i], "fork");
  }
#define FILL(name, result, parameters) host.name = GC_##name;
  COLLECTOR_FUNCTIONS(FILL)
#undef FILL
  handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL | (deep ? RTLD_DEEPBIND : 0));
  if (handle == NULL) fail(dlerror());
  *(void **)&fill = dlsym(handle, "plugin_collector");
  fill(&plugin, argv[2]);
  if (deep != (host.malloc != plugin.malloc)) fail("not as many collectors as there should be");

  if (with_fork) {
    host.set_handle_fork(1);
    plugin.set_handle_fork(1);
  }
  if (first) plugin.init();
  host.init();
  host.allow_register_threads();
  in_host = grow(&host, kDepth);
  /* The program's collector is at work when the plugin's starts. */
  for (i = 0; i < kThreads; i++) host.pthread_create(&threads[0][i], NULL, work_alone, &host);
  plugin.init();
  plugin.allow_register_threads();
  in_plugin = grow(&plugin, kDepth);
  for (i = 0; i < kThreads; i++) plugin.pthread_create(&threads[1][i], NULL, work_alone, &plugin);
  work(&host, kRounds / 4);
  work(&plugin, kRounds / 4);
  for (i = 0; i < kThreads; i++) {
    host.pthread_join(threads[0][i], NULL);
    plugin.pthread_join(threads[1][i], NULL);
  }
  if (shared) {
    for (i = 0; i < kThreads; i++) host.pthread_create(&threads[2][i], NULL, work_for_both, NULL);
    work_for_both(NULL);
    for (i = 0; i < kThreads; i++) host.pthread_join(threads[2][i], NULL);
  }
  for (i = 0; with_fork && i < 5; i++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      in_child();
      _exit(0);
    }
    if (waitpid(child, &status, 0) != child || status != 0) fail("a child failed");
  }
  inspect(in_host, kDepth);
  inspect(in_plugin, kDepth);
  printf("collections %lu and %lu, heaps %zu and %zu KiB, signals %d and %d\n",
         (unsigned long)host.get_gc_no(), (unsigned long)plugin.get_gc_no(),
         host.get_heap_size() >> 10, plugin.get_heap_size() >> 10, host.get_suspend_signal(),
         plugin.get_suspend_signal());
  if (host.get_heap_size() > kMaxHeapBytes || plugin.get_heap_size() > kMaxHeapBytes)
    fail("garbage is not collected");
  if (deep && host.get_suspend_signal() == plugin.get_suspend_signal())
    fail("both collectors use one signal");
  return 0;
}
