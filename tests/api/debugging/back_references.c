/* Back references: what keeps an object, and the way from a root to it. Debian's libgc is built
   without them, so there is nothing to compare with: the functions are looked up. */
#include "capture.h"

/* The values of GC_ref_kind. */
enum { kUnreferenced, kNoSpace, kFromRoot, kFromRegister, kFromHeap, kForFinalizer };

typedef int (*info_fn)(void *, void **, size_t *);
typedef void (*print_fn)(void *);
typedef void *(*address_fn)(void);
typedef void (*action_fn)(void);
static info_fn info;
static print_fn print;
static address_fn any_address, valid_address;
static action_fn random_trace;

static void **volatile first; /* static data: a root */

static void *make_chain(void *arg) {
  const int debug = arg != NULL;
  void **last = NULL;
  for (size_t i = 0; i < 5; i++) {
    void **p = (void **)(debug ? GC_debug_malloc(48, "chain.c", (int)i) : GC_malloc(48));
    p[2] = last;
    last = p;
  }
  first = last;
  return NULL;
}

static void follow(int debug) {
  size_t i;
  GC_INIT();
  run_in_thread(make_chain, debug ? (void *)&first : NULL);
  GC_gcollect();
  void **p = first;
  for (i = 0; i < 5; i++) {
    void *source = NULL;
    size_t offset = 99;
    const int kind = info((char *)p + 7, &source, &offset); /* any address inside */
    if (i == 0) {
      CHECK_EQ(kind, kFromRoot);
      CHECK_PTR(source, (void *)&first);
      CHECK_EQ(offset, 0);
    } else {
      void **holder = (void **)source;
      CHECK_EQ(kind, kFromHeap);
      CHECK_EQ(offset, 2 * sizeof(void *));
      CHECK_PTR(holder[2], p);
    }
    if (p[2] == NULL) {
      print(p);
      break;
    }
    p = (void **)p[2];
  }
  CHECK_EQ(i, 4);
}

static void plain(void) { follow(0); }
static void debugged(void) { follow(1); }

static void *only_on_stack(void *arg) {
  void *p = GC_malloc(48);
  void *source = NULL;
  size_t offset = 0;
  CHECK_EQ(info(p, &source, &offset), kFromRoot);
  CHECK_NE((intptr_t)source, 0);
  CHECK(!GC_is_heap_ptr(source));
  return p;
}

static void GC_CALLBACK nothing(void *object, void *data) {}

static GC_hidden_pointer hidden[100];
static void *make_finalizable(void *arg) {
  for (size_t i = 0; i < 100; i++) {
    void *p = GC_malloc(48);
    GC_register_finalizer(p, nothing, NULL, NULL, NULL);
    hidden[i] = GC_HIDE_POINTER(p);
  }
  return NULL;
}

static void other_kinds(void) {
  void *source = NULL;
  size_t offset = 0, i, for_finalizer = 0;
  int local;
  GC_set_finalize_on_demand(1);
  GC_INIT();
  run_in_thread(only_on_stack, NULL);
  void *uncollectable = GC_malloc_uncollectable(48);
  CHECK_EQ(info(uncollectable, &source, &offset), kUnreferenced);
  ((void **)uncollectable)[1] = GC_malloc_atomic(48);
  CHECK_EQ(info(((void **)uncollectable)[1], &source, &offset), kFromHeap);
  CHECK_PTR(source, uncollectable);
  CHECK_EQ(offset, sizeof(void *));
  CHECK_EQ(info(&local, &source, &offset), kUnreferenced);
  CHECK_EQ(info(NULL, &source, &offset), kUnreferenced);
  run_in_thread(make_finalizable, NULL);
  for (i = 0; i < 100; i++) {
    for_finalizer += info(GC_REVEAL_POINTER(hidden[i]), &source, &offset) == kForFinalizer;
  }
  CHECK_GE(for_finalizer, 1);
}

static void addresses(void) {
  size_t i;
  GC_INIT();
  run_in_thread(make_chain, NULL);
  for (i = 0; i < 100; i++) {
    void *p = any_address();
    CHECK(GC_is_heap_ptr(p));
    p = valid_address();
    CHECK(GC_base(p) != NULL);
  }
  random_trace();
  print(&i);
}

static void disabled(void) {
  void *source = NULL;
  size_t offset = 0;
  GC_INIT();
  void *p = GC_malloc(48);
  GC_disable();
  CHECK_EQ(info(p, &source, &offset), kNoSpace);
  GC_enable();
  CHECK_EQ(info(p, &source, &offset), kFromRoot);
}

static void wrong(void) {
  size_t offset;
  GC_INIT();
  void *p = GC_malloc(48);
  CHECK_EQ(info(p, NULL, &offset), kUnreferenced);
  CHECK_EQ(info(p, &p, NULL), kUnreferenced);
  print(NULL);
}

int main(void) {
  static struct captured c;
  fail_after(50);
  info = (info_fn)dlsym(RTLD_DEFAULT, "GC_get_back_ptr_info");
  print = (print_fn)dlsym(RTLD_DEFAULT, "GC_print_backtrace");
  any_address = (address_fn)dlsym(RTLD_DEFAULT, "GC_generate_random_heap_address");
  valid_address = (address_fn)dlsym(RTLD_DEFAULT, "GC_generate_random_valid_address");
  random_trace = (action_fn)dlsym(RTLD_DEFAULT, "GC_generate_random_backtrace");
  if (!on_gleaner()) return 0;
  CHECK(info && print && any_address && valid_address && random_trace);
  if (check_failures) return check_result();

  CAPTURE_WELL(&c, plain);
  CHECK_CAPTURED(&c, count_text(&c, "kept by offset 16") == 4);
  CHECK_CAPTURED(&c, count_text(&c, "kept by the root") == 1);
  CAPTURE_WELL(&c, debugged);
  CHECK_SAYS(&c, "chain.c:0");
  CHECK_SAYS(&c, "chain.c:4");
  CHECK_CAPTURED(&c, count_text(&c, "kept by offset 16") == 4);
  CAPTURE_WELL(&c, other_kinds);
  CAPTURE_WELL(&c, addresses);
  CHECK_SAYS(&c, "object at");
  CHECK_SAYS(&c, "no object at");
  CAPTURE_WELL(&c, disabled);
  CAPTURE_WELL(&c, wrong);
  CHECK_CAPTURED(&c, count_text(&c, "GC_get_back_ptr_info") == 2);
  CHECK_SAYS(&c, "GC_print_backtrace");
  return check_result();
}
