#include "runtime/debug/dump.h"

#include "alloc/walk.h"
#include "gc/collector.h"
#include "runtime/collect/statistics.h"
#include "runtime/debug/debug_objects.h"
#include "runtime/debug/findings.h"
#include "runtime/debug/latency.h"
#include "runtime/process/printing.h"
#include "runtime/threads/threads.h"

namespace gleaner::runtime {

using alloc::g_space;
using alloc::Kind;
using alloc::kMaxKinds;
using alloc::PageInfo;
using alloc::PageNumber;
using alloc::PageState;
using gc::g_collector;

namespace {

#define OUT(...) Print(Stream::kOutput, __VA_ARGS__)

bool IsFree(const uint8_t* mark) { return !alloc::IsInUse(alloc::LoadMark(mark)); }

uint32_t CountUsed(PageNumber page) {
  uint32_t used = 0;
  alloc::ForEachSlotOf(
      page, [&used](const alloc::ObjectRef& object) { used += IsFree(object.mark()) ? 0 : 1; });
  return used;
}

void DumpRoots() {
  OUT("Static roots:\n");
  size_t total = 0;
  Threads::ForEachStaticRoot(
      [](void* sum, platform::Range range) {
        OUT("  %#llx to %#llx\n", AsNumber(range.begin), AsNumber(range.end));
        *static_cast<size_t*>(sum) += range.end - range.begin;
      },
      &total);
  OUT("  %zu bytes; %zu registered threads\n", total, Threads::count());
}

void DumpHeap() {
  const HeapFigures figures = ReadHeapFigures();
  OUT("Heap: %llu bytes, of these free %llu; returned to the system %llu; tables %zu\n",
      AsNumber(figures.heap_bytes), AsNumber(figures.free_bytes), AsNumber(figures.unmapped_bytes),
      MetadataBytes());
  for (const alloc::Space space : {alloc::Space::kScanned, alloc::Space::kPointerFree}) {
    OUT("  %s pages from %#llx to %#llx\n",
        space == alloc::Space::kScanned ? "pointer-bearing" : "pointer-free",
        AsNumber(g_space.AddressOfPage(FirstCommitted(space))),
        AsNumber(g_space.base + (size_t{EndCommitted(space)} << alloc::kPageShift)));
  }
}

void DumpUse() {
  struct Row {
    uint32_t pages;
    uint64_t slots;
    uint64_t used;
  };
  constexpr size_t kSizes = sizeof(alloc::kSlotBytes) / sizeof(alloc::kSlotBytes[0]);
  Row rows[kMaxKinds][kSizes] = {};
  size_t free_pages = 0;
  size_t resident_free_pages = 0;
  OUT("Large objects:\n");
  alloc::ForEachPage([&](PageNumber page, const PageInfo& info) {
    if (info.state == PageState::kLarge) {
      OUT("  %#llx: %llu bytes, %s\n", AsNumber(g_space.AddressOfPage(page)),
          AsNumber(info.object_bytes), NameOf(info.kind));
    } else if (info.state == PageState::kSmall) {
      const auto kind = static_cast<size_t>(info.kind);
      if (kind >= kMaxKinds || info.size_class >= kSizes) return;
      Row& row = rows[kind][info.size_class];
      ++row.pages;
      row.slots += info.slot_count;
      row.used += CountUsed(page);
    } else if (info.state != PageState::kTail && info.state != PageState::kPadding) {
      ++free_pages;
      resident_free_pages += info.resident;
    }
  });
  OUT("Small objects (kind, slot size, pages, slots, in use):\n");
  for (size_t kind = 0; kind < kMaxKinds; ++kind) {
    for (size_t size = 0; size < kSizes; ++size) {
      const Row& row = rows[kind][size];
      if (row.pages == 0) continue;
      OUT("  %s, %zu, %u, %llu, %llu\n", NameOf(static_cast<Kind>(kind)),
          size_t{alloc::kSlotBytes[size]}, row.pages, AsNumber(row.slots), AsNumber(row.used));
    }
  }
  OUT("Free pages: %zu, of these resident %zu\n", free_pages, resident_free_pages);
  if (DebugObjects::Started()) OUT("Objects of GC_debug_ calls: %zu\n", DebugObjects::count());
}

const char* NameOf(PageState state) {
  switch (state) {
    case PageState::kUnused:
      return "unused";
    case PageState::kTaken:
      return "free, of a thread";
    case PageState::kSmall:
      return "small objects";
    case PageState::kLarge:
    case PageState::kTail:
      return "large object";
    case PageState::kPadding:
      return "padding";
  }
  return "?";
}

}  // namespace

void DumpState(const char* name) {
  if (name != nullptr) {
    OUT("--- Gleaner dump: %s ---\n", name);
  } else {
    OUT("--- Gleaner dump: collection %llu ---\n", AsNumber(g_collector.collections()));
  }
  DumpRoots();
  DumpHeap();
  DumpUse();
  OUT("Finalizers: %zu registered, %zu due; links: %zu short, %zu long\n",
      g_collector.registered().finalizers.registered(), g_collector.registered().finalizers.ready(),
      g_collector.registered().short_links.size(), g_collector.registered().long_links.size());
  PrintLatency(Stream::kOutput);
}

void DumpRegions() {
  struct Region {
    PageNumber first = alloc::kNoPage;
    PageNumber pages = 0;
    PageInfo info = {};
    void Describe() const {
      if (pages == 0) return;
      const Addr begin = g_space.AddressOfPage(first);
      OUT("  %#llx to %#llx: %s", AsNumber(begin),
          AsNumber(begin + (size_t{pages} << alloc::kPageShift)), NameOf(info.state));
      if (info.state == PageState::kSmall) {
        OUT(" of %u bytes, %s", unsigned{info.slot_bytes}, runtime::NameOf(info.kind));
      } else if (info.state == PageState::kLarge) {
        OUT(" of %llu bytes, %s", AsNumber(info.object_bytes), runtime::NameOf(info.kind));
      }
      OUT("\n");
    }
  } region;
  OUT("Regions:\n");
  alloc::ForEachPage([&](PageNumber page, const PageInfo& info) {
    const bool same_page_kind =
        info.state == region.info.state && info.state != PageState::kLarge &&
        (info.state != PageState::kSmall ||
         (info.kind == region.info.kind && info.slot_bytes == region.info.slot_bytes));
    const bool is_tail = info.state == PageState::kTail && region.info.state == PageState::kLarge;
    if (region.pages != 0 && page == region.first + region.pages && (same_page_kind || is_tail)) {
      ++region.pages;
      return;
    }
    region.Describe();
    region = {page, 1, info};
  });
  region.Describe();
}

void DumpFinalization() {
  OUT("Disappearing links (link, object):\n");
  g_collector.registered().short_links.ForEach(
      [](Addr link, Addr object) { OUT("  %#llx, %#llx\n", AsNumber(link), AsNumber(object)); });
  OUT("Long links (link, object):\n");
  g_collector.registered().long_links.ForEach(
      [](Addr link, Addr object) { OUT("  %#llx, %#llx\n", AsNumber(link), AsNumber(object)); });
  OUT("Objects with finalizers:\n");
  g_collector.registered().finalizers.ForEach(
      [](Addr object, const gc::Finalizer&) { OUT("  %#llx\n", AsNumber(object)); });
}

void DumpFreeSlots(Kind kind, size_t slot_bytes) {
  alloc::ForEachPage([&](PageNumber page, const PageInfo& info) {
    if (info.state != PageState::kSmall || info.kind != kind || info.slot_bytes != slot_bytes) {
      return;
    }
    alloc::ForEachSlotOf(page, [page](const alloc::ObjectRef& object) {
      if (!IsFree(object.mark())) return;
      OUT("Free slot %u of the page at %#llx: %#llx\n", object.slot,
          AsNumber(g_space.AddressOfPage(page)), AsNumber(object.base));
    });
  });
}

}  // namespace gleaner::runtime
