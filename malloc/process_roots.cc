#include "malloc/process_roots.h"

#include "alloc/address_space.h"
#include "platform/loader/mappings.h"
#include "platform/os/memory.h"
#include "platform/os/readable.h"
#include "runtime/threads/threads.h"

namespace gleaner::malloc_proxy {
namespace {

using alloc::g_space;
using platform::Mapping;
using platform::Range;
using runtime::Threads;

constexpr size_t kChunkBytes = 128 * kKiB;  // copied at a time
constexpr size_t kMaxWords = size_t{1} << 30;
constexpr size_t kMaxWordsWhenBounded = size_t{1} << 20;  // if there is an RLIMIT_AS
constexpr size_t kKeptWords = 64 * kKiB / kWordBytes;     // resident between collections
// Parts of anonymous mappings up to this size are read whole, touched or not.
constexpr size_t kAlwaysWhole = 256 * kKiB;

struct Found {
  gc::RangeSet excluded;
  Addr main_stack_end = 0;
  alloc::ReservedArray<Addr> words;  // words that point into the heap, then room to copy to
  size_t count = 0;                  // words that point into the heap
  gc::RangeSet in_place;             // ranges that could not be copied
  bool complete = true;
};
constinit Found g_found;

void ScanInPlace(Range range) {
  if (!g_found.in_place.Add(range)) g_found.complete = false;
}

// Of the `count` words copied behind those found, keeps the words that point into the heap.
void Filter(size_t count) {
  Addr* out = g_found.words.data() + g_found.count;
  const Addr* word = out;
  const Addr* end = out + count;
  const Addr base = g_space.base;
  const size_t bytes = g_space.bytes;
  for (; word < end; ++word) {
    const Addr w = *word;
    *out = w;
    out += w - base < bytes ? 1 : 0;
  }
  g_found.count = static_cast<size_t>(out - g_found.words.data());
}

void Scan(void*, Range range) {
  const size_t os_page = platform::OsPageBytes();
  Addr at = AlignUp(range.begin, kWordBytes);
  const Addr end = AlignDown(range.end, kWordBytes);
  while (at < end) {
    const size_t left = end - at;
    const size_t want = left < kChunkBytes ? left : kChunkBytes;
    const bool room = g_found.words.EnsureCommitted(g_found.count + kChunkBytes / kWordBytes);
    const size_t got =
        room ? platform::CopyIfMapped(g_found.words.data() + g_found.count, at, want) : SIZE_MAX;
    if (got == SIZE_MAX) return ScanInPlace({at, end});
    Filter(got / kWordBytes);
    // Skips an OS page that cannot be read: it was unmapped, or reading is not permitted.
    at = got == want ? at + want : AlignDown(at + got, os_page) + os_page;
  }
}

void ScanMapping(void* context, const Mapping& mapping) {
  const auto& touched = *static_cast<const platform::TouchedPages*>(context);
  Range range = mapping.range;
  // The stack range of the main thread begins at its growth limit, where there may be no memory; so
  // it is not excluded by range. Its mapping counts from the end of the stack on.
  if (range.Contains(g_found.main_stack_end - 1)) range.begin = g_found.main_stack_end;
  g_found.excluded.ForEachGap(range, [&](Range part) {
    if (part.bytes() <= kAlwaysWhole && !mapping.is_file) return Scan(nullptr, part);
    touched.Visit(mapping, part, Scan, nullptr);
  });
}

void Exclude(Range range) {
  // Without memory for the list the range counts as a root, which is safe.
  if (range.begin < range.end) (void)g_found.excluded.Add(range);
}

}  // namespace

void ProcessRoots::Init() {
  const bool bounded = platform::AddressSpaceLimit() != SIZE_MAX;
  if (!g_found.words.Reserve(bounded ? kMaxWordsWhenBounded : kMaxWords)) {
    Complain("collecting malloc: no address space to look for roots: nothing is collected");
    return;
  }
  // Committed now: later the system may have memory only after a collection.
  (void)g_found.words.EnsureCommitted(2 * kChunkBytes / kWordBytes);
  (void)g_found.excluded.Prepare(256);
  (void)g_found.in_place.Prepare(256);
}

bool ProcessRoots::Find() {
  if (g_found.words.max() == 0) return false;
  g_found.count = 0;
  g_found.complete = true;
  g_found.in_place.Clear();
  g_found.excluded.Clear();
  g_found.main_stack_end = 0;
  platform::VisitReservations([](void*, Range range) { Exclude(range); }, nullptr);
  Threads::ForEachStackWorldStopped(
      [](void*, Range stack, bool is_main) {
        if (is_main) {
          g_found.main_stack_end = stack.end;
        } else {
          Exclude(stack);
        }
      },
      nullptr);
  platform::TouchedPages touched;
  return platform::VisitMappings(ScanMapping, &touched) && g_found.complete;
}

void ProcessRoots::AddTo(gc::RootTasks* roots) {
  const Addr words = AddressOf(g_found.words.data());
  roots->Add(gc::RootKind::kData, words, words + g_found.count * kWordBytes);
  for (size_t i = 0; i < g_found.in_place.size(); ++i) {
    const Range range = g_found.in_place.at(i);
    roots->Add(gc::RootKind::kData, range.begin, range.end);
  }
}

void ProcessRoots::Release() {
  const size_t committed = g_found.words.committed();
  if (committed <= kKeptWords) return;
  platform::Discard(g_found.words.data() + kKeptWords, (committed - kKeptWords) * kWordBytes);
}

}  // namespace gleaner::malloc_proxy
