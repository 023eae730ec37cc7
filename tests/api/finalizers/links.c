/* Disappearing links, short and long: results of the calls, when they are cleared, moves, and weak
   references that are read under the allocation lock. Rules 18 (GC_call_with_alloc_lock is
   the read barrier of weak references), 26 (results). */
#include "check.h"

#include <sched.h>

enum { kCount = 3000 };

/* The two tables have the same calls. */
struct table {
  const char *name;
  int (*add)(void **link, const void *object);
  int (*move)(void **link, void **new_link);
  int (*remove)(void **link);
};
static const struct table kShort = {"short", GC_general_register_disappearing_link,
                                    GC_move_disappearing_link, GC_unregister_disappearing_link};
static const struct table kLong = {"long", GC_register_long_link, GC_move_long_link,
                                   GC_unregister_long_link};

static void results(const struct table *t) {
  void *link = NULL, *other = NULL, *third = NULL;
  void *object = GC_malloc(100), *another = GC_malloc(100);
  CHECK_EQ(t->remove(&link), 0);
  CHECK_EQ(t->move(&link, &other), GC_NOT_FOUND);
  CHECK_EQ(t->move(&link, &link), GC_NOT_FOUND);
  link = (void *)GC_HIDE_POINTER(object);
  CHECK_EQ(t->add(&link, object), GC_SUCCESS);
  CHECK_EQ(t->add(&link, object), GC_DUPLICATE);
  CHECK_EQ(t->add(&link, another), GC_DUPLICATE);
  CHECK_EQ(t->move(&link, &link), GC_SUCCESS);
  CHECK_EQ(t->add(&other, object), GC_SUCCESS);
  CHECK_EQ(t->move(&link, &other), GC_DUPLICATE);
  CHECK_EQ(t->move(&link, &third), GC_SUCCESS);
  CHECK_PTR(link, GC_HIDE_POINTER(object)); /* a move changes no contents */
  CHECK_NULL(third);
  CHECK_EQ(t->remove(&link), 0);
  CHECK_EQ(t->remove(&third), 1);
  CHECK_EQ(t->remove(&third), 0);
  CHECK_EQ(t->remove(&other), 1);
  /* The tables do not know each other's links. */
  CHECK_EQ(kShort.add(&link, object), GC_SUCCESS);
  CHECK_EQ(kLong.add(&link, object), GC_SUCCESS);
  CHECK_EQ(t->remove(&link), 1);
  CHECK_EQ(t->remove(&link), 0);
  CHECK_EQ(kShort.remove(&link) + kLong.remove(&link), 1);
  CHECK_EQ(t->remove(NULL), 0);
  CHECK_EQ(t->remove((void **)((char *)&link + 1)), 0);
  GC_reachable_here(object);
  GC_reachable_here(another);
}

struct making {
  const struct table *table;
  GC_hidden_pointer *links; /* kCount, in memory of malloc */
  void **held; /* keeps every second object; in the heap, where words keep no neighbours */
};

static void *make(void *arg) {
  struct making *m = (struct making *)arg;
  for (size_t i = 0; i < kCount; i++) {
    void *object = i % 3 ? GC_malloc(48) : GC_malloc_atomic(48);
    m->links[i] = GC_HIDE_POINTER(object);
    CHECK_EQ(m->table->add((void **)&m->links[i], object), GC_SUCCESS);
    m->held[i] = i % 2 ? object : NULL;
  }
  return NULL;
}

static void make_links(struct making *m, const struct table *t) {
  static void **held;
  m->table = t;
  m->links = (GC_hidden_pointer *)calloc(kCount, sizeof *m->links);
  held = (void **)GC_malloc(kCount * sizeof *held);
  m->held = held;
  make_in_thread(make, m);
}

/* Cleared links at places i with i % step == rest. */
static size_t cleared(const GC_hidden_pointer *links, size_t rest, size_t step) {
  size_t n = 0;
  for (size_t i = rest; i < kCount; i += step) n += links[i] == 0;
  return n;
}

static void clearing(const struct table *t) {
  struct making m;
  make_links(&m, t);
  collect();
  CHECK_MOSTLY(cleared(m.links, 0, 2), kCount / 2);
  CHECK_EQ(cleared(m.links, 1, 2), 0);
  for (size_t i = 1; i < kCount; i += 2) CHECK_PTR(GC_REVEAL_POINTER(m.links[i]), m.held[i]);
  for (size_t i = 0; i < kCount; i += 2)
    if (m.links[i] == 0) CHECK_EQ(t->remove((void **)&m.links[i]), 0); /* cleared: forgotten */
  memset(m.held, 0, kCount * sizeof *m.held);
  collect();
  CHECK_MOSTLY(cleared(m.links, 1, 2), kCount / 2);
  for (size_t i = 0; i < kCount; i++) t->remove((void **)&m.links[i]);
  free(m.links);

  /* An unregistered link stays as it is. */
  make_links(&m, t);
  for (size_t i = 0; i < kCount; i++) CHECK_EQ(t->remove((void **)&m.links[i]), 1);
  memset(m.held, 0, kCount * sizeof *m.held);
  collect();
  CHECK_EQ(cleared(m.links, 0, 1), 0);
  free(m.links);
}

static void moving(const struct table *t) {
  struct making m;
  GC_hidden_pointer *moved = (GC_hidden_pointer *)calloc(kCount, sizeof *moved);
  make_links(&m, t);
  for (size_t i = 0; i < kCount; i++) {
    moved[i] = m.links[i];
    CHECK_EQ(t->move((void **)&m.links[i], (void **)&moved[i]), GC_SUCCESS);
    m.links[i] = 1;
  }
  memset(m.held, 0, kCount * sizeof *m.held);
  collect();
  CHECK_MOSTLY(cleared(moved, 0, 1), kCount);
  CHECK_EQ(cleared(m.links, 0, 1), 0);
  for (size_t i = 0; i < kCount; i++) t->remove((void **)&moved[i]);
  free(moved);
  free(m.links);
}

/* A duplicate registration gives the link to the other object. */
static GC_hidden_pointer retargeted[kCount];
static void **keep;
static void *retarget(void *arg) {
  const struct table *t = (const struct table *)arg;
  for (size_t i = 0; i < kCount; i++) {
    void *first = GC_malloc(32), *second = GC_malloc(32);
    retargeted[i] = GC_HIDE_POINTER(second);
    t->add((void **)&retargeted[i], first);
    CHECK_EQ(t->add((void **)&retargeted[i], second), GC_DUPLICATE);
    keep[i] = i % 2 ? second : first;
  }
  return NULL;
}

static void retargeting(const struct table *t) {
  keep = (void **)GC_malloc(kCount * sizeof *keep);
  make_in_thread(retarget, (void *)(uintptr_t)t);
  collect();
  CHECK_EQ(cleared(retargeted, 1, 2), 0);
  CHECK_MOSTLY(cleared(retargeted, 0, 2), kCount / 2);
  keep = NULL;
  for (size_t i = 0; i < kCount; i++) t->remove((void **)&retargeted[i]);
}

/* Links inside objects that go: their registrations go too, and nothing is written there later. */
static void *links_in_objects(void *arg) {
  void **targets = (void **)arg;
  for (size_t i = 0; i < kCount; i++) {
    void **holder = (void **)GC_malloc_atomic(64);
    targets[i] = GC_malloc(32);
    holder[3] = targets[i];
    CHECK_EQ(GC_general_register_disappearing_link(&holder[3], targets[i]), GC_SUCCESS);
    CHECK_EQ(GC_register_long_link(&holder[3], targets[i]), GC_SUCCESS);
  }
  return NULL;
}

static void links_that_go(void) {
  static void *targets[kCount];
  static void **reused[8 * kCount];
  size_t wrong = 0;
  make_in_thread(links_in_objects, targets);
  collect();
  for (size_t i = 0; i < 8 * kCount; i++) {
    reused[i] = (void **)GC_malloc_atomic(64);
    reused[i][3] = &wrong;
  }
  memset(targets, 0, sizeof targets);
  collect();
  for (size_t i = 0; i < 8 * kCount; i++) wrong += reused[i][3] != &wrong;
  CHECK_LE(wrong, kCount / 10); /* the holders that had stayed by chance */
  memset(reused, 0, sizeof reused);
}

/* Short links are cleared before finalizers run, long ones when the object is gone for good. */
struct watched {
  GC_hidden_pointer short_link, long_link;
};
static struct watched *watched;
static size_t short_set, long_cleared, finalized;
static void GC_CALLBACK check_links(void *object, void *data) {
  struct watched *w = (struct watched *)data;
  finalized++;
  short_set += w->short_link != 0;
  long_cleared += w->long_link != GC_HIDE_POINTER(object);
}

static void *make_watched(void *arg) {
  for (size_t i = 0; i < kCount; i++) {
    void *object = GC_malloc(32);
    watched[i].short_link = watched[i].long_link = GC_HIDE_POINTER(object);
    GC_GENERAL_REGISTER_DISAPPEARING_LINK((void **)&watched[i].short_link, object);
    GC_REGISTER_LONG_LINK((void **)&watched[i].long_link, object);
    GC_register_finalizer(object, check_links, &watched[i], NULL, NULL);
  }
  return NULL;
}

static void around_finalizers(void) {
  size_t left = 0;
  watched = (struct watched *)calloc(kCount, sizeof *watched);
  make_in_thread(make_watched, NULL);
  collect();
  CHECK_MOSTLY(finalized, kCount);
  CHECK_EQ(short_set, 0);
  CHECK_EQ(long_cleared, 0);
  collect();
  for (size_t i = 0; i < kCount; i++) left += watched[i].long_link != 0;
  CHECK_LE(left, kCount / 10);
  for (size_t i = 0; i < kCount; i++) {
    GC_unregister_disappearing_link((void **)&watched[i].short_link);
    GC_unregister_long_link((void **)&watched[i].long_link);
  }
  free(watched);
}

/* A link on a field of the object itself breaks a cycle, so that its finalizer can run. */
struct self {
  struct self *me;
};
static size_t self_finalized;
static void GC_CALLBACK finalize_self(void *object, void *data) {
  CHECK_NULL(((struct self *)object)->me);
  self_finalized++;
}
static void *make_selves(void *arg) {
  for (size_t i = 0; i < kCount; i++) {
    struct self *s = GC_NEW(struct self);
    s->me = s;
    GC_register_finalizer(s, finalize_self, NULL, NULL, NULL);
    CHECK_EQ(GC_register_disappearing_link((void **)&s->me), GC_SUCCESS);
    CHECK_EQ(GC_register_disappearing_link((void **)&s->me), GC_DUPLICATE);
  }
  return NULL;
}

static void in_the_object(void) {
  make_in_thread(make_selves, NULL);
  collect();
  CHECK_MOSTLY(self_finalized, kCount);
}

/* Many links to one object. */
static GC_hidden_pointer many[10 * kCount];
static void *make_many(void *arg) {
  void *object = GC_malloc(100);
  for (size_t i = 0; i < 10 * kCount; i++) {
    many[i] = GC_HIDE_POINTER(object);
    GC_general_register_disappearing_link((void **)&many[i], object);
  }
  return NULL;
}

static void many_links(void) {
  size_t set = 0;
  run_in_thread(make_many, NULL);
  collect();
  for (size_t i = 0; i < 10 * kCount; i++) set += many[i] != 0;
  /* A single object may stay by chance, but then with all its links. */
  CHECK(set == 0 || set == 10 * kCount);
}

/* While a callback of GC_call_with_alloc_lock runs (guile, ecl) no link is cleared and nothing is
   freed, so a hidden pointer can be revealed: it is null, or good until the lock is released. */
enum { kSlots = 64, kReaders = 3, kReads = 20000, kHits = 50 };
static GC_hidden_pointer slots[kSlots];

static void *GC_CALLBACK reveal(void *data) {
  GC_hidden_pointer *slot = (GC_hidden_pointer *)data;
  size_t *object = *slot ? (size_t *)GC_REVEAL_POINTER(*slot) : NULL;
  if (object != NULL) CHECK(intact(object, (size_t)(slot - slots)));
  return object;
}

static volatile int stop;
static void *read_weakly(void *arg) {
  size_t hits = 0;
  for (size_t i = 0; i < kReads || hits < kHits; i++) {
    const size_t n = (i * 7 + (size_t)arg) % kSlots;
    size_t *volatile object = (size_t *)GC_call_with_alloc_lock(reveal, &slots[n]);
    if (object == NULL) {
      if (i % 16 == 0) sched_yield(); /* the slots are filled by another thread */
      continue;
    }
    hits++;
    if (i % 64 != 0) continue;
    memset(GC_malloc(64), 0x11, 64);
    CHECK(intact(object, n)); /* strong from here on */
  }
  return NULL;
}

/* Every slot gets a new object now and then, which nobody else refers to. */
static volatile long renewing;
static void *renew(void *unused) {
  renewing = task_self();
  for (size_t i = 0; !stop; i++) {
    const size_t n = i % kSlots;
    if (slots[n] == 0) {
      void *object = new_object(n);
      GC_hidden_pointer hidden = GC_HIDE_POINTER(object);
      GC_general_register_disappearing_link((void **)&slots[n], object);
      slots[n] = hidden;
    }
    if (n == 0) GC_gcollect();
  }
  return unused;
}

static void *GC_CALLBACK hold(void *data) {
  size_t before = 0, after = 0;
  const GC_word collections = GC_get_gc_no();
  for (size_t i = 0; i < kSlots; i++) before += slots[i] == 0;
  /* Meanwhile the renewing thread comes to wait for the lock, which it collects with. */
  await_task_state(renewing, 'S');
  for (size_t i = 0; i < kSlots; i++) after += slots[i] == 0;
  CHECK_LE(after, before); /* it may have filled some */
  CHECK_EQ(GC_get_gc_no(), collections);
  return data;
}

static void weak_references(void) {
  pthread_t readers[kReaders], writer;
  CHECK_EQ(pthread_create(&writer, NULL, renew, NULL), 0);
  for (size_t i = 0; i < kReaders; i++)
    CHECK_EQ(pthread_create(&readers[i], NULL, read_weakly, (void *)i), 0);
  while (renewing == 0) sleep_ms(1);
  for (size_t i = 0; i < 5; i++) CHECK_PTR(GC_call_with_alloc_lock(hold, &slots), &slots);
  for (size_t i = 0; i < kReaders; i++) CHECK_EQ(pthread_join(readers[i], NULL), 0);
  stop = 1;
  CHECK_EQ(pthread_join(writer, NULL), 0);
}

int main(void) {
  fail_after(50);
  GC_INIT();
  results(&kShort);
  results(&kLong);
  clearing(&kShort);
  clearing(&kLong);
  moving(&kShort);
  moving(&kLong);
  retargeting(&kShort);
  retargeting(&kLong);
  links_that_go();
  around_finalizers();
  in_the_object();
  many_links();
  weak_references();
  return check_result();
}
