// gc_cpp.h: every form of `new`, cleanup at collection and its order, delete, throwing
// constructors. Passes with libgc's header too; what only this one has stands under
// GLEANER_HEADERS.
#include <gc_cpp.h>

#include <exception>
#include <new>

#include "../api/check.h"

namespace {

const size_t kObjects = 1000;
struct watch watched;

struct Node : public gc {
  Node *next;
  long number;
};

struct Plain {
  void *pointer;
  long numbers[7];
};

// ---- The class gc ----

Node *kept;

void *MakeNodes(void *) {
  for (size_t i = 0; i < kObjects; i++) {
    Node *n = new Node;
    CHECK_NULL(n->next);
    n->number = static_cast<long>(i);
    n->next = kept;
    kept = n;
    watch_object(&watched, i, GC_base(n));
  }
  return 0;
}

void Collected() {
  watch_init(&watched, kObjects);
  run_in_thread(MakeNodes, 0);
  CHECK_KEPT(&watched);
  long expected = kObjects;
  while (kept) {
    CHECK_EQ(kept->number, --expected);
    Node *next = kept->next;
    kept->next = 0;
    kept = next;
  }
  CHECK_EQ(expected, 0);
  CHECK_GONE(&watched);
  watch_end(&watched);
}

// ---- Placements ----

// Uncollectable objects hold the only pointers; their own addresses are hidden.
GC_hidden_pointer hidden[kObjects];

void *MakePlaced(void *) {
  for (size_t i = 0; i < kObjects; i++) {
    Plain *outer = new (NoGC) Plain;
    Node *inner = new (GC) Node;
    outer->pointer = inner;
    inner->number = static_cast<long>(i);
    watch_object(&watched, i, GC_base(inner));
    hidden[i] = GC_HIDE_POINTER(outer);
  }
  return 0;
}

void *DeletePlaced(void *) {
  for (size_t i = 0; i < kObjects; i++) {
    Plain *outer = static_cast<Plain *>(GC_REVEAL_POINTER(hidden[i]));
    CHECK_EQ(static_cast<Node *>(outer->pointer)->number, i);
    operator delete(outer, NoGC, 0, 0);
  }
  return 0;
}

void Uncollectable() {
  watch_init(&watched, kObjects);
  run_in_thread(MakePlaced, 0);
  CHECK_KEPT(&watched);
  run_in_thread(DeletePlaced, 0);
  CHECK_GONE(&watched);
  watch_end(&watched);
}

GC_hidden_pointer *unseen;

void *MakePointerFree(void *) {
  unseen = new (PointerFreeGC) GC_hidden_pointer[kObjects];
  for (size_t i = 0; i < kObjects; i++) {
    Node *n = new (UseGC) Node;
    unseen[i] = reinterpret_cast<GC_hidden_pointer>(n);
    watch_object(&watched, i, GC_base(n));
  }
  return 0;
}

void PointerFree() {
  watch_init(&watched, kObjects);
  run_in_thread(MakePointerFree, 0);
  CHECK_GONE(&watched);
  watch_end(&watched);
  unseen = 0;
}

void Forms() {
  Plain *plain = new (GC) Plain;
  CHECK(GC_base(plain) != 0);
  CHECK_GE(GC_size(GC_base(plain)), sizeof(Plain));
  Plain *plains = new (UseGC) Plain[10];
  CHECK_GE(GC_size(GC_base(plains)), 10 * sizeof(Plain));
  Node *nodes = new Node[10];
  CHECK_GE(GC_size(GC_base(nodes)), 10 * sizeof(Node));
  delete[] nodes;
  nodes = new (NoGC) Node[10];
  delete[] nodes;
  delete new (PointerFreeGC) Node;
  delete new (NoGC) Node;
  delete static_cast<Node *>(0);

  char place[sizeof(Node)] __attribute__((aligned(16)));
  Node *placed = new (static_cast<void *>(place)) Node;
  CHECK_PTR(placed, place);
  CHECK_NULL(GC_base(placed));
  CHECK_EQ(UseGC, 0);
  CHECK_EQ(GC, UseGC);
  CHECK_EQ(NoGC, 1);
  CHECK_EQ(PointerFreeGC, 2);
}

// ---- Cleanup functions ----

size_t cleanups;
char cleanup_data;

void GC_CALLBACK CleanUp(void *object, void *data) {
  CHECK_PTR(data, &cleanup_data);
  CHECK(GC_base(object) != 0);
  cleanups++;
}

void *MakeWithCleanup(void *) {
  for (size_t i = 0; i < kObjects; i++) {
    Plain *plain = new (GC, CleanUp, &cleanup_data) Plain;
    plain->pointer = plain;  // a reference to itself does not count
    new (NoGC, CleanUp, &cleanup_data) int;
  }
  return 0;
}

void CleanupFunctions() {
  run_in_thread(MakeWithCleanup, 0);
  collect();
  collect();
  CHECK_MOSTLY(cleanups, kObjects);
  CHECK_LE(cleanups, kObjects);
}

// ---- Destructors at collection ----

size_t destroyed;

struct Header {
  Header() : tag(42) {}
  virtual ~Header() {}
  long tag;
};

// The gc_cleanup part is not at the start of the object.
struct Resource : public Header, public gc_cleanup {
  Resource() : self(this), number(7) {}
  ~Resource() {
    CHECK_PTR(self, this);
    CHECK_EQ(number, 7);
    CHECK_EQ(tag, 42);
    number = 0;
    destroyed++;
  }
  Resource *self;
  long number;
};

void *MakeResources(void *) {
  for (size_t i = 0; i < kObjects; i++) new Resource;
  return 0;
}

void *DeleteResources(void *) {
  for (size_t i = 0; i < kObjects; i++) delete new Resource;
  { Resource on_stack; }
  return 0;
}

void Destructors() {
  destroyed = 0;
  run_in_thread(MakeResources, 0);
  collect();
  collect();
  CHECK_MOSTLY(destroyed, kObjects);
  CHECK_LE(destroyed, kObjects);

  destroyed = 0;
  run_in_thread(DeleteResources, 0);
  CHECK_EQ(destroyed, kObjects + 1);
  collect();
  CHECK_LE(destroyed, kObjects + 1 + kObjects / 10);  // the rest of those above
}

// A chain is destroyed from its front, since the front refers to the rest.
struct Link : public gc_cleanup {
  Link(Link *n, int d) : next(n), depth(d) {}
  ~Link();
  Link *next;
  int depth;
};
const int kChain = 5;
const int kChains = 200;
int chain_destroyed[kChain];
int out_of_order;

Link::~Link() {
  // Everything behind this one has not been destroyed yet.
  if (next && next->depth != depth + 1) out_of_order++;
  chain_destroyed[depth]++;
  depth = -1;
}

// No collection comes while they are made: it would destroy the first links of some.
void *MakeChains(void *) {
  GC_disable();
  for (int i = 0; i < kChains; i++) {
    Link *l = 0;
    for (int depth = kChain - 1; depth >= 0; depth--) l = new Link(l, depth);
  }
  GC_enable();
  return 0;
}

void Order() {
  run_in_thread(MakeChains, 0);
  for (int depth = 0; depth < kChain; depth++) {
    collect();
    if (depth + 1 < kChain) CHECK_EQ(chain_destroyed[kChain - 1], 0);
  }
  for (int i = 0; i < 3; i++) collect();
  CHECK_EQ(out_of_order, 0);
  for (int depth = 0; depth < kChain; depth++) CHECK_MOSTLY(chain_destroyed[depth], kChains);
}

#ifdef GLEANER_HEADERS
void *CopyResources(void *) {
  Link pattern(0, 0);
  for (size_t i = 0; i < kObjects; i++) {
    Link *copy = new Link(pattern);
    *copy = pattern;
  }
  return 0;
}

void Copies() {
  chain_destroyed[0] = 0;
  run_in_thread(CopyResources, 0);
  collect();
  collect();
  CHECK_MOSTLY(chain_destroyed[0], kObjects + 1);
}
#endif

// ---- Failures ----

struct Refusal {};
struct Refuses : public gc {
  explicit Refuses(int) { throw Refusal(); }
};
struct RefusesPlain {
  explicit RefusesPlain(int) { throw Refusal(); }
};

void *volatile sink;

template <class Make>
int Caught(Make make) {
  try {
    make();
  } catch (const Refusal &) {
    return 1;
  } catch (const std::bad_alloc &) {
    return 2;
  }
  return 0;
}

void MakeRefused() { sink = new Refuses(1); }
void MakeRefusedUncollectable() { sink = new (NoGC) Refuses(1); }
void MakeRefusedPlain() { sink = new (NoGC) RefusesPlain(1); }
volatile size_t too_many = size_t(1) << 60;
void MakeTooMany() { sink = new (GC) char[too_many]; }
void MakeTooManyUncollectable() { sink = new (NoGC) char[too_many]; }

void Failures() {
  const size_t uncollectable_before = GC_get_non_gc_bytes();
  CHECK_EQ(Caught(MakeRefused), 1);
  for (size_t i = 0; i < kObjects; i++) {
    CHECK_EQ(Caught(MakeRefusedUncollectable), 1);
    CHECK_EQ(Caught(MakeRefusedPlain), 1);
  }
  CHECK_LE(GC_get_non_gc_bytes(), uncollectable_before);
  CHECK_EQ(Caught(MakeTooMany), 2);
  CHECK_EQ(Caught(MakeTooManyUncollectable), 2);
}

// ---- Extended alignment ----

#if defined(GLEANER_HEADERS) && defined(__cpp_aligned_new)
struct alignas(64) Line : public gc {
  void *pointer;
};
struct alignas(4096) Sheet {
  void *pointer;
};
struct alignas(256) AlignedResource : public gc_cleanup {
  ~AlignedResource() {
    CHECK_EQ(reinterpret_cast<size_t>(this) % 256, 0);
    destroyed++;
  }
};

template <class T>
T *Aligned(T *object) {
  CHECK_EQ(reinterpret_cast<size_t>(object) % alignof(T), 0);
  CHECK(GC_base(object) != 0);
  return object;
}

Line *lines[kObjects];  // each kept by itself: a stray word of a stack keeps one

void *MakeAligned(void *) {
  for (size_t i = 0; i < kObjects; i++) {
    lines[i] = Aligned(new Line);
    watch_object(&watched, i, GC_base(lines[i]));
    new AlignedResource;
    Aligned(new (GC, CleanUp, &cleanup_data) Sheet);
  }
  return 0;
}

void ExtendedAlignment() {
  destroyed = cleanups = 0;
  watch_init(&watched, kObjects);
  run_in_thread(MakeAligned, 0);
  CHECK_KEPT(&watched);
  CHECK_MOSTLY(destroyed, kObjects);
  CHECK_MOSTLY(cleanups, kObjects);
  memset(lines, 0, sizeof lines);
  CHECK_GONE(&watched);
  watch_end(&watched);

  delete Aligned(new Line);
  delete[] Aligned(new Line[3]);
  delete Aligned(new (NoGC) Line);
  delete Aligned(new (PointerFreeGC) Line);
  delete[] Aligned(new (NoGC) Line[3]);
  destroyed = 0;
  delete Aligned(new AlignedResource);
  CHECK_EQ(destroyed, 1);
  Sheet *sheet = Aligned(new (NoGC) Sheet);
  operator delete(sheet, std::align_val_t(4096), NoGC, 0, 0);
  CHECK(Aligned(new (UseGC) Sheet[2]) != 0);
}
#endif

}  // namespace

int main() {
  GC_INIT();
  Forms();
  Collected();
  Uncollectable();
  PointerFree();
  CleanupFunctions();
  Destructors();
  Order();
  Failures();
#ifdef GLEANER_HEADERS
  Copies();
#ifdef __cpp_aligned_new
  ExtendedAlignment();
#endif
#endif
  return check_result();
}
