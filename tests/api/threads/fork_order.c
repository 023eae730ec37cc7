/* Fork handlers that the program registered before the library was loaded, or afterwards: they
   allocate, and wait for a thread that does. */
#include "check.h"

static int prepared;

static void *allocate(void *arg) {
  for (size_t bytes = 16; bytes < (size_t)8 << 20; bytes = bytes * 2 + 8) {
    char *p = GC_MALLOC(bytes);
    CHECK(p != NULL);
    p[0] = p[bytes - 1] = 1;
  }
  return arg;
}
static void after(void) { allocate(NULL); }
static void prepare(void) {
  pthread_t thread;
  prepared++;
  allocate(NULL);
  GC_gcollect();
  CHECK_EQ(GC_pthread_create(&thread, NULL, allocate, NULL), 0);
  CHECK_EQ(GC_pthread_join(thread, NULL), 0);
}

static void registering(int argc, char **argv, char **environment) {
  if (pthread_atfork(prepare, after, after) != 0) _exit(9);
}
/* Called before the constructors of all libraries. */
__attribute__((section(".preinit_array"), used)) static void (*first)(int, char **,
                                                                      char **) = registering;

static void use_heap(void *unused) {
  allocate(unused);
  GC_gcollect();
}

int main(void) {
  alarm(60);                   /* a way to fail instead of hanging */
  if (!on_gleaner()) return 0; /* libgc hangs */
  GC_INIT();
  registering(0, NULL, NULL);
  for (int i = 0; i < 10; i++) CHECK_IN_CHILD(use_heap, NULL);
  CHECK_EQ(prepared, 20);
  return check_result();
}
