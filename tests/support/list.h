// A list of numbered objects, to see whether any is lost.
#pragma once

#include <gc.h>

#include <cstddef>
#include <cstdint>

namespace gleaner::testing {

struct Node {
  Node* next;
  uintptr_t number;
};

// Null without memory, or if an object is not zero: somebody else has it, too.
inline Node* MakeList(size_t length) {
  Node* list = nullptr;
  for (size_t i = 0; i < length; ++i) {
    auto* node = static_cast<Node*>(GC_malloc(sizeof(Node)));
    if (node == nullptr || node->next != nullptr || node->number != 0) return nullptr;
    node->next = list;
    node->number = ~i;
    list = node;
  }
  return list;
}

// The nodes from the first on that hold what they should.
inline size_t CountList(const Node* list, size_t length) {
  size_t count = 0;
  for (; list != nullptr && list->number == ~(length - 1 - count); list = list->next) ++count;
  return count;
}

inline bool IsIntact(const Node* list, size_t length) { return CountList(list, length) == length; }

}  // namespace gleaner::testing
