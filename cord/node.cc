#include "cord/node.h"

#include <stdio.h>
#include <stdlib.h>

#include "gc/gc.h"

void (*CORD_oom_fn)(void) = nullptr;

namespace cord {
namespace {

[[noreturn]] void OutOfMemory() {
  if (CORD_oom_fn) CORD_oom_fn();
  fputs("CORD: out of memory\n", stderr);
  abort();
}

template <class T>
T* NewNode(Kind kind, unsigned depth, size_t length) {
  T* node = static_cast<T*>(AllocateOrDie(sizeof(T)));
  node->kind = kind;
  node->depth = static_cast<uint8_t>(depth);
  node->length = length;
  return node;
}

CORD MakeSlice(const char* base, size_t start, size_t length) {
  Slice* slice = NewNode<Slice>(Kind::kSlice, 0, length);
  GC_PTR_STORE_AND_DIRTY(&slice->base, base);
  slice->start = start;
  return AsCord(slice);
}

CORD MakeFunction(CORD_fn fn, void* data, size_t start, size_t length) {
  Function* function = NewNode<Function>(Kind::kFunction, 0, length);
  function->fn = fn;
  GC_PTR_STORE_AND_DIRTY(&function->data, data);
  function->start = start;
  return AsCord(function);
}

char SameCharacter(size_t, void* character) {
  return static_cast<char>(reinterpret_cast<intptr_t>(character));
}

// Characters [start, start + length) of a leaf. pre: the leaf has more characters than that.
CORD SubLeaf(CORD leaf, size_t start, size_t length) {
  if (const Function* f = AsFunction(leaf)) {
    return MakeFunction(f->fn, f->data, f->start + start, length);
  }
  const Slice* slice = AsSlice(leaf);
  return slice ? MakeSlice(slice->base, slice->start + start, length)
               : MakeSlice(leaf, start, length);
}

// Characters [start, start + length) of x, which has x_length characters. pre: the range is inside
// x.
CORD Sub(CORD x, size_t x_length, size_t start, size_t length) {
  if (start == 0 && length == x_length) return x;
  if (length <= kShortLength) {
    char* text = AllocateTextOrDie(length);
    CopyOut(x, start, length, text);
    return TextToCord(text, length);
  }
  const Concat* concat = AsConcat(x);
  if (!concat) return SubLeaf(x, start, length);
  const size_t left_length = concat->left_length;
  const size_t right_length = x_length - left_length;
  if (start >= left_length) return Sub(concat->right, right_length, start - left_length, length);
  if (start + length <= left_length) return Sub(concat->left, left_length, start, length);
  const size_t from_left = left_length - start;
  return CORD_cat(Sub(concat->left, left_length, start, from_left),
                  Sub(concat->right, right_length, 0, length - from_left));
}

// The C string x with y after it, as one short string.
CORD Joined(CORD x, size_t x_length, CORD y, size_t y_length) {
  char* text = AllocateTextOrDie(x_length + y_length);
  memcpy(text, x, x_length);
  memcpy(text + x_length, y, y_length);
  return text;
}

CORD ConcatBalanced(CORD x, size_t x_length, CORD y, size_t y_length) {
  CORD result = MakeConcat(x, x_length, y, y_length);
  return Depth(result) <= MAX_DEPTH ? result : CORD_balance(result);
}

}  // namespace

void Misuse(const char* message) {
  fprintf(stderr, "%s\n", message);
  abort();
}

void* AllocateOrDie(size_t size) {
  void* memory = GC_malloc(size);
  if (!memory) OutOfMemory();
  return memory;
}

char* AllocateTextOrDie(size_t length) {
  char* text = length + 1 ? static_cast<char*>(GC_malloc_atomic(length + 1)) : nullptr;
  if (!text) OutOfMemory();
  text[length] = '\0';
  return text;
}

CORD MakeConcat(CORD left, size_t left_length, CORD right, size_t right_length) {
  const size_t length = left_length + right_length;
  if (length < left_length) Misuse("CORD_cat: the result is longer than a size_t can say");
  const unsigned deepest = Depth(left) > Depth(right) ? Depth(left) : Depth(right);
  Concat* concat = NewNode<Concat>(Kind::kConcat, deepest + 1, length);
  concat->left_length = left_length;
  GC_PTR_STORE_AND_DIRTY(&concat->left, left);
  GC_PTR_STORE_AND_DIRTY(&concat->right, right);
  return AsCord(concat);
}

CORD TextToCord(const char* text, size_t length) {
  if (length == 0) return CORD_EMPTY;
  return memchr(text, '\0', length) ? MakeSlice(text, 0, length) : text;
}

void CopyOut(CORD x, size_t start, size_t length, char* to) {
  while (const Concat* concat = AsConcat(x)) {
    const size_t left_length = concat->left_length;
    if (start < left_length) {
      const size_t from_left = length < left_length - start ? length : left_length - start;
      CopyOut(concat->left, start, from_left, to);
      to += from_left;
      length -= from_left;
      start = left_length;
    }
    if (length == 0) return;
    start -= left_length;
    x = concat->right;
  }
  if (const char* text = LeafText(x)) {
    memcpy(to, text + start, length);
  } else {
    for (size_t i = 0; i < length; i++) to[i] = FetchFrom(AsFunction(x), start + i);
  }
}

}  // namespace cord

using namespace cord;

size_t CORD_len(CORD x) { return Length(x); }

CORD CORD_cat(CORD x, CORD y) {
  if (!y) return x;
  if (!IsNode(y)) return CORD_cat_char_star(x, y, strlen(y));
  return x ? ConcatBalanced(x, Length(x), y, Length(y)) : y;
}

CORD CORD_cat_char_star(CORD x, const char* y, size_t y_length) {
  if (y_length == 0) return x;
  if (!x) return y;
  const size_t x_length = Length(x);
  if (y_length <= kShortLength) {
    // Short text is kept in one leaf, so that appending piece by piece makes few nodes.
    if (!IsNode(x) && x_length + y_length <= kShortLength) {
      return Joined(x, x_length, y, y_length);
    }
    const Concat* concat = AsConcat(x);
    if (concat && !IsNode(concat->right)) {
      const size_t right_length = x_length - concat->left_length;
      if (right_length + y_length <= kShortLength) {
        return MakeConcat(concat->left, concat->left_length,
                          Joined(concat->right, right_length, y, y_length),
                          right_length + y_length);
      }
    }
  }
  return ConcatBalanced(x, x_length, y, y_length);
}

CORD CORD_substr(CORD x, size_t start, size_t length) {
  const size_t x_length = Length(x);
  if (start >= x_length || length == 0) return CORD_EMPTY;
  return Sub(x, x_length, start, length < x_length - start ? length : x_length - start);
}

CORD CORD_from_fn(CORD_fn fn, void* data, size_t length) {
  if (length == 0) return CORD_EMPTY;
  if (length <= kShortLength) {
    char* text = AllocateTextOrDie(length);
    for (size_t i = 0; i < length; i++) text[i] = fn(i, data);
    return TextToCord(text, length);
  }
  return MakeFunction(fn, data, 0, length);
}

CORD CORD_chars(char c, size_t count) {
  return CORD_from_fn(SameCharacter, reinterpret_cast<void*>(static_cast<intptr_t>(c)), count);
}

char CORD_fetch(CORD x, size_t i) {
  if (i >= Length(x)) Misuse("CORD_fetch: the index is outside the cord");
  char c;
  CopyOut(x, i, 1, &c);
  return c;
}
