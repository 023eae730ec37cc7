/* A program that allocates known amounts at known places, for the tests of heap profiles. It prints
 * one line "NAME ALL_OBJECTS LIVE_OBJECTS" for each of its functions at_NAME that allocate. */
#define _GNU_SOURCE
#define GC_THREADS
#define GC_NO_THREAD_REDIRECTS
#define GLEANER_INLINE_MALLOC
#include <errno.h>
#include <fcntl.h>
#include <gc.h>
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gleaner.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "client.h"

#ifdef __clang__
#define SITE __attribute__((__noinline__)) static
#else
#define SITE __attribute__((__noinline__, __noclone__)) static
#endif
/* Keeps the call before it from being the last one. */
#define END __asm__ volatile("" ::: "memory")

static void **kept; /* a list */

SITE void keep(void *object) {
  void **cell = GC_malloc_uncollectable(2 * sizeof *cell);
  cell[0] = kept;
  cell[1] = object;
  kept = cell;
  END;
}

static void report(const char *name, long all, long live) {
  printf("%s %ld %ld\n", name, all, live);
}

/* Runs f where its frame is overwritten afterwards. */
__attribute__((__noinline__)) static void clear_stack(void) {
  volatile char junk[20000];
  memset((char *)junk, 0, sizeof junk);
  END;
}

/* --- The model: three places, of which each keeps a part. --- */

SITE void at_small(long n, int every) {
  for (long i = 0; i < n; i++) {
    void *p = GC_malloc(48);
    if (i % every == 0) keep(p);
  }
  END;
}
SITE void at_medium(long n, int every) {
  for (long i = 0; i < n; i++) {
    void *p = GC_malloc_atomic(1000);
    if (i % every == 0) keep(p);
  }
  END;
}
SITE void at_large(long n, int every) {
  for (long i = 0; i < n; i++) {
    void *p = GC_malloc(150000);
    if (i % every == 0) keep(p);
  }
  END;
}

static void *model(void *unused) {
  at_small(200000, 4);
  at_medium(60000, 10);
  at_large(300, 3);
  return unused;
}
static void report_model(long times) {
  report("small", 200000 * times, 50000 * times);
  report("medium", 60000 * times, 6000 * times);
  report("large", 300 * times, 100 * times);
}

static void in_threads(int count, void *(*f)(void *)) {
  pthread_t threads[8];
  for (int i = 0; i < count; i++) {
    if (GC_pthread_create(&threads[i], NULL, f, NULL) != 0) exit(5);
  }
  for (int i = 0; i < count; i++) GC_pthread_join(threads[i], NULL);
}

/* --- Each way to get memory, `each` times. --- */

enum { each = 20 };
#define PATH(name, expression)       \
  SITE void at_##name(void) {        \
    for (int i = 0; i < each; i++) { \
      void *p = (expression);        \
      if (p == NULL) exit(6);        \
      __asm__ volatile("" ::"r"(p)); \
    }                                \
    END;                             \
  }

static GC_descr descriptor;
static void *type[2];

PATH(malloc, GC_malloc(100))
PATH(atomic, GC_malloc_atomic(33))
PATH(uncollectable, GC_malloc_uncollectable(500))
PATH(atomic_uncollectable, GC_malloc_atomic_uncollectable(70))
PATH(ignore_off_page, GC_malloc_ignore_off_page(40000))
PATH(huge, GC_malloc_atomic_ignore_off_page(3000000))
PATH(kind, GC_malloc_kind(64, GC_I_NORMAL))
PATH(generic, GC_generic_malloc(64, GC_I_PTRFREE))
PATH(memalign, GC_memalign(256, 200))
PATH(memalign_large, GC_memalign(65536 * 4, 100000))
PATH(strdup, GC_strdup("some text"))
PATH(typed, GC_malloc_explicitly_typed(48, descriptor))
PATH(typed_array, GC_calloc_explicitly_typed(10, 48, descriptor))
PATH(gcj, GC_gcj_malloc(64, type))
PATH(debug, GC_debug_malloc(64, GC_EXTRAS))
PATH(inline, GC_MALLOC(64))
PATH(inline_atomic, GC_MALLOC_ATOMIC(64))
PATH(grow, GC_realloc(GC_malloc(100), 1000))                     /* 2 */
PATH(grow_large, GC_realloc(GC_malloc_atomic(100000), 10000000)) /* 2, in place or moved */
PATH(shrink, GC_realloc(GC_malloc(100), 90))

SITE long at_many(void) {
  long n = 0;
  for (int i = 0; i < each; i++) {
    for (void *p = GC_malloc_many(32); p != NULL; p = GC_NEXT(p)) n++;
  }
  END;
  return n;
}

static void all_paths(void) {
  const GC_word bits = 1;
  descriptor = GC_make_descriptor(&bits, 6);
  GC_init_gcj_malloc(0, NULL);
  type[1] = (void *)(GC_word)GC_DS_LENGTH;
#define RUN(name, times) (at_##name(), report(#name, each * (times), -1))
  RUN(malloc, 1);
  RUN(atomic, 1);
  RUN(uncollectable, 1);
  RUN(atomic_uncollectable, 1);
  RUN(ignore_off_page, 1);
  RUN(huge, 1);
  RUN(kind, 1);
  RUN(generic, 1);
  RUN(memalign, 1);
  RUN(memalign_large, 1);
  RUN(strdup, 1);
  RUN(typed, 1);
  RUN(typed_array, 1);
  RUN(gcj, 1);
  RUN(debug, 1);
  RUN(inline, 1);
  RUN(inline_atomic, 1);
  RUN(grow, 2);
  RUN(grow_large, 2);
  RUN(shrink, 1);
  report("many", at_many(), -1);
}

/* --- How objects end. --- */

enum { some = 1000 };
static void *objects[some];

SITE void at_freed(size_t bytes) {
  for (int i = 0; i < some; i++) objects[i] = GC_malloc(bytes);
  END;
}
SITE void at_kept(void) {
  for (int i = 0; i < some; i++) objects[i] = GC_malloc(64);
  END;
}
SITE void at_dropped(void) {
  for (int i = 0; i < some; i++) __asm__ volatile("" ::"r"(GC_malloc(80)));
  END;
}
static void finalize(void *object, void *data) {
  (void)object;
  (void)data;
}
SITE void at_finalized(void) {
  for (int i = 0; i < some; i++) {
    GC_register_finalizer(GC_malloc(160), finalize, NULL, NULL, NULL);
  }
  END;
}
SITE void at_resized(void) {
  for (int i = 0; i < 10; i++) {
    objects[i] = GC_malloc_atomic(100000);
    objects[i] = GC_realloc(objects[i], 120000); /* within its pages */
    objects[i] = GC_realloc(objects[i], 3000000);
  }
  END;
}

static void free_objects(void) {
  for (int i = 0; i < some; i++) GC_free(objects[i]);
  memset(objects, 0, sizeof objects);
}

SITE void at_debug_freed(void) {
  for (int i = 0; i < some; i++) objects[i] = GC_debug_malloc(64, GC_EXTRAS);
  for (int i = 0; i < some; i++) GC_debug_free(objects[i]);
  END;
}

static void ends(void) {
  GC_set_finalize_on_demand(1);
  at_freed(64);
  free_objects();
  at_freed(20000);
  free_objects();
  report("freed", 2 * some, 0);
  at_dropped();
  report("dropped", some, 0);
  at_finalized();
  report("finalized", some, some);
  at_kept();
  report("kept", some, some);
  clear_stack();
  GC_gcollect();
}

SITE int at_depth(int depth) {
  if (depth > 0) {
    const int n = at_depth(depth - 1);
    END;
    return n + 1;
  }
  for (int i = 0; i < some; i++) keep(GC_malloc(64));
  END;
  return 1;
}

/* --- Threads that end at once. --- */

SITE void *at_brief(void *unused) {
  for (int i = 0; i < 3; i++) __asm__ volatile("" ::"r"(GC_malloc(64)));
  END;
  return unused;
}

/* --- Handlers that end or fork the process wherever it is. --- */

enum { children_count = 100 };
static pid_t children[children_count];
static volatile int forked;

/* The number of children that have not ended within 10 s, which are killed. */
static int count_hung(void) {
  int hung = 0;
  const time_t end = time(NULL) + 10;
  for (int i = 0; i < children_count; i++) {
    int status = 1;
    pid_t ended;
    while ((ended = waitpid(children[i], &status, WNOHANG)) == 0 && time(NULL) < end) usleep(1000);
    if (ended == 0) {
      hung++;
      kill(children[i], SIGKILL);
      waitpid(children[i], &status, 0);
    } else if (status != 0) {
      exit(3);
    }
  }
  return hung;
}

static void allocate_until_signalled(int signal, long us, long every_us, void (*handler)(int)) {
  const struct itimerval timer = {{0, every_us}, {0, us}};
  struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
  sigaction(signal, &action, NULL);
  setitimer(ITIMER_REAL, &timer, NULL);
  for (unsigned i = 0; forked < children_count; i++) objects[i % some] = GC_malloc(32);
  const struct itimerval none = {{0, 0}, {0, 0}};
  setitimer(ITIMER_REAL, &none, NULL);
}

static void exit_in_handler(int signal) {
  (void)signal;
  exit(0);
}

static void fork_in_handler(int signal) {
  (void)signal;
  if (forked == children_count) return;
  const pid_t child = fork();
  if (child == 0) exit(0);
  children[forked++] = child;
}

/* Children that have no fork handlers, of a process one of whose threads samples all the time. */
static void *allocate_always(void *unused) {
  allocate_until_signalled(SIGUSR1, 0, 0, SIG_IGN);
  return unused;
}

static void copy_process(void) {
  pthread_t thread;
  if (GC_pthread_create(&thread, NULL, allocate_always, NULL) != 0) exit(5);
  for (int i = 0; i < children_count; i++) {
    usleep(500);
    children[i] = _Fork();
    if (children[i] == 0) exit(0);
  }
  forked = children_count;
  GC_pthread_join(thread, NULL);
}

/* --- Writing while it is cancelled, or without memory. --- */

static void *write_always(void *path) {
  for (;;) {
    pthread_testcancel();
    (void)gleaner_write_heap_profile(path);
  }
  return NULL;
}

static int write_after_cancelling(const char *path) {
  pthread_t thread;
  if (GC_pthread_create(&thread, NULL, write_always, (void *)path) != 0) exit(5);
  usleep(5000);
  pthread_cancel(thread);
  GC_pthread_join(thread, NULL);
  return gleaner_write_heap_profile(path);
}

static int write_without_memory(const char *path) {
  const struct rlimit limit = {4096, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
  if (setrlimit(RLIMIT_AS, &limit) != 0) exit(4);
  const int error = gleaner_write_heap_profile(path);
  if (setrlimit(RLIMIT_AS, &none) != 0) exit(4);
  return error;
}

/* All but one descriptor are taken. */
static void take_descriptors(void) {
  const struct rlimit limit = {32, 32};
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) exit(4);
  int last = -1;
  for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) last = fd;
  close(last);
}

#ifdef __x86_64__
/* Refuses all system calls but those that docs/reference/formats.md names, and those that end.
 */
static void refuse_system_calls(void) {
  static const unsigned allowed[] = {
      SYS_open,      SYS_openat, SYS_fstat,  SYS_newfstatat, SYS_flock,          SYS_pread64,
      SYS_ftruncate, SYS_read,   SYS_write,  SYS_close,      SYS_getrlimit,      SYS_prlimit64,
      SYS_getpid,    SYS_mmap,   SYS_munmap, SYS_mprotect,   SYS_rt_sigprocmask, SYS_exit_group};
  enum { count = sizeof allowed / sizeof *allowed };
  struct sock_filter filter[2 * count + 2];
  int n = 0;
  filter[n++] =
      (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
  for (int i = 0; i < count; i++) {
    filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[i], 0, 1);
    filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
  }
  filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
  const struct sock_fprog program = {(unsigned short)n, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    printf("unavailable\n");
  }
}
#else
static void refuse_system_calls(void) { printf("unavailable\n"); }
#endif

static void handle(int signal) { (void)signal; }

static void drop_and_collect(void) {
  at_dropped();
  GC_gcollect();
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "model";
  const char *path = argc > 2 ? argv[2] : "";
  GC_INIT();
  signal(SIGUSR1, handle);
  if (strcmp(what, "model") == 0) {
    model(NULL);
    report_model(1);
    clear_stack();
    GC_gcollect();
  } else if (strcmp(what, "threads") == 0) {
    GC_allow_register_threads();
    in_threads(4, model);
    report_model(4);
    clear_stack();
    GC_gcollect();
  } else if (strcmp(what, "brief") == 0) {
    for (int i = 0; i < 250; i++) in_threads(4, at_brief);
    report("brief", 250 * 4 * 3, -1);
  } else if (strcmp(what, "paths") == 0) {
    all_paths();
  } else if (strcmp(what, "ends") == 0) {
    ends();
  } else if (strcmp(what, "finalizers-run") == 0) {
    ends();
    GC_invoke_finalizers();
    clear_stack();
    GC_gcollect();
  } else if (strcmp(what, "debug-freed") == 0) {
    at_debug_freed();
    report("debug_freed", some, 0);
  } else if (strcmp(what, "exit-in-handlers") == 0) {
    for (int i = 0; i < children_count; i++) {
      children[i] = fork();
      if (children[i] == 0) allocate_until_signalled(SIGALRM, 2000 + 97 * i, 0, exit_in_handler);
    }
    printf("hung %d\n", count_hung());
  } else if (strcmp(what, "fork-in-handlers") == 0) {
    allocate_until_signalled(SIGALRM, 1000, 1003, fork_in_handler);
    printf("hung %d\n", count_hung());
  } else if (strcmp(what, "copies") == 0) {
    copy_process();
    printf("hung %d\n", count_hung());
  } else if (strcmp(what, "descriptors") == 0) {
    at_kept();
    take_descriptors();
  } else if (strcmp(what, "sandbox") == 0) {
    at_kept();
    fflush(stdout);
    refuse_system_calls();
  } else if (strcmp(what, "resized") == 0) {
    at_resized();
    report("resized", 30, 10);
  } else if (strcmp(what, "depth") == 0) {
    if (at_depth(500) != 501) return 4;
  } else if (strcmp(what, "fork") == 0) {
    at_kept();
    report("kept", some, some);
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
      at_freed(64);
      exit(0);
    }
    printf("child %d\n", (int)await_child(child));
  } else if (strcmp(what, "fork-exit") == 0) { /* makes no file */
    in_child(NULL);
  } else if (strcmp(what, "fork-threads") == 0) { /* from a process whose threads sample */
    for (int i = 0; i < 5; i++) {
      pthread_t thread;
      if (GC_pthread_create(&thread, NULL, model, NULL) != 0) return 5;
      in_child(drop_and_collect);
      GC_pthread_join(thread, NULL);
    }
  } else if (strcmp(what, "exec") == 0) { /* another program, the same process */
    at_kept();
    execl(argv[0], argv[0], "ends", (char *)NULL);
    return 4;
  } else if (strcmp(what, "spawn") == 0) { /* another process, which ends first */
    at_kept();
    printf("child %d\n", (int)in_program(argv[0], argv[0], "ends"));
  } else if (strcmp(what, "exhausted") == 0) {
    long n = 0;
    for (void *p; (p = GC_malloc(64)) != NULL; n++) keep(p);
    if (n == 0) return 4;
    kept = NULL;
  } else if (strcmp(what, "write") == 0) { /* by the API, to each path given */
    at_kept();
    for (int i = 2; i < argc; i++) {
      printf("%s\n", strerrorname_np(gleaner_write_heap_profile(argv[i])));
    }
    printf("%s\n", strerrorname_np(gleaner_write_heap_profile(NULL)));
  } else if (strcmp(what, "cancel") == 0) {
    at_kept();
    for (int i = 0; i < 5; i++) printf("%s\n", strerrorname_np(write_after_cancelling(path)));
  } else if (strcmp(what, "no-memory") == 0) {
    at_kept();
    printf("%s\n", strerrorname_np(gleaner_write_heap_profile(path)));
    printf("%s\n", strerrorname_np(write_without_memory(path)));
  } else if (strcmp(what, "limit") == 0) {
    const struct rlimit limit = {4096, 4096};
    at_kept();
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0) return 4;
  } else if (strcmp(what, "remove") == 0) { /* the file's folder is gone at the end */
    at_kept();
    if (unlink(path) != 0 || rmdir(argv[3]) != 0) return 4;
  } else if (strcmp(what, "close") == 0) {
    at_kept();
    close_descriptors();
  }
  return 0;
}
