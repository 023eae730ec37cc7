#include "runtime/nodes/arenas.h"

namespace gleaner::runtime {

using alloc::Arena;

namespace {

struct alignas(64) Slot {
  platform::Atomic<Arena*> arena;
  uint32_t uses;       // changes only while the slot is free
  uint32_t next_free;  // guarded by g_lock
};
constexpr uint32_t kNoSlot = UINT32_MAX;

constinit platform::Lock g_lock(platform::LockRank::kArenaTable);
constinit alloc::ReservedArray<Slot> g_slots;
constinit platform::Atomic<uint32_t> g_slot_count{0};  // that were ever used; written under g_lock
// Guarded by g_lock.
constinit uint32_t g_first_free = kNoSlot;
constinit uint32_t g_last_free = kNoSlot;

Slot* SlotOf(const void* handle) {
  const size_t count = g_slot_count.Load(platform::memory_order_acquire);  // see Add
  if (count == 0) return nullptr;
  const Addr offset = AddressOf(handle) - AddressOf(g_slots.data());
  return offset / sizeof(Slot) < count ? &g_slots[offset / sizeof(Slot)] : nullptr;
}

}  // namespace

void* Arenas::Add(Arena* arena) {
  platform::LockGuard guard(g_lock);
  uint32_t index = g_first_free;
  if (index != kNoSlot) {
    g_first_free = g_slots[index].next_free;
    if (g_first_free == kNoSlot) g_last_free = kNoSlot;
  } else {
    index =
        g_slot_count.Load(platform::memory_order_relaxed);  // written under g_lock, which is held
    if (g_slots.data() == nullptr && !g_slots.Reserve(kMaxArenas)) return nullptr;
    if (!g_slots.EnsureCommitted(size_t{index} + 1)) return nullptr;
    // Release pairs with the acquire in SlotOf: a thread that sees the count sees the slots.
    g_slot_count.Store(index + 1, platform::memory_order_release);
  }
  Slot& slot = g_slots[index];
  // Release pairs with the acquire in Find: a thread that sees the arena sees it initialised.
  slot.arena.Store(arena, platform::memory_order_release);
  return PointerAt<void>(AddressOf(&slot) + slot.uses % alignof(Slot));
}

Arena* Arenas::Find(const void* handle) {
  Slot* slot = SlotOf(handle);
  if (GLEANER_UNLIKELY(slot == nullptr)) return nullptr;
  Arena* arena = slot->arena.Load(platform::memory_order_acquire);  // see Add
  return AddressOf(handle) % alignof(Slot) == slot->uses % alignof(Slot) ? arena : nullptr;
}

Arena* Arenas::Remove(const void* handle) {
  platform::LockGuard guard(g_lock);
  Arena* arena = Find(handle);
  if (arena == nullptr) return nullptr;
  Slot* slot = SlotOf(handle);
  // Relaxed: the program promises that no other thread uses this arena, and the slot's next arena
  // is stored under g_lock.
  slot->arena.Store(nullptr, platform::memory_order_relaxed);
  ++slot->uses;
  const auto index = static_cast<uint32_t>(slot - g_slots.data());
  slot->next_free = kNoSlot;
  (g_last_free != kNoSlot ? g_slots[g_last_free].next_free : g_first_free) = index;
  g_last_free = index;
  return arena;
}

void Arenas::LockForFork() {
  g_lock.Acquire();
  const uint32_t count = g_slot_count.Load(platform::memory_order_relaxed);  // the lock is held
  for (uint32_t i = 0; i < count; ++i) {
    // Relaxed: written under g_lock, which is held.
    Arena* arena = g_slots[i].arena.Load(platform::memory_order_relaxed);
    if (arena != nullptr) arena->LockForFork();
  }
}

void Arenas::UnlockAfterFork() {
  const uint32_t count = g_slot_count.Load(platform::memory_order_relaxed);  // the lock is held
  for (uint32_t i = 0; i < count; ++i) {
    Arena* arena = g_slots[i].arena.Load(platform::memory_order_relaxed);
    if (arena != nullptr) arena->UnlockAfterFork();
  }
  g_lock.Release();
}

}  // namespace gleaner::runtime
