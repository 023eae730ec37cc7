// gc.h from C++: the declarations have C linkage, the macros work, and objects of C++ containers'
// sort, with interior pointers and exceptions around, are kept.
#include "check.h"

#include <gc/javaxfc.h>
#include <gleaner.h>
#include <stdexcept>

namespace {

struct Node {
  Node* next;
  int number;
};

struct Base {
  virtual ~Base() {}
  long a;
};
struct OtherBase {
  virtual ~OtherBase() {}
  virtual int Number() const = 0;
};
struct Derived : Base, OtherBase {
  explicit Derived(int n) : number(n) {}
  int Number() const override { return number; }
  int number;
};

void* operator_new(size_t size) { return GC_MALLOC(size); }

int finalized = 0;
void GC_CALLBACK Finalize(void* object, void*) {
  static_cast<Derived*>(object)->~Derived();
  finalized++;
}

OtherBase* others[1000];

void* MakeDerived(void*) {
  for (int i = 0; i < 1000; i++) {
    Derived* d = new (operator_new(sizeof(Derived))) Derived(i);
    GC_REGISTER_FINALIZER_IGNORE_SELF(d, Finalize, 0, 0, 0);
    others[i] = d;  // points inside
  }
  return nullptr;
}

int ThrowThrough(int depth) {
  Node* volatile n = GC_NEW(Node);
  n->number = depth;
  try {
    if (depth == 0) throw std::runtime_error("bottom");
    return ThrowThrough(depth - 1);
  } catch (const std::runtime_error&) {
    GC_gcollect();
    CHECK_EQ(n->number, depth);
    if (depth < 20) throw;
    return depth;
  }
}

void* Throw(void*) {
  CHECK_EQ(ThrowThrough(20), 20);
  return nullptr;
}

}  // namespace

int main() {
  GC_INIT();
  make_in_thread(MakeDerived, nullptr);
  collect();
  CHECK_EQ(finalized, 0);
  for (int i = 0; i < 1000; i++) CHECK_EQ(others[i]->Number(), i);
  memset(static_cast<void*>(others), 0, sizeof others);
  collect();
  CHECK_MOSTLY(finalized, 1000);

  run_in_thread(Throw, nullptr);
  Throw(nullptr);
  return check_result();
}
