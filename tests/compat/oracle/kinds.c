/* Kinds, descriptors, mark procedures, typed objects. */
#include "gc_gcj.h"
#include "gc_inline.h"
#include "gc_mark.h"
#include "gc_typed.h"
#include "oracle.h"

static void constants(void) {
  SHOW(GC_I_PTRFREE);
  SHOW(GC_I_NORMAL);
  SHOW(GC_GRANULE_BYTES);
  SHOW(GC_GRANULE_WORDS);
  SHOW(GC_TINY_FREELISTS);
  SHOW(GC_RAW_BYTES_FROM_INDEX(3));
  SHOW(GC_DS_TAG_BITS);
  SHOW(GC_DS_TAGS);
  SHOW(GC_DS_LENGTH);
  SHOW(GC_DS_BITMAP);
  SHOW(GC_DS_PROC);
  SHOW(GC_DS_PER_OBJECT);
  SHOW(GC_INDIR_PER_OBJ_BIAS);
  SHOW(GC_LOG_MAX_MARK_PROCS);
  SHOW(GC_MAX_MARK_PROCS);
  SHOW(GC_RESERVED_MARK_PROCS);
  SHOW(GC_GCJ_RESERVED_MARK_PROC_INDEX);
  SHOW(GC_PROC_BYTES);
  SHOW(GC_TYPE_DESCR_LEN);
  SHOW(GC_WORDSZ);
  SHOW(GC_MAKE_PROC(0, 0));
  SHOW(GC_MAKE_PROC(10, 0));
  SHOW(GC_MAKE_PROC(63, 1));
  SHOW(GC_MAKE_PROC(8, 0x123456));
}

static void descriptors(void) {
  static const struct {
    GC_word bits;
    size_t words;
  } bitmaps[] = {{0, 0},
                 {0, 1},
                 {0, 10},
                 {1, 1},
                 {1, 10},
                 {2, 2},
                 {2, 10},
                 {3, 2},
                 {3, 3},
                 {5, 3},
                 {7, 3},
                 {7, 8},
                 {8, 4},
                 {0xff, 8},
                 {0xfe, 8},
                 {0x55, 8},
                 {0xaaaa, 16},
                 {0xffff, 16},
                 {0x8000, 16},
                 {0x8001, 16},
                 {0xffffffff, 32},
                 {0xfffffffe, 32},
                 {0x80000000, 32},
                 {1ul << 61, 62},
                 {1ul << 60, 61},
                 {~0ul >> 2, 62},
                 {~0ul, 64},
                 {~0ul >> 1, 63},
                 {1ul << 61 | 1, 62}};
  GC_word two[2];
  size_t i;
  for (i = 0; i < sizeof bitmaps / sizeof *bitmaps; i++)
    SHOW_HEX("GC_make_descriptor", i, GC_make_descriptor(&bitmaps[i].bits, bitmaps[i].words));
  for (i = 0; i < 62; i++) {
    GC_word bit = (GC_word)1 << i;
    SHOW_HEX("one pointer at", i, GC_make_descriptor(&bit, 62));
  }
  for (i = 1; i <= 64; i += 7) {
    GC_word prefix = i == 64 ? ~(GC_word)0 : ((GC_word)1 << i) - 1;
    SHOW_HEX("pointers up to", i, GC_make_descriptor(&prefix, 64));
  }
  two[0] = ~(GC_word)0;
  two[1] = ~(GC_word)0;
  SHOW_HEX("128 pointers", 0, GC_make_descriptor(two, 128));
  SHOW_HEX("100 pointers", 0, GC_make_descriptor(two, 100));
  two[0] = 2;
  two[1] = 0;
  SHOW_HEX("128 words, one pointer", 0, GC_make_descriptor(two, 128));
  two[1] = 2;
  SHOW(GC_make_descriptor(two, 128) & GC_DS_TAGS);
  SHOW_HEX("beyond the length", 0, GC_make_descriptor(two, 1));
}

static struct GC_ms_entry *mark_nothing(GC_word *addr, struct GC_ms_entry *msp,
                                        struct GC_ms_entry *limit, GC_word env) {
  (void)addr;
  (void)limit;
  (void)env;
  return msp;
}

static void numbers(void) {
  int i;
  GC_word bits = 5;
  for (i = 0; i < 2; i++) SHOW(GC_new_kind(GC_new_free_list(), 0, 1, 1));
  for (i = 0; i < 2; i++) SHOW(GC_new_proc(mark_nothing));
  GC_malloc_explicitly_typed(24, GC_make_descriptor(&bits, 3));
  for (i = 0; i < 2; i++) SHOW(GC_new_kind(GC_new_free_list(), 0, 1, 1));
  for (i = 0; i < 2; i++) SHOW(GC_new_proc(mark_nothing));
}

static void numbers_after_typed(void) {
  int i;
  GC_word bits = 5;
  void *p = GC_malloc_explicitly_typed(24, GC_make_descriptor(&bits, 3));
  SHOW(GC_get_kind_and_size(p, NULL));
  for (i = 0; i < 5; i++) SHOW(GC_new_kind(GC_new_free_list(), 0, 1, 1));
  for (i = 0; i < 5; i++) SHOW(GC_new_proc(mark_nothing));
}

static void kinds_and_sizes(void) {
  size_t i, size;
  int kind;
  for (kind = 0; kind < 4; kind++) {
    for (i = 8; i <= 4096; i *= 4) {
      void *p = GC_generic_or_special_malloc(i, kind);
      char name[60];
      snprintf(name, sizeof name, "kind of kind %d", kind);
      SHOW_AT(name, i, GC_get_kind_and_size(p, &size));
      snprintf(name, sizeof name, "size of kind %d is GC_size", kind);
      SHOW_AT(name, i, size == GC_size(p));
      snprintf(name, sizeof name, "enough of kind %d", kind);
      SHOW_AT(name, i, size >= i);
    }
  }
  SHOW(GC_get_kind_and_size(GC_generic_malloc(100, 0), NULL));
  SHOW(GC_get_kind_and_size(GC_generic_malloc(100, 1), NULL));
  SHOW(GC_get_kind_and_size(GC_generic_malloc_ignore_off_page(20000, 0), NULL));
  SHOW(GC_get_kind_and_size(GC_generic_malloc_uncollectable(100, 2), NULL));
  SHOW(GC_get_kind_and_size(GC_malloc_kind(100, 1), NULL));
  SHOW(GC_get_kind_and_size(GC_malloc_kind(100, 0), NULL));
  SHOW(GC_get_kind_and_size(GC_malloc_kind_global(100, 1), NULL));
  SHOW(GC_get_kind_and_size(GC_strdup("x"), NULL));
  SHOW(GC_get_kind_and_size(GC_memalign(64, 10), NULL));
}

static size_t count(void *list, size_t words) {
  size_t n = 0, i, dirty = 0;
  for (; list != NULL && n < 100000; list = *(void **)list, n++)
    for (i = 1; i < words; i++) dirty += ((GC_word *)list)[i] != 0;
  return dirty ? 0 : n;
}
static void lists(void) {
  size_t i;
  for (i = 1; i < GC_TINY_FREELISTS; i++) {
    void *list = NULL;
    GC_generic_malloc_many(i * GC_GRANULE_BYTES, GC_I_NORMAL, &list);
    SHOW_AT("GC_generic_malloc_many gives zeroed objects", i, count(list, 2 * i) > 0);
    SHOW_AT("their kind", i, GC_get_kind_and_size(list, NULL));
    SHOW_AT("large enough", i, GC_size(list) >= i * GC_GRANULE_BYTES);
  }
  for (i = 8; i <= 512; i *= 2)
    SHOW_AT("GC_malloc_many", i, count(GC_malloc_many(i), i / sizeof(GC_word)) > 0);
  SHOW(GC_NEXT(GC_malloc_many(2000)) != (void *)1);
  {
    void *list = NULL;
    GC_generic_malloc_many(100000, GC_I_NORMAL, &list);
    SHOW(count(list, 10));
  }
}

static void typed(void) {
  GC_word bits = 2;
  GC_descr d = GC_make_descriptor(&bits, 2);
  size_t size, i;
  volatile size_t impossible = (size_t)-8;
  void *p = GC_malloc_explicitly_typed(16, d);
  SHOW(GC_size(p) >= 16);
  SHOW(((GC_word *)p)[0]);
  SHOW(((GC_word *)p)[1]);
  SHOW(GC_base(p) == p);
  p = GC_malloc_explicitly_typed_ignore_off_page(100000, d);
  SHOW(GC_size(p) >= 100000);
  for (i = 0; i <= 1000; i = i * 3 + 1) {
    p = GC_calloc_explicitly_typed(i, 16, d);
    SHOW_AT("GC_calloc_explicitly_typed", i, GC_size(p) >= i * 16);
    SHOW_AT("its base", i, GC_base(p) == p);
  }
  SHOW(GC_calloc_explicitly_typed((size_t)-1 / 4, 16, d) == NULL);
  SHOW(GC_calloc_explicitly_typed((size_t)1 << 62, 8, d) == NULL);
  SHOW(GC_malloc_explicitly_typed(impossible, d) == NULL);
  GC_get_kind_and_size(GC_malloc_explicitly_typed(24, d), &size);
  SHOW(size >= 24);
}

static GC_word type_table[4] = {0, 16, 0, 0};
static void gcj(void) {
  void **p;
  GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)(uintptr_t)mark_nothing);
  p = (void **)GC_gcj_malloc(64, type_table);
  SHOW(p[0] == (void *)type_table);
  SHOW((GC_word)p[1]);
  SHOW(GC_base(p) == p);
  SHOW(GC_get_kind_and_size(p, NULL) == GC_gcj_kind);
  p = (void **)GC_gcj_malloc_ignore_off_page(100000, type_table);
  SHOW(p[0] == (void *)type_table);
  SHOW(GC_get_kind_and_size(p, NULL) == GC_gcj_kind);
  GC_init_gcj_malloc(GC_GCJ_RESERVED_MARK_PROC_INDEX, (void *)(uintptr_t)mark_nothing);
  SHOW(GC_gcj_malloc(16, type_table) != NULL);
}

static size_t enumerated;
static void GC_CALLBACK enumerate(void *object, size_t bytes, void *data) {
  if (object == data) enumerated += bytes >= 40;
}
static void *GC_CALLBACK enumerate_locked(void *data) {
  GC_enumerate_reachable_objects_inner(enumerate, data);
  return NULL;
}
static void marks(void) {
  void *volatile p = GC_malloc(40);
  GC_gcollect();
  SHOW(GC_is_marked(p));
  GC_call_with_alloc_lock(enumerate_locked, p);
  SHOW(enumerated);
  GC_set_mark_bit(p);
  SHOW(GC_is_marked(p));
  GC_push_finalizer_structures();
}

const struct oracle_section kind_sections[] = {{"kind_constants", constants, 0},
                                               {"descriptors", descriptors, 1},
                                               {"kind_numbers", numbers, 1},
                                               {"kind_numbers_after_typed", numbers_after_typed, 1},
                                               {"kinds_and_sizes", kinds_and_sizes, 1},
                                               {"lists", lists, 1},
                                               {"typed", typed, 1},
                                               {"gcj", gcj, 1},
                                               {"marks", marks, 1},
                                               {NULL, NULL, 0}};
