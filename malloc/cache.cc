#include "malloc/cache.h"

#include <pthread.h>

#include <cerrno>
#include <climits>
#include <cstdint>

#include "alloc/span_space.h"
#include "malloc/collecting.h"
#include "malloc/leak_report.h"
#include "malloc/leaks.h"
#include "malloc/next.h"

namespace gleaner::malloc_proxy {

namespace {

constinit void* g_no_slots[1] = {nullptr};

constexpr Magazine kNoMagazine = {g_no_slots + 1, g_no_slots + 1};
constexpr Magazines kNoMagazines = [] {
  Magazines none{};
  for (Magazine& magazine : none.of) magazine = kNoMagazine;
  return none;
}();

}  // namespace

constinit __thread Magazines t_magazines = kNoMagazines;

namespace {

using alloc::g_space;
using alloc::kGranuleBytes;
using alloc::kMaxSmallBytes;
using alloc::SizeClassOf;

// Owner thread only.
struct ThreadState {
  SlotHeap* heap;
  int destructor_rounds;
  bool ended;
  bool set_aside;      // the magazines are set aside (magazines.h)
  uint32_t unwatched;  // slow calls that the magazines set aside may serve before TendSurplus
};
constinit __thread ThreadState t_state = {};

// The key's destructor ends a thread's cache. Without a key threads keep their heaps for ever.
constinit pthread_key_t g_key = 0;
constinit bool g_has_key = false;  // written at the start

// glibc's limits.h has the minimum that POSIX allows.
constexpr int kDestructorRounds = PTHREAD_DESTRUCTOR_ITERATIONS;

void* OutOfMemory() {
  errno = ENOMEM;
  return nullptr;
}

const char* NameOf(Call call) {
  switch (call) {
    case Call::kFree:
      return "free";
    case Call::kRealloc:
      return "realloc";
    default:
      return "malloc_usable_size";
  }
}

[[noreturn]] GLEANER_COLD void BadPointer(Call call, const void* p, BlockError error) {
  if (error == BlockError::kNotOut) {
    Fatal("%s(%p): double free: the block is free already", NameOf(call), p);
  }
  Fatal("%s(%p): invalid pointer, or freed before: no block begins there", NameOf(call), p);
}

// A foreign pointer goes to the next allocator, which may have made it. No allocator makes blocks
// on a stack, so such a pointer is an error.
void CheckForeign(Call call, const void* p) {
  if (platform::IsOnOwnStack(p))
    Fatal("%s(%p): invalid pointer: it is on the stack", NameOf(call), p);
}

constexpr size_t kNoClass = SIZE_MAX;

// The class of the block that begins at `p`, or kNoClass.
size_t ClassOf(const void* p) {
  if (!g_space.Contains(AddressOf(p))) return kNoClass;
  const alloc::PageInfo& page = g_space.info[g_space.PageOf(AddressOf(p))];
  const bool is_block = page.state == alloc::PageState::kSmall
                            ? SlotHeaps::IsSlot(p)
                            : SpanBytes(p) != 0 && (page.magazine != DistanceOf(kLargeClass) ||
                                                    page.size_class == kLargeClass);
  return is_block ? page.size_class : kNoClass;
}

struct ClassShape {
  uint16_t first;   // index of the first block in ThreadMagazines::words, and
  uint16_t offset;  // once the magazine has moved
  uint16_t min;     // MinBlocks
  uint16_t max;     // MaxBlocks
  uint32_t bytes;   // ClassBytes
};
constexpr auto kShapes = [] {
  std::array<ClassShape, kCachedClasses> shapes{};
  size_t first = 0;
  size_t offset = 0;
  for (size_t c = 0; c < kCachedClasses; ++c) offset += 1 + FirstRoom(c);
  for (size_t c = 0; c < kCachedClasses; ++c) {
    shapes[c] = {static_cast<uint16_t>(first + 1), static_cast<uint16_t>(offset + 1),
                 static_cast<uint16_t>(MinBlocks(c)), static_cast<uint16_t>(MaxBlocks(c)),
                 static_cast<uint32_t>(ClassBytes(c))};
    first += 1 + FirstRoom(c);
    offset += 1 + MaxBlocks(c);
  }
  return shapes;
}();
static_assert(internal::MagazineWords() <= UINT16_MAX);

// pre: the thread has a heap, for all below.
ThreadMagazines& Own() { return t_state.heap->magazines; }
void** BottomOf(size_t size_class) {
  const ClassShape& shape = kShapes[size_class];
  return Own().words + (Own().has_moved[size_class] ? shape.offset : shape.first);
}
Magazine& MagazineOf(size_t size_class) {
  return (t_state.set_aside ? Own().aside : t_magazines).of[size_class];
}
size_t CapacityOf(size_t size_class) {
  return static_cast<size_t>(MagazineOf(size_class).limit - BottomOf(size_class));
}

void SetAside() {
  Own().aside = t_magazines;
  t_magazines = kNoMagazines;
  t_state.set_aside = true;
}
void PutInPlace() {
  t_magazines = Own().aside;
  t_state.set_aside = false;
}

// Calls that the magazines set aside serve for each look at the clock, which takes as long as such
// a call.
constexpr uint32_t kUnwatchedCalls = 8;

// Whether the magazines are set aside and may serve a call without TendSurplus.
bool MayUseAside() {
  if (!t_state.set_aside || t_state.unwatched == 0) return false;
  --t_state.unwatched;
  return true;
}

// Called by each slow call for a block of a cached class, unless the magazines set aside serve it.
// Makes the step of the decay that is due, in which the thread also flushes its magazines. While
// there is a surplus the thread's magazines are set aside, so that it calls this again.
void TendSurplus() {
  t_state.unwatched = kUnwatchedCalls;
  if (GLEANER_UNLIKELY(alloc::g_spans.DecaySurplus())) ThreadCache::Flush();
  const bool waits = alloc::g_spans.HasSurplus();
  if (waits == t_state.set_aside || t_state.heap == nullptr) return;
  waits ? SetAside() : PutInPlace();
}

// Returns blocks of one class to their pages or to the shelf. Any thread, also one without a heap.
void GiveBack(size_t size_class, void** blocks, size_t count) {
  void* wrong = nullptr;
  const BlockError error =
      size_class < kFirstMedium
          ? SlotHeaps::GiveBack(size_class, blocks, count, t_state.heap, &wrong)
          : Shelf::Put(size_class, blocks, count, &wrong);
  if (GLEANER_UNLIKELY(error != BlockError::kNone)) BadPointer(Call::kFree, wrong, error);
}

// Bytes left of the pool. Relaxed: a count that publishes nothing. The exchange acquires only
// because its failure order is acquire, and success may not be weaker.
constinit platform::Atomic<size_t> g_pool_bytes{kPoolBytes};

bool TakeFromPool(size_t bytes) {
  size_t left = g_pool_bytes.Load(platform::memory_order_relaxed);  // the exchange decides
  do {
    if (left < bytes) return false;
  } while (!g_pool_bytes.CompareExchange(left, left - bytes,
                                         platform::memory_order_acquire));  // a count
  return true;
}

// Allots `bytes` more to the thread's magazines of the class's kind; false if that exceeds a limit.
bool TryAllot(size_t size_class, size_t bytes) {
  ThreadMagazines& own = Own();
  const bool is_slot = size_class < kFirstMedium;
  if (is_slot ? own.slot_bytes + bytes > kThreadBytes : !TakeFromPool(bytes)) return false;
  (is_slot ? own.slot_bytes : own.medium_bytes) += bytes;
  return true;
}

void ReturnAllotted(size_t size_class, size_t bytes) {
  ThreadMagazines& own = Own();
  if (size_class < kFirstMedium) {
    own.slot_bytes -= bytes;
  } else {
    own.medium_bytes -= bytes;
    g_pool_bytes.FetchAdd(bytes, platform::memory_order_relaxed);  // a count
  }
}

// pre: the thread's magazines have their minimum capacities, or none.
void ReturnAllAllotted() {
  ReturnAllotted(0, Own().slot_bytes);
  ReturnAllotted(kFirstMedium, Own().medium_bytes);
}

// Returns the `count` blocks of a magazine that were freed first.
void Drop(size_t size_class, size_t count) {
  Magazine& magazine = MagazineOf(size_class);
  void** bottom = BottomOf(size_class);
  GiveBack(size_class, bottom, count);
  const size_t kept = static_cast<size_t>(magazine.top - bottom) - count;
  memmove(bottom, bottom + count, kept * sizeof(void*));
  magazine.top = bottom + kept;
}

// Takes half of the capacity beyond the minimum from another class of the same kind.
void ShrinkAnother(size_t size_class) {
  ThreadMagazines& own = Own();
  for (size_t i = 0; i < kCachedClasses; ++i) {
    const size_t victim = own.next_victim;
    own.next_victim = victim + 1 == kCachedClasses ? 0 : victim + 1;
    const ClassShape& shape = kShapes[victim];
    const size_t capacity = CapacityOf(victim);
    const bool same_kind = (victim < kFirstMedium) == (size_class < kFirstMedium);
    if (victim == size_class || !same_kind || capacity <= shape.min) continue;
    const size_t cut = (capacity - shape.min + 1) / 2;
    Magazine& magazine = MagazineOf(victim);
    const auto room = static_cast<size_t>(magazine.limit - magazine.top);
    if (room < cut) Drop(victim, cut - room);
    magazine.limit -= cut;
    ReturnAllotted(victim, cut * shape.bytes);
    return;
  }
}

// Doubles the capacity if the limits allow it. Whether it has grown.
bool TryEnlarge(size_t size_class) {
  const ClassShape& shape = kShapes[size_class];
  const size_t capacity = CapacityOf(size_class);
  const size_t doubled = capacity == 0 ? 1 : 2 * capacity;
  const size_t more = (doubled < shape.max ? doubled : shape.max) - capacity;
  if (more == 0 || !TryAllot(size_class, more * shape.bytes)) return false;
  Magazine& magazine = MagazineOf(size_class);
  magazine.limit += more;
  if (Own().has_moved[size_class] || capacity + more <= FirstRoom(size_class)) return true;
  void** const from = BottomOf(size_class);
  const auto count = static_cast<size_t>(magazine.top - from);
  Own().has_moved[size_class] = true;
  void** const to = BottomOf(size_class);
  memcpy(to, from, count * sizeof(void*));
  magazine = {to + count, to + capacity + more};
  return true;
}

// Whether the magazine has ever had a block of this thread.
bool WasFilled(size_t size_class) {
  return Own().has_moved[size_class] || *BottomOf(size_class) != nullptr;
}

// Abandons the thread's heap. The thread has no heap from now on.
void GiveBackHeap() {
  ThreadCache::Flush();
  ReturnAllAllotted();
  t_magazines = kNoMagazines;
  t_state.set_aside = false;
  SlotHeap* heap = t_state.heap;
  t_state.heap = nullptr;
  t_state.ended = true;
  SlotHeaps::Abandon(heap);
}

void EndThread(void*) {
  // In the last round of destructors, since other destructors may call malloc.
  if (++t_state.destructor_rounds < kDestructorRounds &&
      pthread_setspecific(g_key, t_state.heap) == 0) {
    return;
  }
  GiveBackHeap();
}

// Gives the thread a heap and magazines if it has none; false if that is not possible.
bool PrepareThread() {
  if (GLEANER_LIKELY(t_state.heap != nullptr)) return true;
  if (t_state.ended || ChecksEveryCall()) return false;
  SlotHeap* heap = SlotHeaps::Acquire();
  if (heap == nullptr) return false;
  t_state.heap = heap;
  ReturnAllAllotted();  // the heap may be of a thread that vanished in a fork
  for (size_t c = 0; c < kCachedClasses; ++c) {
    Own().has_moved[c] = false;
    void** bottom = BottomOf(c);
    *bottom = nullptr;
    t_magazines.of[c] = {bottom, bottom + kShapes[c].min};
  }
  // pthread_setspecific may call malloc, which works by now. Without the key's value the heap would
  // never be abandoned at the thread's end.
  if (!g_has_key || pthread_setspecific(g_key, heap) == 0) return true;
  GiveBackHeap();
  return false;
}

// Allocates a block of a cached class; null if there is no memory.
void* AllocateOfClass(size_t size_class, size_t bytes, bool zeroed) {
  const bool is_slot = size_class < kFirstMedium;
  void* p = nullptr;
  if (!PrepareThread()) {
    if (is_slot) (void)SlotHeaps::shared().Take(size_class, &p, 1);
  } else {
    Magazine& magazine = MagazineOf(size_class);
    // The magazine may have blocks: aligned requests do not look into it before.
    if (magazine.top[-1] == nullptr) {
      if (WasFilled(size_class)) (void)TryEnlarge(size_class);
      // At least one block, also with capacity 0: it is popped at once, and the array has room.
      const size_t half = CapacityOf(size_class) / 2 + 1;
      magazine.top += is_slot ? t_state.heap->Take(size_class, magazine.top, half)
                              : Shelf::Take(size_class, magazine.top, half);
    }
    p = magazine.top[-1];
    if (p != nullptr) --magazine.top;
  }
  TendSurplus();
  if (p == nullptr) {
    return is_slot ? nullptr : AllocateSpan(size_class, bytes, kGranuleBytes, zeroed);
  }
  return zeroed ? memset(p, 0, bytes) : p;
}

void FreeForeign(void* p) {
  size_t early;
  if (p == nullptr || Collecting::IsEarly(p, &early)) return;
  CheckForeign(Call::kFree, p);
  NextFree(p);
}

void* ReallocateForeign(void* p, size_t bytes) {
  if (size_t early; Collecting::IsEarly(p, &early)) {
    void* moved = Allocate(bytes);
    return moved != nullptr ? memcpy(moved, p, early < bytes ? early : bytes) : nullptr;
  }
  CheckForeign(Call::kRealloc, p);
  return NextReallocate(p, bytes);
}

void FreeOfClass(void* p, size_t size_class) {
  if (!PrepareThread()) {
    GiveBack(size_class, &p, 1);
    return TendSurplus();
  }
  void** const top = MagazineOf(size_class).top;
  const auto count = top - BottomOf(size_class);
  if ((count > 0 && top[-1] == p) || (count > 1 && top[-2] == p)) {
    BadPointer(Call::kFree, p, BlockError::kNotOut);
  }
  // This may empty the magazines. So it comes after the look for the block in them, and before the
  // block is put where a second free finds it.
  TendSurplus();
  Magazine& magazine = MagazineOf(size_class);
  if (magazine.top == magazine.limit && !TryEnlarge(size_class)) {
    if (CapacityOf(size_class) < kShapes[size_class].max) ShrinkAnother(size_class);
    if (CapacityOf(size_class) == 0 && !TryEnlarge(size_class)) return GiveBack(size_class, &p, 1);
    if (magazine.top == magazine.limit) Drop(size_class, (CapacityOf(size_class) + 1) / 2);
  }
  *magazine.top++ = p;
}

// pre: Start() was true.
void* AllocateAny(size_t bytes, size_t alignment, bool zeroed) {
  if (bytes > kMaxMediumBytes || alignment > alloc::kPageBytes) {
    return AllocateSpan(kLargeClass, bytes, alignment, zeroed);
  }
  if (bytes > kMaxSmallBytes || alignment > kMaxSmallBytes) {
    return AllocateOfClass(MediumClassOf(bytes == 0 ? 1 : bytes), bytes, zeroed);
  }
  size_t size_class = SizeClassOf(bytes);
  while (alloc::kSlotBytes[size_class] % alignment != 0) ++size_class;  // the last divides
  return AllocateOfClass(size_class, bytes, zeroed);
}

void* AllocateOrFail(size_t bytes, size_t alignment, bool zeroed) {
  if (GLEANER_UNLIKELY(!Start())) return NextAllocate(bytes, alignment, zeroed);
  if (bytes > PTRDIFF_MAX) return OutOfMemory();
  const int saved = errno;
  if (IsCollecting()) {
    void* p = Collecting::Allocate(bytes, alignment);
    if (p == nullptr) return OutOfMemory();
    if (ReportsLeaks()) Leaks::Record(p, bytes);
    errno = saved;
    return p;
  }
  void* p = AllocateAny(bytes, alignment, zeroed);
  if (GLEANER_UNLIKELY(p == nullptr)) {
    // The blocks in the magazines and on the shelf may make up free pages.
    ThreadCache::Flush();
    Shelf::Clear();
    p = AllocateAny(bytes, alignment, zeroed);
    if (p == nullptr) return OutOfMemory();
  }
  errno = saved;
  return p;
}

}  // namespace

void* AllocateSlow(size_t bytes) {
  if (MayUseAside()) {
    if (void* p = TryPop(Own().aside, bytes); p != nullptr) return p;
  }
  return AllocateOrFail(bytes, kGranuleBytes, false);
}

void FreeSlow(void* p) {
  if (MayUseAside()) {
    const Addr from_magazines = AddressOf(&Own().aside) - AddressOf(&t_magazines);
    if (TryPush(platform::CurrentThreadPointer() + from_magazines, p)) return;
  }
  const int saved = errno;
  if (IsCollecting()) {
    if (!Collecting::Free(p, NameOf(Call::kFree))) FreeForeign(p);
  } else if (!g_space.Reserves(AddressOf(p))) {
    FreeForeign(p);
  } else {
    const size_t size_class = ClassOf(p);
    BlockError error = BlockError::kNone;
    if (size_class == kNoClass) {
      error = BlockError::kNoBlock;
    } else if (size_class == kLargeClass) {
      error = FreeSpan(p);
      // FreeSpan has made the step of the decay itself.
      if (alloc::g_spans.HasSurplus() && !t_state.set_aside && t_state.heap != nullptr) {
        SetAside();
      }
    } else {
      FreeOfClass(p, size_class);
    }
    if (GLEANER_UNLIKELY(error != BlockError::kNone)) BadPointer(Call::kFree, p, error);
  }
  errno = saved;
}

void* AllocateAligned(size_t bytes, size_t alignment) {
  if (alignment <= kGranuleBytes) return Allocate(bytes);
  return AllocateOrFail(bytes, alignment, false);
}

void* AllocateZeroed(size_t bytes) {
  if (void* p = TryMagazine(bytes); p != nullptr) return memset(p, 0, bytes);
  return AllocateOrFail(bytes, kGranuleBytes, true);
}

size_t UsableBytes(void* p, Call call) {
  if (p == nullptr) return 0;
  if (IsCollecting()) {
    size_t bytes;
    return Collecting::UsableBytes(p, &bytes, NameOf(call)) ? bytes : NextUsableBytes(p);
  }
  if (!g_space.Reserves(AddressOf(p))) {
    size_t early;
    return Collecting::IsEarly(p, &early) ? early : NextUsableBytes(p);
  }
  const size_t size_class = ClassOf(p);
  if (size_class == kNoClass) BadPointer(call, p, BlockError::kNoBlock);
  return size_class == kLargeClass ? SpanBytes(p) : ClassBytes(size_class);
}

void* Reallocate(void* p, size_t bytes) {
  if (p == nullptr) return Allocate(bytes);
  size_t have = 0;
  if (IsCollecting()) {
    if (!Collecting::UsableBytes(p, &have, NameOf(Call::kRealloc))) {
      return ReallocateForeign(p, bytes);
    }
  } else {
    if (!g_space.Reserves(AddressOf(p))) return ReallocateForeign(p, bytes);
    have = UsableBytes(p, Call::kRealloc);
  }
  if (bytes > PTRDIFF_MAX) return OutOfMemory();
  if (IsCollecting() && bytes > kMaxSmallBytes && Collecting::Resize(p, bytes)) {
    if (ReportsLeaks()) Leaks::Record(p, bytes);
    return p;
  }
  if (!IsCollecting() && have > kMaxMediumBytes && bytes > kMaxMediumBytes) {
    if (ResizeSpan(p, bytes)) return p;
    if (void* moved = bytes > have ? MoveSpan(p, bytes) : nullptr; moved != nullptr) return moved;
  } else if (bytes <= have && bytes + kGranuleBytes > have / 2) {
    if (ReportsLeaks()) Leaks::Record(p, bytes);
    return p;
  }
  void* fresh = Allocate(bytes);
  if (fresh == nullptr) return nullptr;
  memcpy(fresh, p, bytes < have ? bytes : have);
  Free(p);
  return fresh;
}

void ThreadCache::Init() { g_has_key = pthread_key_create(&g_key, EndThread) == 0; }

SlotHeap* ThreadCache::Heap() { return t_state.heap; }

void ThreadCache::Flush() {
  if (t_state.heap == nullptr) return;
  for (size_t c = 0; c < kCachedClasses; ++c) {
    const auto count = static_cast<size_t>(MagazineOf(c).top - BottomOf(c));
    if (count != 0) Drop(c, count);
  }
}

namespace {
// Checks the blocks in the magazines of the thread that ends the process.
__attribute__((destructor)) void CheckAtExit() { ThreadCache::Flush(); }
}  // namespace

}  // namespace gleaner::malloc_proxy
