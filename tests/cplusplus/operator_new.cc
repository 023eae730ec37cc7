// libgccpp: the global operator new gives uncollectable memory that keeps what it points to.
#include <gc_cpp.h>

#include <list>
#include <new>
#include <string>

#include "../api/check.h"

namespace {

const size_t kObjects = 1000;
struct watch watched;

struct Holder {
  void *pointer;
};

GC_hidden_pointer hidden[kObjects];

void *MakeHolders(void *) {
  for (size_t i = 0; i < kObjects; i++) {
    Holder *holder = i % 2 ? new Holder : new Holder[3] + 0;
    holder->pointer = new (GC) Holder;
    watch_object(&watched, i, holder->pointer);
    hidden[i] = GC_HIDE_POINTER(holder);
  }
  return 0;
}

void *DeleteHolders(void *) {
  for (size_t i = 0; i < kObjects; i++) {
    Holder *holder = static_cast<Holder *>(GC_REVEAL_POINTER(hidden[i]));
    CHECK_PTR(GC_base(holder), holder);
    if (i % 2) {
      delete holder;
    } else {
      delete[] holder;
    }
  }
  return 0;
}

int Throws(int what) {
  volatile size_t size = size_t(1) << 60;
  try {
    if (what == 0) GC_throw_bad_alloc();
    if (what == 1) operator delete(operator new(size));
    if (what == 2) operator delete[](operator new[](size));
  } catch (const std::bad_alloc &) {
    return 1;
  }
  return 0;
}

#ifdef GLEANER_HEADERS
int handler_calls;
void Handler() {
  if (++handler_calls == 2) std::set_new_handler(0);
}

void Aligned() {
  struct alignas(256) Wide {
    void *pointer;
  };
  const size_t before = GC_get_non_gc_bytes();
  for (int i = 0; i < 100; i++) {
    Wide *one = new Wide;
    Wide *many = new Wide[5];
    CHECK(GC_base(one) != 0 && GC_base(many) != 0);
    CHECK_EQ(reinterpret_cast<size_t>(one) % 256, 0);
    CHECK_EQ(reinterpret_cast<size_t>(many) % 256, 0);
    delete one;
    delete[] many;
  }
  CHECK_EQ(GC_get_non_gc_bytes(), before);
}
#endif

}  // namespace

int main() {
  GC_INIT();
  watch_init(&watched, kObjects);
  run_in_thread(MakeHolders, 0);
  CHECK_KEPT(&watched);
  run_in_thread(DeleteHolders, 0);
  CHECK_GONE(&watched);
  watch_end(&watched);

  for (int what = 0; what < 3; what++) CHECK_EQ(Throws(what), 1);
  volatile size_t huge = size_t(1) << 60;
  CHECK_NULL(operator new(huge, std::nothrow));

  std::list<std::string> strings;
  for (int i = 0; i < 1000; i++) strings.push_back(std::string(100, 'x'));
  collect();
  CHECK(GC_base(&strings.back()) != 0);
  CHECK(GC_base(const_cast<char *>(strings.back().data())) != 0);

  void *sized = operator new(100);
  operator delete(sized, size_t(100));
  operator delete(static_cast<void *>(0));

#ifdef GLEANER_HEADERS
  Aligned();
  std::set_new_handler(Handler);
  CHECK_EQ(Throws(1), 1);
  CHECK_EQ(handler_calls, 2);
#endif
  return check_result();
}
