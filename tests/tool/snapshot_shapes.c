/* A program that makes objects of known shape, for the tests of heap snapshots; then, as its first
 * argument says, what programs do to a snapshot. It prints what the snapshot has to hold. */
#define _GNU_SOURCE
#define GC_THREADS
#include <errno.h>
#include <gc.h>
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gleaner.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client.h"

void *g_root; /* a root in static data; not static, so that stores to it are not left out */
void *g_other[8];
__thread void *t_root;
static char *g_path;
static unsigned g_random;

static unsigned draw(unsigned limit) {
  g_random = g_random * 1664525u + 1013904223u;
  return (g_random >> 8) % limit;
}

static void *work(void *unused) {
  for (int i = 0; i < 20; ++i) tree(13);
  return unused;
}

static void work_on(void) { work(NULL); }

static void take(const char *path, int expected) {
  const int error = gleaner_heap_snapshot(path);
  if (error != expected) {
    fprintf(stderr, "gleaner_heap_snapshot(%s): %d, expected %d\n", path, error, expected);
    exit(3);
  }
}

/* A line for an object: its address, its references as OFFSET:TARGET, i for interior, k for known.
 */
static void expect(const void *object, const char *kind, const char *references) {
  printf("object %lx %s%s\n", (unsigned long)object, kind, references);
}

static char *reference(char *text, size_t offset, const void *target, const char *flags) {
  return text + sprintf(text, " %zu:%lx%s", offset, (unsigned long)target, flags);
}

/* Objects of `count` sizes, of which word i refers to a random earlier one or to nothing. */
static void random_objects(int count) {
  void **all = GC_MALLOC_UNCOLLECTABLE((size_t)count * sizeof *all);
  char *text = malloc(1 << 20);
  for (int i = 0; i < count; ++i) {
    const size_t words = 1 + draw(draw(50) == 0 ? 9000 : draw(10) == 0 ? 200 : 12);
    void **object = all[i] = GC_MALLOC(words * sizeof *object);
    char *end = text;
    *end = 0;
    for (size_t k = 0; k < words; ++k) {
      if (i == 0 || draw(3) == 0) continue;
      void *target = all[draw((unsigned)i)];
      const int interior = draw(5) == 0;
      object[k] = (char *)target + (interior ? 1 + draw(7) : 0);
      end = reference(end, k * sizeof *object, target, interior ? "i" : "");
    }
    expect(object, "NORMAL", text);
  }
  free(text);
  g_other[0] = all;
}

/* Objects whose descriptors say which words are pointers. */
static void typed_objects(void) {
  char text[4096];
  GC_word bitmap[1] = {1 | 4};
  const GC_descr descriptor = GC_make_descriptor(bitmap, 3);
  void **array = GC_MALLOC(20 * sizeof *array);
  char *all = text;
  for (int i = 0; i < 20; ++i) {
    void **object = array[i] = GC_MALLOC_EXPLICITLY_TYPED(3 * sizeof *object, descriptor);
    object[0] = i > 0 ? array[i - 1] : NULL;
    object[1] = array; /* no pointer to the collector */
    object[2] = array;
    all = reference(all, (size_t)i * sizeof *array, object, "");
    char own[256];
    char *end = own;
    if (i > 0) end = reference(end, 0, array[i - 1], "k");
    reference(end, 16, array, "k");
    expect(object, "-", own);
  }
  expect(array, "NORMAL", text);
  g_other[1] = array;
}

static void finalize(void *object, void *data) { (void)object, (void)data; }

/* Objects that die at once, and whose finalizers have data that nothing else refers to. */
__attribute__((noinline)) static void make_due(int count) {
  for (int i = 0; i < count; ++i) {
    void **data = GC_MALLOC(32);
    *data = GC_MALLOC(32);
    GC_REGISTER_FINALIZER(GC_MALLOC(40), finalize, data, NULL, NULL);
  }
}

static void *g_link;
static void special_objects(void) {
  void **kept = GC_MALLOC(64);
  kept[3] = GC_MALLOC_ATOMIC(48);
  char text[256];
  reference(text, 24, kept[3], "");
  expect(kept, "NORMAL", text);
  expect(kept[3], "PTRFREE", "");
  memset(kept[3], 0, 48);
  *(void **)kept[3] = kept; /* does not count */
  GC_REGISTER_FINALIZER(kept, finalize, NULL, NULL, NULL);
  printf("finalizer %lx 0\n", (unsigned long)kept);
  g_link = (void *)GC_HIDE_POINTER(kept);
  GC_general_register_disappearing_link(&g_link, kept);
  printf("link %lx %lx 0\n", (unsigned long)&g_link, (unsigned long)kept);
  g_other[2] = kept;
  /* A word into the middle that may also be one past the end of another object. */
  char *middle = GC_MALLOC(128);
  g_other[5] = middle + 32;
  printf("once %lx %lx\n", (unsigned long)&g_other[5], (unsigned long)middle);
  /* A large object, with references far apart. */
  void **large = GC_MALLOC(3 << 20);
  large[0] = kept;
  large[200000] = (char *)kept + 8;
  char *end = reference(text, 0, kept, "");
  reference(end, 200000 * sizeof *large, kept, "i");
  expect(large, "NORMAL", text);
  g_other[3] = large;
  /* One whose references fill blocks. */
  void **full = GC_MALLOC(4 << 20);
  for (size_t i = 0; i < (4 << 20) / sizeof *full; ++i) full[i] = i % 2 ? (void *)large : kept;
  printf("full %lx %lx %lx %zu\n", (unsigned long)full, (unsigned long)kept, (unsigned long)large,
         (4 << 20) / sizeof *full);
  g_other[4] = full;
}

static volatile int g_ready;
static volatile int g_stop;
static void *in_thread(void *data) {
  void *volatile local = data;
  t_root = GC_MALLOC(32);
  printf("thread-local %lx %lx\n", (unsigned long)&t_root, (unsigned long)t_root);
  printf("stack %lx %lx\n", (unsigned long)&local, (unsigned long)data);
  fflush(stdout);
  __atomic_fetch_add(&g_ready, 1, __ATOMIC_SEQ_CST);
  while (!g_stop) usleep(1000);
  return local;
}

static void *allocate_in_thread(void *unused) {
  while (!g_stop) tree(8);
  return unused;
}

static void *blocked(void *data) {
  (void)data;
  __atomic_fetch_add(&g_ready, 1, __ATOMIC_SEQ_CST);
  while (!g_stop) usleep(1000);
  return NULL;
}
static void *block_in_thread(void *unused) {
  GC_do_blocking(blocked, NULL);
  return unused;
}

/* A child may have the file for a moment. */
static void *take_until_stop(void *unused) {
  while (!g_stop) {
    const int error = gleaner_heap_snapshot(g_path);
    if (error != 0 && error != EBUSY) exit(3);
  }
  return unused;
}

static void *take_forever(void *unused) {
  for (;;) take(g_path, 0);
  return unused;
}

static void *take_many(void *unused) {
  for (int i = 0; i < 3; ++i) {
    char path[4096];
    snprintf(path, sizeof path, "%s.%lx", g_path, (unsigned long)pthread_self() >> 12);
    take(path, 0);
  }
  return unused;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "work";
  g_path = argc > 2 ? argv[2] : NULL;
  g_random = argc > 3 ? (unsigned)strtoul(argv[3], NULL, 10) : 1;
  GC_INIT();
  printf("static %lx\n", (unsigned long)&g_root);
  pthread_t threads[8];
  if (strcmp(what, "shapes") == 0) {
    random_objects(2000);
    typed_objects();
    special_objects();
    pthread_create(&threads[0], NULL, in_thread, GC_MALLOC(100));
    while (g_ready == 0) usleep(1000);
    g_root = tree(3);
    printf("root %lx\n", (unsigned long)g_root);
    take(g_path, 0);
    g_stop = 1;
    pthread_join(threads[0], NULL);
  } else if (strcmp(what, "empty") == 0) {
    take(g_path, 0);
  } else if (strcmp(what, "exit") == 0) {
    g_root = tree(4);
  } else if (strcmp(what, "signals") == 0) {
    /* A signal while threads allocate and one is in a blocking call. */
    g_root = tree(10);
    for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, allocate_in_thread, NULL);
    pthread_create(&threads[3], NULL, block_in_thread, NULL);
    while (g_ready == 0) usleep(1000);
    for (int i = 0; i < 3; ++i) {
      char path[4200];
      kill(getpid(), SIGUSR1);
      if (i == 0)
        snprintf(path, sizeof path, "%s", g_path);
      else
        snprintf(path, sizeof path, "%s.%d", g_path, i + 1);
      while (access(path, F_OK) != 0) usleep(1000);
    }
    g_stop = 1;
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
  } else if (strcmp(what, "fork") == 0) {
    g_root = tree(6);
    in_child(work_on);
    in_child(NULL); /* does not use the heap */
  } else if (strcmp(what, "forked") == 0) {
    /* Children of a process that takes a snapshot take one. */
    char path[4200];
    snprintf(path, sizeof path, "%s.child", g_path);
    pthread_create(&threads[0], NULL, take_until_stop, NULL);
    for (int i = 0; i < 60; ++i) {
      usleep(draw(2000));
      const pid_t child = fork();
      if (child == 0) {
        alarm(60);
        take(path, 0);
        _exit(0);
      }
      await_child(child);
    }
    g_stop = 1;
    pthread_join(threads[0], NULL);
  } else if (strcmp(what, "loop") == 0) {
    for (int i = 0; i < 3; ++i) pthread_create(&threads[i], NULL, take_forever, NULL);
    while (access(g_path, F_OK) != 0) usleep(1000);
  } else if (strcmp(what, "many") == 0) {
    g_root = tree(8);
    for (int i = 0; i < 4; ++i) pthread_create(&threads[i], NULL, take_many, NULL);
    for (int i = 4; i < 8; ++i) pthread_create(&threads[i], NULL, allocate_in_thread, NULL);
    for (int i = 0; i < 4; ++i) pthread_join(threads[i], NULL);
    g_stop = 1;
    for (int i = 4; i < 8; ++i) pthread_join(threads[i], NULL);
  } else if (strcmp(what, "errors") == 0) {
    take(NULL, EINVAL);
    take("", EINVAL);
    take("/no/such/folder/file", ENOENT);
    take("/dev/full", EEXIST);
    take("/", EISDIR);
    GC_disable();
    take(g_path, ECANCELED);
    GC_enable();
    take(g_path, 0);
    take(g_path, 0);
  } else if (strcmp(what, "limit") == 0) {
    g_root = tree(17);
    const struct rlimit limit = {64 << 10, 64 << 10};
    setrlimit(RLIMIT_FSIZE, &limit);
    take(g_path, EFBIG);
  } else if (strcmp(what, "close") == 0) {
    close_descriptors();
    take(g_path, 0);
  } else if (strcmp(what, "descriptors") == 0) {
    const struct rlimit limit = {3, 3};
    setrlimit(RLIMIT_NOFILE, &limit);
    take(g_path, EMFILE);
  } else if (strcmp(what, "kill") == 0) {
    g_root = tree(19);
    const pid_t child = fork();
    if (child == 0) {
      for (;;) take(g_path, 0);
    }
    usleep(1000 * (100 + draw(200)));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
  } else if (strcmp(what, "mode") == 0) {
    /* A cycle under way, or young objects, at the moment. */
    g_root = tree(15);
    for (int i = 0; i < 4; ++i) {
      work(NULL);
      char path[4200];
      snprintf(path, sizeof path, "%s.%d", g_path, i);
      take(path, 0);
    }
  } else if (strcmp(what, "finalizers") == 0) {
    make_due(100);
    take(g_path, 0);
  }
  fflush(stdout);
  return 0;
}
