/*
 * Allocators for the containers of the C++ standard library. C++98 and later; constructors are
 * constexpr where the language has it.
 *
 *   gc_allocator<T>                  Collected memory. It is kept, and searched for pointers unless
 *                                    T is declared pointer-free, as long as the collector finds a
 *                                    pointer to it: so the container must lie where it looks.
 *   gc_allocator_ignore_off_page<T>  gc_allocator for large containers that keep a pointer to the
 *                                    first 256 bytes of their memory, as std::vector does.
 *   traceable_allocator<T>           Uncollectable memory: what the container's elements point to
 * is kept as long as the container has them, wherever that lies.
 *
 *     std::vector<Node *, gc_allocator<Node *> > nodes;
 *
 * All have no state: any two for one type are equal. When there is no memory they throw
 * std::bad_alloc, or end the process if GC_NEW_ABORTS_ON_OOM is defined before the inclusion or the
 * code is compiled without exceptions.
 */
#ifndef GC_ALLOCATOR_H
#define GC_ALLOCATOR_H

#include <new>

#include "gc.h"

#if __cplusplus >= 201103L
#include <utility>
#define GC_ALLOCATOR_CONSTEXPR constexpr
#else
#define GC_ALLOCATOR_CONSTEXPR
#endif

#if !defined(GC_NEW_ABORTS_ON_OOM) && (defined(__cpp_exceptions) || defined(__EXCEPTIONS))
#define GC_ALLOCATOR_THROW_OR_ABORT() throw std::bad_alloc()
#else
#define GC_ALLOCATOR_THROW_OR_ABORT() GC_abort_on_oom()
#endif

struct GC_true_type {};
struct GC_false_type {};

/* Whether objects of a type never hold pointers into the heap, as the type of a member. A program
   says so of its own types with GC_DECLARE_PTRFREE(type); in the global namespace. */
template <class T>
struct GC_type_traits {
  GC_false_type GC_is_ptr_free;
};

#define GC_DECLARE_PTRFREE(type) \
  template <>                    \
  struct GC_type_traits<type> {  \
    GC_true_type GC_is_ptr_free; \
  }

GC_DECLARE_PTRFREE(char);
GC_DECLARE_PTRFREE(signed char);
GC_DECLARE_PTRFREE(unsigned char);
GC_DECLARE_PTRFREE(short);
GC_DECLARE_PTRFREE(unsigned short);
GC_DECLARE_PTRFREE(int);
GC_DECLARE_PTRFREE(unsigned);
GC_DECLARE_PTRFREE(long);
GC_DECLARE_PTRFREE(unsigned long);
GC_DECLARE_PTRFREE(float);
GC_DECLARE_PTRFREE(double);
GC_DECLARE_PTRFREE(long double);

/* `size` bytes, pointer-free or searched by the type of the second argument. */
inline void *GC_selective_alloc(size_t size, GC_true_type, bool ignore_off_page) {
  void *memory = ignore_off_page ? GC_MALLOC_ATOMIC_IGNORE_OFF_PAGE(size) : GC_MALLOC_ATOMIC(size);
  if (!memory) GC_ALLOCATOR_THROW_OR_ABORT();
  return memory;
}

template <class PtrFree>
inline void *GC_selective_alloc(size_t size, PtrFree, bool ignore_off_page) {
  void *memory = ignore_off_page ? GC_MALLOC_IGNORE_OFF_PAGE(size) : GC_MALLOC(size);
  if (!memory) GC_ALLOCATOR_THROW_OR_ABORT();
  return memory;
}

/* Where an allocator gets memory for elements of type T. */

template <class T, bool ignore_off_page>
struct GC_collected_memory {
  static void *Allocate(size_t size) {
    GC_type_traits<T> traits;
    return GC_selective_alloc(size, traits.GC_is_ptr_free, ignore_off_page);
  }
  static void Free(void *memory) GC_NOEXCEPT { GC_FREE(memory); }
#if __cplusplus >= 201103L
  static void *AllocateAligned(size_t size, size_t align) { return GC_memalign(align, size); }
#endif
};

struct GC_uncollectable_memory {
  static void *Allocate(size_t size) {
    void *memory = GC_MALLOC_UNCOLLECTABLE(size);
    if (!memory) GC_ALLOCATOR_THROW_OR_ABORT();
    return memory;
  }
  static void Free(void *memory) GC_NOEXCEPT { GC_FREE(memory); }
#if __cplusplus >= 201103L
  /* Somewhere in a larger block: nothing has to point to its start to keep it. */
  static void *AllocateAligned(size_t size, size_t align) {
    if (size + align < size) return 0;
    char *start = static_cast<char *>((GC_malloc_uncollectable)(size + align));
    return start ? start + (align - reinterpret_cast<GC_word>(start) % align) % align : start;
  }
#endif
};

/* The members that the allocators have in common: all but the name. */
template <class T, class Memory>
class GC_allocator_members {
 public:
  typedef size_t size_type;
  typedef ptrdiff_t difference_type;
  typedef T *pointer;
  typedef const T *const_pointer;
  typedef T &reference;
  typedef const T &const_reference;
  typedef T value_type;

  pointer address(reference x) const { return &x; }
  const_pointer address(const_reference x) const { return &x; }
  size_type max_size() const GC_NOEXCEPT { return size_t(-1) / sizeof(T); }

#if __cplusplus >= 201103L
  T *allocate(size_type count, const void * = 0) {
    if (count > max_size()) GC_ALLOCATOR_THROW_OR_ABORT();
    if (!OverAligned()) return static_cast<T *>(Memory::Allocate(count * sizeof(T)));
    /* Never from the debugging allocator, which does not align. */
    void *memory = Memory::AllocateAligned(count * sizeof(T), alignof(T));
    if (!memory) GC_ALLOCATOR_THROW_OR_ABORT();
    return static_cast<T *>(memory);
  }
  void deallocate(pointer memory, size_type) GC_NOEXCEPT {
    if (!OverAligned()) {
      Memory::Free(memory);
    } else if (memory) {
      (GC_free)(GC_base(memory));
    }
  }
  template <class U, class... Args>
  void construct(U *place, Args &&...args) {
    ::new (static_cast<void *>(place)) U(std::forward<Args>(args)...);
  }
  template <class U>
  void destroy(U *object) {
    object->~U();
  }

 private:
  /* The heap aligns every object to 16 bytes. */
  static constexpr bool OverAligned() { return alignof(T) > 16; }
#else
  T *allocate(size_type count, const void * = 0) {
    if (count > max_size()) GC_ALLOCATOR_THROW_OR_ABORT();
    return static_cast<T *>(Memory::Allocate(count * sizeof(T)));
  }
  void deallocate(pointer memory, size_type) GC_NOEXCEPT { Memory::Free(memory); }
  void construct(pointer place, const T &value) { ::new (static_cast<void *>(place)) T(value); }
  void destroy(pointer object) { object->~T(); }
#endif
};

/* For void: only names to start from. */
template <class Memory>
class GC_allocator_members<void, Memory> {
 public:
  typedef size_t size_type;
  typedef ptrdiff_t difference_type;
  typedef void *pointer;
  typedef const void *const_pointer;
  typedef void value_type;
};

template <class T>
class gc_allocator : public GC_allocator_members<T, GC_collected_memory<T, false> > {
 public:
  template <class U>
  struct rebind {
    typedef gc_allocator<U> other;
  };
  GC_ALLOCATOR_CONSTEXPR gc_allocator() GC_NOEXCEPT {}
  template <class U>
  GC_ALLOCATOR_CONSTEXPR gc_allocator(const gc_allocator<U> &) GC_NOEXCEPT {}
};

template <class T, class U>
GC_ALLOCATOR_CONSTEXPR inline bool operator==(const gc_allocator<T> &,
                                              const gc_allocator<U> &) GC_NOEXCEPT {
  return true;
}
template <class T, class U>
GC_ALLOCATOR_CONSTEXPR inline bool operator!=(const gc_allocator<T> &,
                                              const gc_allocator<U> &) GC_NOEXCEPT {
  return false;
}

template <class T>
class gc_allocator_ignore_off_page : public GC_allocator_members<T, GC_collected_memory<T, true> > {
 public:
  template <class U>
  struct rebind {
    typedef gc_allocator_ignore_off_page<U> other;
  };
  GC_ALLOCATOR_CONSTEXPR gc_allocator_ignore_off_page() GC_NOEXCEPT {}
  template <class U>
  GC_ALLOCATOR_CONSTEXPR gc_allocator_ignore_off_page(const gc_allocator_ignore_off_page<U> &)
      GC_NOEXCEPT {}
};

template <class T, class U>
GC_ALLOCATOR_CONSTEXPR inline bool operator==(const gc_allocator_ignore_off_page<T> &,
                                              const gc_allocator_ignore_off_page<U> &) GC_NOEXCEPT {
  return true;
}
template <class T, class U>
GC_ALLOCATOR_CONSTEXPR inline bool operator!=(const gc_allocator_ignore_off_page<T> &,
                                              const gc_allocator_ignore_off_page<U> &) GC_NOEXCEPT {
  return false;
}

template <class T>
class traceable_allocator : public GC_allocator_members<T, GC_uncollectable_memory> {
 public:
  template <class U>
  struct rebind {
    typedef traceable_allocator<U> other;
  };
  GC_ALLOCATOR_CONSTEXPR traceable_allocator() GC_NOEXCEPT {}
  template <class U>
  GC_ALLOCATOR_CONSTEXPR traceable_allocator(const traceable_allocator<U> &) GC_NOEXCEPT {}
};

template <class T, class U>
GC_ALLOCATOR_CONSTEXPR inline bool operator==(const traceable_allocator<T> &,
                                              const traceable_allocator<U> &) GC_NOEXCEPT {
  return true;
}
template <class T, class U>
GC_ALLOCATOR_CONSTEXPR inline bool operator!=(const traceable_allocator<T> &,
                                              const traceable_allocator<U> &) GC_NOEXCEPT {
  return false;
}

#endif
