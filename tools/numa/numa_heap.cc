#include "tools/numa/numa_heap.h"

#include <algorithm>
#include <array>

#include "tools/system/process_nodes.h"

namespace gleaner::tools {
namespace {

using alloc::PageInfo;
using alloc::PageState;

constexpr size_t kMaxLargeObjects = 10;
// Pages of the heap whose descriptors are read at once: 256 MiB of heap.
constexpr uint64_t kPagesAtOnce = 1 << 14;
constexpr int kUnknownNode = -1;

// By small or large and by kind; kinds that the program has made are one.
constexpr size_t kFreeUse = 0;
constexpr size_t kSmallUses = 1;
constexpr size_t kLargeUses = kSmallUses + alloc::kBuiltInKinds + 1;
constexpr size_t kUses = kLargeUses + alloc::kBuiltInKinds + 1;
constexpr std::array<const char*, kUses> kUseNames = {
    "free pages",
    "small pointer-free objects",
    "small objects",
    "small uncollectable objects",
    "small uncollectable pointer-free objects",
    "small objects of made kinds",
    "large pointer-free objects",
    "large objects",
    "large uncollectable objects",
    "large uncollectable pointer-free objects",
    "large objects of made kinds",
};

size_t KindOf(const PageInfo& page) {
  return std::min(static_cast<size_t>(page.kind), alloc::kBuiltInKinds);
}

bool IsWithin(uint64_t address, uint64_t begin, uint64_t bytes) { return address - begin < bytes; }

}  // namespace

// One pass over a mapping.
struct NumaHeap::Walk {
  Walk(const LargeObject& open, size_t open_use) : current(open), current_use(open_use) {}

  std::array<BytesByNode, kUses> uses;
  std::vector<LargeObject> large;  // without the current one
  LargeObject current;             // address 0: there is none
  size_t current_use;
  size_t use = kFreeUse;  // of the page
  uint64_t sum_bytes = 0;

  // The page at `address` has the descriptor. `large_bytes`: of an object that begins there.
  void Enter(uint64_t address, const PageInfo& page, uint64_t large_bytes) {
    const bool begins = page.state == PageState::kLarge;
    const bool goes_on = !begins && page.state != PageState::kSmall && current.address != 0 &&
                         IsWithin(address, current.address, current.bytes);
    if (goes_on) {
      use = current_use;
      return;
    }
    if (current.address != 0) large.push_back(current);
    current = {};
    use = page.state == PageState::kSmall ? kSmallUses + KindOf(page) : kFreeUse;
    if (!begins) return;
    use = current_use = kLargeUses + KindOf(page);
    current.address = address;
    current.bytes = large_bytes;
    current.is_pointer_free = IsPointerFree(page.kind);
  }
  void Add(int node, uint64_t bytes) {
    uses[use][node] += bytes;
    sum_bytes += bytes;
    if (current.address != 0) current.nodes[node] += bytes;
  }
};

std::string NumaHeap::TableOf(const NumaMapping& mapping) const {
  if (IsWithin(mapping.begin, tables_.mark_bytes, tables_.pages * alloc::kMarkBytesPerPage)) {
    return "mark bytes";
  }
  if (IsWithin(mapping.begin, tables_.page_infos, tables_.pages * sizeof(PageInfo)) ||
      IsWithin(mapping.begin, tables_.page_metas, tables_.pages * sizeof(alloc::PageMeta))) {
    return "page descriptors";
  }
  return "";
}

bool NumaHeap::HasPages(const NumaMapping& mapping) const {
  return IsWithin(mapping.begin, tables_.heap_base, tables_.pages * alloc::kPageBytes);
}

uint64_t NumaHeap::LargeBytes(const alloc::PageInfo& page) const {
  // Of a malloc the word is the number of pages, beside another one (malloc/spans.cc).
  return IsMalloc() ? static_cast<uint32_t>(page.word) * alloc::kPageBytes : page.object_bytes;
}

const char* NumaHeap::NameOfUse(size_t use) const {
  if (!IsMalloc() || use == kFreeUse) return kUseNames[use];
  return use < kLargeUses ? "small blocks" : "large blocks";
}

bool NumaHeap::WalkPages(const NumaMapping& mapping, int only_node, Walk* walk, int* error) {
  std::vector<PageInfo> pages;
  std::vector<uint64_t> present;
  std::vector<int> nodes;
  const uint64_t heap_end = tables_.heap_base + tables_.pages * alloc::kPageBytes;
  const uint64_t mapping_end = std::min(mapping.end, heap_end);
  const auto page_of = [this](uint64_t address) {
    return (address - tables_.heap_base) / alloc::kPageBytes;
  };
  for (uint64_t begin = mapping.begin; begin < mapping_end;) {
    const uint64_t first = page_of(begin);
    const uint64_t end =
        std::min(mapping_end, tables_.heap_base + (first + kPagesAtOnce) * alloc::kPageBytes);
    pages.resize(page_of(end - 1) - first + 1);
    present.clear();
    *error = 0;
    if (!memory_.Read(tables_.page_infos + first * sizeof(PageInfo), pages.data(),
                      pages.size() * sizeof(PageInfo)) ||
        !memory_.VisitPresence(begin, end, [&](uint64_t page, bool is_there) {
          if (is_there) present.push_back(page);
        })) {
      return false;
    }
    if (only_node != kUnknownNode) {
      nodes.assign(present.size(), only_node);
    } else if ((*error = QueryNodes(memory_.thread(), present, &nodes)) != 0) {
      return false;
    }
    size_t at = 0;
    for (uint64_t i = 0; i < pages.size(); ++i) {
      const uint64_t address = tables_.heap_base + (first + i) * alloc::kPageBytes;
      walk->Enter(address, pages[i], LargeBytes(pages[i]));
      for (; at < present.size() && present[at] < address + alloc::kPageBytes; ++at) {
        if (nodes[at] >= 0) walk->Add(nodes[at], mapping.page_bytes);
      }
    }
    begin = end;
  }
  return true;
}

bool NumaHeap::Attribute(const NumaMapping& mapping, Uses* uses, int* error) {
  // To ask for the node of each page takes some 0.2 us. If the mapping is on one node, to know
  // which pages are in memory does, unless some of them are no pages of its own (the zero page).
  Walk walk(open_, open_use_);
  bool is_done = mapping.nodes.size() == 1 &&
                 WalkPages(mapping, mapping.nodes.begin()->first, &walk, error) &&
                 walk.sum_bytes == SumOf(mapping.nodes);
  if (!is_done) {
    walk = Walk(open_, open_use_);
    is_done = WalkPages(mapping, kUnknownNode, &walk, error);
  }
  if (!is_done) return false;
  for (size_t i = 0; i < walk.uses.size(); ++i) {
    if (!walk.uses[i].empty()) AddTo(&(*uses)[NameOfUse(i)], walk.uses[i]);
  }
  for (const LargeObject& object : walk.large) Keep(object, &largest_);
  open_ = walk.current;
  open_use_ = walk.current_use;
  return true;
}

void NumaHeap::Keep(const LargeObject& object, std::vector<LargeObject>* largest) {
  const auto is_larger = [](const LargeObject& a, const LargeObject& b) {
    return a.bytes > b.bytes;
  };
  // A heap whose root is the smallest of those kept.
  if (largest->size() == kMaxLargeObjects) {
    if (object.bytes <= largest->front().bytes) return;
    std::pop_heap(largest->begin(), largest->end(), is_larger);
    largest->pop_back();
  }
  largest->push_back(object);
  std::push_heap(largest->begin(), largest->end(), is_larger);
}

std::vector<LargeObject> NumaHeap::LargestObjects() const {
  std::vector<LargeObject> sorted = largest_;
  if (open_.address != 0) Keep(open_, &sorted);
  std::sort(sorted.begin(), sorted.end(),
            [](const LargeObject& a, const LargeObject& b) { return a.bytes > b.bytes; });
  return sorted;
}

}  // namespace gleaner::tools
