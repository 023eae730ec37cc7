// What cords are made of.
//
// A cord is a null pointer (empty), a C string, or a Node. A C string that is not empty does not
// begin with a zero byte, and a Node does: that tells them apart.
//
//   Concat    left, then right; neither is empty
//   Slice     `length` characters of a block of text, which may contain '\0'
//   Function  fn(start + i, data) for i < length
//
// Invariants: nodes are never modified once they are reachable; depth is that of the tree, leaves
// having 0, and at most MAX_DEPTH except inside CORD_cat and CORD_balance. A node points to the
// starts of objects only, so that it needs no interior pointers.
#ifndef GLEANER_CORD_NODE_H
#define GLEANER_CORD_NODE_H

#include <stdint.h>
#include <string.h>

#include "gc/cord.h"

namespace cord {

// C strings up to this length are copied rather than shared: it is shorter than a node.
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

// The text of a leaf that has some, or null for a function.
inline const char* LeafText(CORD leaf) {
  if (!IsNode(leaf)) return leaf;
  const Slice* slice = AsSlice(leaf);
  return slice ? slice->base + slice->start : nullptr;
}

// Memory, or no return.
void* AllocateOrDie(size_t size);        // searched for pointers, zeroed
char* AllocateTextOrDie(size_t length);  // for `length` characters and a '\0', which it has

// A node of two cords that are not empty. Neither merges nor balances.
CORD MakeConcat(CORD left, size_t left_length, CORD right, size_t right_length);

// The text, which is not modified any more, as a cord: a C string if it can be one. `text` is the
// start of an object or static, has `length` characters and a '\0' behind them.
CORD TextToCord(const char* text, size_t length);

// Copies characters start to start + length, which x has, to `to`.
void CopyOut(CORD x, size_t start, size_t length, char* to);

// Ends the process for a call that cannot be answered.
[[noreturn]] void Misuse(const char* message);

}  // namespace cord

#endif
