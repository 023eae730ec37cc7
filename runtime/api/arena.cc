// gleaner.h: arenas.
#include "alloc/arenas/arena.h"

#include "runtime/api/api.h"
#include "runtime/api/placement.h"
#include "runtime/nodes/arenas.h"
#include "runtime/start/fork.h"

using alloc::Arena;
using alloc::ArenaConfig;
using alloc::ArenaPolicy;
using alloc::Pattern;
using alloc::Placement;
using alloc::Residency;
using alloc::SlabTier;
using gleaner::IsPowerOfTwo;
using runtime::Arenas;

namespace {

static_assert(GLEANER_ARENA_BINNED == static_cast<int>(ArenaPolicy::kBinned));
static_assert(GLEANER_ARENA_TREE == static_cast<int>(ArenaPolicy::kPlainTree));
static_assert(GLEANER_ARENA_FIRST_FIT == static_cast<int>(ArenaPolicy::kFirstFit));
static_assert(GLEANER_ARENA_BUDDY == static_cast<int>(ArenaPolicy::kBuddy));

constexpr size_t kMinGranularity = size_t{1} << SlabTier::kMinUnitShift;
constexpr size_t kMaxGranularity = size_t{1} << SlabTier::kMaxUnitShift;
constexpr uint64_t kNsPerMs = 1000000;

// Prints which field is out of range; returns false.
bool RejectOption(const char* call, const char* field, size_t value, const char* range) {
  Complain("%s: the option %s is %zu; it may be %s", call, field, value, range);
  return false;
}

// Copies the options into *config, which may point to *placement then. False, after a message, if
// one is out of range.
bool ReadOptions(const char* call, const gleaner_arena_options* given, ArenaConfig* config,
                 Placement* placement) {
  gleaner_arena_options options = GLEANER_ARENA_OPTIONS;
  if (given != nullptr) {
    if (given->size < sizeof given->size || given->size > sizeof options) {
      return RejectOption(call, "size", given->size,
                          "what GLEANER_ARENA_OPTIONS says, of headers not newer than the library");
    }
    memcpy(&options, given, given->size);
  }
  const unsigned flags = GLEANER_ARENA_THREAD_SAFE | GLEANER_ARENA_HUGE_PAGES;
  if (options.policy < GLEANER_ARENA_BINNED || options.policy > GLEANER_ARENA_BUDDY) {
    return RejectOption(call, "policy", static_cast<size_t>(options.policy),
                        "one of enum gleaner_arena_policy");
  }
  if ((options.flags & ~flags) != 0) {
    return RejectOption(call, "flags", options.flags, "a sum of enum gleaner_arena_flag");
  }
  if (!IsPowerOfTwo(options.granularity) || options.granularity < kMinGranularity ||
      options.granularity > kMaxGranularity) {
    return RejectOption(call, "granularity", options.granularity, "a power of two from 16 to 4096");
  }
  if (options.threshold > SlabTier::kMaxThresholdBytes) {
    return RejectOption(call, "threshold", options.threshold, "0 to 262144");
  }
  config->policy = static_cast<ArenaPolicy>(options.policy);
  config->thread_safe = (options.flags & GLEANER_ARENA_THREAD_SAFE) != 0;
  config->huge_pages = (options.flags & GLEANER_ARENA_HUGE_PAGES) != 0;
  config->unit_bytes = options.granularity;
  config->small_bytes = options.threshold;
  config->resident_bytes = options.resident_budget;
  config->decay_ns = options.decay_ms * kNsPerMs;
  if (options.placement == nullptr) return true;
  config->placement = placement;
  if (!runtime::ReadPlacement(call, options.placement, placement)) return false;
  // What the decay drops would come back where it is touched.
  if (placement->pattern == Pattern::kBlockCyclic) config->resident_bytes = Residency::kKeepAll;
  return true;
}

// Makes a handle for the arena; null with errno if the arena is null or there is no handle.
gleaner_arena* Publish(Arena* arena, const ArenaConfig& config) {
  if (arena == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  if (config.thread_safe && !runtime::InstallForkHandlers()) {
    arena->Destroy();
    errno = ENOMEM;
    return nullptr;
  }
  void* handle = Arenas::Add(arena);
  if (handle == nullptr) {
    arena->Destroy();
    errno = ENOMEM;
  }
  return static_cast<gleaner_arena*>(handle);
}

gleaner_arena* Refuse(int error) {
  errno = error;
  return nullptr;
}

GLEANER_COLD void ComplainOfArena(const char* call, const void* arena) {
  Complain("%s(%p): no such arena (destroyed before?); ignored", call, arena);
}

// The arena of the handle; null, after a message, if there is none.
Arena* Find(const char* call, const void* handle) {
  Arena* arena = Arenas::Find(handle);
  if (GLEANER_UNLIKELY(arena == nullptr)) ComplainOfArena(call, handle);
  return arena;
}

void* Allocate(const char* call, gleaner_arena* handle, size_t size, size_t alignment,
               bool zeroed) {
  Arena* arena = Find(call, handle);
  const bool good = arena != nullptr && (alignment == 0 || IsPowerOfTwo(alignment));
  if (GLEANER_UNLIKELY(!good)) {
    if (arena != nullptr) {
      Complain("%s(%p, %zu): the alignment %zu is no power of two", call,
               static_cast<void*>(handle), size, alignment);
    }
    errno = EINVAL;
    return nullptr;
  }
  void* block = arena->Allocate(size, alignment, zeroed);
  if (GLEANER_UNLIKELY(block == nullptr)) errno = ENOMEM;
  return block;
}

}  // namespace

extern "C" {

gleaner_arena* gleaner_arena_create(size_t bytes, const gleaner_arena_options* options) {
  const char* const call = "gleaner_arena_create";
  ArenaConfig config;
  Placement placement;
  if (!ReadOptions(call, options, &config, &placement)) return Refuse(EINVAL);
  if (bytes == 0) {
    Complain("%s: 0 bytes", call);
    return Refuse(EINVAL);
  }
  return Publish(Arena::Create(bytes, config), config);
}

gleaner_arena* gleaner_arena_create_on(void* memory, size_t bytes,
                                       const gleaner_arena_options* options) {
  const char* const call = "gleaner_arena_create_on";
  ArenaConfig config;
  Placement placement;
  if (!ReadOptions(call, options, &config, &placement)) return Refuse(EINVAL);
  if (RejectNull(call, "the memory", memory)) return Refuse(EINVAL);
  const Addr begin = AddressOf(memory), room = 0 - begin;
  const size_t unit = config.unit_bytes;
  const size_t gap = (0 - begin) & (unit - 1);
  if (bytes > room - 1 || bytes < gap || bytes - gap < unit) {
    Complain("%s(%p, %zu): no memory for a block of %zu bytes in it, or it wraps around", call,
             memory, bytes, unit);
    return Refuse(EINVAL);
  }
  return Publish(Arena::CreateOn(begin, bytes, config), config);
}

void* gleaner_arena_allocate(gleaner_arena* arena, size_t size, size_t alignment) {
  return Allocate("gleaner_arena_allocate", arena, size, alignment, false);
}

void* gleaner_arena_allocate_zeroed(gleaner_arena* arena, size_t size, size_t alignment) {
  return Allocate("gleaner_arena_allocate_zeroed", arena, size, alignment, true);
}

int gleaner_arena_free(gleaner_arena* handle, void* block) {
  Arena* arena = Find("gleaner_arena_free", handle);
  if (GLEANER_UNLIKELY(arena == nullptr)) return EINVAL;
  if (block == nullptr) return 0;
  const Arena::FreeResult result = arena->Free(AddressOf(block));
  if (GLEANER_LIKELY(result == Arena::FreeResult::kFreed)) return 0;
  Complain("gleaner_arena_free(%p, %p): %s; ignored", static_cast<void*>(handle), block,
           result == Arena::FreeResult::kOutside ? "not in this arena"
                                                 : "no block in use begins there (freed before?)");
  return EINVAL;
}

size_t gleaner_arena_usable_size(gleaner_arena* handle, const void* block) {
  Arena* arena = Find("gleaner_arena_usable_size", handle);
  return arena != nullptr ? arena->BlockBytes(AddressOf(block)) : 0;
}

size_t gleaner_arena_trim(gleaner_arena* handle) {
  Arena* arena = Find("gleaner_arena_trim", handle);
  return arena != nullptr ? arena->Trim() : 0;
}

size_t gleaner_arena_get_stats(gleaner_arena* handle, gleaner_arena_stats* stats, size_t size) {
  const char* const call = "gleaner_arena_get_stats";
  Arena* arena = Find(call, handle);
  if (arena == nullptr || RejectNull(call, "the result", stats)) return 0;
  const Arena::Stats now = arena->GetStats();
  gleaner_arena_stats all = {};
  all.pool_bytes = now.pool_bytes;
  all.used_bytes = now.used_bytes;
  all.largest_free = now.largest_free;
  all.slab_bytes = now.slab_bytes;
  all.idle_bytes = now.idle_bytes;
  all.discarded_bytes = now.discarded_bytes;
  all.metadata_bytes = now.metadata_bytes;
  all.used_blocks = now.used_blocks;
  all.free_blocks = now.free_blocks;
  all.allocations = now.allocations;
  all.frees = now.frees;
  all.failures = now.failures;
  all.bad_frees = now.bad_frees;
  return CopyOut(stats, size, &all, sizeof all);
}

int gleaner_arena_destroy(gleaner_arena* handle) {
  Arena* arena = Arenas::Remove(handle);
  if (arena == nullptr) {
    ComplainOfArena("gleaner_arena_destroy", handle);
    return EINVAL;
  }
  arena->Destroy();
  return 0;
}

}  // extern "C"
