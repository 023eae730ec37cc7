/*
 * Pointers and arrays for C++ (11 and later) whose stores use the barrier of gleaner.h. That header
 * says when the barrier is needed.
 *
 *     struct Node { gc::ptr<Node> next; gc::ptr<Node> twin; };
 *     gc::ptr<Node> node = new (GC_MALLOC(sizeof(Node))) Node;
 *     node->next = other;                                      a store with barrier
 *     gc::array<Node *> nodes(100);
 *     nodes[7] = node;                                         a store with barrier
 *
 * Everything is in namespace gleaner. The namespace gc is an alias of it, unless
 * GLEANER_NO_GC_NAMESPACE is defined, or gc_cpp.h, which has a class gc, was included before.
 */
#ifndef GLEANER_GLEANER_HPP
#define GLEANER_GLEANER_HPP

#include <cstddef>
#include <cstdint>
#include <functional>
#include <new>
#include <type_traits>

#include "gc.h"
#include "gleaner.h"

namespace gleaner {

/* A pointer with the size and semantics of a T*: it owns nothing. A read costs as much as that of a
   T*. A store marks the card of the ptr, which does no harm if the ptr is on a stack. Not
   atomic. */
template <class T>
class ptr {
 public:
  using element_type = T;

  ptr() noexcept : pointer_(nullptr) {}
  /* For nullptr only: 0 and NULL convert to T*. */
  template <class N, class = typename std::enable_if<std::is_same<N, std::nullptr_t>::value>::type>
  ptr(N) noexcept : pointer_(nullptr) {}
  ptr(T *pointer) noexcept { store(pointer); }
  ptr(const ptr &other) noexcept { store(other.pointer_); }
  template <class U, class = typename std::enable_if<std::is_convertible<U *, T *>::value>::type>
  ptr(const ptr<U> &other) noexcept {
    store(other.get());
  }

  ptr &operator=(const ptr &other) noexcept {
    store(other.pointer_);
    return *this;
  }
  template <class U, class = typename std::enable_if<std::is_convertible<U *, T *>::value>::type>
  ptr &operator=(const ptr<U> &other) noexcept {
    store(other.get());
    return *this;
  }
  ptr &operator=(T *pointer) noexcept {
    store(pointer);
    return *this;
  }
  /* A plain store: a null pointer makes nothing reachable. */
  template <class N>
  typename std::enable_if<std::is_same<N, std::nullptr_t>::value, ptr &>::type operator=(
      N) noexcept {
    pointer_ = nullptr;
    return *this;
  }

  T *get() const noexcept { return pointer_; }
  /* Comparison, arithmetic, subscripts and conditions are those of T*. */
  operator T *() const noexcept { return pointer_; }
  T *operator->() const noexcept { return pointer_; }
  typename std::add_lvalue_reference<T>::type operator*() const noexcept { return *pointer_; }

  ptr &operator++() noexcept { return *this = pointer_ + 1; }
  ptr &operator--() noexcept { return *this = pointer_ - 1; }
  T *operator++(int) noexcept {
    T *const before = pointer_;
    store(before + 1);
    return before;
  }
  T *operator--(int) noexcept {
    T *const before = pointer_;
    store(before - 1);
    return before;
  }
  ptr &operator+=(std::ptrdiff_t n) noexcept { return *this = pointer_ + n; }
  ptr &operator-=(std::ptrdiff_t n) noexcept { return *this = pointer_ - n; }

  friend void swap(ptr &a, ptr &b) noexcept {
    T *const pointer = a.pointer_;
    a.store(b.pointer_);
    b.store(pointer);
  }

 private:
  void store(T *pointer) noexcept { GLEANER_STORE(&pointer_, pointer); }

  T *pointer_;
};

/* An array of a fixed number of elements on the collected heap. Copies of an array share its
   elements, which live as long as something refers to them. T must be trivially copyable; it may be
   or contain pointers. Elements start as zero bytes. Not atomic. */
template <class T>
class array {
  static_assert(std::is_trivially_copyable<T>::value, "elements are copied as bytes");

 public:
  /* The result of array[i]: an assignment to it is a store with barrier. `auto e = nodes[i]` makes
     e a reference, too. */
  class reference {
   public:
    reference(const reference &) = default;
    reference &operator=(const T &value) noexcept {
      store(element_, value, std::is_pointer<T>());
      return *this;
    }
    reference &operator=(const reference &other) noexcept { return *this = *other.element_; }
    operator const T &() const noexcept { return *element_; }
    /* For elements that are pointers. */
    const T &operator->() const noexcept { return *element_; }

   private:
    friend class array;
    explicit reference(T *element) noexcept : element_(element) {}
    T *element_;
  };
  using value_type = T;
  using size_type = std::size_t;
  using const_reference = const T &;
  using const_iterator = const T *;

  array() noexcept : elements_(nullptr), size_(0) {}
  /* Throws std::bad_alloc if there is no memory; ends the process if exceptions are off. */
  explicit array(size_type size) : elements_(allocate(size)), size_(size) {}

  size_type size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }
  /* pre: i < size(). */
  reference operator[](size_type i) noexcept { return reference(elements_.get() + i); }
  const T &operator[](size_type i) const noexcept { return elements_.get()[i]; }

  /* For reading. A program that writes through data() must call gleaner_mark_cards afterwards. */
  const_iterator begin() const noexcept { return elements_.get(); }
  const_iterator end() const noexcept { return elements_.get() + size_; }
  const_iterator cbegin() const noexcept { return begin(); }
  const_iterator cend() const noexcept { return end(); }
  T *data() const noexcept { return elements_.get(); }

  void fill(const T &value) noexcept {
    const T copy = value;
    for (size_type i = 0; i < size_; ++i) elements_.get()[i] = copy;
    gleaner_mark_cards(elements_.get(), size_ * sizeof(T));
    GLEANER_KEEP(&copy);
  }

 private:
  /* Elements that are pointers: the inline barrier. */
  static void store(T *element, const T &value, std::true_type) noexcept {
    GLEANER_STORE(element, value);
  }
  static void store(T *element, const T &value, std::false_type) noexcept {
    const T copy = value;
    *element = copy;
    gleaner_mark_cards(element, sizeof(T));
    GLEANER_KEEP(&copy);
  }
  static constexpr size_type kAlignment = 16; /* of GC_MALLOC; larger ones have no debug call */

  static T *allocate(size_type size) {
    const bool fits = size <= PTRDIFF_MAX / sizeof(T);
    void *const memory = !fits                      ? nullptr
                         : alignof(T) <= kAlignment ? GC_MALLOC(size * sizeof(T))
                                                    : GC_memalign(alignof(T), size * sizeof(T));
    if (memory == nullptr) {
#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
      throw std::bad_alloc();
#else
      __builtin_trap();
#endif
    }
    return static_cast<T *>(memory);
  }

  ptr<T> elements_;
  size_type size_;
};

}  // namespace gleaner

template <class T>
struct std::hash<gleaner::ptr<T>> {
  std::size_t operator()(const gleaner::ptr<T> &pointer) const noexcept {
    return std::hash<T *>()(pointer.get());
  }
};

#if (!defined(GC_CPP_H) || defined(GC_NAMESPACE)) && !defined(GLEANER_NO_GC_NAMESPACE)
#define GLEANER_GC_NAMESPACE
namespace gc = gleaner;
#endif

#endif
