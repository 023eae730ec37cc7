// gc_cpp.h with its names in a namespace and without array forms.
#define GC_NAMESPACE
#define GC_NAME_CONFLICT
#define GC_NO_OPERATOR_NEW_ARRAY
#define GC_ATOMIC_UNCOLLECTABLE
#include <gc_cpp.h>

#include "../api/check.h"

// Names that are the program's own.
struct gc {};
enum { GC, UseGC };

#ifdef GC_OPERATOR_NEW_ARRAY
#error "array forms are there"
#endif

namespace {

int destroyed;

struct Resource : public boehmgc::gc_cleanup {
  ~Resource() { destroyed++; }
};

void *MakeResources(void *) {
  for (int i = 0; i < 1000; i++) new Resource;
  return 0;
}

}  // namespace

int main() {
  GC_INIT();
  run_in_thread(MakeResources, 0);
  collect();
  collect();
  CHECK_MOSTLY(destroyed, 1000);
  int *number = new (boehmgc::PointerFreeNoGC) int(3);
  collect();
  CHECK_EQ(*number, 3);
  boehmgc::GCCleanUpFunc none = 0;
  operator delete(number, boehmgc::PointerFreeNoGC, none, 0);
  CHECK(GC_base(new (boehmgc::UseGC) int) != 0);
  return check_result();
}
