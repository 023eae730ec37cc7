// gc_allocator.h: its allocators in the standard containers, and what they keep. Passes with
// libgc's header too; what only this one has stands under GLEANER_HEADERS.
#include <gc/gc_allocator.h>

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "../api/check.h"

struct Number {
  explicit Number(int v = 0) : value(v) {}
  int value;
};
inline bool operator<(const Number &a, const Number &b) { return a.value < b.value; }

struct Packed {
  GC_word words[4];
};
GC_DECLARE_PTRFREE(Packed);

namespace {

const size_t kObjects = 1000;
struct watch watched;

int *NewInt(int value) {
  int *p = static_cast<int *>(GC_MALLOC_ATOMIC(sizeof(int)));
  *p = value;
  return p;
}

template <class Vector>
void Fill(Vector *v) {
  for (size_t i = 0; i < kObjects; i++) {
    int *p = NewInt(static_cast<int>(i));
    v->push_back(p);
    watch_object(&watched, i, GC_base(p));
  }
}

template <class Vector>
void *FillStatic(void *v) {
  Fill(static_cast<Vector *>(v));
  return 0;
}

// Elements of a container at `v` are kept while they are in it, and go with them.
template <class Vector>
void Keeps(Vector *v) {
  watch_init(&watched, kObjects);
  run_in_thread(FillStatic<Vector>, v);
  CHECK_KEPT(&watched);
  size_t expected = 0;
  for (typename Vector::const_iterator i = v->begin(); i != v->end(); ++i) {
    CHECK_EQ(**i, expected++);
  }
  CHECK_EQ(expected, kObjects);
  Vector().swap(*v);
  CHECK_GONE(&watched);
  watch_end(&watched);
}

std::vector<int *, gc_allocator<int *> > vector;
std::list<int *, gc_allocator<int *> > list;
std::vector<int *, gc_allocator_ignore_off_page<int *> > large_vector;
std::vector<int *, traceable_allocator<int *> > traceable_vector;

// In memory that the collector does not search.
template <class Vector>
void KeepsFromOutside() {
  void *place = malloc(sizeof(Vector));
  Vector *v = new (place) Vector;
  Keeps(v);
  v->~Vector();
  free(place);
}

void *FillPointerFree(void *) {
  std::vector<GC_word, gc_allocator<GC_word> > *words =
      new (GC_MALLOC_UNCOLLECTABLE(sizeof(*words))) std::vector<GC_word, gc_allocator<GC_word> >;
  std::vector<Packed, gc_allocator<Packed> > *packed =
      new (GC_MALLOC_UNCOLLECTABLE(sizeof(*packed))) std::vector<Packed, gc_allocator<Packed> >;
  for (size_t i = 0; i < kObjects; i++) {
    int *p = NewInt(0);
    words->push_back(reinterpret_cast<GC_word>(p));
    Packed four = {{0, 0, 0, reinterpret_cast<GC_word>(p)}};
    packed->push_back(four);
    watch_object(&watched, i, GC_base(p));
  }
  return 0;
}

void PointerFree() {
  watch_init(&watched, kObjects);
  run_in_thread(FillPointerFree, 0);
  CHECK_GONE(&watched);
  watch_end(&watched);
}

template <template <class> class Allocator>
void Containers() {
  typedef std::map<Number, int, std::less<Number>, Allocator<std::pair<const Number, int> > > Map;
  Map map;
  for (int i = 0; i < 10000; i++) map.insert(std::make_pair(Number(i), 2 * i));
  collect();
  for (int i = 0; i < 10000; i++) CHECK_EQ(map[Number(i)], 2 * i);
  Map copy(map);
  map.clear();
  CHECK_EQ(copy.size(), 10000);

  typedef std::basic_string<char, std::char_traits<char>, Allocator<char> > String;
  String text;
  for (int i = 0; i < 10000; i++) text += static_cast<char>('a' + i % 26);
  collect();
  CHECK_EQ(text.find("xyzabc"), 23);

  std::vector<Number, Allocator<Number> > numbers(1000, Number(5));
  CHECK_EQ(numbers[999].value, 5);
  numbers.resize(100000);
  CHECK_EQ(numbers[999].value, 5);
  CHECK_EQ(numbers[1000].value, 0);

  Allocator<Number> a;
  Allocator<int> b;
  Allocator<Number> from_other(b);
  CHECK(a == b && !(a != b) && a == from_other);
  CHECK_GE(a.max_size(), size_t(1) << 60);
  Number *two = a.allocate(2);
  a.construct(two, Number(9));
  CHECK_EQ(a.address(*two)->value, 9);
  CHECK_EQ(GC_base(two) != 0, 1);
  a.destroy(two);
  a.deallocate(two, 2);
  a.deallocate(0, 0);
  typename Allocator<Number>::template rebind<long>::other rebound;
  typename Allocator<Number>::size_type size = sizeof(typename Allocator<Number>::value_type);
  long *l = rebound.allocate(size);
  rebound.deallocate(l, size);

  int caught = 0;
  try {
    a.allocate(size_t(1) << 58);
  } catch (const std::bad_alloc &) {
    caught = 1;
  }
  CHECK_EQ(caught, 1);
}

#ifdef GLEANER_HEADERS
void Overflow() {
  int caught = 0;
  try {
    volatile size_t count = ~size_t(0) / sizeof(Packed) + 2;
    gc_allocator<Packed>().allocate(count);
  } catch (const std::bad_alloc &) {
    caught = 1;
  }
  CHECK_EQ(caught, 1);
}

#if __cplusplus >= 201103L
constexpr gc_allocator<int> constant_allocator{};
constexpr traceable_allocator<int> constant_traceable{};
constexpr gc_allocator_ignore_off_page<int> constant_large{gc_allocator_ignore_off_page<long>()};
static_assert(gc_allocator<int>() == gc_allocator<long>(), "constant expression");
static_assert(std::is_empty<gc_allocator<int> >::value, "no state");

struct alignas(128) Wide {
  int value = 3;
  ~Wide() {}
};

static_assert(constant_allocator == gc_allocator<char>() &&
                  !(constant_traceable != traceable_allocator<char>()) &&
                  constant_large == gc_allocator_ignore_off_page<char>(),
              "constant expressions");

template <template <class> class Allocator>
void Modern() {
  struct Tree {
    std::vector<Tree, Allocator<Tree> > children;  // of an incomplete type
  };
  Tree tree;
  tree.children.resize(3);
  tree.children[1].children.resize(2);
  collect();
  CHECK_EQ(tree.children[1].children.size(), 2);

  std::vector<std::unique_ptr<int>, Allocator<std::unique_ptr<int> > > owners;
  for (int i = 0; i < 100; i++) owners.push_back(std::unique_ptr<int>(new int(i)));
  owners.emplace_back(new int(100));
  CHECK_EQ(*owners[100], 100);

  std::vector<Wide, Allocator<Wide> > wide(10);
  for (int i = 0; i < 1000; i++) wide.emplace_back();
  collect();
  for (const Wide &w : wide) {
    CHECK_EQ(reinterpret_cast<size_t>(&w) % alignof(Wide), 0);
    CHECK_EQ(w.value, 3);
  }
  std::map<int, Wide, std::less<int>, Allocator<std::pair<const int, Wide> > > aligned_map;
  for (int i = 0; i < 1000; i++) CHECK_EQ(aligned_map[i].value, 3);

  auto shared = std::allocate_shared<Number>(Allocator<Number>(), 4);
  CHECK_EQ(shared->value, 4);
}
#endif
#endif

}  // namespace

int main() {
  GC_INIT();
  Keeps(&vector);
  Keeps(&list);
  Keeps(&large_vector);
  Keeps(&traceable_vector);
  KeepsFromOutside<std::vector<int *, traceable_allocator<int *> > >();
  KeepsFromOutside<std::list<int *, traceable_allocator<int *> > >();
  PointerFree();
  Containers<gc_allocator>();
  Containers<gc_allocator_ignore_off_page>();
  Containers<traceable_allocator>();
#ifdef GLEANER_HEADERS
  Overflow();
#if __cplusplus >= 201103L
  Modern<gc_allocator>();
  Modern<gc_allocator_ignore_off_page>();
  Modern<traceable_allocator>();
#endif
#endif
  return check_result();
}
