/* Kinds made by the program: descriptors of all four sorts, which are ABI, the numbers of kinds and
   procedures, what an object's kind is, and the enumeration of objects. Rule 13. */
#include "check.h"

#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gc/javaxfc.h>

enum { kCount = 1000, kWords = 8, kEnvironment = 77, kNoWord = kWords };

static void constants(void) {
  CHECK_EQ(GC_DS_TAG_BITS, 2);
  CHECK_EQ(GC_DS_TAGS, 3);
  CHECK_EQ(GC_DS_LENGTH, 0);
  CHECK_EQ(GC_DS_BITMAP, 1);
  CHECK_EQ(GC_DS_PROC, 2);
  CHECK_EQ(GC_DS_PER_OBJECT, 3);
  CHECK_EQ(GC_INDIR_PER_OBJ_BIAS, 0x10);
  CHECK_EQ(GC_LOG_MAX_MARK_PROCS, 6);
  CHECK_EQ(GC_MAX_MARK_PROCS, 64);
  CHECK_EQ(GC_RESERVED_MARK_PROCS, 8);
  CHECK_EQ(GC_GCJ_RESERVED_MARK_PROC_INDEX, 0);
  CHECK_EQ(GC_PROC_BYTES, 100);
  CHECK_EQ(GC_TYPE_DESCR_LEN, 40);
  CHECK_EQ(GC_WORDSZ, 64);
  CHECK_EQ(GC_MAKE_PROC(0, 0), 2);
  CHECK_EQ(GC_MAKE_PROC(10, 5), (5 << 8) | (10 << 2) | 2);
  CHECK_EQ(GC_MAKE_PROC(8, 0x123456), 305419810);
}

static int calls;
static GC_word seen_environment;
static struct GC_ms_entry *mark_second(GC_word *addr, struct GC_ms_entry *msp,
                                       struct GC_ms_entry *limit, GC_word env) {
  __sync_fetch_and_add(&calls, 1);
  seen_environment = env;
  return GC_MARK_AND_PUSH((void *)addr[1], msp, limit, (void **)&addr[1]);
}
static struct GC_ms_entry *mark_nothing(GC_word *addr, struct GC_ms_entry *msp,
                                        struct GC_ms_entry *limit, GC_word env) {
  return msp;
}

/* Objects of the kind, each word of which refers to an object, but for one that has another value.
 */
struct making {
  int kind;
  size_t other; /* kNoWord for none */
  GC_word value;
  struct watch watch[kWords];
};
static GC_word **holders[kCount];
static void *make(void *arg) {
  struct making *m = (struct making *)arg;
  for (size_t i = 0; i < kCount; i++) {
    GC_word *holder = (GC_word *)(i % 2 ? GC_malloc_kind(8 * kWords, m->kind)
                                        : GC_generic_malloc(8 * kWords, m->kind));
    CHECK_EQ(GC_get_kind_and_size(holder, NULL), m->kind);
    for (size_t j = 0; j < kWords; j++) {
      void *p = GC_malloc(32);
      CHECK_EQ(holder[j], 0);
      holder[j] = (GC_word)p;
      watch_object(&m->watch[j], i, p);
    }
    if (m->other != kNoWord) holder[m->other] = m->value;
    holders[i] = (GC_word **)holder;
  }
  return NULL;
}

/* `expected`: bit j is set if word j keeps its object. Returns the kind. */
static int check_kind(const char *what, GC_word descriptor, int add_size, unsigned expected,
                      size_t other, GC_word value) {
  struct making m;
  m.kind = (int)GC_new_kind(GC_new_free_list(), descriptor, add_size, 1);
  m.other = other;
  m.value = value;
  for (size_t j = 0; j < kWords; j++) watch_init(&m.watch[j], kCount);
  make_in_thread(make, &m);
  for (size_t round = 0; round < 2; round++) {
    collect();
    collect();
    for (size_t j = 0; j < kWords; j++) {
      size_t gone = watch_gone(&m.watch[j]);
      if ((expected >> j & 1) ? gone == 0 : gone >= kCount - kCount / 10) continue;
      fprintf(stderr, "%s: round %zu, word %zu: %zu of %d are gone\n", what, round, j, gone,
              kCount);
      check_failures++;
    }
    memset(holders, 0, sizeof holders);
    expected = 0;
  }
  for (size_t j = 0; j < kWords; j++) watch_end(&m.watch[j]);
  return m.kind;
}

static void descriptors(void) {
  static GC_word type[2] = {0, 24}; /* a type's second word is the descriptor */
  const GC_word third = (GC_word)1 << 61 | GC_DS_BITMAP;
  const unsigned second = GC_new_proc(mark_second);
  size_t size = 0;
  check_kind("length", 0 | GC_DS_LENGTH, 1, 0xff, kNoWord, 0);
  check_kind("fixed length", 40 | GC_DS_LENGTH, 0, 0x1f, kNoWord, 0);
  check_kind("bitmap", (GC_word)0xa000000000000000 | GC_DS_BITMAP, 0, 0x05, kNoWord, 0);
  check_kind("nothing", GC_MAKE_PROC(GC_new_proc(mark_nothing), 0), 0, 0, kNoWord, 0);
  int by_procedure =
      check_kind("procedure", GC_MAKE_PROC(second, kEnvironment), 0, 0x02, kNoWord, 0);
  CHECK_GE(calls, kCount);
  CHECK_EQ(seen_environment, kEnvironment);
  check_kind("in word 0", 0 | GC_DS_PER_OBJECT, 0, 0x06, 0,
             (GC_word)0x6000000000000000 | GC_DS_BITMAP);
  check_kind("in word 1", 8 | GC_DS_PER_OBJECT, 0, 0x04, 1, third);
  check_kind("in the type",
             (GC_word)(-(GC_signed_word)8 - GC_INDIR_PER_OBJ_BIAS) | GC_DS_PER_OBJECT, 0, 0x06, 0,
             (GC_word)type);
  CHECK_EQ(GC_get_kind_and_size(GC_generic_malloc(100000, by_procedure), &size), by_procedure);
  CHECK_GE(size, 100000);
}

/* The library's own kinds. */
static void kinds_and_sizes(void) {
  size_t size;
  int kind;
  for (kind = 0; kind < 4; kind++)
    for (size_t i = 8; i <= 4096; i *= 4) {
      void *p = GC_generic_or_special_malloc(i, kind);
      CHECK_EQ(GC_get_kind_and_size(p, &size), kind);
      CHECK_EQ(size, GC_size(p));
      CHECK_GE(size, i);
    }
#define CHECK_KIND(object, kind) CHECK_EQ(GC_get_kind_and_size(object, NULL), kind)
  CHECK_KIND(GC_malloc(8), GC_I_NORMAL);
  CHECK_KIND(GC_malloc_atomic(8), GC_I_PTRFREE);
  CHECK_KIND(GC_malloc_uncollectable(8), 2);
  CHECK_KIND(GC_malloc_atomic_uncollectable(8), 3);
  CHECK_KIND(GC_malloc_ignore_off_page(100000), GC_I_NORMAL);
  CHECK_KIND(GC_malloc_atomic_ignore_off_page(100000), GC_I_PTRFREE);
  CHECK_KIND(GC_generic_malloc_ignore_off_page(20000, 0), GC_I_PTRFREE);
  CHECK_KIND(GC_generic_malloc_uncollectable(100, 2), 2);
  CHECK_KIND(GC_malloc_kind(100, 1), GC_I_NORMAL);
  CHECK_KIND(GC_malloc_kind(100, 0), GC_I_PTRFREE);
  CHECK_KIND(GC_malloc_kind_global(100, 1), GC_I_NORMAL);
  CHECK_KIND(GC_strdup("x"), GC_I_PTRFREE);
  CHECK_KIND(GC_memalign(64, 10), GC_I_NORMAL);
  CHECK_KIND(GC_realloc(GC_malloc(10), 5000), GC_I_NORMAL);
  CHECK_KIND(GC_realloc(GC_malloc_atomic(10), 5000), GC_I_PTRFREE);
  CHECK_KIND(GC_realloc(GC_malloc_uncollectable(10), 5000), 2);
}

/* What a program gets: typed objects take the next two of each when they are used first. */
static void numbers(void *typed_first) {
  const GC_word bits = 5;
  unsigned kind = 4, proc = 8, round;
  GC_INIT();
  for (round = 0; round < 2; round++) {
    if ((typed_first != NULL) == (round == 0)) {
      const void *p = GC_malloc_explicitly_typed(24, GC_make_descriptor(&bits, 3));
      CHECK_EQ(GC_get_kind_and_size(p, NULL), (int)kind);
      kind += 2;
      proc += 2;
    }
    CHECK_EQ(GC_new_kind(GC_new_free_list(), 0, 1, 1), kind++);
    CHECK_EQ(GC_new_proc(mark_nothing), proc++);
  }
  while (kind < 16) CHECK_EQ(GC_new_kind(GC_new_free_list(), 0, 1, 1), kind++);
  while (proc < 64) CHECK_EQ(GC_new_proc(mark_nothing), proc++);
  memset(GC_generic_malloc(40, 15), 1, 40);
  GC_gcollect();
}

/* All objects, by enumeration. */
struct tally {
  size_t objects, bytes, found;
  void *wanted;
};
static void GC_CALLBACK count_object(void *object, size_t bytes, void *data) {
  struct tally *tally = (struct tally *)data;
  tally->objects++;
  tally->bytes += bytes;
  tally->found += object == tally->wanted;
}
static void *enumerate(void *data) {
  GC_enumerate_reachable_objects_inner(count_object, data);
  return NULL;
}

void *kept; /* not static: the compiler would drop stores nobody reads */

static void enumeration(void) {
  struct tally tally = {0};
  kept = tally.wanted = GC_malloc(100000);
  collect();
  CHECK(GC_is_marked(kept));
  GC_call_with_alloc_lock(enumerate, &tally);
  CHECK_EQ(tally.found, 1);
  CHECK_GE(tally.bytes, 100000);
  CHECK_GE(tally.objects, 1);
  GC_set_mark_bit(kept);
  CHECK(GC_is_marked(kept));
  GC_push_finalizer_structures();
}

int main(void) {
  fail_after(60);
  constants();
  CHECK_IN_CHILD(numbers, NULL);
  CHECK_IN_CHILD(numbers, &kept);
  GC_INIT();
  descriptors();
  kinds_and_sizes();
  enumeration();
  return check_result();
}
