// The representation of cords.
//
// A cord is a null pointer (empty), a C string, or a Node. A non-empty C string does not begin with
// a zero byte, and a Node does; so the first byte tells them apart.
//
//   Concat    left, then right; neither is empty
//   Slice     `length` characters of a block of text, which may contain '\0'
//   Function  fn(start + i, data) for i < length
//
// Invariants: a node is never modified once it is reachable. `depth` is the depth of the tree, 0
// for leaves, and at most MAX_DEPTH except inside CORD_cat and CORD_balance. A node points only to
// the starts of objects, so it needs no interior pointers. Thread-safety: any thread may read a
// cord.
#ifndef GLEANER_CORD_NODE_H
#define GLEANER_CORD_NODE_H

#include <stdint.h>
#include <string.h>

#include "gc/cord.h"

namespace cord {

// C strings up to this length are copied rather than shared, since they are shorter than a node.
inline constexpr size_t kShortLength = 31;

enum class Kind : uint8_t { kConcat, kSlice, kFunction };

struct Node {
  char zero;
  Kind kind;
  uint8_t depth;
  size_t length;
};

struct Concat : Node {
  size_t left_length;
  CORD left;
  CORD right;
};

struct Slice : Node {
  const char* base;
  size_t start;
};

struct Function : Node {
  CORD_fn fn;
  void* data;
  size_t start;
};

inline bool IsNode(CORD x) { return x && *x == '\0'; }
inline const Node* AsNode(CORD x) { return reinterpret_cast<const Node*>(x); }
inline CORD AsCord(const Node* node) { return reinterpret_cast<CORD>(node); }

// x as a node of that kind, or null.
inline const Concat* AsConcat(CORD x) {
  return IsNode(x) && AsNode(x)->kind == Kind::kConcat ? static_cast<const Concat*>(AsNode(x))
                                                       : nullptr;
}
inline const Slice* AsSlice(CORD x) {
  return IsNode(x) && AsNode(x)->kind == Kind::kSlice ? static_cast<const Slice*>(AsNode(x))
                                                      : nullptr;
}
inline const Function* AsFunction(CORD x) {
  return IsNode(x) && AsNode(x)->kind == Kind::kFunction ? static_cast<const Function*>(AsNode(x))
                                                         : nullptr;
}

inline size_t Length(CORD x) { return !x ? 0 : IsNode(x) ? AsNode(x)->length : strlen(x); }
inline unsigned Depth(CORD x) { return IsNode(x) ? AsNode(x)->depth : 0; }

inline char FetchFrom(const Function* f, size_t i) { return f->fn(f->start + i, f->data); }

// The text of a string or slice; null for a function.
inline const char* LeafText(CORD leaf) {
  if (!IsNode(leaf)) return leaf;
  const Slice* slice = AsSlice(leaf);
  return slice ? slice->base + slice->start : nullptr;
}

// Allocation; ends the process if there is no memory.
void* AllocateOrDie(size_t size);        // searched for pointers, zeroed
char* AllocateTextOrDie(size_t length);  // for `length` characters and a '\0', which is set

// Makes a node of two cords that are not empty. Neither merges nor balances.
CORD MakeConcat(CORD left, size_t left_length, CORD right, size_t right_length);

// Makes a cord of the text: a C string if possible. `text` has `length` characters and a '\0' after
// them, is static or the start of an object, and is not modified afterwards.
CORD TextToCord(const char* text, size_t length);

// Copies characters [start, start + length) to `to`. pre: x has them.
void CopyOut(CORD x, size_t start, size_t length, char* to);

// Prints the message and ends the process: the call cannot return a result.
[[noreturn]] void Misuse(const char* message);

}  // namespace cord

#endif
