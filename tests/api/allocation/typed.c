/* Typed objects and arrays, objects described by their type, objects with a finalizer in their
 * header, and disclaim procedures. */
#include "check.h"
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>

enum { COUNT = 500 };

void **all; /* not static: the compiler would drop stores nobody reads */

/* What a bitmap comes to: a length if it is a prefix, the bits themselves, the first one highest,
   if they have room beside the tag, else a procedure. Rule 13. */
static GC_descr expected_descriptor(GC_word bits, size_t length) {
  GC_word reversed = 0;
  size_t last = 0, i;
  for (i = 0; i < length && i < 64; i++)
    if (bits >> i & 1) {
      last = i + 1;
      reversed |= (GC_word)1 << (63 - i);
    }
  if (length < 64) bits &= ((GC_word)1 << length) - 1;
  if ((bits & (bits + 1)) == 0) return last * 8 | GC_DS_LENGTH;
  return last <= 62 ? reversed | GC_DS_BITMAP : GC_DS_PROC;
}

static void check_bitmaps(void) {
  GC_word bits[3], random = 4711;
  size_t length;
  memset(bits, 0xff, sizeof bits);
  for (length = 0; length <= 150; length++) {
    CHECK_EQ(GC_make_descriptor(bits, length), (length * 8) | GC_DS_LENGTH);
  }
  memset(bits, 0, sizeof bits);
  CHECK_EQ(GC_make_descriptor(bits, 150), 0);
  bits[0] = 5;
  CHECK_EQ(GC_make_descriptor(bits, 3), 0xa000000000000001ul);
  CHECK_EQ(GC_make_descriptor(bits, 150), 0xa000000000000001ul);
  bits[0] = 2;
  bits[1] = 2;
  CHECK_EQ(GC_make_descriptor(bits, 100) & GC_DS_TAGS, GC_DS_PROC);
  CHECK_EQ(GC_make_descriptor(bits, 2), 0x4000000000000001ul); /* the rest does not count */
  for (size_t i = 0; i < 62; i++) {
    bits[0] = (GC_word)1 << i;
    CHECK_EQ(GC_make_descriptor(bits, 62), expected_descriptor(bits[0], 62));
  }
  for (size_t i = 0; i < 200; i++) { /* some of few bits, some of many */
    random = random * 6364136223846793005ul + 1442695040888963407ul;
    length = 1 + (random >> 58) % 62;
    bits[0] = i % 3 ? random : i % 2 ? random & random << 7 & random << 21 : random | random << 9;
    CHECK_EQ(GC_make_descriptor(bits, length), expected_descriptor(bits[0], length));
  }
}

/* Arrays of any number of elements, down to none; sizes that cannot be. */
static void arrays(void) {
  const GC_word bits = 2;
  const GC_descr descriptor = GC_make_descriptor(&bits, 2);
  const volatile size_t impossible = (size_t)-8;
  for (size_t i = 0; i <= 1000; i = i * 3 + 1) {
    void *p = GC_calloc_explicitly_typed(i, 16, descriptor);
    CHECK_GE(GC_size(p), i * 16);
    CHECK_PTR(GC_base(p), p);
  }
  CHECK_GE(GC_size(GC_malloc_explicitly_typed_ignore_off_page(100000, descriptor)), 100000);
  CHECK_NULL(GC_calloc_explicitly_typed(impossible / 4, 16, descriptor));
  CHECK_NULL(GC_calloc_explicitly_typed((size_t)1 << 62, 8, descriptor));
  CHECK_NULL(GC_malloc_explicitly_typed(impossible, descriptor));
}

/* Objects of `words` words whose words `pointers` (every `step`th, from 1 on) are pointers; all
 * others hold addresses that must not count. */
static NOINLINE void fill(struct watch *counted, struct watch *ignored, size_t words, size_t step,
                          int in_arrays) {
  GC_word bits[11];
  memset(bits, 0, sizeof bits);
  for (size_t w = 1; w < words; w += step) GC_set_bit(bits, w);
  GC_descr descriptor = GC_make_descriptor(bits, words);
  all = (void **)GC_malloc(COUNT * sizeof *all);
  for (size_t i = 0; i < COUNT; i++) {
    size_t elements = in_arrays ? 1 + i % 7 : 1;
    GC_word *object = in_arrays
                          ? (GC_word *)GC_CALLOC_EXPLICITLY_TYPED(elements, words * 8, descriptor)
                          : (GC_word *)GC_MALLOC_EXPLICITLY_TYPED(words * 8, descriptor);
    GC_word *element = object + (elements - 1) * words;
    void *target = GC_malloc(32), *other = GC_malloc(32);
    size_t last = 1 + (words - 2) / step * step;
    for (size_t w = 0; w < elements * words; w++) CHECK_EQ(object[w], 0);
    element[last] = (GC_word)target;
    element[last - 1] = (GC_word)other;
    watch_object(counted, i, target);
    watch_object(ignored, i, other);
    all[i] = object;
  }
}

struct request {
  struct watch *counted, *ignored;
  size_t words, step;
  int in_arrays;
};

static void *fill_requested(void *arg) {
  const struct request *r = (const struct request *)arg;
  fill(r->counted, r->ignored, r->words, r->step, r->in_arrays);
  return NULL;
}

static void typed(size_t words, size_t step, int in_arrays) {
  struct watch counted, ignored;
  struct request request;
  request.counted = &counted;
  request.ignored = &ignored;
  request.words = words;
  request.step = step;
  request.in_arrays = in_arrays;
  watch_init(&counted, COUNT);
  watch_init(&ignored, COUNT);
  run_in_thread(fill_requested, &request);
  collect();
  CHECK_KEPT(&counted);
  CHECK_MOSTLY(watch_gone(&ignored), COUNT);
  all = NULL;
  collect();
  CHECK_GONE(&counted);
  watch_end(&counted);
  watch_end(&ignored);
}

static struct GC_ms_entry *mark_fifth(GC_word *addr, struct GC_ms_entry *msp,
                                      struct GC_ms_entry *limit, GC_word env) {
  if (addr[0] == 0 || env != 0) return msp;
  return GC_MARK_AND_PUSH((void *)addr[4], msp, limit, (void **)&addr[4]);
}

/* A table like guile's: an entry is typed, so that only its strong half is searched, and the weak
   half is a disappearing link in it. Rule 25. */
struct entry {
  GC_word hash;
  void *key; /* weak */
  void *value;
};
static struct entry **table;
static void *strong_keys[COUNT];
static void *fill_table(void *arg) {
  for (size_t i = 0; i < COUNT; i++) {
    struct entry *e = (struct entry *)GC_malloc_explicitly_typed(sizeof *e, *(GC_descr *)arg);
    char *value = (char *)GC_malloc(32);
    value[0] = (char)i;
    e->hash = i;
    e->key = GC_malloc(32);
    e->value = value;
    if (i % 2) strong_keys[i] = e->key;
    CHECK_EQ(GC_general_register_disappearing_link(&e->key, e->key), GC_SUCCESS);
    table[i] = e;
  }
  return NULL;
}
static void weak_table(void) {
  GC_word bits[1] = {0};
  size_t cleared = 0;
  GC_set_bit(bits, GC_WORD_OFFSET(struct entry, value));
  GC_descr weak_key = GC_make_descriptor(bits, GC_WORD_LEN(struct entry));
  table = (struct entry **)GC_malloc(COUNT * sizeof *table);
  make_in_thread(fill_table, &weak_key);
  collect();
  for (size_t i = 0; i < COUNT; i++) {
    CHECK_EQ(table[i]->hash, i);
    CHECK_EQ(*(char *)table[i]->value, (char)i); /* the strong half is searched */
    if (i % 2)
      CHECK_PTR(table[i]->key, strong_keys[i]);
    else
      cleared += table[i]->key == NULL;
  }
  CHECK_MOSTLY(cleared, COUNT / 2);
}

struct type {
  GC_word table;
  GC_word descriptor;
};
static struct type by_bitmap = {0, (GC_word)1 << 59 | GC_DS_BITMAP};
static struct type by_procedure = {0, 0};

static NOINLINE void fill_gcj(struct watch *counted, struct watch *ignored) {
  all = (void **)GC_malloc(COUNT * sizeof *all);
  for (size_t i = 0; i < COUNT; i++) {
    struct type *type = i % 2 ? &by_bitmap : &by_procedure;
    GC_word *object =
        (GC_word *)(i % 3 ? GC_GCJ_MALLOC(48, type) : GC_GCJ_MALLOC_IGNORE_OFF_PAGE(48, type));
    void *target = GC_malloc(32), *other = GC_malloc(32);
    CHECK_PTR(object[0], type);
    CHECK_EQ(object[1], 0);
    CHECK_PTR(GC_base(object), object);
    CHECK_EQ(GC_get_kind_and_size(object, NULL), GC_gcj_kind);
    object[4] = (GC_word)target;
    object[3] = (GC_word)other;
    watch_object(counted, i, target);
    watch_object(ignored, i, other);
    all[i] = object;
  }
}

static void gcj(void) {
  struct watch counted, ignored;
  GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)mark_fifth);
  GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)mark_fifth);
  by_procedure.descriptor = GC_MAKE_PROC(GC_GCJ_RESERVED_MARK_PROC_INDEX, 0);
  all = (void **)GC_gcj_malloc_ignore_off_page(100000, &by_bitmap);
  CHECK_EQ(GC_get_kind_and_size(all, NULL), GC_gcj_kind);
  watch_init(&counted, COUNT);
  watch_init(&ignored, COUNT);
  fill_gcj(&counted, &ignored);
  collect();
  CHECK_KEPT(&counted);
  CHECK_MOSTLY(watch_gone(&ignored), COUNT);
  all = NULL;
  watch_end(&counted);
  watch_end(&ignored);
}

/* Objects with a closure: each refers to the next, which must be there when the closure runs. */
struct node {
  struct node *next;
  GC_word value;
};
static size_t closures, wrong;

static void GC_CALLBACK last_rites(void *object, void *data) {
  struct node *node = (struct node *)object;
  CHECK_PTR(data, &closures);
  closures++;
  if (node->next != NULL && node->next->value != node->value - 1) wrong++;
  node->value = node->value; /* may be touched */
}

static const struct GC_finalizer_closure closure = {last_rites, &closures};

#define CHAIN 4 /* its nodes go one by one, in as many collections */

static void *make_chains(void *arg) {
  struct node *head = NULL;
  all = (void **)GC_malloc(COUNT * sizeof *all);
  for (size_t i = 0; i < COUNT; i++) {
    struct node *node = (struct node *)GC_finalized_malloc(sizeof *node, &closure);
    CHECK(node != NULL && node->next == NULL && node->value == 0);
    CHECK_EQ((GC_word)node % 8, 0);
    node->next = i % CHAIN == 0 ? NULL : head;
    node->value = i;
    head = node;
    all[i] = node;
  }
  return arg;
}

static void finalized(void) {
  GC_init_finalized_malloc();
  run_in_thread(make_chains, NULL);
  collect();
  CHECK_EQ(closures, 0);
  all = NULL;
  for (size_t round = 0; round < 2 * CHAIN; round++) collect();
  GC_gcollect();
  CHECK_MOSTLY(closures, COUNT);
  CHECK_LE(closures, COUNT);
  CHECK_EQ(wrong, 0);
}

static size_t asked;
static int refuse;
static int GC_CALLBACK may_go(void *object) {
  /* libgc asks about slots on its free lists, too. */
  if (((GC_word *)object)[1] != 4711) {
    CHECK(!on_gleaner() && ((GC_word *)object)[1] == 0);
    return 0;
  }
  asked++;
  return refuse;
}

static NOINLINE void make_disclaimed(int kind, size_t bytes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    GC_word *object = (GC_word *)GC_malloc_kind(bytes, kind);
    object[1] = 4711;
  }
}

static void *in_another_thread(void *kind) {
  make_disclaimed((int)(GC_word)kind, 40, COUNT);
  make_disclaimed((int)(GC_word)kind, 100000, 10);
  return NULL;
}

static void disclaimed(void) {
  int kind = (int)GC_new_kind(GC_new_free_list(), 0 | GC_DS_LENGTH, 1, 1);
  GC_register_disclaim_proc(kind, may_go, 0);
  refuse = 1;
  run_in_thread(in_another_thread, (void *)(GC_word)kind);
  collect();
  GC_gcollect();
  CHECK_MOSTLY(asked, COUNT + 10);
  asked = 0;
  refuse = 0;
  collect(); /* refused then, asked again now */
  GC_gcollect();
  CHECK_MOSTLY(asked, COUNT + 10);
  asked = 0;
  GC_gcollect();
  GC_gcollect();
  CHECK_LE(asked, COUNT / 10);
  GC_register_disclaim_proc(kind, 0, 0);
}

int main(void) {
  fail_after(60);
  GC_INIT();
  check_bitmaps();
  arrays();
  weak_table();
  typed(3, 2, 0);
  typed(20, 3, 0);
  typed(62, 2, 0);
  typed(64, 2, 0);
  typed(200, 2, 0);
  typed(700, 9, 0);
  typed(4, 2, 1);
  typed(30, 2, 1);
  typed(90, 2, 1);
  gcj();
  finalized();
  disclaimed();
  return check_result();
}
