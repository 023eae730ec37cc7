/* A program to be recorded. The mode says what it does; where it matters it prints, in the order of
   the calls, what a trace of it must contain. */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                \
  do {                                                          \
    if (!(x)) {                                                 \
      fprintf(stderr, "client:%d: not so: %s\n", __LINE__, #x); \
      exit(99);                                                 \
    }                                                           \
  } while (0)

enum { kBlocks = 1000, kThreads = 8, kRounds = 20 };

static unsigned long a(const void *p) { return (unsigned long)(uintptr_t)p; }

/* Each function of the family once. Output is not buffered in a block of malloc's. */
static void calls(void) {
  static char buffer[65536];
  setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
  void *p = malloc(1001);
  printf("allocate %lx 1001\n", a(p));
  void *z = calloc(7, 143);
  printf("zeroed %lx 1001\n", a(z));
  void *q = NULL;
  CHECK(posix_memalign(&q, 256, 1002) == 0);
  printf("aligned %lx 1002 256\n", a(q));
  void *r = aligned_alloc(64, 1024);
  printf("aligned %lx 1024 64\n", a(r));
  void *s = memalign(4096, 1003);
  printf("aligned %lx 1003 4096\n", a(s));
  void *t = valloc(1004);
  printf("aligned %lx 1004 4096\n", a(t));
  void *u = pvalloc(1005);
  printf("aligned %lx 4096 4096\n", a(u));
  unsigned long before = a(p);
  p = realloc(p, 50000);
  printf("resize %lx 50000 %lx\n", before, a(p));
  before = a(z);
  z = reallocarray(z, 11, 11);
  printf("resize %lx 121 %lx\n", before, a(z));
  void *v = realloc(NULL, 1006);
  printf("allocate %lx 1006\n", a(v));
  volatile size_t too_much = SIZE_MAX / 4;
  CHECK(malloc(too_much) == NULL);
  CHECK(calloc(too_much, 8) == NULL);
  CHECK(realloc(v, too_much) == NULL);
  printf("free %lx\n", a(v));
  CHECK(realloc(v, 0) == NULL);
  void *all[] = {p, z, q, r, s, t, u};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    printf("free %lx\n", a(all[i]));
    free(all[i]);
  }
  free(NULL);
}

static void *shared[kThreads][kBlocks];

/* Hands blocks to other threads, which free or resize them. */
static void *hand_on(void *argument) {
  const long me = (long)argument;
  for (int round = 0; round < kRounds; round++) {
    void **row = shared[(me + round) % kThreads];
    for (int i = 0; i < kBlocks; i++) {
      void *mine = malloc((size_t)(16 + (i * 37 + round) % 500));
      void *other = __atomic_exchange_n(&row[i], mine, __ATOMIC_ACQ_REL);
      if (i % 7 == 0 && other != NULL) other = realloc(other, 700);
      free(other);
    }
  }
  return NULL;
}

static void threads(void) {
  pthread_t ids[kThreads];
  for (long i = 0; i < kThreads; i++) CHECK(pthread_create(&ids[i], NULL, hand_on, (void *)i) == 0);
  for (int i = 0; i < kThreads; i++) pthread_join(ids[i], NULL);
}

static pthread_key_t key;
static void at_thread_end(void *block) {
  free(block);
  free(malloc(77));
}
static void *short_life(void *unused) {
  (void)unused;
  pthread_setspecific(key, malloc(66));
  return NULL;
}
static void many_threads(void) {
  CHECK(pthread_key_create(&key, at_thread_end) == 0);
  for (int i = 0; i < 500; i++) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, short_life, NULL) == 0);
    pthread_join(id, NULL);
  }
}

static void *allocate_for_ever(void *unused) {
  (void)unused;
  for (;;) free(malloc(123));
  return NULL;
}

/* 3 threads in the middle of events, one of which never lets the program get further. */
static void killed(void) {
  for (int i = 0; i < kBlocks; i++) {
    void *volatile kept = malloc(4242);
    CHECK(kept != NULL);
  }
  pthread_t id;
  CHECK(pthread_create(&id, NULL, allocate_for_ever, NULL) == 0);
  CHECK(pthread_create(&id, NULL, allocate_for_ever, NULL) == 0);
  for (int i = 0; i < 200000; i++) free(malloc(321));
  kill(getpid(), SIGKILL);
}

static int wait_for(pid_t child) {
  int status;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  return 0;
}

/* While another thread allocates: the child must not inherit a lock that is held. */
static void forks(const char *self) {
  pthread_t id;
  CHECK(pthread_create(&id, NULL, allocate_for_ever, NULL) == 0);
  for (int i = 0; i < 20; i++) {
    void *inherited = malloc(5555);
    const pid_t child = fork();
    if (child == 0) {
      for (int j = 0; j < kBlocks; j++) free(malloc(2222));
      free(inherited);
      exit(0);
    }
    free(inherited);
    wait_for(child);
  }
  const pid_t child = vfork();
  if (child == 0) {
    execl(self, self, "calls", NULL);
    _exit(1);
  }
  wait_for(child);
}

/* Of the size of files, in the middle of the recording: a file that grows beyond it ends a program
   by SIGXFSZ. */
static void lowers_limit(void) {
  free(malloc(999));
  const struct rlimit limit = {1 << 20, 1 << 20};
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  for (int i = 0; i < 1000000; i++) free(malloc(999));
}

static void close_all(void) {
  for (int fd = 3; fd < 1024; fd++) close(fd);
  CHECK(chdir("/") == 0);
  for (int i = 0; i < 100000; i++) free(malloc(999));
}

int main(int argc, char **argv) {
  const char *mode = argc > 1 ? argv[1] : "";
  if (strcmp(mode, "calls") == 0)
    calls();
  else if (strcmp(mode, "threads") == 0)
    threads();
  else if (strcmp(mode, "many_threads") == 0)
    many_threads();
  else if (strcmp(mode, "killed") == 0)
    killed();
  else if (strcmp(mode, "forks") == 0)
    forks(argv[0]);
  else if (strcmp(mode, "close_all") == 0)
    close_all();
  else if (strcmp(mode, "lowers_limit") == 0)
    lowers_limit();
  else
    return 98;
  return 0;
}
