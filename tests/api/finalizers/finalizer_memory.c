/* Small objects with finalizers, each of which unmaps a block that is no memory of the heap: the
 * blocks of garbage do not pile up, though hardly anything is allocated in the heap. */
#include "check.h"

#include <sys/mman.h>

enum { kInUse = 16, kObjects = 1200, kBlockBytes = 1 << 20, kStaying = 1 << 18 };

static void *in_use[kInUse];
static uint64_t **staying;
static size_t blocks;

static void GC_CALLBACK unmap(void *object, void *data) {
  CHECK_EQ(munmap(*(void **)object, kBlockBytes), 0);
  blocks--;
}

static void add(size_t i) {
  void **object = GC_malloc(32);
  *object = mmap(NULL, kBlockBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(*object != MAP_FAILED);
  memset(*object, 1, kBlockBytes);
  blocks++;
  GC_register_finalizer_no_order(object, unmap, NULL, NULL, NULL);
  GC_PTR_STORE_AND_DIRTY(&in_use[i % kInUse], object);
}

/* How many blocks there are when a collection pays depends on what it takes and on what the program
 * takes. So time is the program's own: a step of it takes kStepNs, and whoever asks, kAskNs. */
enum { kStepNs = 1000000, kAskNs = 20000 };
static uint64_t now_ns = 1000000000;

int clock_gettime(clockid_t clock, struct timespec *now) {
  const uint64_t ns = __atomic_add_fetch(&now_ns, kAskNs, __ATOMIC_RELAXED);
  now->tv_sec = (time_t)(ns / 1000000000);
  now->tv_nsec = (long)(ns % 1000000000);
  return 0;
}

int main(void) {
  size_t most = 0;
  GC_INIT();
  /* A heap of 16 MiB, so that libgc's rule makes nothing due for a long time. */
  staying = GC_malloc(kStaying * sizeof(uint64_t *));
  for (size_t i = 0; i < kStaying; i++) staying[i] = GC_malloc(64);
  GC_gcollect();
  for (size_t i = 0; i < kObjects; i++) {
    add(i);
    __atomic_fetch_add(&now_ns, kStepNs, __ATOMIC_RELAXED);
    if (blocks > most) most = blocks;
  }
  if (on_gleaner()) CHECK_LE(most, kObjects / 6);
  CHECK_LE(GC_get_gc_no(), kObjects / 4);
  return check_result();
}
