// gleaner.h: where memory lies on machines with several memory nodes.
#include "runtime/nodes/placement.h"

#include "platform/nodes/first_touch.h"
#include "platform/nodes/numa.h"
#include "runtime/api/api.h"
#include "runtime/api/placement.h"

using alloc::Pattern;
using alloc::Placement;
using alloc::PlacementResult;

namespace gleaner::runtime {

static_assert(GLEANER_LOCAL == static_cast<int>(Pattern::kLocal));
static_assert(GLEANER_INTERLEAVE == static_cast<int>(Pattern::kInterleave));
static_assert(GLEANER_BLOCK_CYCLIC == static_cast<int>(Pattern::kBlockCyclic));
static_assert(GLEANER_BIND == static_cast<int>(Pattern::kBind));
static_assert(GLEANER_PREFERRED == static_cast<int>(Pattern::kPreferred));
static_assert(sizeof(gleaner_placement::nodes) == sizeof(platform::NodeSet));

bool ReadPlacement(const char* call, const gleaner_placement* given, Placement* placement) {
  if (RejectNull(call, "the placement", given)) return false;
  if (given->size != sizeof *given) {
    Complain("%s: the size of the placement is %zu; GLEANER_PLACEMENT sets it", call, given->size);
    return false;
  }
  if (given->pattern < GLEANER_LOCAL || given->pattern > GLEANER_PREFERRED) {
    Complain("%s: the pattern is %d, which is no enum gleaner_pattern", call, given->pattern);
    return false;
  }
  placement->pattern = static_cast<Pattern>(given->pattern);
  placement->block_bytes = given->block_bytes;
  memcpy(placement->nodes.words(), given->nodes, sizeof given->nodes);
  if (placement->pattern == Pattern::kBlockCyclic &&
      (given->block_bytes == 0 || given->block_bytes % platform::OsPageBytes() != 0)) {
    Complain("%s: blocks of %zu bytes; they are multiples of 4096", call, given->block_bytes);
    return false;
  }
  if (UsableNodes(*placement).IsEmpty()) {
    Complain("%s: this process may use none of the nodes", call);
    return false;
  }
  return true;
}

}  // namespace gleaner::runtime

namespace {

void Report(const PlacementResult& result, gleaner_placed* placed, size_t size) {
  if (placed == nullptr) return;
  const gleaner_placed all = {result.pages,  result.placed,          result.elsewhere,
                              result.absent, result.reduced ? 1 : 0, result.error};
  CopyOut(placed, size, &all, sizeof all);
}

void* AllocatePlaced(const char* call, Kind kind, size_t bytes, const gleaner_placement* given,
                     gleaner_placed* placed, size_t size) {
  Placement placement;
  if (!runtime::ReadPlacement(call, given, &placement)) {
    errno = EINVAL;
    return nullptr;
  }
  PlacementResult result;
  void* p =
      runtime::AttachToHeap() ? alloc::AllocatePlaced(kind, bytes, placement, &result) : nullptr;
  if (p == nullptr) return runtime::OutOfMemory(bytes);
  Report(result, placed, size);
  return p;
}

// Whether there may be such memory; false after a message.
bool IsMemory(const char* call, const void* memory, size_t bytes) {
  constexpr Addr kEnd = Addr{1} << 57;  // no system lets programs use more
  if (RejectNull(call, "the memory", memory)) return false;
  if (AddressOf(memory) <= kEnd && bytes <= kEnd - AddressOf(memory)) return true;
  Complain("%s(%p, %zu): the memory wraps around; ignored", call, memory, bytes);
  return false;
}

}  // namespace

extern "C" {

int gleaner_parse_placement(const char* text, gleaner_placement* placement) {
  const char* const call = "gleaner_parse_placement";
  if (RejectNull(call, "the text", text) || RejectNull(call, "the placement", placement)) {
    return EINVAL;
  }
  Placement read;
  if (const char* wrong = runtime::ParsePlacement(text, &read); wrong != nullptr) {
    Complain("%s: '%s': %s", call, text, wrong);
    return EINVAL;
  }
  *placement = GLEANER_PLACEMENT(static_cast<int>(read.pattern));
  if (read.block_bytes != 0) placement->block_bytes = read.block_bytes;
  memcpy(placement->nodes, read.nodes.words(), sizeof placement->nodes);
  return 0;
}

void* gleaner_malloc_placed(size_t bytes, const gleaner_placement* placement,
                            gleaner_placed* placed, size_t size) {
  return AllocatePlaced("gleaner_malloc_placed", Kind::kNormal, bytes, placement, placed, size);
}

void* gleaner_malloc_atomic_placed(size_t bytes, const gleaner_placement* placement,
                                   gleaner_placed* placed, size_t size) {
  return AllocatePlaced("gleaner_malloc_atomic_placed", Kind::kAtomic, bytes, placement, placed,
                        size);
}

int gleaner_place(void* memory, size_t bytes, const gleaner_placement* given,
                  gleaner_placed* placed, size_t size) {
  const char* const call = "gleaner_place";
  Placement placement;
  if (!IsMemory(call, memory, bytes) || !runtime::ReadPlacement(call, given, &placement)) {
    return EINVAL;
  }
  PlacementResult result;
  const int error = alloc::Place(memory, bytes, placement, &result);
  if (error == 0 && runtime::IsInitialised()) alloc::RecordPlacement(memory);
  Report(result, placed, size);
  return error;
}

int gleaner_set_thread_placement(const gleaner_placement* given) {
  Placement placement;
  if (given != nullptr &&
      !runtime::ReadPlacement("gleaner_set_thread_placement", given, &placement)) {
    return EINVAL;
  }
  if (!runtime::AttachThread()) return ENOMEM;
  alloc::t_placement = nullptr;
  if (given == nullptr) return 0;
  Thread* self = Threads::Current();
  self->placement = placement;
  alloc::t_placement = &self->placement;
  return 0;
}

int gleaner_first_touch(void* memory, size_t bytes, size_t pattern, unsigned threads) {
  const char* const call = "gleaner_first_touch";
  if (!IsMemory(call, memory, bytes)) return EINVAL;
  if (threads > platform::kMaxTouchingThreads) {
    Complain("%s: %u threads; at most %u", call, threads, platform::kMaxTouchingThreads);
    return EINVAL;
  }
  return platform::FirstTouch(memory, bytes, pattern, threads);
}

int gleaner_count_pages(const void* memory, size_t bytes, uint64_t* pages, size_t count) {
  const char* const call = "gleaner_count_pages";
  if (!IsMemory(call, memory, bytes) || RejectNull(call, "the result", pages)) return EINVAL;
  for (size_t i = 0; i < count; ++i) pages[i] = 0;
  return alloc::ForEachPageWithNode(memory, bytes, [pages, count](Addr, int node) {
    if (node >= 0 && static_cast<size_t>(node) < count) ++pages[node];
  });
}

}  // extern "C"
