// The barrier of gleaner.h and gleaner.hpp: a program that announces all its stores, with
// collections beside it that see no others.
#define GC_THREADS
#include <dirent.h>
#include <gleaner.hpp>

#include <functional>
#include <new>

#include "check.h"

namespace {

constexpr size_t kLists = 500;
constexpr size_t kLength = 40;

struct Node {
  gc::ptr<Node> next;
  uintptr_t number;
  char filling[80];
};

Node *NewNode(uintptr_t number, Node *next) {
  Node *node = new (GC_MALLOC(sizeof(Node))) Node;
  node->number = number;
  node->next = next;
  return node;
}

// Lists change places all the time; each keeps its numbers.
void MoveLists() {
  gc::array<Node *> lists(kLists);
  for (size_t i = 0; i < kLists; ++i) {
    Node *list = nullptr;
    for (size_t n = 0; n < kLength; ++n) list = NewNode(i * kLength + n, list);
    lists[i] = list;
  }
  const GC_word collections = GC_get_gc_no();
  size_t moves = 0;
  for (; moves < 3000000 && GC_get_gc_no() < collections + 12; ++moves) {
    const size_t a = moves * 7919 % kLists;
    const size_t b = (moves * 104729 + 1) % kLists;
    if (a == b) continue;
    // The tails behind the first nodes are exchanged, and back again: no tail has a place for long.
    gc::ptr<Node> tail = lists[a]->next;
    lists[a]->next = lists[b]->next;
    lists[b]->next = tail;
    Node *first = lists[a];
    lists[a] = lists[b];
    lists[b] = first;
    // A new node takes the place of the first, and with it garbage to collect.
    lists[a] = NewNode(lists[a]->number, lists[a]->next);
    if (moves % 64 == 0) GC_start_incremental_collection();
    if (moves % 8 == 0) GC_collect_a_little();
  }
  CHECK_GE(GC_get_gc_no(), collections + 12);
  size_t nodes = 0;
  uintptr_t sum = 0;
  for (const Node *list : lists) {
    for (; list != nullptr; list = list->next, ++nodes) sum += list->number;
  }
  const uintptr_t all = kLists * kLength;
  CHECK_EQ(nodes, all);
  CHECK_EQ(sum, all * (all - 1) / 2);
}

struct Pair {
  Node *first;
  uintptr_t second;
};

unsigned char CardOf(const void *slot) {
  return gleaner_card_table[(reinterpret_cast<uintptr_t>(slot) >> GLEANER_CARD_SHIFT) &
                            gleaner_card_mask];
}
void Clear(const void *begin, size_t bytes) {
  for (size_t i = 0; i < bytes; i += 512) {
    gleaner_card_table[((reinterpret_cast<uintptr_t>(begin) + i) >> GLEANER_CARD_SHIFT) &
                       gleaner_card_mask] = 0;
  }
}

// No collection is under way: nobody but this thread changes cards.
void CardsOfEachStore() {
  GC_disable();
  constexpr size_t kBytes = 8192;
  auto *memory = static_cast<void **>(GC_memalign(4096, kBytes));
  Node *node = NewNode(1, nullptr);
  Clear(memory, kBytes);
  GLEANER_STORE(&memory[70], node);
  CHECK_EQ(CardOf(&memory[70]), 1);
  CHECK_EQ(CardOf(&memory[63]), 0);
  CHECK_EQ(CardOf(&memory[128]), 0);
  GC_ptr_store_and_dirty(&memory[200], node);
  CHECK_EQ(CardOf(&memory[200]), 1);
  CHECK_PTR(memory[200], node);
  Clear(memory, kBytes);
  gleaner_mark_cards(&memory[63], 16);  // over a border
  CHECK_EQ(CardOf(&memory[0]), 1);
  CHECK_EQ(CardOf(&memory[64]), 1);
  CHECK_EQ(CardOf(&memory[128]), 0);
  gleaner_mark_cards(&memory[128], 0);
  CHECK_EQ(CardOf(&memory[128]), 0);
  Clear(memory, kBytes);
  GC_end_stubborn_change(&memory[500]);
  for (size_t i = 0; i < kBytes / 8; i += 64) CHECK_EQ(CardOf(&memory[i]), 1);

  gc::array<Pair> pairs(1000);
  Clear(pairs.data(), 1000 * sizeof(Pair));
  pairs[500] = Pair{node, 7};
  CHECK_EQ(CardOf(pairs.data() + 500), 1);
  CHECK_EQ(CardOf(pairs.data() + 900), 0);
  pairs.fill(Pair{node, 8});
  CHECK_EQ(CardOf(pairs.data() + 900), 1);
  const Pair copy = pairs[999];
  CHECK(copy.first == node && copy.second == 8);

  // The library's own stores.
  auto **small = static_cast<void **>(GC_malloc(256));
  small[0] = node;
  auto *large = static_cast<void **>(GC_realloc(small, 100000));
  CHECK_EQ(CardOf(large), 1);
  CHECK_PTR(large[0], node);

  // Anywhere else it is harmless.
  Node *local = nullptr;
  GLEANER_STORE(&local, node);
  GC_end_stubborn_change(&local);
  CHECK_PTR(local, node);
  GC_enable();
}

void PointersAreLikePointers() {
  CHECK_EQ(sizeof(gc::ptr<Node>), sizeof(Node *));
  Node *node = NewNode(3, nullptr);
  gc::ptr<Node> a = node, b;
  gc::ptr<const Node> c = a;
  gc::ptr<void> d = a;
  CHECK(a == node && b == nullptr && c == a && d == a && a && !b);
  CHECK_EQ((*a).number, 3);
  CHECK_EQ(c->number, 3);
  swap(a, b);
  CHECK(a == nullptr && b == node);
  a = b;
  b = 0;
  CHECK(b == nullptr && gleaner::ptr<Node>(NULL) == nullptr);
  b = node;
  b = NULL;
  CHECK(b == nullptr);
  b = nullptr;
  CHECK(a == node && !b);
  CHECK_EQ(std::hash<gc::ptr<Node>>()(a), std::hash<Node *>()(node));
  gc::array<int> numbers(10);
  numbers[3] = 5;
  numbers[4] = numbers[3];
  int sum = 0;
  for (int n : numbers) sum += n;
  CHECK_EQ(sum, 10);
  gc::ptr<int> at = numbers.data() + 3;
  CHECK_EQ(*at, 5);
  CHECK_EQ(at[1], 5);
  at += 1;
  ++at;
  CHECK_EQ(*at, 0);
  CHECK_EQ(*at--, 0);
  CHECK_EQ(*at++, 5);
  CHECK(at == numbers.data() + 5);
  bool thrown = false;
  try {
    gc::array<Pair> huge(SIZE_MAX / 2);
  } catch (const std::bad_alloc &) {
    thrown = true;
  }
  CHECK(thrown);
}

struct alignas(64) Line {
  Node *nodes[8];
};

// The element is copied as the compiler copies what is so aligned.
void ElementsAreAligned() {
  for (size_t i = 1; i < 200; i += 7) {
    gc::array<Line> lines(i);
    CHECK_EQ(reinterpret_cast<uintptr_t>(lines.data()) % alignof(Line), 0);
    Line line = {};
    line.nodes[7] = NewNode(i, nullptr);
    lines[i - 1] = line;
    const Line copy = lines[i - 1];
    CHECK_EQ(copy.nodes[7]->number, i);
  }
}

// Of the ways to have the kernel track writes; the query of what is supported tries them, and
// closes them.
size_t TrackingDescriptors() {
  size_t found = 0;
  DIR *directory = opendir("/proc/self/fd");
  while (const dirent *entry = readdir(directory)) {
    char target[256] = {};
    if (readlinkat(dirfd(directory), entry->d_name, target, sizeof target - 1) < 0) continue;
    found += strstr(target, "userfaultfd") != nullptr || strstr(target, "pagemap") != nullptr;
  }
  closedir(directory);
  return found;
}

}  // namespace

int main() {
  GC_set_manual_vdb_allowed(1);
  GC_INIT();
  CHECK_EQ(GC_get_actual_vdb(), GC_VDB_NONE);
  CHECK_EQ(gleaner_card_mask, 0);
  PointersAreLikePointers();  // with nothing tracked
  CHECK((GC_get_supported_vdbs() & GC_VDB_MANUAL) != 0);
  GC_enable_incremental();
  CHECK_EQ(GC_is_incremental_mode(), 1);
  CHECK_EQ(GC_get_actual_vdb(), GC_VDB_MANUAL);
  PointersAreLikePointers();
  ElementsAreAligned();
  CardsOfEachStore();
  MoveLists();
  CHECK_EQ(TrackingDescriptors(), 0);
  return check_result();
}
