// libgccpp: every `new` of the process without a placement returns uncollectable memory of the
// heap, which is searched for pointers until it is deleted. Any thread.
//
// libstdc++'s nothrow forms call the functions below. Its aligned forms take memory from malloc,
// which the collector does not search, so they are replaced too.
#include <new>

#include "gc/gc.h"

namespace {

// Returns an uncollectable block. While there is no memory it calls the program's new-handler, or
// throws std::bad_alloc if there is none.
void* Allocate(size_t size) {
  for (;;) {
    if (void* block = GC_malloc_uncollectable(size)) return block;
    std::new_handler handler = std::get_new_handler();
    if (!handler) throw std::bad_alloc();
    handler();
  }
}

// An aligned object begins inside a larger uncollectable block, which needs no pointer to it to be
// kept.
void* Allocate(size_t size, std::align_val_t alignment) {
  const size_t align = static_cast<size_t>(alignment);
  if (size + align < size) throw std::bad_alloc();
  char* block = static_cast<char*>(Allocate(size + align));
  return block + (align - reinterpret_cast<GC_word>(block) % align) % align;
}

void FreeAligned(void* object) {
  if (object) GC_free(GC_base(object));
}

}  // namespace

void* operator new(size_t size) { return Allocate(size); }
void* operator new[](size_t size) { return Allocate(size); }
void operator delete(void* object) noexcept { GC_free(object); }
void operator delete[](void* objects) noexcept { GC_free(objects); }
void operator delete(void* object, size_t) noexcept { GC_free(object); }
void operator delete[](void* objects, size_t) noexcept { GC_free(objects); }

void* operator new(size_t size, std::align_val_t align) { return Allocate(size, align); }
void* operator new[](size_t size, std::align_val_t align) { return Allocate(size, align); }
void operator delete(void* object, std::align_val_t) noexcept { FreeAligned(object); }
void operator delete[](void* objects, std::align_val_t) noexcept { FreeAligned(objects); }
void operator delete(void* object, size_t, std::align_val_t) noexcept { FreeAligned(object); }
void operator delete[](void* objects, size_t, std::align_val_t) noexcept { FreeAligned(objects); }
