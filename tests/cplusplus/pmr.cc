// gc_memory_resource of gc_cpp.h under the containers of std::pmr.
#include <gc_cpp.h>

#include <map>
#include <memory_resource>
#include <new>
#include <string>
#include <vector>

#include "../api/check.h"

namespace {

const size_t kObjects = 1000;
struct watch watched;

using Pointers = std::pmr::vector<int *>;

void *Fill(void *pointers) {
  Pointers *v = static_cast<Pointers *>(pointers);
  for (size_t i = 0; i < kObjects; i++) {
    int *p = new (PointerFreeGC) int(static_cast<int>(i));
    v->push_back(p);
    watch_object(&watched, i, p);
  }
  return nullptr;
}

// `place` is where the vector itself lies.
void KeepsWith(std::pmr::memory_resource *resource, void *place, size_t kept) {
  Pointers *v = new (place) Pointers(resource);
  watch_init(&watched, kObjects);
  run_in_thread(Fill, v);
  collect();
  if (kept) {
    CHECK_EQ(watch_gone(&watched), 0);
    for (size_t i = 0; i < kObjects; i++) CHECK_EQ(*(*v)[i], i);
  } else {
    CHECK_MOSTLY(watch_gone(&watched), kObjects);
  }
  v->~Pointers();
  memset(place, 0, sizeof(Pointers));
  CHECK_GONE(&watched);
  watch_end(&watched);
}

alignas(Pointers) char root[sizeof(Pointers)];

}  // namespace

int main() {
  GC_INIT();
  gc_memory_resource *scanned = gc_get_memory_resource();
  gc_memory_resource *uncollectable = gc_get_memory_resource<NoGC>();
  gc_memory_resource *pointer_free = gc_get_memory_resource<PointerFreeGC>();
  CHECK_PTR(scanned, gc_get_memory_resource<UseGC>());
  CHECK_EQ(scanned->placement(), UseGC);
  CHECK_EQ(uncollectable->placement(), NoGC);

  KeepsWith(scanned, root, 1);
  KeepsWith(pointer_free, root, 0);
  KeepsWith(uncollectable, root, 1);
  void *outside = malloc(sizeof(Pointers));
  KeepsWith(uncollectable, outside, 1);
  free(outside);

  static const gc_memory_resource constant;
  gc_memory_resource own(NoGC);
  CHECK(*scanned == constant);
  CHECK(own == *uncollectable);
  CHECK(own != *scanned);
  CHECK(own != *std::pmr::new_delete_resource());

  for (gc_memory_resource *resource : {scanned, uncollectable, pointer_free}) {
    const size_t uncollectable_before = GC_get_non_gc_bytes();
    for (size_t align = 1; align <= 4096; align *= 2) {
      for (size_t size : {size_t(0), size_t(1), size_t(100), size_t(5000)}) {
        void *p = resource->allocate(size, align);
        CHECK_EQ(reinterpret_cast<size_t>(p) % align, 0);
        memset(p, 1, size);
        collect();
        resource->deallocate(p, size, align);
      }
    }
    CHECK_EQ(GC_get_non_gc_bytes(), uncollectable_before);
    for (size_t align : {size_t(8), size_t(64)}) {
      bool caught = false;
      volatile size_t size = ~size_t(0) - 4;
      try {
        resource->deallocate(resource->allocate(size, align), size, align);
      } catch (const std::bad_alloc &) {
        caught = true;
      }
      CHECK(caught);
    }
  }

  std::pmr::map<int, std::pmr::string> map(scanned);
  for (int i = 0; i < 1000; i++) map[i] = std::string(static_cast<size_t>(i % 100), 'x');
  collect();
  for (int i = 0; i < 1000; i++) CHECK_EQ(map[i].size(), i % 100);
  return check_result();
}
