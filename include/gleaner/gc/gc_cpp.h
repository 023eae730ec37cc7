/*
 * C++ on the collected heap: `new` that says where an object goes, and destructors that run when an
 * object is collected. C++98 and later.
 *
 *     struct Node : gc { Node *next; };             new Node           collected
 *     struct File : gc_cleanup { ~File(); };        new File           ~File runs at collection
 *     struct Plain { int x; };                      new (GC) Plain     collected
 *                                                   new (NoGC) Plain   lives until delete
 *
 * Where an object goes is a GCPlacement:
 *   UseGC, GC        collected, and searched for pointers
 *   PointerFreeGC    collected; holds no pointers into the heap
 *   NoGC             not collected, and searched: what it points to is kept until it is deleted
 *   PointerFreeNoGC  not collected, holds no pointers; only with GC_ATOMIC_UNCOLLECTABLE defined
 * `new` without a placement means UseGC for classes derived from gc, and the global operator new,
 * which the collector does not search, for others. Linking libgccpp replaces the global one by
 * NoGC.
 *
 * `delete` is allowed for every object made here, and never needed for a collected one.
 *
 * Types with extended alignment get it where the compiler has aligned new (C++17).
 *
 * With C++17 there is also gc_memory_resource, for the containers of std::pmr.
 *
 * Macros a program may define before the inclusion:
 *   GC_NAMESPACE             the classes, constants and types are members of namespace boehmgc.
 *   GC_NAME_CONFLICT         no constant GC, only UseGC.
 *   GC_NO_OPERATOR_NEW_ARRAY no array forms.
 *   GC_NEW_ABORTS_ON_OOM     end the process when there is no memory, instead of std::bad_alloc.
 *   GC_NO_PMR                no gc_memory_resource, and no <memory_resource>.
 * Without exceptions (-fno-exceptions) GC_throw_bad_alloc of libgccpp or libgctba is called then.
 */
#ifndef GC_CPP_H
#define GC_CPP_H

#include <new>

#include "gc.h"

#if defined(GLEANER_GC_NAMESPACE) && !defined(GC_NAMESPACE)
#error "gc_cpp.h has a class gc: include it before gleaner.hpp, or define GLEANER_NO_GC_NAMESPACE"
#endif

#if __cplusplus >= 201703L && !defined(GC_NO_PMR)
#if __has_include(<memory_resource>)
#include <memory_resource>
#define GC_HAVE_PMR
#endif
#endif

#if !defined(GC_NO_OPERATOR_NEW_ARRAY) && !defined(GC_OPERATOR_NEW_ARRAY)
#define GC_OPERATOR_NEW_ARRAY
#endif
#define GC_PLACEMENT_DELETE

#ifdef GC_NAMESPACE
#define GC_NS_QUALIFY(name) boehmgc::name
#else
#define GC_NS_QUALIFY(name) name
#endif

/* The calling convention of cleanup functions, under an old name. */
#define GC_cdecl GC_CALLBACK

/* Throws std::bad_alloc, for code that is compiled without exceptions. In libgccpp and libgctba. */
GC_API void GC_CALL GC_throw_bad_alloc();

/* Handles a NULL `object`, the result of an allocation by `new`. */
#if defined(GC_NEW_ABORTS_ON_OOM)
#define GC_OP_NEW_OOM_CHECK(object)   \
  do {                                \
    if (!(object)) GC_abort_on_oom(); \
  } while (0)
#elif defined(__cpp_exceptions) || defined(__EXCEPTIONS)
#define GC_OP_NEW_OOM_CHECK(object)        \
  do {                                     \
    if (!(object)) throw std::bad_alloc(); \
  } while (0)
#else
#define GC_OP_NEW_OOM_CHECK(object)      \
  do {                                   \
    if (!(object)) GC_throw_bad_alloc(); \
  } while (0)
#endif

#ifdef GC_NAMESPACE
namespace boehmgc {
#endif

enum GCPlacement {
  UseGC,
#ifndef GC_NAME_CONFLICT
  GC = UseGC,
#endif
  NoGC,
  PointerFreeGC
#ifdef GC_ATOMIC_UNCOLLECTABLE
  ,
  PointerFreeNoGC
#endif
};

/* Called with the object and the client's data when the object is collected. It is called with the
   orders and in the circumstances of GC_register_finalizer_ignore_self. */
extern "C" {
typedef void(GC_CALLBACK *GCCleanUpFunc)(void *object, void *data);
}

/* Memory of the given placement, or what an exhausted heap means. For this header's own use. */
inline void *GC_cpp_allocate(size_t size, GCPlacement placement) {
  void *object;
  switch (placement) {
    case UseGC:
      object = GC_MALLOC(size);
      break;
    case PointerFreeGC:
      object = GC_MALLOC_ATOMIC(size);
      break;
#ifdef GC_ATOMIC_UNCOLLECTABLE
    case PointerFreeNoGC:
      object = GC_MALLOC_ATOMIC_UNCOLLECTABLE(size);
      break;
#endif
    case NoGC:
    default:
      object = GC_MALLOC_UNCOLLECTABLE(size);
      break;
  }
  GC_OP_NEW_OOM_CHECK(object);
  return object;
}

#ifdef __cpp_aligned_new
/* GC_cpp_allocate at a multiple of `align`. The heap aligns only objects that are collected and
   searched. So a pointer-free object is made a searched one, and an uncollectable object begins
   inside a larger block, which is kept without a pointer to it. The debugging allocator is not
   used. */
inline void *GC_cpp_allocate(size_t size, std::align_val_t align_value, GCPlacement placement) {
  const size_t align = static_cast<size_t>(align_value);
  void *object = 0;
  if (placement == UseGC || placement == PointerFreeGC) {
    object = GC_memalign(align, size);
  } else if (size + align >= size) {
    object = (GC_malloc_uncollectable)(size + align);
    if (object) {
      char *start = static_cast<char *>(object);
      object = start + (align - reinterpret_cast<GC_word>(start) % align) % align;
    }
  }
  GC_OP_NEW_OOM_CHECK(object);
  return object;
}

inline void GC_cpp_free_aligned(void *object) GC_NOEXCEPT {
  if (object) (GC_free)(GC_base(object));
}
#endif

/* The base of classes whose objects are collected. Adds no data and no virtual function. */
class gc {
 public:
  void *operator new(size_t size) { return GC_cpp_allocate(size, UseGC); }
  void *operator new(size_t size, GCPlacement placement) {
    return GC_cpp_allocate(size, placement);
  }
  void *operator new(size_t, void *place) GC_NOEXCEPT { return place; }
  void operator delete(void *object) GC_NOEXCEPT { GC_FREE(object); }
  void operator delete(void *object, GCPlacement) GC_NOEXCEPT { GC_FREE(object); }
  void operator delete(void *, void *) GC_NOEXCEPT {}

#ifdef GC_OPERATOR_NEW_ARRAY
  void *operator new[](size_t size) { return GC_cpp_allocate(size, UseGC); }
  void *operator new[](size_t size, GCPlacement placement) {
    return GC_cpp_allocate(size, placement);
  }
  void *operator new[](size_t, void *place) GC_NOEXCEPT { return place; }
  void operator delete[](void *objects) GC_NOEXCEPT { GC_FREE(objects); }
  void operator delete[](void *objects, GCPlacement) GC_NOEXCEPT { GC_FREE(objects); }
  void operator delete[](void *, void *) GC_NOEXCEPT {}
#endif

#ifdef __cpp_aligned_new
  void *operator new(size_t size, std::align_val_t align) {
    return GC_cpp_allocate(size, align, UseGC);
  }
  void *operator new(size_t size, std::align_val_t align, GCPlacement placement) {
    return GC_cpp_allocate(size, align, placement);
  }
  void operator delete(void *object, std::align_val_t) GC_NOEXCEPT { GC_cpp_free_aligned(object); }
  void operator delete(void *object, std::align_val_t, GCPlacement) GC_NOEXCEPT {
    GC_cpp_free_aligned(object);
  }
#ifdef GC_OPERATOR_NEW_ARRAY
  void *operator new[](size_t size, std::align_val_t align) {
    return GC_cpp_allocate(size, align, UseGC);
  }
  void *operator new[](size_t size, std::align_val_t align, GCPlacement placement) {
    return GC_cpp_allocate(size, align, placement);
  }
  void operator delete[](void *objects, std::align_val_t) GC_NOEXCEPT {
    GC_cpp_free_aligned(objects);
  }
  void operator delete[](void *objects, std::align_val_t, GCPlacement) GC_NOEXCEPT {
    GC_cpp_free_aligned(objects);
  }
#endif
#endif /* __cpp_aligned_new */
};

/* The base of classes whose destructor runs when the object is collected, unless it was deleted
   before. One destructor runs for each allocation: of an array, that of the first element. Of an
   object with several gc_cleanup parts, that of the part whose construction began first; it then
   destroys the others by its own rules. Objects in other memory, such as the stack, are not
   affected. */
class gc_cleanup : public virtual gc {
 public:
  gc_cleanup() { Register(); }
  gc_cleanup(const gc_cleanup &other) : gc(other) { Register(); }
  gc_cleanup &operator=(const gc_cleanup &) { return *this; }

  virtual ~gc_cleanup() {
    void *base = GC_base(this);
    if (base) GC_register_finalizer_ignore_self(base, 0, 0, 0, 0);
  }

 private:
  /* `offset` is where in the allocation the gc_cleanup part is. */
  static void GC_CALLBACK Cleanup(void *base, void *offset) {
    void *self = static_cast<char *>(base) + reinterpret_cast<ptrdiff_t>(offset);
    static_cast<gc_cleanup *>(self)->~gc_cleanup();
  }

  void Register() {
    void *self = this;
    void *base = GC_base(self);
    if (!base) return;
    void *offset = reinterpret_cast<void *>(static_cast<char *>(self) - static_cast<char *>(base));
    GC_finalization_proc old_proc = 0;
    void *old_data = 0;
    GC_register_finalizer_ignore_self(base, Cleanup, offset, &old_proc, &old_data);
    /* The allocation had a finalizer: that one stays. */
    if (old_proc) GC_register_finalizer_ignore_self(base, old_proc, old_data, 0, 0);
  }
};

#ifdef GC_HAVE_PMR
/* A memory resource that takes its memory from the collected heap. Thread-safe.
     std::pmr::vector<Node *> nodes(gc_get_memory_resource());
   With UseGC a container's memory is kept and searched as long as something that the collector sees
   points to it, the container itself for one; with NoGC as long as the container has it, wherever
   that lies; with PointerFreeGC it is kept as with UseGC, and not searched. */
class gc_memory_resource : public std::pmr::memory_resource {
 public:
  constexpr explicit gc_memory_resource(GCPlacement placement = UseGC) noexcept
      : placement_(placement) {}

  GCPlacement placement() const noexcept { return placement_; }

 private:
  static constexpr size_t kHeapAlignment = 16;

  void *do_allocate(size_t size, size_t align) override {
    if (align <= kHeapAlignment) return GC_cpp_allocate(size, placement_);
#ifdef __cpp_aligned_new
    return GC_cpp_allocate(size, std::align_val_t(align), placement_);
#else
    throw std::bad_alloc();
#endif
  }

  void do_deallocate(void *memory, size_t, size_t align) override {
    if (align <= kHeapAlignment) {
      GC_FREE(memory);
    } else {
      GC_free(GC_base(memory));
    }
  }

  bool do_is_equal(const std::pmr::memory_resource &other) const noexcept override {
    if (this == &other) return true;
#if defined(__cpp_rtti) || defined(__GXX_RTTI)
    const gc_memory_resource *resource = dynamic_cast<const gc_memory_resource *>(&other);
    return resource && resource->placement_ == placement_;
#else
    return false;
#endif
  }

  GCPlacement placement_;
};

/* The resource of each placement. It is never destroyed. */
template <GCPlacement placement = UseGC>
inline gc_memory_resource *gc_get_memory_resource() noexcept {
  alignas(gc_memory_resource) static char storage[sizeof(gc_memory_resource)];
  static gc_memory_resource *const resource =
      ::new (static_cast<void *>(storage)) gc_memory_resource(placement);
  return resource;
}
#endif

#ifdef GC_NAMESPACE
}
#endif

/* new (placement) T, new (placement, cleanup) T and new (placement, cleanup, data) T for any type.
   The cleanup function is for placement UseGC. */
inline void *operator new(size_t size, GC_NS_QUALIFY(GCPlacement) placement,
                          GC_NS_QUALIFY(GCCleanUpFunc) cleanup = 0, void *data = 0) {
  void *object = GC_NS_QUALIFY(GC_cpp_allocate)(size, placement);
  if (cleanup && placement == GC_NS_QUALIFY(UseGC)) {
    GC_REGISTER_FINALIZER_IGNORE_SELF(object, cleanup, data, 0, 0);
  }
  return object;
}

/* For a constructor that throws. */
inline void operator delete(void *object, GC_NS_QUALIFY(GCPlacement), GC_NS_QUALIFY(GCCleanUpFunc),
                            void *) GC_NOEXCEPT {
  GC_FREE(object);
}

#ifdef GC_OPERATOR_NEW_ARRAY
/* The cleanup function gets the start of the allocation, which may lie before the first element. */
inline void *operator new[](size_t size, GC_NS_QUALIFY(GCPlacement) placement,
                            GC_NS_QUALIFY(GCCleanUpFunc) cleanup = 0, void *data = 0) {
  return ::operator new(size, placement, cleanup, data);
}

inline void operator delete[](void *objects, GC_NS_QUALIFY(GCPlacement),
                              GC_NS_QUALIFY(GCCleanUpFunc), void *) GC_NOEXCEPT {
  GC_FREE(objects);
}
#endif

#ifdef __cpp_aligned_new
inline void *operator new(size_t size, std::align_val_t align, GC_NS_QUALIFY(GCPlacement) placement,
                          GC_NS_QUALIFY(GCCleanUpFunc) cleanup = 0, void *data = 0) {
  void *object = GC_NS_QUALIFY(GC_cpp_allocate)(size, align, placement);
  if (cleanup && placement == GC_NS_QUALIFY(UseGC)) {
    GC_register_finalizer_ignore_self(object, cleanup, data, 0, 0);
  }
  return object;
}

inline void operator delete(void *object, std::align_val_t, GC_NS_QUALIFY(GCPlacement),
                            GC_NS_QUALIFY(GCCleanUpFunc), void *) GC_NOEXCEPT {
  GC_NS_QUALIFY(GC_cpp_free_aligned)(object);
}

#ifdef GC_OPERATOR_NEW_ARRAY
inline void *operator new[](size_t size, std::align_val_t align,
                            GC_NS_QUALIFY(GCPlacement) placement,
                            GC_NS_QUALIFY(GCCleanUpFunc) cleanup = 0, void *data = 0) {
  return ::operator new(size, align, placement, cleanup, data);
}

inline void operator delete[](void *objects, std::align_val_t, GC_NS_QUALIFY(GCPlacement),
                              GC_NS_QUALIFY(GCCleanUpFunc), void *) GC_NOEXCEPT {
  GC_NS_QUALIFY(GC_cpp_free_aligned)(objects);
}
#endif
#endif /* __cpp_aligned_new */

#endif
