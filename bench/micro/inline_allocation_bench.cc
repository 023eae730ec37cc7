// Allocation by call, by the path that is compiled in, and by the macros of gc_inline.h, with and
// without that path: objects that are dropped at once, binary trees, and lists of pairs.
//
//     inline_allocation_bench peak|trees|lists call|inline|macros|lists-only [--smoke]
#define GLEANER_INLINE_MALLOC
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "gc/gc.h"
#include "gc/gc_inline.h"

namespace {

void* g_lists[GC_TINY_FREELISTS];
constexpr size_t kBytes = 16;
int g_less = 1;  // a tiny run does this much less

struct ByCall {
  static void* Pair() { return GC_malloc(kBytes); }
};
struct Inline {
  static void* Pair() { return GC_MALLOC(kBytes); }
};
struct ByMacro {
  static void* Pair() {
    void* pair;
    GC_MALLOC_WORDS(pair, 2, g_lists);
    return pair;
  }
};
struct FromLists {
  static void* Pair() {
    void* pair;
    GC_LISTED_MALLOC_GRANS(pair, size_t{1}, g_lists, 0, GC_I_NORMAL, GC_malloc(kBytes),
                           *static_cast<void**>(pair) = nullptr);
    return pair;
  }
};

template <class Way>
uint64_t Peak() {
  uint64_t made = 0;
  for (int i = 0; i < 100'000'000 / g_less; ++i) {
    void* object = Way::Pair();
    asm volatile("" : "+r"(object) : : "memory");
    made += object != nullptr;
  }
  return made;
}

struct Node {
  Node* left;
  Node* right;
};

template <class Way>
Node* MakeTree(int depth) {
  auto* node = static_cast<Node*>(Way::Pair());
  if (depth > 0) {
    node->left = MakeTree<Way>(depth - 1);
    node->right = MakeTree<Way>(depth - 1);
  }
  return node;
}
uint64_t NodesOf(const Node* node) {
  return node->left == nullptr ? 1 : 1 + NodesOf(node->left) + NodesOf(node->right);
}
template <class Way>
uint64_t Trees() {
  constexpr int kDepth = 18;
  uint64_t nodes = 0;
  const Node* kept = MakeTree<Way>(kDepth);
  for (int depth = 4; depth <= kDepth; depth += 4) {
    for (int i = 0; i < (1 << (kDepth - depth + 4)) / g_less; ++i)
      nodes += NodesOf(MakeTree<Way>(depth));
  }
  return nodes + NodesOf(kept);
}

template <class Way>
uint64_t Lists() {
  uint64_t sum = 0;
  for (int i = 0; i < 50'000 / g_less; ++i) {
    void** list = nullptr;
    for (uintptr_t k = 0; k < 1'000; ++k) {
      auto** pair = static_cast<void**>(Way::Pair());
      pair[0] = reinterpret_cast<void*>(k);
      pair[1] = list;
      list = pair;
    }
    for (; list != nullptr; list = static_cast<void**>(list[1])) {
      sum += reinterpret_cast<uintptr_t>(list[0]);
    }
  }
  return sum;
}

template <class Way>
uint64_t Run(const char* program) {
  if (strcmp(program, "peak") == 0) return Peak<Way>();
  if (strcmp(program, "trees") == 0) return Trees<Way>();
  return Lists<Way>();
}

}  // namespace

int main(int argc, char** argv) {
  const bool smoke = argc == 4 && strcmp(argv[3], "--smoke") == 0;
  if (argc != 3 && !smoke) {
    fprintf(stderr, "usage: %s peak|trees|lists call|inline|macros|lists-only [--smoke]\n",
            argv[0]);
    return 2;
  }
  if (smoke) g_less = 1000;
  GC_INIT();
  uint64_t (*const run)(const char*) = strcmp(argv[2], "call") == 0     ? Run<ByCall>
                                       : strcmp(argv[2], "inline") == 0 ? Run<Inline>
                                       : strcmp(argv[2], "macros") == 0 ? Run<ByMacro>
                                                                        : Run<FromLists>;
  const auto start = std::chrono::steady_clock::now();
  const uint64_t result = run(argv[1]);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  printf("program=%s way=%s seconds=%.4f checksum=%lu\n", argv[1], argv[2], seconds.count(),
         static_cast<unsigned long>(result));
}
