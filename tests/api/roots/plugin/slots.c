/* A loadable object whose data, zeroed data and thread-local variables may each hold the only
   pointers to collected objects. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

enum { kSlots = 1000 };

static void *initialized_slots[kSlots] = {(void *)1};
static void *zeroed_slots[kSlots];
static __thread void *thread_slots[kSlots];

/* The constructor allocates before dlopen has returned, when this object may not be known as a root
   yet, and has a collection done, or not, as the collector thinks right. */
static char *from_constructor;
static int seen_by_constructor[2]; /* whether collection was disabled, whether one happened */

__attribute__((constructor)) static void start(void) {
  int (*is_disabled)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "GC_is_disabled");
  size_t (*collections)(void) = (size_t(*)(void))dlsym(RTLD_DEFAULT, "GC_get_gc_no");
  const size_t before = collections();
  void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "GC_malloc");
  void (*collect)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "GC_gcollect");
  from_constructor = (char *)allocate(48);
  memset(from_constructor, 0x2b, 48);
  seen_by_constructor[0] = is_disabled();
  collect();
  seen_by_constructor[1] = collections() != before;
}

void **slots_initialized(void) { return initialized_slots; }
void **slots_zeroed(void) { return zeroed_slots; }
void **slots_of_thread(void) { return thread_slots; }
char *slots_from_constructor(void) { return from_constructor; }
int *slots_seen_by_constructor(void) { return seen_by_constructor; }
