/* Objects loaded and unloaded at run time: their data and thread-local variables are roots while
   they are loaded, unless a filter says otherwise. Needs gleaner_api_plugin_slots.so beside the
   program. */
#include "check.h"

#include <libgen.h>
#include <link.h>
#include <sys/wait.h>

enum { kCount = 1000 };

struct plugin {
  void *handle;
  void **initialized, **zeroed;
  void **(*of_thread)(void);
  char *(*from_constructor)(void);
};

static const char *plugin_path(void) {
  static char path[4096];
  char program[4096];
  ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  program[n > 0 ? n : 0] = 0;
  snprintf(path, sizeof path, "%.4000s/gleaner_api_plugin_slots.so", dirname(program));
  return path;
}

static void *symbol(const struct plugin *p, const char *name) {
  void *found = dlsym(p->handle, name);
  CHECK(found != NULL);
  return found;
}

static struct plugin load(void) {
  struct plugin p;
  memset(&p, 0, sizeof p);
  p.handle = dlopen(plugin_path(), RTLD_NOW);
  if (!p.handle) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  p.initialized = ((void **(*)(void))symbol(&p, "slots_initialized"))();
  p.zeroed = ((void **(*)(void))symbol(&p, "slots_zeroed"))();
  p.of_thread = (void **(*)(void))symbol(&p, "slots_of_thread");
  p.from_constructor = (char *(*)(void))symbol(&p, "slots_from_constructor");
  return p;
}

struct making {
  struct watch watch;
  void **slots;
};
static NOINLINE void *make(void *arg) {
  struct making *m = (struct making *)arg;
  size_t i;
  for (i = 0; i < kCount; i++) {
    m->slots[i] = GC_malloc(48);
    memset(m->slots[i], 0x3c, 48);
    watch_object(&m->watch, i, m->slots[i]);
  }
  return NULL;
}
static void make_in(struct making *m, void **slots) {
  watch_init(&m->watch, kCount);
  m->slots = slots;
  GC_disable();
  run_in_thread(make, m);
  GC_enable();
}
static void *churn(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < 20 * kCount; i++) memset(GC_malloc(48), 0xff, 48);
  return NULL;
}

static void expect_intact(const struct making *m, const char *where) {
  size_t i, wrong = 0;
  for (i = 0; i < kCount; i++) wrong += m->watch.links[i] == 0 || ((char *)m->slots[i])[47] != 0x3c;
  if (wrong) {
    fprintf(stderr, "%s: %zu of %d objects lost\n", where, wrong, kCount);
    check_failures++;
  }
}

static void expect_kept(const struct making *m, const char *where) {
  collect();
  run_in_thread(churn, NULL);
  collect();
  expect_intact(m, where);
}

static void expect_gone(struct making *m) {
  collect();
  CHECK_MOSTLY(watch_gone(&m->watch), kCount);
  watch_end(&m->watch);
}

static void data(void) {
  struct making a, b;
  struct plugin p = load();
  run_in_thread(churn, NULL);
  CHECK_EQ(p.from_constructor()[47], 0x2b);
  make_in(&a, p.initialized);
  make_in(&b, p.zeroed);
  expect_kept(&a, "data of a loaded object");
  expect_kept(&b, "zeroed data of a loaded object");
  memset(p.zeroed, 0, kCount * sizeof(void *));
  expect_gone(&b);
  /* Unloading drops the rest. */
  CHECK_EQ(dlclose(p.handle), 0);
  CHECK(dlopen(plugin_path(), RTLD_NOW | RTLD_NOLOAD) == NULL);
  expect_gone(&a);
}

static void again_and_again(void) {
  size_t i;
  for (i = 0; i < 50; i++) {
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
  (void)start;
  (void)bytes;
  if (strstr(file, "gleaner_api_plugin_slots") == NULL) return 1;
  asked++;
  return 0;
}

static void filtered(void) {
  struct making m;
  struct plugin p;
  GC_register_has_static_roots_callback(without_plugin);
  p = load();
  make_in(&m, p.zeroed);
  expect_gone(&m);
  CHECK_GE(asked, 1);
  CHECK_EQ(dlclose(p.handle), 0);
  GC_register_has_static_roots_callback(NULL);
}

/* Thread-local variables of a loaded object, which libgc does not search. */
static void *thread_data(void *arg) {
  struct plugin *p = (struct plugin *)arg;
  struct making m;
  void **slots = (void **)malloc(kCount * sizeof *slots);
  size_t i;
  watch_init(&m.watch, kCount);
  m.slots = slots;
  GC_disable();
  run_in_thread(make, &m);
  m.slots = p->of_thread();
  for (i = 0; i < kCount; i++) m.slots[i] = slots[i];
  GC_enable();
  free(slots);
  expect_kept(&m, "thread-local variables of a loaded object");
  memset(m.slots, 0, kCount * sizeof *m.slots);
  expect_gone(&m);
  return NULL;
}

static void *use_thread_data(void *arg) {
  void **slots = ((struct plugin *)arg)->of_thread();
  size_t i;
  for (i = 0; i < kCount; i++) slots[i] = GC_malloc(48);
  return NULL;
}

static void thread_local_data(void) {
  struct plugin p = load();
  size_t i;
  thread_data(&p);
  run_in_thread(thread_data, &p);
  for (i = 0; i < 20; i++) {
    run_in_thread(use_thread_data, &p);
    GC_gcollect();
  }
  thread_data(&p);
  CHECK_EQ(dlclose(p.handle), 0);
  collect();
}

static volatile int stop;
static void *load_and_unload(void *arg) {
  (void)arg;
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
  size_t i;
  CHECK_EQ(pthread_create(&thread, NULL, load_and_unload, NULL), 0);
  for (i = 0; i < 200; i++) {
    GC_gcollect();
    run_in_thread(churn, NULL);
  }
  stop = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

static int ignore_object(struct dl_phdr_info *info, size_t bytes, void *data) {
  (void)info;
  (void)bytes;
  (void)data;
  return 0;
}
static void *use_loader(void *arg) {
  while (!*(volatile int *)arg) {
    dl_iterate_phdr(ignore_object, NULL);
    dlsym(RTLD_DEFAULT, "no such function");
  }
  return NULL;
}

static void expect_child(void (*f)(void *), void *arg) {
  int status = 0;
  const pid_t child = fork();
  if (child == 0) {
    fail_after(20);
    check_failures = 0;
    f(arg);
    _exit(check_failures != 0);
  }
  CHECK(child > 0);
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
}

/* Without a thread, whose start may need the loader: AddressSanitizer's does. */
static void expect_kept_in_child(void *making) {
  collect();
  churn(NULL);
  collect();
  expect_intact((struct making *)making, "data, in a child of fork");
}
static void load_in_child(void *making) {
  struct making m;
  struct plugin p;
  collect();
  p = load();
  make_in(&m, p.zeroed);
  expect_kept(&m, "data of an object that a child loaded");
  (void)making;
}

/* In the child the loader's locks may belong to a thread that is gone. */
static void in_children(void (*f)(void *), void *arg) {
  volatile int enough = 0;
  pthread_t thread;
  size_t i;
  CHECK_EQ(pthread_create(&thread, NULL, use_loader, (void *)&enough), 0);
  for (i = 0; i < 20; i++) expect_child(f, arg);
  enough = 1;
  CHECK_EQ(pthread_join(thread, NULL), 0);
}

static void forks_before_a_collection(void) {
  struct making m;
  static void *slots[kCount];
  make_in(&m, slots);
  in_children(expect_kept_in_child, &m);
  watch_end(&m.watch);
}

static void forks(void) {
  struct plugin p = load();
  struct making m;
  make_in(&m, p.zeroed);
  in_children(expect_kept_in_child, &m);
  watch_end(&m.watch);
  CHECK_EQ(dlclose(p.handle), 0);
  expect_child(load_in_child, NULL);
}

int main(void) {
  fail_after(55);
  GC_set_handle_fork(1);
  GC_INIT();
  if (on_gleaner()) forks_before_a_collection();
  data();
  again_and_again();
  filtered();
  if (on_gleaner()) thread_local_data();
  meanwhile();
  if (on_gleaner()) forks();
  return check_result();
}
