/* Objects loaded and unloaded at run time: their data and thread-local variables are roots while
   they are loaded, unless a filter says otherwise; GC_dlopen, which gc.h makes of dlopen, disables
   collection meanwhile. Needs gleaner_api_plugin_slots.so beside the program. Rule 21. */
#include "plugin.h"
#include "survival.h"

#include <link.h>

enum { kCount = 1000 };

struct plugin {
  void *handle;
  void **initialized, **zeroed;
  void **(*of_thread)(void);
  char *(*from_constructor)(void);
  int *(*seen_by_constructor)(void);
};

static void *symbol(const struct plugin *p, const char *name) {
  void *found = dlsym(p->handle, name);
  CHECK(found != NULL);
  return found;
}

static struct plugin load(void) {
  struct plugin p = {.handle = open_plugin("slots")};
  p.initialized = ((void **(*)(void))symbol(&p, "slots_initialized"))();
  p.zeroed = ((void **(*)(void))symbol(&p, "slots_zeroed"))();
  p.of_thread = (void **(*)(void))symbol(&p, "slots_of_thread");
  p.from_constructor = (char *(*)(void))symbol(&p, "slots_from_constructor");
  p.seen_by_constructor = (int *(*)(void))symbol(&p, "slots_seen_by_constructor");
  return p;
}

static void data(void) {
  struct chains a, b;
  struct plugin p = load();
  run_in_thread(overwrite, (void *)48);
  CHECK_EQ(p.from_constructor()[47], 0x2b);
  CHECK_EQ(p.seen_by_constructor()[0], 1); /* collection was disabled, */
  CHECK_EQ(p.seen_by_constructor()[1], 0); /* and none happened */
  make_in(&a, p.initialized, kCount, 0);
  make_in(&b, p.zeroed, kCount, 0);
  expect_kept(&a, "data of a loaded object");
  expect_kept(&b, "zeroed data of a loaded object");
  expect_gone_when_cleared(&b, "cleared data of a loaded object");
  /* Unloading drops the rest. */
  CHECK_EQ(dlclose(p.handle), 0);
  CHECK(dlopen(plugin_path("slots"), RTLD_NOW | RTLD_NOLOAD) == NULL);
  expect_gone(&a, "data of an unloaded object");
}

/* GC_dlopen opens what dlopen opens, and leaves the count of GC_disable as it was. */
static void opening(void) {
  void *handle = GC_dlopen("libm.so.6", RTLD_NOW);
  CHECK(handle != NULL && dlsym(handle, "cos") != NULL);
  CHECK_EQ(GC_dont_gc, 0);
  CHECK_EQ(dlclose(handle), 0);
  CHECK_NULL(GC_dlopen("no such library", RTLD_NOW));
  CHECK_EQ(GC_dont_gc, 0);
  GC_disable();
  CHECK(GC_dlopen(NULL, RTLD_NOW) != NULL);
  CHECK_EQ(GC_dont_gc, 1);
  GC_enable();
}

static void again_and_again(void) {
  for (size_t i = 0; i < 50; i++) {
    struct plugin p = load();
    p.zeroed[7] = GC_malloc(48);
    memset(p.zeroed[7], 0x3c, 48);
    GC_gcollect();
    memset(GC_malloc(48), 0, 48);
    CHECK_EQ(((char *)p.zeroed[7])[47], 0x3c);
    CHECK_EQ(dlclose(p.handle), 0);
    GC_gcollect();
  }
}

/* Asked for each segment; the answer is kept to. */
static size_t asked;
static int GC_CALLBACK without_plugin(const char *file, void *start, size_t bytes) {
  if (strstr(file, "gleaner_api_plugin_slots") == NULL) return 1;
  asked++;
  return 0;
}

static void filtered(void) {
  struct chains m;
  GC_register_has_static_roots_callback(without_plugin);
  struct plugin p = load();
  make_in(&m, p.zeroed, kCount, 0);
  expect_gone(&m, "data of a filtered object");
  CHECK_GE(asked, 1);
  CHECK_EQ(dlclose(p.handle), 0);
  GC_register_has_static_roots_callback(NULL);
}

/* Thread-local variables of a loaded object, which libgc does not search. */
static void *thread_data(void *arg) {
  struct plugin *p = (struct plugin *)arg;
  struct chains m;
  void **slots = (void **)malloc(kCount * sizeof *slots);
  GC_disable();
  make_in(&m, slots, kCount, 0);
  m.where = p->of_thread();
  memcpy(m.where, slots, kCount * sizeof *slots);
  free(slots);
  GC_enable();
  expect_kept(&m, "thread-local variables of a loaded object");
  expect_gone_when_cleared(&m, "cleared thread-local variables of a loaded object");
  return NULL;
}

static void *use_thread_data(void *arg) {
  void **slots = ((struct plugin *)arg)->of_thread();
  for (size_t i = 0; i < kCount; i++) slots[i] = GC_malloc(48);
  return NULL;
}

static void thread_local_data(void) {
  struct plugin p = load();
  thread_data(&p);
  run_in_thread(thread_data, &p);
  for (size_t i = 0; i < 20; i++) {
    run_in_thread(use_thread_data, &p);
    GC_gcollect();
  }
  thread_data(&p);
  CHECK_EQ(dlclose(p.handle), 0);
  collect();
}

static volatile int stop;
static void *load_and_unload(void *arg) {
  while (!stop) {
    struct plugin p = load();
    p.zeroed[1] = GC_malloc(48);
    dlclose(p.handle);
  }
  return NULL;
}

/* While other threads load and unload. */
static void meanwhile(void) {
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, load_and_unload, NULL), 0);
  for (size_t i = 0; i < 200; i++) {
    GC_gcollect();
    run_in_thread(overwrite, (void *)48);
  }
  stop = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

static int ignore_object(struct dl_phdr_info *info, size_t bytes, void *data) { return 0; }
static void *use_loader(void *arg) {
  while (!*(volatile int *)arg) {
    dl_iterate_phdr(ignore_object, NULL);
    dlsym(RTLD_DEFAULT, "no such function");
  }
  return NULL;
}

/* Without a thread, whose start may need the loader: AddressSanitizer's does. */
static void expect_kept_in_child(void *making) {
  collect();
  overwrite((void *)48);
  collect();
  expect_whole((struct chains *)making, "data, in a child of fork");
}
static void load_in_child(void *making) {
  struct chains m;
  collect();
  struct plugin p = load();
  make_in(&m, p.zeroed, kCount, 0);
  expect_kept(&m, "data of an object that a child loaded");
}

/* In the child the loader's locks may belong to a thread that is gone. */
static void in_children(void (*f)(void *), void *arg) {
  volatile int enough = 0;
  pthread_t thread;
  CHECK_EQ(pthread_create(&thread, NULL, use_loader, (void *)&enough), 0);
  for (size_t i = 0; i < 20; i++) CHECK_IN_CHILD(f, arg);
  enough = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void forks_before_a_collection(void) {
  struct chains m;
  static void *slots[kCount];
  make_in(&m, slots, kCount, 0);
  in_children(expect_kept_in_child, &m);
  watch_end(&m.watch);
}

static void forks(void) {
  struct plugin p = load();
  struct chains m;
  make_in(&m, p.zeroed, kCount, 0);
  in_children(expect_kept_in_child, &m);
  watch_end(&m.watch);
  CHECK_EQ(dlclose(p.handle), 0);
  CHECK_IN_CHILD(load_in_child, NULL);
}

int main(void) {
  fail_after(55);
  GC_set_handle_fork(1);
  GC_INIT();
  if (on_gleaner()) forks_before_a_collection();
  data();
  opening();
  again_and_again();
  filtered();
  if (on_gleaner()) thread_local_data();
  meanwhile();
  if (on_gleaner()) forks();
  return check_result();
}
