/* Objects: sizes, bases, questions about pointers, realloc, alignment, strings, failures. */
#include "gc_mark.h"
#include "oracle.h"

static void sizes(void) {
  size_t i;
  for (i = 0; i <= 128; i += 8) {
    SHOW_AT("GC_size of GC_malloc", i, GC_size(GC_malloc(i)));
    SHOW_AT("GC_size of GC_malloc_atomic", i, GC_size(GC_malloc_atomic(i)));
    SHOW_AT("GC_get_size_map_at", i, GC_get_size_map_at((int)i));
  }
  for (i = 1; i <= 8; i++) SHOW_AT("GC_size of GC_malloc", i, GC_size(GC_malloc(i)));
  for (i = 256; i <= 65536; i *= 2) {
    SHOW_AT("GC_size of GC_malloc", i, GC_size(GC_malloc(i)));
    SHOW_AT("enough for GC_malloc", i, GC_size(GC_malloc(i)) >= i);
    SHOW_AT("at most double", i, GC_size(GC_malloc(i)) <= 2 * i);
    SHOW_AT("GC_size of GC_malloc_uncollectable", i - 8, GC_size(GC_malloc_uncollectable(i - 8)));
    SHOW_AT("enough for one less", i, GC_size(GC_malloc(i - 1)) >= i);
  }
  SHOW(GC_get_size_map_at(-1));
  SHOW(GC_get_size_map_at(100000));
  SHOW(GC_size(GC_malloc(0)));
  SHOW(GC_malloc(0) != NULL);
}

static void bases(void) {
  static const size_t requests[] = {1, 16, 48, 100, 500, 2000, 4096, 10000, 100000, 1000000};
  size_t i;
  int on_stack = 0;
  static int in_data;
  for (i = 0; i < sizeof requests / sizeof *requests; i++) {
    size_t n = requests[i];
    char *p = (char *)GC_malloc(n), *q = (char *)GC_malloc_atomic(n);
    char *r = (char *)GC_malloc_uncollectable(n);
    SHOW_AT("base", n, GC_base(p) == p);
    SHOW_AT("base of the last byte", n, GC_base(p + n - 1) == p);
    SHOW_AT("base of the middle", n, GC_base(p + n / 2) == p);
    SHOW_AT("base, atomic", n, GC_base(q + n / 2) == q);
    SHOW_AT("base, uncollectable", n, GC_base(r + n / 2) == r);
    SHOW_AT("one past the end", n, GC_base(p + n) == p);
    SHOW_AT("aligned", n, (uintptr_t)p % 16);
    SHOW_AT("GC_is_heap_ptr", n, GC_is_heap_ptr(p + n / 2));
  }
  SHOW(GC_base(NULL) == NULL);
  SHOW(GC_base(&on_stack) == NULL);
  SHOW(GC_base(&in_data) == NULL);
  SHOW(GC_base((void *)(uintptr_t)GC_malloc) == NULL);
  SHOW(GC_base((void *)-1) == NULL);
  SHOW(GC_base((void *)8) == NULL);
  SHOW(GC_is_heap_ptr(NULL));
  SHOW(GC_is_heap_ptr(&on_stack));
  SHOW(GC_is_heap_ptr(&in_data));
  SHOW(GC_is_heap_ptr((void *)-1));
}

static int complaints;
static void GC_CALLBACK complain_one(void *p) {
  (void)p;
  complaints++;
}
static void GC_CALLBACK complain_two(void *p, void *q) {
  (void)p;
  (void)q;
  complaints++;
}
static int complaints_since(void) {
  int n = complaints;
  complaints = 0;
  return n;
}

static void arithmetic(void) {
  char *p = (char *)GC_malloc(100), *q = (char *)GC_malloc(100), *large, *at;
  char *atomic = (char *)GC_malloc_atomic(100);
  int on_stack;
  static void *in_data;
  void *volatile heap_word = p;
  GC_same_obj_print_proc = complain_two;
  GC_is_valid_displacement_print_proc = complain_one;
  GC_is_visible_print_proc = complain_one;
  large = (char *)GC_malloc(50000);
  SHOW(GC_same_obj(p, p + 99) == p);
  SHOW(complaints_since());
  SHOW(GC_same_obj(p + 50, p) == p + 50);
  SHOW(complaints_since());
  SHOW(GC_same_obj(p, q) == p);
  SHOW(complaints_since());
  SHOW(GC_same_obj(large, large + 49999) == large);
  SHOW(complaints_since());
  SHOW(GC_same_obj(large, large + 40000) == large);
  SHOW(complaints_since());
  SHOW(GC_same_obj(large, p) == large);
  SHOW(complaints_since());
  SHOW(GC_same_obj(&on_stack, &on_stack + 1) == &on_stack);
  SHOW(complaints_since());
  SHOW(GC_same_obj(&on_stack, NULL) == &on_stack);
  SHOW(complaints_since());
  SHOW(GC_same_obj(p, &on_stack) == p);
  SHOW(complaints_since());
  SHOW(GC_same_obj(&on_stack, p) == &on_stack);
  SHOW(complaints_since());
  SHOW(GC_is_valid_displacement(p) == p);
  SHOW(complaints_since());
  SHOW(GC_is_valid_displacement(p + 5) == p + 5);
  SHOW(complaints_since());
  SHOW(GC_is_valid_displacement(large + 40001) == large + 40001);
  SHOW(complaints_since());
  SHOW(GC_is_valid_displacement(&on_stack) == &on_stack);
  SHOW(complaints_since());
  SHOW(GC_is_valid_displacement(NULL) == NULL);
  SHOW(complaints_since());
  SHOW(GC_is_visible(p) == p);
  SHOW(complaints_since());
  SHOW(GC_is_visible(p + 8) == p + 8);
  SHOW(complaints_since());
  SHOW(GC_is_visible(p + 4) == p + 4);
  SHOW(complaints_since());
  SHOW(GC_is_visible((void *)&on_stack) == (void *)&on_stack);
  complaints_since(); /* depends on the variable's alignment */
  SHOW(GC_is_visible((void *)&heap_word) == (void *)&heap_word);
  SHOW(complaints_since());
  SHOW(GC_is_visible(&in_data) == (void *)&in_data);
  SHOW(complaints_since());
  SHOW(GC_is_visible(atomic) == atomic);
  SHOW(complaints_since());
  SHOW(GC_is_visible(large + 40000) == large + 40000);
  SHOW(complaints_since());
  at = p;
  SHOW((char *)GC_pre_incr((void **)&at, 10) - p);
  SHOW(at - p);
  SHOW(complaints_since());
  SHOW((char *)GC_post_incr((void **)&at, 10) - p);
  SHOW(at - p);
  SHOW(complaints_since());
  SHOW((char *)GC_post_incr((void **)&at, -20) - p);
  SHOW(at - p);
  SHOW(complaints_since());
  at = large;
  SHOW((char *)GC_pre_incr((void **)&at, 40000) - large);
  SHOW(complaints_since());
  SHOW((char *)GC_pre_incr((void **)&at, -40000) - large);
  SHOW(complaints_since());
}

static void displacements(void) {
  char *p;
  GC_set_all_interior_pointers(0);
  GC_INIT();
  GC_is_valid_displacement_print_proc = complain_one;
  GC_register_displacement(3);
  p = (char *)GC_malloc(100);
  SHOW(GC_is_valid_displacement(p) == p);
  SHOW(complaints_since());
  SHOW(GC_is_valid_displacement(p + 3) == p + 3);
  SHOW(complaints_since());
  SHOW(GC_is_valid_displacement(p + 4) == p + 4);
  SHOW(complaints_since());
  GC_register_displacement(4);
  SHOW(GC_is_valid_displacement(p + 4) == p + 4);
  SHOW(complaints_since());
  SHOW(GC_base(p + 50) == p);
}

static void reallocation(void) {
  static const size_t pairs[][2] = {{100, 100},      {100, 90},       {100, 60},   {100, 30},
                                    {1000, 900},     {1000, 600},     {1000, 400}, {1000, 10},
                                    {10000, 9000},   {10000, 4000},   {16, 17},    {16, 40},
                                    {100000, 99000}, {100000, 20000}, {500, 5000}};
  size_t i, j;
  for (i = 0; i < sizeof pairs / sizeof *pairs; i++) {
    size_t from = pairs[i][0], to = pairs[i][1], same = 0, least = from < to ? from : to;
    unsigned char *p = (unsigned char *)GC_malloc(from), *q;
    char name[60];
    for (j = 0; j < from; j++) p[j] = (unsigned char)(j * 7 + 1);
    q = (unsigned char *)GC_realloc(p, to);
    for (j = 0; j < least; j++) same += q[j] == (unsigned char)(j * 7 + 1);
    snprintf(name, sizeof name, "realloc %zu to %zu", from, to);
    SHOW_TEXT(name, same == least ? "contents kept" : "contents lost");
    if (to * 2 < from || to >= from * 3 / 2) {
      snprintf(name, sizeof name, "moves %zu to %zu", from, to);
      oracle_show(name, p != q);
    }
    snprintf(name, sizeof name, "enough %zu to %zu", from, to);
    oracle_show(name, GC_size(q) >= to);
  }
  SHOW(GC_realloc(NULL, 20) != NULL);
  SHOW(GC_realloc(NULL, 0) == NULL);
  SHOW(GC_realloc(GC_malloc(10), 0) == NULL);
  SHOW(GC_realloc(GC_malloc_atomic(1000), 0) == NULL);
  {
    void *atomic = GC_realloc(GC_malloc_atomic(10), 5000);
    void *uncollectable = GC_realloc(GC_malloc_uncollectable(10), 5000);
    size_t size;
    SHOW(GC_get_kind_and_size(atomic, &size));
    SHOW(GC_get_kind_and_size(uncollectable, &size));
    SHOW(GC_get_kind_and_size(GC_realloc(GC_malloc(10), 5000), &size));
  }
  GC_free(NULL);
  {
    char *zero = (char *)GC_realloc(GC_malloc(8), 4000);
    size_t dirty = 0;
    for (j = 8; j < 4000; j++) dirty += zero[j] != 0;
    SHOW(dirty);
  }
}

static void *GC_CALLBACK fail(size_t bytes) {
  oracle_show_hex("the out-of-memory function gets", 0, bytes);
  return NULL;
}
static char emergency[64];
static void *GC_CALLBACK give(size_t bytes) {
  (void)bytes;
  return emergency;
}

static void alignment(void) {
  static const size_t alignments[] = {0,  1,  2,  3,   4,   5,   8,    12,  16,
                                      24, 32, 64, 100, 128, 256, 1024, 4096};
  size_t i;
  for (i = 0; i < sizeof alignments / sizeof *alignments; i++) {
    void *p = &emergency;
    int code = GC_posix_memalign(&p, alignments[i], 100);
    SHOW_AT("GC_posix_memalign", alignments[i], code);
    if (code == 0)
      SHOW_AT("aligned", alignments[i], alignments[i] == 0 || (uintptr_t)p % alignments[i] == 0);
    else
      SHOW_AT("result unchanged", alignments[i], p == (void *)&emergency);
  }
  for (i = 1; i <= 4096; i *= 2) {
    void *p = GC_memalign(i, 100);
    SHOW_AT("GC_memalign", i, (uintptr_t)p % i);
    SHOW_AT("base of it", i, GC_base(p) != NULL);
    SHOW_AT("large GC_memalign", i, (uintptr_t)GC_memalign(i, 20000) % i);
  }
  SHOW(((char *)GC_memalign(64, 100))[99]);
}

static void strings(void) {
  char *s = GC_strdup("some text");
  SHOW_TEXT("GC_strdup", s);
  SHOW(GC_get_kind_and_size(s, NULL));
  SHOW(GC_strdup(NULL) == NULL);
  SHOW_TEXT("GC_strdup of nothing", GC_strdup(""));
  SHOW_TEXT("GC_strndup", GC_strndup("some text", 4));
  SHOW_TEXT("long GC_strndup", GC_strndup("some text", 400));
  SHOW_TEXT("empty GC_strndup", GC_strndup("some text", 0));
}

static void failures(void) {
  static volatile size_t impossible[] = {(size_t)-1, (size_t)-16, (size_t)-4096, ((size_t)-1) / 2,
                                         (size_t)1 << 62};
  size_t i;
  void *p = &emergency;
  GC_set_warn_proc(GC_ignore_warn_proc);
  SHOW(GC_get_oom_fn()(10) == NULL);
  for (i = 0; i < sizeof impossible / sizeof *impossible; i++) {
    size_t n = impossible[i];
    GC_set_oom_fn(give);
    SHOW_AT("GC_malloc gives what the function gives", i, GC_malloc(n) == emergency);
    SHOW_AT("GC_malloc_atomic", i, GC_malloc_atomic(n) == emergency);
    SHOW_AT("GC_malloc_ignore_off_page", i, GC_malloc_ignore_off_page(n) == emergency);
    SHOW_AT("GC_malloc_atomic_ignore_off_page", i,
            GC_malloc_atomic_ignore_off_page(n) == emergency);
    SHOW_AT("GC_generic_malloc", i, GC_generic_malloc(n, 1) == emergency);
    GC_set_oom_fn(fail);
    SHOW_AT("GC_malloc_uncollectable fails", i, GC_malloc_uncollectable(n) == NULL);
    SHOW_AT("GC_malloc fails", i, GC_malloc(n) == NULL);
    SHOW_AT("GC_realloc fails", i, GC_realloc(GC_malloc(10), n) == NULL);
    p = &emergency;
    SHOW_AT("GC_posix_memalign fails", i, GC_posix_memalign(&p, 16, n));
    SHOW_AT("GC_memalign fails", i, GC_memalign(64, n) == NULL);
  }
  {
    char *old = (char *)GC_malloc(16);
    old[0] = 'x';
    GC_realloc(old, impossible[0]);
    SHOW(old[0]);
  }
  GC_set_oom_fn(give);
  SHOW(GC_expand_hp((size_t)-1));
  SHOW(GC_expand_hp((size_t)1 << 60));
  GC_set_max_heap_size(GC_get_heap_size());
  SHOW(GC_expand_hp(64 << 20));
  SHOW(GC_malloc(200 << 20) == emergency);
  GC_set_max_heap_size(0);
  SHOW(GC_malloc(32 << 20) != (void *)emergency);
  errno = 0;
  GC_malloc(100);
  GC_gcollect();
  SHOW(errno);
}

static void miscellaneous(void) {
  void *slot = NULL, *p = GC_malloc(40);
  int local = 0;
  SHOW(GC_clear_stack(&local) == &local);
  GC_ptr_store_and_dirty(&slot, p);
  SHOW(slot == p);
  GC_end_stubborn_change(p);
  GC_change_stubborn(p);
  SHOW(GC_malloc_stubborn(10) != NULL);
  GC_noop1(5);
  SHOW(GC_get_kind_and_size(GC_malloc_ignore_off_page(100000), NULL));
  SHOW(GC_get_kind_and_size(GC_malloc_atomic_ignore_off_page(100000), NULL));
  SHOW(GC_get_kind_and_size(GC_malloc_uncollectable(10), NULL));
  SHOW(GC_get_kind_and_size(GC_malloc_atomic_uncollectable(10), NULL));
  SHOW((GC_word)GC_least_plausible_heap_addr <= (GC_word)p);
  SHOW((GC_word)GC_greatest_plausible_heap_addr >= (GC_word)p + 40);
  SHOW(GC_is_tmp_root(p));
  SHOW(GC_dlopen("no such file", RTLD_NOW) == NULL);
  SHOW(GC_is_marked(p) == 0 || GC_is_marked(p) == 1);
  GC_gcollect();
  SHOW(GC_is_marked(p));
  GC_reachable_here(p);
}

const struct oracle_section object_sections[] = {{"sizes", sizes, 1},
                                                 {"bases", bases, 1},
                                                 {"arithmetic", arithmetic, 1},
                                                 {"displacements", displacements, 0},
                                                 {"reallocation", reallocation, 1},
                                                 {"alignment", alignment, 1},
                                                 {"strings", strings, 1},
                                                 {"failures", failures, 1},
                                                 {"miscellaneous", miscellaneous, 1},
                                                 {NULL, NULL, 0}};
