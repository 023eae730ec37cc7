/* Objects of every sort resized: what refers to others goes on doing so, what an object gains is
 * zero; and sizes that cannot exist. */
#include "check.h"

#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

enum { kCount = 200 };

static void **all; /* not static in a function: the compiler would drop stores nobody reads */

/* --- Types go with their objects --- */

struct typed {
  struct watch known, ignored; /* by a word that is a pointer, and by one that is none */
  size_t from, to;             /* words, or elements of four words */
  int array;
  int conservative; /* there was no memory for the descriptor's bitmap: all words are pointers */
};

/* Of each element the second word is a pointer. */
static void *make_typed(void *arg) {
  struct typed *t = (struct typed *)arg;
  GC_word bits[2] = {0, 0};
  GC_set_bit(bits, 1);
  if (!t->array && t->from > 64) GC_set_bit(bits, 65); /* no bitmap in a word */
  GC_descr descriptor = GC_make_descriptor(bits, t->array ? 4 : 66);
  t->conservative = (descriptor & GC_DS_TAGS) == GC_DS_LENGTH;
  for (size_t i = 0; i < kCount; i++) {
    const size_t words = t->array ? 4 * t->to : t->to;
    GC_word *object = (GC_word *)(t->array ? GC_calloc_explicitly_typed(t->from, 32, descriptor)
                                           : GC_malloc_explicitly_typed(8 * t->from, descriptor));
    const size_t last = t->array ? 4 * ((t->from < t->to ? t->from : t->to) - 1) : 0;
    void *known = GC_malloc(32), *ignored = GC_malloc(32);
    object[last] = (GC_word)ignored;
    object[last + 1] = (GC_word)known;
    watch_object(&t->known, i, known);
    watch_object(&t->ignored, i, ignored);
    object = (GC_word *)GC_realloc(object, 8 * words);
    CHECK_EQ(object[last + 1], (GC_word)known);
    for (size_t j = t->array ? 4 * t->from : t->from; j < words; j++) CHECK_EQ(object[j], 0);
    if (t->array && t->to > t->from) { /* what is gained is elements, too */
      object[4 * (t->to - 1) + 1] = object[last + 1];
      object[last + 1] = 0;
    }
    all[i] = object;
  }
  return NULL;
}

static void typed(size_t from, size_t to, int array) {
  struct typed t;
  t.from = from;
  t.to = to;
  t.array = array;
  all = (void **)GC_malloc_uncollectable(kCount * sizeof *all);
  watch_init(&t.known, kCount);
  watch_init(&t.ignored, kCount);
  run_in_thread(make_typed, &t);
  collect();
  GC_gcollect();
  CHECK_EQ(watch_gone(&t.known), 0);
  if (getenv("GLEANER_FAILURES") == NULL) CHECK(!t.conservative);
  if (!t.conservative) CHECK_MOSTLY(watch_gone(&t.ignored), kCount);
  watch_end(&t.known);
  watch_end(&t.ignored);
  GC_free(all);
}

/* --- What is gained is zero --- */

static struct GC_ms_entry *mark_all(GC_word *object, struct GC_ms_entry *top,
                                    struct GC_ms_entry *limit, GC_word environment) {
  for (size_t i = 0; i < GC_size(object) / sizeof *object; i++) {
    top = GC_mark_and_push((void *)object[i], top, limit, NULL);
  }
  return top;
}

static void fill(unsigned char *object, size_t begin, size_t end) {
  memset(object + begin, 0xab, end - begin);
}

/* Along sizes, each time filled up. */
static void resize(int kind) {
  static const size_t sizes[] = {30,   17,     32,    20,    64,   40,    200,   130,   250,
                                 3000, 1700,   2990,  8000,  4100, 20000, 11000, 19999, 30000,
                                 9000, 100000, 70000, 99999, 16,   40000, 33000, 50000, 1};
  size_t j, before = 24;
  unsigned char *object = (unsigned char *)GC_generic_or_special_malloc(before, kind);
  fill(object, 0, before);
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    const size_t size = sizes[i], kept = size < before ? size : before;
    object = (unsigned char *)GC_realloc(object, size);
    for (j = 0; j < kept && object[j] == 0xab; j++) {
    }
    CHECK_EQ(j, kept);
    for (; j < size && (kind == GC_I_PTRFREE || object[j] == 0); j++) {
    }
    if (j != size) fprintf(stderr, "kind %d, from %zu to %zu:\n", kind, before, size);
    CHECK_EQ(j, size);
    fill(object, 0, size);
    before = size;
  }
  GC_free(object);
}

static void resize_all(void) {
  const unsigned procedure = GC_new_proc(mark_all);
  const int by_procedure = (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(procedure, 0), 0, 1);
  const int by_length = (int)GC_new_kind(GC_new_free_list(), GC_DS_LENGTH, 1, 1);
  const int at_end =
      (int)GC_new_kind(GC_new_free_list(), (-sizeof(GC_word)) | GC_DS_PER_OBJECT, 1, 1);
  for (int round = 0; round < 3; round++) { /* from the second on of memory that was used before */
    for (int kind = GC_I_PTRFREE; kind <= 3; kind++) {
      if (kind != 3) resize(kind);
    }
    resize(by_procedure);
    resize(by_length);
    if (on_gleaner()) resize(at_end);
    if (on_gleaner()) resize(3); /* atomic, uncollectable: zeroed here */
  }
}

/* --- Sizes that cannot be --- */

static size_t refused;
static void *refuse(size_t bytes) {
  refused++;
  return NULL;
}

static void *volatile result; /* or the compiler knows better */
#define CHECK_REFUSED(call)  \
  do {                       \
    refused = 0;             \
    result = (void *)(call); \
    CHECK_NULL(result);      \
    CHECK_EQ(refused, 1);    \
  } while (0)

static void finalize(void *object, void *data) {}

static void *none(size_t bytes) { return NULL; }

static void impossible_sizes(void) {
  static const struct GC_finalizer_closure closure = {finalize, NULL};
  static struct { GC_word name, descriptor; } type;
  GC_word bits[1] = {2};
  const GC_descr descriptor = GC_make_descriptor(bits, 2);
  GC_set_oom_fn(refuse);
  for (size_t i = 0; i < 40000; i += 1 + i / 2) {
    const volatile size_t size = (size_t)-1 - i;
    void *list = &list;
    void *typed_object = GC_malloc_explicitly_typed(100, descriptor);
    CHECK_REFUSED(GC_malloc_many(size));
    CHECK_REFUSED((GC_generic_malloc_many(size, GC_I_NORMAL, &list), list));
    CHECK_REFUSED(GC_malloc_explicitly_typed(size, descriptor));
    CHECK_REFUSED(GC_malloc_explicitly_typed_ignore_off_page(size, descriptor));
    CHECK_REFUSED(GC_calloc_explicitly_typed(1, size, descriptor));
    CHECK_REFUSED(GC_calloc_explicitly_typed(size, 8, descriptor));
    CHECK_REFUSED(GC_calloc_explicitly_typed(size / 16, 32, descriptor));
    CHECK_REFUSED(GC_realloc(typed_object, size));
    CHECK_REFUSED(GC_finalized_malloc(size, &closure));
    CHECK_REFUSED(GC_gcj_malloc(size, &type));
    CHECK_REFUSED(GC_memalign(4096, size));
    CHECK_REFUSED(GC_memalign((size_t)1 << 62, size));
    CHECK_REFUSED(GC_memalign((size_t)1 << 62, 16));
    CHECK_REFUSED(GC_valloc(size));
    CHECK_REFUSED(GC_pvalloc(size));
  }
  /* None of these elements has any bytes. */
  all = (void **)GC_calloc_explicitly_typed((size_t)1 << 60, 0, descriptor);
  CHECK(all != NULL);
  collect();
  GC_set_oom_fn(none);
}

int main(void) {
  fail_after(55);
  GC_INIT();
  GC_init_finalized_malloc();
  GC_init_gcj_malloc(0, (void *)mark_all);
  resize_all();
  if (!on_gleaner()) return check_result();
  typed(3, 4, 0);
  typed(3, 40, 0);
  typed(100, 60, 0);
  typed(100, 20, 0);
  typed(100, 70000, 0);
  typed(70000, 100000, 0);
  typed(70000, 40000, 0);
  typed(70000, 100, 0);
  typed(1, 2, 1);
  typed(1, 700, 1);
  typed(2, 3, 1);
  typed(2, 30, 1);
  typed(30, 17, 1);
  typed(30, 2, 1);
  typed(30, 5000, 1);
  typed(5000, 6000, 1);
  typed(5000, 3000, 1);
  typed(5000, 3, 1);
  impossible_sizes();
  return check_result();
}
