/*
 * Kinds made by the program: descriptors of all four sorts, mark procedures, free lists of many
 * objects, and what a root procedure may do.
 */
#include "check.h"
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>

#define COUNT 1000

struct pair {
  GC_word strong; /* a pointer that counts */
  GC_word weak;   /* one that does not */
};

static struct watch strong_targets, weak_targets;

/* COUNT objects of a kind, each with a counted and an uncounted pointer, in a list that is alive.
 */
void *pairs; /* not static: the compiler would drop stores nobody reads */

static NOINLINE void *make_pairs(int kind, size_t first, size_t second) {
  void **all = (void **)GC_malloc(COUNT * sizeof *all);
  size_t i;
  for (i = 0; i < COUNT; i++) {
    GC_word *object = (GC_word *)GC_malloc_kind(48, kind);
    void *a = GC_malloc(32), *b = GC_malloc(32);
    CHECK(object != NULL && object[0] == 0 && object[5] == 0);
    object[first] = (GC_word)a;
    object[second] = (GC_word)b;
    watch_object(&strong_targets, i, a);
    watch_object(&weak_targets, i, b);
    all[i] = object;
  }
  return all;
}

struct request {
  int kind;
  size_t first, second;
};

static void *make_requested(void *arg) {
  const struct request *r = (const struct request *)arg;
  pairs = make_pairs(r->kind, r->first, r->second);
  return NULL;
}

static void check_kind(int kind, size_t first, size_t second) {
  struct request request;
  request.kind = kind;
  request.first = first;
  request.second = second;
  watch_init(&strong_targets, COUNT);
  watch_init(&weak_targets, COUNT);
  run_in_thread(make_requested, &request);
  collect();
  collect();
  CHECK_EQ(watch_gone(&strong_targets), 0);
  CHECK_MOSTLY(watch_gone(&weak_targets), COUNT);
  pairs = NULL;
  collect();
  collect();
  CHECK_MOSTLY(watch_gone(&strong_targets), COUNT);
  watch_end(&strong_targets);
  watch_end(&weak_targets);
}

static int calls;
static GC_word seen_environment;

static struct GC_ms_entry *mark_second(GC_word *addr, struct GC_ms_entry *msp,
                                       struct GC_ms_entry *limit, GC_word env) {
  __sync_fetch_and_add(&calls, 1);
  seen_environment = env;
  return GC_MARK_AND_PUSH((void *)addr[1], msp, limit, (void **)&addr[1]);
}

static void descriptors(void) {
  /* The first two words, by length; the second word, by bitmap. */
  int by_length = (int)GC_new_kind(GC_new_free_list(), 16 | GC_DS_LENGTH, 0, 1);
  int by_bitmap = (int)GC_new_kind(GC_new_free_list(), (GC_word)1 << 62 | GC_DS_BITMAP, 0, 1);
  unsigned proc = GC_new_proc(mark_second);
  int by_proc = (int)GC_new_kind(GC_new_free_list(), GC_MAKE_PROC(proc, 77), 0, 1);
  int whole = (int)GC_new_kind(GC_new_free_list(), 0 | GC_DS_LENGTH, 1, 1);
  CHECK_GE(by_length, 4);
  CHECK_EQ(by_bitmap, by_length + 1);
  CHECK_GE(proc, 8);
  check_kind(by_length, 1, 2);
  check_kind(by_length, 0, 3);
  check_kind(by_bitmap, 1, 0);
  check_kind(by_bitmap, 1, 2);
  check_kind(by_proc, 1, 0);
  CHECK_GE(calls, COUNT);
  CHECK_EQ(seen_environment, 77);
  {
    size_t size = 0;
    void *object = GC_malloc_kind(100, whole);
    CHECK_EQ(GC_get_kind_and_size(object, &size), whole);
    CHECK_GE(size, 100);
    object = GC_generic_malloc(100000, by_proc); /* a large one */
    CHECK_EQ(GC_get_kind_and_size(object, NULL), by_proc);
    CHECK_EQ(GC_get_kind_and_size(GC_malloc(8), NULL), GC_I_NORMAL);
    CHECK_EQ(GC_get_kind_and_size(GC_malloc_atomic(8), NULL), GC_I_PTRFREE);
  }
}

/* The descriptor stands in the object, at offset 8; or in what its first word points to. */
static void per_object(void) {
  static struct { GC_word unused, descriptor; } type;
  int in_object = (int)GC_new_kind(GC_new_free_list(), 8 | GC_DS_PER_OBJECT, 0, 1);
  int in_type = (int)GC_new_kind(GC_new_free_list(),
                                 ((GC_word)(-8 - GC_INDIR_PER_OBJ_BIAS)) | GC_DS_PER_OBJECT, 0, 1);
  size_t i;
  void **all;
  watch_init(&strong_targets, COUNT);
  watch_init(&weak_targets, COUNT);
  type.descriptor = (GC_word)1 << 61 | GC_DS_BITMAP; /* the third word */
  pairs = all = (void **)GC_malloc(COUNT * sizeof *all);
  for (i = 0; i < COUNT; i++) {
    GC_word *object = (GC_word *)GC_malloc_kind(40, i % 2 ? in_object : in_type);
    void *a = GC_malloc(32), *b = GC_malloc(32);
    if (i % 2) {
      object[1] = type.descriptor;
    } else {
      object[0] = (GC_word)&type;
    }
    object[2] = (GC_word)a;
    object[3] = (GC_word)b;
    watch_object(&strong_targets, i, a);
    watch_object(&weak_targets, i, b);
    all[i] = object;
  }
  all = NULL;
  collect();
  collect();
  CHECK_EQ(watch_gone(&strong_targets), 0);
  CHECK_MOSTLY(watch_gone(&weak_targets), COUNT);
  watch_end(&strong_targets);
  watch_end(&weak_targets);
  pairs = NULL;
}

static size_t list_length(void *list, size_t words) {
  size_t length = 0, i;
  for (; list != NULL; list = *(void **)list, length++) {
    for (i = 1; i < words; i++) {
      if (((GC_word *)list)[i] != 0) return 0;
    }
  }
  return length;
}

void *kept_list;

static void many(void) {
  void *tiny[GC_TINY_FREELISTS];
  size_t i, length;
  GC_word sum = 0;
  GC_generic_malloc_many(48, GC_I_NORMAL, &kept_list);
  length = list_length(kept_list, 6);
  CHECK_GE(length, 2);
  collect();
  CHECK_EQ(list_length(kept_list, 6), length); /* kept by its links */
  kept_list = GC_malloc_many(24);
  CHECK_GE(list_length(kept_list, 2), 2);
  /* Pointer-free objects are not zeroed, but the list ends all the same: also of used memory. */
  for (i = 0; i < 1000; i++) {
    void *used = GC_MALLOC_ATOMIC(2000);
    memset(used, 0xa5, 2000);
    GC_FREE(used);
    GC_generic_malloc_many(2000, GC_I_PTRFREE, &kept_list);
    CHECK_GE(list_length(kept_list, 1), 1);
    for (; kept_list != NULL; kept_list = used) {
      used = *(void **)kept_list;
      memset(kept_list, 0xa5, 2000);
      GC_FREE(kept_list);
    }
  }
  memset(tiny, 0, sizeof tiny);
  for (i = 0; i < 100000; i++) {
    void *p, *q;
    GC_MALLOC_WORDS(p, 4, tiny);
    CHECK(p != NULL && ((GC_word *)p)[0] == 0 && ((GC_word *)p)[3] == 0);
    GC_CONS(q, p, (void *)i, tiny);
    ((GC_word *)p)[3] = i;
    sum += ((GC_word **)q)[0][3] == i;
  }
  CHECK_EQ(sum, 100000);
  kept_list = NULL;
}

/* The links of pointer-free objects are not traced: a collection that comes while a list of them is
   made keeps the list all the same. */
static void many_pointer_free(void) {
  enum { BYTES = 16, MOST = 1024 };
  size_t collections = 0;
  while (collections < 20) {
    const GC_word before = GC_get_gc_no();
    void *object;
    size_t length = 0;
    GC_generic_malloc_many(BYTES, GC_I_PTRFREE, &kept_list);
    collections += GC_get_gc_no() != before;
    for (object = kept_list; object != NULL; object = *(void **)object) {
      CHECK(++length <= MOST); /* else an object is on the list twice */
      CHECK_EQ(GC_base(object), object);
    }
  }
  kept_list = NULL;
}

/* Objects that only a root procedure knows. */
void **hidden_objects; /* in memory of malloc */
static int eager;

static void(GC_CALLBACK *other_roots)(void);

static void push_hidden(void) {
  if (eager == 2) {
    size_t i;
    for (i = 0; i < COUNT; i++) GC_set_mark_bit(hidden_objects[i]);
    GC_push_conditional(hidden_objects, hidden_objects, 1);
  } else if (eager) {
    GC_push_all_eager(hidden_objects, hidden_objects + COUNT);
  } else {
    GC_push_all(hidden_objects, hidden_objects + COUNT);
  }
  other_roots();
}

static NOINLINE void hide_objects(struct watch *objects, struct watch *children) {
  size_t i;
  for (i = 0; i < COUNT; i++) {
    void **object = (void **)GC_malloc(48);
    void *child = object[1] = GC_malloc(32);
    watch_object(objects, i, object);
    watch_object(children, i, child);
    hidden_objects[i] = object;
  }
}

static void root_procedure(void) {
  hidden_objects = (void **)malloc(COUNT * sizeof *hidden_objects);
  for (eager = 0; eager < 3; eager++) {
    struct watch objects, children;
    watch_init(&objects, COUNT);
    watch_init(&children, COUNT);
    other_roots = GC_get_push_other_roots();
    GC_set_push_other_roots(push_hidden);
    hide_objects(&objects, &children);
    collect();
    collect();
    CHECK_EQ(watch_gone(&objects), 0);
    if (eager == 2) {
      CHECK_MOSTLY(watch_gone(&children), COUNT);
    } else {
      CHECK_EQ(watch_gone(&children), 0);
    }
    CHECK(GC_is_marked(hidden_objects[0]));
    GC_set_push_other_roots(other_roots);
    collect();
    collect();
    CHECK_MOSTLY(watch_gone(&objects), COUNT);
    watch_end(&objects);
    watch_end(&children);
  }
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

void *kept;

static void enumeration(void) {
  struct tally tally;
  memset(&tally, 0, sizeof tally);
  kept = tally.wanted = GC_malloc(100000);
  collect();
  GC_call_with_alloc_lock(enumerate, &tally);
  CHECK_EQ(tally.found, 1);
  CHECK_GE(tally.bytes, 100000);
  CHECK_GE(tally.objects, 1);
}

/* Objects that toggle. */
static GC_ToggleRefStatus toggle_status;
static GC_ToggleRefStatus GC_CALLBACK status_of(void *object) {
  CHECK(object != NULL);
  return toggle_status;
}

static NOINLINE void toggle_objects(struct watch *objects) {
  size_t i;
  for (i = 0; i < COUNT; i++) {
    void *object = GC_malloc(32);
    CHECK_EQ(GC_toggleref_add(object, 1), GC_SUCCESS);
    watch_object(objects, i, object);
  }
}

static void toggle_references(void) {
  struct watch objects;
  CHECK(GC_get_toggleref_func() == 0);
  GC_set_toggleref_func(status_of);
  CHECK(GC_get_toggleref_func() == status_of);
  watch_init(&objects, COUNT);
  toggle_status = GC_TOGGLE_REF_STRONG;
  toggle_objects(&objects);
  collect();
  CHECK_EQ(watch_gone(&objects), 0);
  toggle_status = GC_TOGGLE_REF_WEAK;
  collect();
  collect();
  CHECK_MOSTLY(watch_gone(&objects), COUNT);
  toggle_status = GC_TOGGLE_REF_STRONG;
  collect(); /* asks about none but those that are left */
  watch_end(&objects);
  GC_set_toggleref_func(0);
}

int main(void) {
  fail_after(60);
  GC_INIT();
  descriptors();
  per_object();
  many();
  many_pointer_free();
  root_procedure();
  enumeration();
  toggle_references();
  return check_result();
}
