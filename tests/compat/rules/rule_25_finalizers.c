/* Rule 25: four orders; what is replaced is returned; pointers into an object;
   finalize_on_demand with a notifier; GC_gc_no advances at every collection; and guile's weak
   tables, typed entries with a disappearing link for the weak half. */
#include "check.h"
#include "gc_typed.h"

enum { kCount = 1000 };

typedef void(GC_CALLBACK *register_fn)(void *, GC_finalization_proc, void *, GC_finalization_proc *,
                                       void **);
struct node {
  struct node *other;
  size_t place;
  char payload[32];
};

static size_t runs[2];
static void GC_CALLBACK count(void *object, void *data) {
  runs[((struct node *)object)->place] += (size_t)data;
}
static void GC_CALLBACK other_finalizer(void *object, void *data) {
  (void)object;
  (void)data;
}

enum shape { kChain, kSelf, kCycle };
struct plan {
  enum shape shape;
  register_fn first, second;
};
static void *build(void *arg) {
  const struct plan *p = (const struct plan *)arg;
  size_t i;
  for (i = 0; i < kCount; i++) {
    struct node *a = GC_NEW(struct node), *b = GC_NEW(struct node);
    b->place = 1;
    if (p->shape == kSelf) {
      a->other = a;
    } else {
      a->other = b;
      if (p->shape == kCycle) b->other = a;
    }
    p->first(a, count, (void *)1, NULL, NULL);
    if (p->second) p->second(b, count, (void *)1, NULL, NULL);
  }
  return NULL;
}
static void make(enum shape shape, register_fn first, register_fn second) {
  struct plan p;
  p.shape = shape;
  p.first = first;
  p.second = second;
  runs[0] = runs[1] = 0;
  GC_disable();
  run_in_thread(build, &p);
  GC_enable();
  collect();
}

static void orders(void) {
  make(kChain, GC_register_finalizer, GC_register_finalizer);
  CHECK_MOSTLY(runs[0], kCount);
  CHECK_EQ(runs[1], 0);
  collect();
  CHECK_MOSTLY(runs[1], kCount);

  make(kSelf, GC_register_finalizer, NULL);
  CHECK_EQ(runs[0], 0);
  make(kSelf, GC_register_finalizer_ignore_self, NULL);
  CHECK_MOSTLY(runs[0], kCount);

  make(kCycle, GC_register_finalizer, GC_register_finalizer);
  CHECK_EQ(runs[0], 0);
  CHECK_EQ(runs[1], 0);
  make(kCycle, GC_register_finalizer_no_order, GC_register_finalizer_no_order);
  CHECK_MOSTLY(runs[0], kCount);
  CHECK_MOSTLY(runs[1], kCount);

  /* What a no_order object refers to goes at the same time, an `unreachable` one afterwards. */
  make(kChain, GC_register_finalizer_no_order, GC_register_finalizer_unreachable);
  CHECK_MOSTLY(runs[0], kCount);
  CHECK_EQ(runs[1], 0);
  collect();
  CHECK_MOSTLY(runs[1], kCount);
}

static void registrations(void) {
  GC_finalization_proc old = other_finalizer;
  void *old_data = &old;
  char *volatile p = (char *)GC_malloc(64);
  GC_register_finalizer(p, count, (void *)5, &old, &old_data);
  CHECK(old == NULL && old_data == NULL);
  GC_register_finalizer_no_order(p, other_finalizer, (void *)6, &old, &old_data);
  CHECK(old == count);
  CHECK_EQ((size_t)old_data, 5);
  GC_register_finalizer(p, NULL, NULL, &old, &old_data);
  CHECK(old == other_finalizer);
  CHECK_EQ((size_t)old_data, 6);
  GC_register_finalizer(p, NULL, NULL, &old, &old_data);
  CHECK(old == NULL && old_data == NULL);
}

/* Registered on the inside of objects, as ecl does with its tagged pointers: that pointer is
   passed, when the object has gone and not before. */
static size_t inside_runs, other_pointers;
static void GC_CALLBACK count_inside(void *object, void *data) {
  inside_runs++;
  other_pointers += GC_HIDE_POINTER(object) != (GC_hidden_pointer)data;
}
static char *tagged[kCount];
static void *register_inside(void *arg) {
  size_t i;
  for (i = 0; i < kCount; i++) {
    char *p = (char *)GC_NEW(struct node) + 1;
    if (arg) tagged[i] = p;
    GC_register_finalizer_no_order(p, count_inside, (void *)GC_HIDE_POINTER(p), NULL, NULL);
  }
  return NULL;
}
static void inside(void) {
  run_in_thread(register_inside, NULL);
  collect();
  CHECK_MOSTLY(inside_runs, kCount);
  CHECK_EQ(other_pointers, 0);
  collect();
  inside_runs = 0;
  run_in_thread(register_inside, tagged);
  collect();
  CHECK_LE(inside_runs, kCount / 10); /* late ones of before */
  memset(tagged, 0, sizeof tagged);
  collect();
  CHECK_MOSTLY(inside_runs, kCount);
  CHECK_EQ(other_pointers, 0);
}

static size_t notified;
static void GC_CALLBACK on_ready(void) { notified++; }
static void on_demand(void) {
  GC_word before;
  GC_set_finalize_on_demand(1);
  GC_set_finalizer_notifier(on_ready);
  CHECK_EQ(GC_should_invoke_finalizers(), 0);
  make(kChain, GC_register_finalizer, NULL);
  CHECK_EQ(runs[0], 0);
  CHECK_EQ(notified, 1);
  CHECK_EQ(GC_should_invoke_finalizers(), 1);
  CHECK_GE(GC_invoke_finalizers(), kCount - kCount / 10);
  CHECK_MOSTLY(runs[0], kCount);
  CHECK_EQ(GC_invoke_finalizers(), 0);
  before = GC_get_gc_no();
  collect();
  CHECK_EQ(GC_get_gc_no(), before + 1);
  GC_set_finalizer_notifier(NULL);
  GC_set_finalize_on_demand(0);

  /* Else at a later allocation. */
  make(kChain, GC_register_finalizer, NULL);
  GC_malloc(16);
  CHECK_MOSTLY(runs[0], kCount);
}

/* A table like guile's: an entry is typed, so that only its strong half is searched, and the weak
   half is a disappearing link in it. */
struct entry {
  GC_word hash;
  void *key; /* weak */
  void *value;
};
static struct entry **table;
static GC_descr weak_key;
static void *strong_keys[kCount];
static void *fill_table(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < kCount; i++) {
    struct entry *e = (struct entry *)GC_malloc_explicitly_typed(sizeof *e, weak_key);
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
  size_t i, cleared = 0;
  GC_set_bit(bits, GC_WORD_OFFSET(struct entry, value));
  weak_key = GC_make_descriptor(bits, GC_WORD_LEN(struct entry));
  table = (struct entry **)GC_malloc(kCount * sizeof *table);
  GC_disable();
  run_in_thread(fill_table, NULL);
  GC_enable();
  collect();
  for (i = 0; i < kCount; i++) {
    CHECK_EQ(table[i]->hash, i);
    CHECK_EQ(*(char *)table[i]->value, (char)i); /* the strong half is searched */
    if (i % 2)
      CHECK_PTR(table[i]->key, strong_keys[i]);
    else
      cleared += table[i]->key == NULL;
  }
  CHECK_MOSTLY(cleared, kCount / 2);
}

int main(void) {
  GC_set_warn_proc(GC_ignore_warn_proc); /* of cycles */
  GC_INIT();
  orders();
  registrations();
  inside();
  on_demand();
  weak_table();
  return check_result();
}
