/* The allocation functions one by one: what their results contain, how they are aligned, what they
   keep when they are resized, and the results of bad arguments. Rules 26 (results of
   realloc, strdup, memalign), 27 (zeroing). */
#define GC_REQUIRE_WCSDUP
#include "check.h"

#include <wchar.h>

static int is_filled(const void *object, int byte, size_t size) {
  const unsigned char *p = (const unsigned char *)object;
  for (size_t i = 0; i < size; i++)
    if (p[i] != (unsigned char)byte) return 0;
  return 1;
}

static const size_t kSizes[] = {0,     1,     7,     8,      15,      16,     17,   31,   32,
                                33,    48,    64,    100,    128,     129,    256,  257,  500,
                                512,   1000,  1024,  2047,   2048,    2049,   4095, 4096, 10000,
                                16384, 16385, 65536, 100000, 1 << 20, 5000001};
enum { kSizeCount = sizeof kSizes / sizeof *kSizes };

/* Every call's result, dirtied and dropped, so that later rounds get used memory. Pointer-free
   objects are not cleared. */
static void zeroed_and_aligned(void) {
  size_t not_cleared = 0;
  for (size_t round = 0; round < 20; round++)
    for (size_t i = 0; i < kSizeCount; i++) {
      size_t size = kSizes[i];
      void *zeroed[6], *uncollectable[2];
      zeroed[0] = GC_malloc(size);
      zeroed[1] = GC_MALLOC(size);
      zeroed[2] = GC_malloc_ignore_off_page(size);
      zeroed[3] = GC_malloc_stubborn(size);
      zeroed[4] = GC_malloc_uncollectable(size);
      zeroed[5] = GC_malloc_atomic(size);
      uncollectable[0] = GC_malloc_atomic_uncollectable(size);
      uncollectable[1] = zeroed[4];
      for (size_t k = 0; k < 6; k++) {
        CHECK(zeroed[k] != NULL);
        CHECK_EQ((uintptr_t)zeroed[k] % 16, 0);
        CHECK_PTR(GC_base(zeroed[k]), zeroed[k]);
        CHECK_GE(GC_size(zeroed[k]), size);
        if (k < 5) CHECK(is_filled(zeroed[k], 0, size));
        if (k == 5) not_cleared += !is_filled(zeroed[k], 0, size);
        memset(zeroed[k], 0xa5, size);
      }
      memset(uncollectable[0], 0x5a, size);
      CHECK(is_filled(zeroed[4], 0xa5, size));
      CHECK(is_filled(GC_malloc_atomic_ignore_off_page(size), 0, 0));
      GC_free(uncollectable[0]);
      GC_free(uncollectable[1]);
    }
  CHECK_GE(not_cleared, 1);
}

static void resizing(void) {
  char *p, *q;
  /* Any size to any size: the common part stays, the gain is zero. */
  for (size_t i = 1; i < kSizeCount; i++)
    for (size_t j = 1; j < kSizeCount; j++) {
      size_t from = kSizes[i], to = kSizes[j], common = from < to ? from : to, old_size;
      p = (char *)GC_malloc(from);
      old_size = GC_size(p);
      memset(p, 0x77, from);
      q = (char *)GC_realloc(p, to);
      CHECK(q != NULL);
      CHECK(is_filled(q, 0x77, common));
      CHECK_GE(GC_size(q), to);
      /* What lies between the requested and the real size of the old object may be anything. */
      if (from == old_size) CHECK(is_filled(q + common, 0, to - common));
      /* Only what shrinks to less than half moves; libgc halves the size in whole OS pages. */
      if (q != p && from >= to) CHECK_LE(to, old_size / 2 + 2048);
      if (to * 2 < from && from >= 100) CHECK_LE(GC_size(q), old_size / 2 + 2048);
    }
  /* Grown in steps, zero behind what was written. */
  p = NULL;
  for (size_t i = 1; i < 3000; i += 7) {
    p = (char *)GC_realloc(p, i * 16);
    CHECK(is_filled(p + (i > 7 ? i - 7 : 0), 0, 1));
    memset(p, 1, i);
  }
  /* The sort of object stays: an atomic one remains unsearched, an uncollectable one lives on. */
  p = (char *)GC_realloc(GC_malloc_uncollectable(64), 4000);
  memset(p, 3, 4000);
  q = (char *)GC_HIDE_POINTER(p);
  p = NULL;
  collect();
  CHECK(is_filled(GC_REVEAL_POINTER(q), 3, 4000));
  GC_free(GC_REVEAL_POINTER(q));

  p = (char *)GC_realloc(NULL, 100);
  CHECK(p != NULL && is_filled(p, 0, 100));
  CHECK(GC_realloc(NULL, 0) != NULL);
  CHECK_NULL(GC_realloc(p, 0));
  p = (char *)GC_malloc(100000);
  CHECK_PTR(GC_realloc(p, 60000), p);
  CHECK(GC_realloc(p, 20000) != p);
  p = (char *)GC_malloc(1000);
  CHECK_PTR(GC_realloc(p, 900), p);
  CHECK(GC_realloc(p, 400) != p);
  p = (char *)GC_malloc(10);
  CHECK_PTR(GC_realloc(p, 10), p);
}

static void alignments(void) {
  for (size_t align = 1; align <= 4096; align *= 2) {
    static const size_t sizes[] = {1, 16, 33, 100, 500, 1000, 2500, 5000, 12000, 20000, 70000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
      char *p = (char *)GC_memalign(align, sizes[i]);
      void *q = NULL;
      CHECK(p != NULL);
      CHECK_EQ((uintptr_t)p % align, 0);
      CHECK(is_filled(p, 0, sizes[i]));
      CHECK_GE(GC_size(p), sizes[i]);
      memset(p, 9, sizes[i]);
      CHECK(GC_base(p) != NULL && GC_base(p + sizes[i] - 1) == GC_base(p));
      if (align < sizeof(void *)) continue;
      CHECK_EQ(GC_posix_memalign(&q, align, sizes[i]), 0);
      CHECK_EQ((uintptr_t)q % align, 0);
      CHECK(is_filled(q, 0, sizes[i]));
      memset(q, 9, sizes[i]);
    }
  }
  for (size_t align = 0; align < 100; align++) {
    void *q = &q;
    if (align >= 8 && (align & (align - 1)) == 0) continue;
    CHECK_EQ(GC_posix_memalign(&q, align, 10), EINVAL);
    CHECK_PTR(q, &q);
  }
  if (on_gleaner()) {
    void *p;
    /* Any power of two that there is room for, down to no bytes at all. An aligned object begins
       where its pointer says, so that it can be freed. */
    static const size_t sizes[] = {0, 1, 100, 10000, 100000};
    for (size_t align = 1; align <= 4 << 20; align *= 2)
      for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        p = GC_memalign(align, sizes[i]);
        CHECK_EQ((uintptr_t)p % align, 0);
        CHECK_PTR(GC_base(p), p);
        memset(p, 1, sizes[i]);
        GC_free(p);
      }
    p = GC_valloc(10);
    CHECK_EQ((uintptr_t)p % 4096, 0);
    p = GC_pvalloc(4097);
    CHECK_EQ((uintptr_t)p % 4096, 0);
    CHECK_GE(GC_size(p), 8192);
  }
}

static void strings(void) {
  char text[1000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  char *copy = GC_strdup(text);
  CHECK(copy != text && strcmp(copy, text) == 0);
  CHECK_NULL(GC_STRDUP(NULL));
  CHECK(strcmp(GC_strdup(""), "") == 0);
  CHECK(strcmp(GC_strndup("abcdef", 3), "abc") == 0);
  CHECK(strcmp(GC_strndup("abc", 100), "abc") == 0);
  CHECK(strcmp(GC_STRNDUP("abc", 0), "") == 0);
  if (on_gleaner()) CHECK(wcscmp(GC_wcsdup(L"gl\u00fcck"), L"gl\u00fcck") == 0);
}

/* Frees, by size and in an order unlike that of allocation; nothing else changes. */
static void freeing(void) {
  enum { kCount = 2000 };
  static unsigned char *objects[kCount];
  GC_free(NULL);
  for (size_t round = 0; round < 5; round++) {
    for (size_t i = 0; i < kCount; i++) {
      size_t size = kSizes[1 + (i * 7 + round) % (kSizeCount - 3)];
      objects[i] = (unsigned char *)(i % 3 ? GC_malloc(size) : GC_malloc_atomic(size));
      memset(objects[i], (int)i, size);
    }
    for (size_t i = 0; i < kCount; i += 2) {
      GC_free(objects[(i * 37) % kCount]);
      objects[(i * 37) % kCount] = NULL;
    }
    if (round == 2) GC_gcollect();
    for (size_t i = 0; i < kCount; i++) {
      size_t size = kSizes[1 + (i * 7 + round) % (kSizeCount - 3)];
      if (objects[i]) CHECK(is_filled(objects[i], (int)i, size));
    }
  }
}

struct pair {
  struct pair *left, *right;
};

static void typed_macros(void) {
  struct pair *a = GC_NEW(struct pair);
  int *b = GC_NEW_ATOMIC(int);
  struct pair *c = GC_NEW_UNCOLLECTABLE(struct pair);
  CHECK(a->left == NULL && a->right == NULL && b != NULL && c->left == NULL);
  GC_PTR_STORE(&a->left, c);
  CHECK_PTR(a->left, c);
  GC_ptr_store_and_dirty(&a->right, a);
  CHECK_PTR(a->right, a);
  GC_PTR_STORE_AND_DIRTY(&c->left, a);
  GC_END_STUBBORN_CHANGE(c);
  GC_CHANGE_STUBBORN(c);
  CHECK_PTR(c->left, a);
  GC_reachable_here(a);
  GC_FREE(c);
}

int main(void) {
  GC_INIT();
  GC_set_warn_proc(GC_ignore_warn_proc);
  zeroed_and_aligned();
  resizing();
  alignments();
  strings();
  freeing();
  typed_macros();
  return check_result();
}
