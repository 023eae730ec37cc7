/* Rule 13: descriptors are ABI: tags, the bitmap's bit order, the field of the procedure's number,
   the negative bias; how many procedures and kinds there are, and the first that a program gets
   once typed allocation has been used. */
#include <sys/wait.h>

#include "check.h"
#include "gc_gcj.h"
#include "gc_inline.h"
#include "gc_mark.h"
#include "gc_typed.h"

enum { kCount = 1000 };

static struct GC_ms_entry *mark_nothing(GC_word *addr, struct GC_ms_entry *msp,
                                        struct GC_ms_entry *limit, GC_word env) {
  (void)addr;
  (void)limit;
  (void)env;
  return msp;
}

static void constants(void) {
  GC_word bits[4];
  CHECK_EQ(GC_DS_TAG_BITS, 2);
  CHECK_EQ(GC_DS_LENGTH, 0);
  CHECK_EQ(GC_DS_BITMAP, 1);
  CHECK_EQ(GC_DS_PROC, 2);
  CHECK_EQ(GC_DS_PER_OBJECT, 3);
  CHECK_EQ(GC_INDIR_PER_OBJ_BIAS, 0x10);
  CHECK_EQ(GC_LOG_MAX_MARK_PROCS, 6);
  CHECK_EQ(GC_MAX_MARK_PROCS, 64);
  CHECK_EQ(GC_RESERVED_MARK_PROCS, 8);
  CHECK_EQ(GC_MAKE_PROC(10, 5), (5 << 8) | (10 << 2) | 2);
  bits[0] = 5;
  CHECK_EQ(GC_make_descriptor(bits, 3), (GC_word)0xa000000000000001);
  bits[0] = 2;
  CHECK_EQ(GC_make_descriptor(bits, 2), (GC_word)0x4000000000000001);
  bits[0] = 1;
  CHECK_EQ(GC_make_descriptor(bits, 10), 8); /* a prefix: a length */
  bits[0] = 7;
  CHECK_EQ(GC_make_descriptor(bits, 3), 24);
  bits[0] = 0;
  CHECK_EQ(GC_make_descriptor(bits, 3), 0);
  bits[0] = (GC_word)1 << 61 | 2;
  CHECK_EQ(GC_make_descriptor(bits, 62), (GC_word)0x4000000000000005);
  bits[0] = 2;
  bits[1] = 2;
  CHECK_EQ(GC_make_descriptor(bits, 100) & GC_DS_TAGS, GC_DS_PROC);
}

/* Objects of a kind with 8 words, each pointing to an object: which of these survive? */
static void **holders[kCount];
struct making {
  int kind;
  GC_word word0; /* what to store in word 0 instead of a pointer, unless 0 */
  struct watch watch[8];
};
static void *make(void *arg) {
  struct making *m = (struct making *)arg;
  size_t i, j;
  for (i = 0; i < kCount; i++) {
    holders[i] = (void **)GC_generic_malloc(64, m->kind);
    for (j = 0; j < 8; j++) {
      void *p = GC_malloc(32);
      holders[i][j] = p;
      watch_object(&m->watch[j], i, p);
    }
    if (m->word0) holders[i][0] = (void *)m->word0;
  }
  return NULL;
}

/* `expected`: bit j is set if the objects at word j live. */
static void check_kind_with(const char *what, GC_word descriptor, int add_size, GC_word word0,
                            unsigned expected) {
  struct making m;
  size_t j;
  m.kind = (int)GC_new_kind(GC_new_free_list(), descriptor, add_size, 1);
  m.word0 = word0;
  for (j = 0; j < 8; j++) watch_init(&m.watch[j], kCount);
  GC_disable();
  run_in_thread(make, &m);
  GC_enable();
  collect();
  for (j = 0; j < 8; j++) {
    size_t gone = watch_gone(&m.watch[j]);
    if ((expected >> j & 1) ? gone != 0 : gone < kCount - kCount / 10) {
      fprintf(stderr, "%s: word %zu: %zu of %d are gone\n", what, j, gone, kCount);
      check_failures++;
    }
    watch_end(&m.watch[j]);
  }
  memset(holders, 0, sizeof holders);
  collect();
}

static void kinds(void) {
  /* Word 0 points to a structure whose second word is the descriptor. */
  static GC_word type[2] = {0, 24};
  check_kind_with("length", 0 | GC_DS_LENGTH, 1, 0, 0xff);
  check_kind_with("fixed length", 40 | GC_DS_LENGTH, 0, 0, 0x1f);
  check_kind_with("bitmap", (GC_word)0xa000000000000000 | GC_DS_BITMAP, 0, 0, 0x05);
  check_kind_with("procedure", GC_MAKE_PROC(GC_new_proc(mark_nothing), 0), 0, 0, 0);
  /* The descriptor is word 0 itself: a bitmap that names words 1 and 2. */
  check_kind_with("in the object", 0 | GC_DS_PER_OBJECT, 0,
                  (GC_word)0x6000000000000000 | GC_DS_BITMAP, 0x06);
  check_kind_with("in the type",
                  (GC_word)(-(GC_signed_word)8 - GC_INDIR_PER_OBJ_BIAS) | GC_DS_PER_OBJECT, 0,
                  (GC_word)type, 0x06);
}

/* The message goes to stderr, of which there is none here. */
static int exit_status_of(void (*fn)(void)) {
  int status = 0;
  pid_t child = fork();
  if (child == 0) {
    if (freopen("/dev/null", "w", stderr) == NULL) _exit(3);
    fn();
    _exit(0);
  }
  CHECK_EQ(waitpid(child, &status, 0), child);
  return status;
}
static void exhaust_kinds(void) {
  int i;
  for (i = 0; i < 40; i++) GC_new_kind(GC_new_free_list(), 0, 1, 1);
}
static void exhaust_procs(void) {
  int i;
  for (i = 0; i < 80; i++) GC_new_proc(mark_nothing);
}

static void numbers(void) {
  unsigned kind, proc;
  kind = GC_new_kind(GC_new_free_list(), 0, 1, 1);
  proc = GC_new_proc(mark_nothing);
  CHECK_EQ(kind, 6);
  CHECK_EQ(proc, 10);
  CHECK_EQ(GC_new_proc(mark_nothing), 11);
  CHECK_NE(exit_status_of(exhaust_kinds), 0);
  CHECK_NE(exit_status_of(exhaust_procs), 0);
  {
    size_t size = 0;
    void *p = GC_generic_malloc(100, (int)kind);
    CHECK_EQ(GC_get_kind_and_size(p, &size), kind);
    CHECK_GE(size, 100);
    CHECK_EQ(GC_get_kind_and_size(GC_malloc(8), NULL), GC_I_NORMAL);
    CHECK_EQ(GC_get_kind_and_size(GC_malloc_atomic(8), NULL), GC_I_PTRFREE);
  }
  kinds();
}

static void last_numbers(void) {
  unsigned kind = 0, proc = 0;
  while (kind < 15) kind = GC_new_kind(GC_new_free_list(), 0, 1, 1);
  while (proc < 63) proc = GC_new_proc(mark_nothing);
  CHECK_EQ(kind, 15);
  CHECK_EQ(proc, 63);
  memset(GC_generic_malloc(40, 15), 1, 40);
  GC_gcollect();
}

int main(void) {
  GC_INIT();
  constants();
  numbers();
  last_numbers();
  return check_result();
}
