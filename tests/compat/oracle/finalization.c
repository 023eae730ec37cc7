/* Finalizers, links, toggle references. Numbers of objects are shown in tenths of what was made,
   rounded, since stale words may keep some. */
#include "javaxfc.h"
#include "oracle.h"

enum { kCount = 1000 };
static size_t tenths(size_t n) { return (n + kCount / 20) / (kCount / 10); }

static GC_hidden_pointer links[4];
static void link_codes(void) {
  char *p = (char *)GC_malloc(64);
  void **inside = (void **)GC_malloc(64);
  SHOW(GC_general_register_disappearing_link((void **)&links[0], p));
  SHOW(GC_general_register_disappearing_link((void **)&links[0], p));
  SHOW(GC_general_register_disappearing_link((void **)&links[0], inside));
  SHOW(GC_move_disappearing_link((void **)&links[0], (void **)&links[0]));
  SHOW(GC_move_disappearing_link((void **)&links[1], (void **)&links[1]));
  SHOW(GC_move_disappearing_link((void **)&links[1], (void **)&links[2]));
  SHOW(GC_move_disappearing_link((void **)&links[0], (void **)&links[1]));
  SHOW(GC_move_disappearing_link((void **)&links[0], (void **)&links[1]));
  SHOW(GC_general_register_disappearing_link((void **)&links[2], p));
  SHOW(GC_move_disappearing_link((void **)&links[1], (void **)&links[2]));
  SHOW(GC_unregister_disappearing_link((void **)&links[0]));
  SHOW(GC_unregister_disappearing_link((void **)&links[1]));
  SHOW(GC_unregister_disappearing_link((void **)&links[1]));
  SHOW(GC_unregister_disappearing_link((void **)&links[2]));
  SHOW(GC_unregister_disappearing_link((void **)((char *)&links[2] + 1)));
  SHOW(GC_register_disappearing_link(inside + 1));
  SHOW(GC_register_disappearing_link(inside + 1));
  SHOW(GC_unregister_disappearing_link(inside + 1));
  SHOW(GC_register_long_link((void **)&links[0], p));
  SHOW(GC_register_long_link((void **)&links[0], p));
  SHOW(GC_general_register_disappearing_link((void **)&links[0], p)); /* another table */
  SHOW(GC_move_long_link((void **)&links[1], (void **)&links[2]));
  SHOW(GC_move_long_link((void **)&links[0], (void **)&links[0]));
  SHOW(GC_move_long_link((void **)&links[0], (void **)&links[1]));
  SHOW(GC_unregister_long_link((void **)&links[0]));
  SHOW(GC_unregister_long_link((void **)&links[1]));
  SHOW(GC_unregister_long_link((void **)&links[1]));
  SHOW(GC_unregister_disappearing_link((void **)&links[0]));
}

static void GC_CALLBACK first(void *object, void *data) {
  (void)object;
  (void)data;
}
static void GC_CALLBACK second(void *object, void *data) {
  (void)object;
  (void)data;
}
typedef void(GC_CALLBACK *register_fn)(void *, GC_finalization_proc, void *, GC_finalization_proc *,
                                       void **);
static void registrations_of(const char *name, register_fn fn) {
  GC_finalization_proc old = second;
  void *old_data = &old;
  void *volatile p = GC_malloc(64);
  fn(p, first, (void *)1, &old, &old_data);
  SHOW_AT(name, 0, old == NULL);
  SHOW_AT(name, 1, (GC_word)old_data);
  fn(p, second, (void *)2, &old, &old_data);
  SHOW_AT(name, 2, old == first);
  SHOW_AT(name, 3, (GC_word)old_data);
  fn(p, NULL, (void *)3, &old, &old_data);
  SHOW_AT(name, 4, old == second);
  SHOW_AT(name, 5, (GC_word)old_data);
  fn(p, NULL, (void *)4, &old, &old_data);
  SHOW_AT(name, 6, old == NULL);
  SHOW_AT(name, 7, (GC_word)old_data);
  old = second;
  old_data = (void *)9;
  fn(&links, first, (void *)1, &old, &old_data); /* not in the heap */
  SHOW_AT(name, 8, old == NULL);
  SHOW_AT(name, 9, (GC_word)old_data);
  fn(p, first, NULL, NULL, NULL);
  fn(p, NULL, NULL, NULL, NULL);
}
static void registrations(void) {
  registrations_of("GC_register_finalizer", GC_register_finalizer);
  registrations_of("GC_register_finalizer_ignore_self", GC_register_finalizer_ignore_self);
  registrations_of("GC_register_finalizer_no_order", GC_register_finalizer_no_order);
  registrations_of("GC_register_finalizer_unreachable", GC_register_finalizer_unreachable);
}

struct node {
  struct node *other;
  size_t place;
  char payload[32];
};
static size_t runs[2];
static void GC_CALLBACK count(void *object, void *data) {
  (void)data;
  runs[((struct node *)object)->place]++;
}

static register_fn orders[2];
static int cyclic, self;
static void *build(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < kCount; i++) {
    struct node *a = GC_NEW(struct node), *b = GC_NEW(struct node);
    b->place = 1;
    a->other = self ? a : b;
    if (cyclic) b->other = a;
    orders[0](a, count, NULL, NULL, NULL);
    if (orders[1]) orders[1](b, count, NULL, NULL, NULL);
  }
  return NULL;
}
static void shape(const char *name, register_fn a, register_fn b, int is_cyclic, int is_self) {
  int round;
  runs[0] = runs[1] = 0;
  orders[0] = a;
  orders[1] = b;
  cyclic = is_cyclic;
  self = is_self;
  GC_disable();
  run_in_thread(build, NULL);
  GC_enable();
  for (round = 0; round < 3; round++) {
    collect();
    SHOW_AT(name, 2 * round, tenths(runs[0]));
    SHOW_AT(name, 2 * round + 1, tenths(runs[1]));
  }
}
#define PLAIN GC_register_finalizer
#define IGNORE_SELF GC_register_finalizer_ignore_self
#define NO_ORDER GC_register_finalizer_no_order
#define UNREACHABLE GC_register_finalizer_unreachable
static void order(void) {
  GC_set_warn_proc(GC_ignore_warn_proc);
  shape("chain", PLAIN, PLAIN, 0, 0);
  shape("chain, first only", PLAIN, NULL, 0, 0);
  shape("chain, ignore_self", IGNORE_SELF, IGNORE_SELF, 0, 0);
  shape("chain, no_order", NO_ORDER, NO_ORDER, 0, 0);
  shape("chain, no_order and plain", NO_ORDER, PLAIN, 0, 0);
  shape("chain, plain and no_order", PLAIN, NO_ORDER, 0, 0);
  shape("chain, no_order and unreachable", NO_ORDER, UNREACHABLE, 0, 0);
  shape("chain, plain and unreachable", PLAIN, UNREACHABLE, 0, 0);
  shape("chain, unreachable", UNREACHABLE, UNREACHABLE, 0, 0);
  shape("self, ignore_self", IGNORE_SELF, NULL, 0, 1);
  shape("self, no_order", NO_ORDER, NULL, 0, 1);
  shape("self, unreachable", UNREACHABLE, NULL, 0, 1);
  shape("cycle, no_order", NO_ORDER, NO_ORDER, 1, 0);
  shape("cycle, no_order on one", NO_ORDER, NULL, 1, 0);
  shape("self, plain", PLAIN, NULL, 0, 1);
  shape("cycle, plain", PLAIN, PLAIN, 1, 0);
  shape("cycle, ignore_self", IGNORE_SELF, IGNORE_SELF, 1, 0);
}

static size_t warnings;
static char last_warning[100];
static void GC_CALLBACK count_warning(char *format, GC_word argument) {
  (void)argument;
  warnings++;
  snprintf(last_warning, sizeof last_warning, "%.12s", format);
}
static void *GC_CALLBACK no_memory(size_t bytes) {
  (void)bytes;
  return NULL;
}
static void warned(void) {
  GC_set_warn_proc(count_warning);
  shape("cycle", PLAIN, PLAIN, 1, 0);
  SHOW(warnings > 0);
  SHOW_TEXT("it begins with", last_warning);
  shape("chain", PLAIN, PLAIN, 0, 0);
  warnings = 0;
  GC_gcollect();
  SHOW(GC_malloc(100) != NULL);
  GC_set_oom_fn(no_memory);
  GC_set_max_heap_size(GC_get_heap_size() + (1 << 20));
  warnings = 0;
  SHOW(GC_malloc(100 << 20) == NULL);
  SHOW(warnings > 0);
}

static size_t notified;
static void GC_CALLBACK notify(void) { notified++; }
static void on_demand(void) {
  GC_set_finalize_on_demand(1);
  GC_set_finalizer_notifier(notify);
  SHOW(GC_should_invoke_finalizers());
  SHOW(GC_invoke_finalizers());
  shape("on demand", PLAIN, NULL, 0, 0);
  SHOW(GC_should_invoke_finalizers());
  SHOW(notified > 0);
  SHOW(tenths((size_t)GC_invoke_finalizers()));
  SHOW(tenths(runs[0]));
  SHOW(GC_should_invoke_finalizers());
  SHOW(GC_invoke_finalizers());
}

static void without_java(void) {
  GC_set_java_finalization(0);
  shape("chain, no_order", NO_ORDER, NO_ORDER, 0, 0);
  shape("chain", PLAIN, PLAIN, 0, 0);
}

static size_t awaited;
static void GC_CALLBACK await(void *object) { awaited += object != NULL; }
static void all_at_the_end(void) {
  size_t i;
  GC_set_await_finalize_proc(await);
  shape("awaited", PLAIN, NULL, 0, 0);
  SHOW(tenths(awaited));
  runs[0] = 0;
  for (i = 0; i < 10; i++) {
    struct node *n = GC_NEW(struct node);
    GC_register_finalizer(n, count, NULL, NULL, NULL);
  }
  GC_finalize_all();
  SHOW(runs[0]);
  GC_finalize_all();
  SHOW(runs[0]);
}

/* Which of three links of an object with a finalizer that revives it are cleared when? */
static GC_hidden_pointer short_links[kCount], long_links[kCount], plain_links[kCount];
static void *revived[kCount];
static size_t revivals;
static void GC_CALLBACK revive(void *object, void *data) {
  (void)data;
  revived[revivals++] = object;
}
static void *build_linked(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < kCount; i++) {
    void *p = GC_malloc(48), *q = GC_malloc(48);
    short_links[i] = long_links[i] = GC_HIDE_POINTER(p);
    plain_links[i] = GC_HIDE_POINTER(q);
    GC_general_register_disappearing_link((void **)&short_links[i], p);
    GC_register_long_link((void **)&long_links[i], p);
    GC_general_register_disappearing_link((void **)&plain_links[i], q);
    GC_register_finalizer(p, revive, NULL, NULL, NULL);
  }
  return NULL;
}
static size_t cleared(const GC_hidden_pointer *l) {
  size_t i, n = 0;
  for (i = 0; i < kCount; i++) n += l[i] == 0;
  return tenths(n);
}
static void link_times(void) {
  int round;
  GC_disable();
  run_in_thread(build_linked, NULL);
  GC_enable();
  for (round = 0; round < 3; round++) {
    SHOW(cleared(plain_links));
    SHOW(cleared(short_links));
    SHOW(cleared(long_links));
    SHOW(tenths(revivals));
    if (round == 1) memset(revived, 0, sizeof revived);
    collect();
  }
  SHOW(cleared(long_links));
}

static GC_ToggleRefStatus decision;
static size_t decisions;
static GC_ToggleRefStatus GC_CALLBACK decide(void *object) {
  (void)object;
  decisions++;
  return decision;
}
static GC_hidden_pointer toggle_links[kCount];
static int strong;
static void *build_toggles(void *arg) {
  size_t i;
  (void)arg;
  for (i = 0; i < kCount; i++) {
    void *p = GC_malloc(48);
    toggle_links[i] = GC_HIDE_POINTER(p);
    GC_general_register_disappearing_link((void **)&toggle_links[i], p);
    if (i == 0)
      SHOW(GC_toggleref_add(p, strong));
    else
      GC_toggleref_add(p, strong);
  }
  return NULL;
}
static void toggles_with(const char *name, int is_strong, GC_ToggleRefStatus then) {
  strong = is_strong;
  GC_disable();
  run_in_thread(build_toggles, NULL);
  GC_enable();
  decision = then;
  decisions = 0;
  collect();
  SHOW_TEXT("toggle reference", name);
  SHOW(decisions >= kCount);
  SHOW(cleared(toggle_links));
  decision = GC_TOGGLE_REF_WEAK;
  collect();
  collect();
  SHOW(cleared(toggle_links));
}
static void toggles(void) {
  SHOW(GC_toggleref_add(GC_malloc(10), 1)); /* no function yet */
  GC_set_toggleref_func(decide);
  toggles_with("strong to strong", 1, GC_TOGGLE_REF_STRONG);
  toggles_with("strong to weak", 1, GC_TOGGLE_REF_WEAK);
  toggles_with("strong to dropped", 1, GC_TOGGLE_REF_DROP);
  toggles_with("weak to weak", 0, GC_TOGGLE_REF_WEAK);
  toggles_with("weak to strong", 0, GC_TOGGLE_REF_STRONG);
}

const struct oracle_section finalization_sections[] = {{"link_codes", link_codes, 1},
                                                       {"registrations", registrations, 1},
                                                       {"order", order, 1},
                                                       {"warned", warned, 1},
                                                       {"on_demand", on_demand, 1},
                                                       {"without_java", without_java, 1},
                                                       {"all_at_the_end", all_at_the_end, 1},
                                                       {"link_times", link_times, 1},
                                                       {"toggles", toggles, 1},
                                                       {NULL, NULL, 0}};
