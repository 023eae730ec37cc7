#include "runtime/observe/heap_sample.h"

#include "alloc/mark_bytes.h"
#include "alloc/walk.h"
#include "observe/trace.h"
#include "platform/nodes/node_memory.h"

namespace gleaner::runtime {

using alloc::kClassCount;
using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;
using platform::TraceEvent;

namespace {

constexpr PageNumber kMaxPages = 4096;
// Owners that get an event of their own; the last one is for all others.
constexpr size_t kMaxOwners = 64;

struct OfClass {
  uint64_t pages;
  uint64_t pointer_free_pages;
  uint64_t used_slots;
};
struct OfOwner {
  uint64_t pages;
  uint64_t used_bytes;
};
struct Sample {
  OfClass classes[kClassCount + 1];  // the last one: pages of large objects
  OfOwner owners[kMaxOwners];
};

// What threads change meanwhile. Relaxed: the page's state was loaded with acquire before,
// and a value out of date makes the sample less exact, no more.
template <class T>
T Read(const T& field) {
  return __atomic_load_n(&field, __ATOMIC_RELAXED);
}

void Look(PageNumber page, uint64_t weight, bool is_pointer_free, Sample* sample) {
  const PageInfo& info = alloc::g_space.info[page];
  const PageState state = info.LoadState();
  const bool is_small = state == PageState::kSmall;
  if (!is_small && state != PageState::kLarge && state != PageState::kTail) return;
  const uint8_t of_page = Read(info.size_class);
  OfClass& row = sample->classes[is_small && of_page < kClassCount ? of_page : kClassCount];
  row.pages += weight;
  if (is_pointer_free) row.pointer_free_pages += weight;
  if (!is_small) return;
  const PageInfo shape = info.LoadWord();
  const uint8_t dead = alloc::g_dead_mark.Load(platform::memory_order_relaxed);  // it says why
  const uint64_t used =
      alloc::CountInUse(alloc::g_space.MarksOf(page), shape.slot_count, dead) * weight;
  row.used_slots += used;
  const size_t owner =
      alloc::g_space.meta[page].owner.Load(platform::memory_order_relaxed);  // as Read says
  OfOwner& heap = sample->owners[owner < kMaxOwners ? owner : kMaxOwners - 1];
  heap.pages += weight;
  heap.used_bytes += used * shape.slot_bytes;
}

void LookAtSpace(alloc::Space space, PageNumber part, Sample* sample) {
  const PageNumber end = alloc::EndCommitted(space);
  uint32_t draw = 1;
  for (PageNumber page = alloc::FirstCommitted(space); page < end; page += part) {
    draw = draw * 1664525 + 1013904223;
    const PageNumber length = end - page < part ? end - page : part;
    Look(page + (draw >> 8) % length, length, space == alloc::Space::kPointerFree, sample);
  }
}

void EmitPages(uint64_t now, const Sample& sample) {
  for (size_t i = 0; i <= kClassCount; ++i) {
    const OfClass& row = sample.classes[i];
    if (row.pages == 0) continue;
    const uint64_t slot_bytes = i < kClassCount ? alloc::kSlotBytes[i] : 0;
    platform::EmitTrace(TraceEvent::kSizeClass, now,
                        {slot_bytes, row.pages, row.pointer_free_pages, row.used_slots});
  }
  for (size_t i = 0; i < kMaxOwners; ++i) {
    const OfOwner& heap = sample.owners[i];
    if (heap.pages == 0) continue;
    platform::EmitTrace(TraceEvent::kHeapPages, now, {i, heap.pages, heap.used_bytes});
  }
}

}  // namespace

void EmitHeapSample() {
  Sample sample = {};
  const size_t pages = alloc::CommittedPages();
  const auto part = static_cast<PageNumber>(pages / kMaxPages + 1);
  for (const alloc::Space space : {alloc::Space::kScanned, alloc::Space::kPointerFree}) {
    LookAtSpace(space, part, &sample);
  }
  EmitPages(platform::NowNs(), sample);
}

void EmitNodeMemory() {
  platform::NodeMemory nodes[platform::kMaxMemoryNodes] = {};
  if (!platform::ReadNodeMemory(alloc::g_space.base, alloc::g_space.bytes, nodes)) return;
  const uint64_t now = platform::NowNs();
  for (uint64_t i = 0; i < platform::kMaxMemoryNodes; ++i) {
    const platform::NodeMemory& node = nodes[i];
    if (node.heap_bytes + node.file_bytes + node.other_bytes == 0) continue;
    platform::EmitTrace(TraceEvent::kNodeMemory, now,
                        {i, node.heap_bytes, node.file_bytes, node.other_bytes});
  }
}

}  // namespace gleaner::runtime
