/* Rule 10: objects on a list that a program holds live only by being traced: normal ones through
   word 0, pointer-free ones because a mark procedure walks the chain and marks each object in an
   unbounded loop, as guile's does. */
#include "check.h"
#include "gc_inline.h"
#include "gc_mark.h"

enum { kBytes = 48, kChain = 20000 };

static void *normal_list;

/* The holder of a chain that only its mark procedure can follow: the pointer is hidden. */
struct holder {
  GC_word number;
  GC_hidden_pointer chain;
};
static struct holder *holder;

static struct GC_ms_entry *mark_holder(GC_word *addr, struct GC_ms_entry *msp,
                                       struct GC_ms_entry *limit, GC_word env) {
  void *p;
  (void)env;
  if (((struct holder *)addr)->chain == 0) return msp; /* on a free list, or new */
  for (p = GC_REVEAL_POINTER(((struct holder *)addr)->chain); p != NULL; p = *(void **)p)
    msp = GC_MARK_AND_PUSH(p, msp, limit, NULL);
  return msp;
}

static size_t length(void *list) {
  size_t n = 0;
  for (; list != NULL; list = *(void **)list) n++;
  return n;
}

struct making {
  struct watch watch;
  int kind;
};

/* A chain of `kChain` objects, hidden. */
static void *make_chain(void *arg) {
  struct making *m = (struct making *)arg;
  void *chain = NULL;
  size_t n = 0;
  while (n < kChain) {
    void *list = NULL, *next;
    GC_generic_malloc_many(kBytes, m->kind, &list);
    for (; list != NULL && n < kChain; list = next) {
      next = *(void **)list;
      *(void **)list = chain;
      chain = list;
      watch_object(&m->watch, n++, list);
    }
  }
  return (void *)GC_HIDE_POINTER(chain);
}

static void disturb(void) {
  size_t i;
  for (i = 0; i < 200000; i++) {
    void *p = GC_malloc(kBytes), *q = GC_malloc_atomic(kBytes);
    memset(p, 0x55, kBytes);
    memset(q, 0x55, kBytes);
  }
}

int main(void) {
  struct making m;
  void *hidden, *p;
  size_t i;
  int round;
  GC_INIT();

  m.kind = GC_I_NORMAL;
  watch_init(&m.watch, kChain);
  GC_disable();
  hidden = run_in_thread(make_chain, &m);
  normal_list = GC_REVEAL_POINTER((GC_word)hidden);
  GC_enable();
  for (round = 0; round < 3; round++) {
    collect();
    disturb();
    CHECK_EQ(watch_gone(&m.watch), 0);
    CHECK_EQ(length(normal_list), kChain);
  }
  for (p = normal_list; p != NULL; p = *(void **)p)
    for (i = 1; i < kBytes / sizeof(void *); i++) CHECK_NULL(((void **)p)[i]);
  p = NULL;
  normal_list = NULL;
  hidden = NULL;
  collect();
  CHECK_MOSTLY(watch_gone(&m.watch), kChain);
  watch_end(&m.watch);

  {
    unsigned proc = GC_new_proc(mark_holder);
    unsigned kind = GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 0), 0, 1);
    m.kind = GC_I_PTRFREE;
    watch_init(&m.watch, kChain);
    GC_disable();
    holder = (struct holder *)GC_generic_malloc(sizeof *holder, (int)kind);
    holder->chain = (GC_hidden_pointer)run_in_thread(make_chain, &m);
    GC_enable();
    for (round = 0; round < 3; round++) {
      collect();
      disturb();
      CHECK_EQ(watch_gone(&m.watch), 0);
      CHECK_EQ(length(GC_REVEAL_POINTER(holder->chain)), kChain);
    }
    holder->chain = 0;
    collect();
    CHECK_MOSTLY(watch_gone(&m.watch), kChain);
    watch_end(&m.watch);
  }
  return check_result();
}
