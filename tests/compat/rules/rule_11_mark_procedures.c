/* Rule 11: the protocol of mark procedures. msp and limit are opaque; a procedure may push as much
   as it likes; it is called for objects on free lists too, whose words beyond the first are zero;
   and from several markers at once. */
#include "check.h"
#include "gc_inline.h"
#include "gc_mark.h"

enum { kChildren = 3000, kParents = 40, kEnvironment = 0x1234 };

/* A parent names its children by hidden pointers: nobody else finds them. */
struct parent {
  GC_word magic; /* on a free list: the link */
  GC_word count;
  GC_hidden_pointer children[kChildren];
};

static volatile int calls, wrong_environment, wrong_pointers, on_free_list, empty_returns;

static struct GC_ms_entry *mark_parent(GC_word *addr, struct GC_ms_entry *msp,
                                       struct GC_ms_entry *limit, GC_word env) {
  struct parent *parent = (struct parent *)addr;
  size_t i;
  __sync_fetch_and_add(&calls, 1);
  if (env != kEnvironment) __sync_fetch_and_add(&wrong_environment, 1);
  if (msp == NULL || limit == NULL) __sync_fetch_and_add(&wrong_pointers, 1);
  if (parent->count == 0) {
    __sync_fetch_and_add(&empty_returns, 1);
    return msp;
  }
  if (parent->magic != 0xacce55) {
    __sync_fetch_and_add(&on_free_list, 1);
    return msp;
  }
  for (i = 0; i < parent->count; i++)
    msp = GC_MARK_AND_PUSH(GC_REVEAL_POINTER(parent->children[i]), msp, limit, NULL);
  return msp;
}

static struct parent *parents[kParents];
static unsigned kind;
static void *list_of_proc_kind;

static void *make(void *arg) {
  struct watch *w = (struct watch *)arg;
  size_t i, j;
  for (i = 0; i < kParents; i++) {
    parents[i] = (struct parent *)GC_generic_malloc(sizeof *parents[i], (int)kind);
    parents[i]->magic = 0xacce55;
    for (j = 0; j < kChildren; j++) {
      /* A child with a grandchild: what is pushed is searched. */
      void **child = (void **)GC_malloc(32);
      void *grandchild = GC_malloc(16);
      child[1] = grandchild;
      parents[i]->children[j] = GC_HIDE_POINTER(child);
      watch_object(w, (i * kChildren + j) * 2, child);
      watch_object(w, (i * kChildren + j) * 2 + 1, grandchild);
    }
    parents[i]->count = kChildren;
  }
  return NULL;
}

int main(void) {
  struct watch w;
  size_t i;
  GC_INIT();
  kind =
      GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(GC_new_proc(mark_parent), kEnvironment), 0, 1);
  watch_init(&w, (size_t)2 * kParents * kChildren);
  GC_disable();
  run_in_thread(make, &w);
  GC_enable();
  for (i = 0; i < 3; i++) {
    calls = 0;
    collect();
    CHECK_GE(calls, kParents);
    CHECK_EQ(watch_gone(&w), 0);
  }
  CHECK_EQ(wrong_environment, 0);
  CHECK_EQ(wrong_pointers, 0);
  CHECK_EQ(on_free_list, 0);

  /* A list of small objects of this kind: the procedure sees them, zero but for the link. */
  empty_returns = 0;
  GC_generic_malloc_many(64, (int)kind, &list_of_proc_kind);
  CHECK(list_of_proc_kind != NULL);
  collect();
  CHECK_GE(empty_returns, 1);
  CHECK_EQ(on_free_list, 0);

  memset(parents, 0, sizeof parents);
  list_of_proc_kind = NULL;
  collect();
  CHECK_MOSTLY(watch_gone(&w), (size_t)2 * kParents * kChildren);
  return check_result();
}
