#include "runtime/nodes/arenas.h"

namespace gleaner::runtime {

using alloc::Arena;

constinit platform::Lock Arenas::lock_(platform::LockRank::kArenaTable);
constinit alloc::ReservedArray<Arenas::Slot> Arenas::slots_;
constinit platform::Atomic<uint32_t> Arenas::slot_count_{0};
constinit uint32_t Arenas::first_free_ = kNoSlot;
constinit uint32_t Arenas::last_free_ = kNoSlot;

void* Arenas::Add(Arena* arena) {
  platform::LockGuard guard(lock_);
  uint32_t index = first_free_;
  if (index != kNoSlot) {
    first_free_ = slots_[index].next_free;
    if (first_free_ == kNoSlot) last_free_ = kNoSlot;
  } else {
    index = slot_count_.Load(platform::memory_order_relaxed);  // written under lock_, which is held
    if (slots_.data() == nullptr && !slots_.Reserve(kMaxArenas)) return nullptr;
    if (!slots_.EnsureCommitted(size_t{index} + 1)) return nullptr;
    // Release pairs with the acquire in SlotOf: a thread that sees the count sees the slots.
    slot_count_.Store(index + 1, platform::memory_order_release);
  }
  Slot& slot = slots_[index];
  // Release pairs with the acquire in Find: a thread that sees the arena sees it initialised.
  slot.arena.Store(arena, platform::memory_order_release);
  return PointerAt<void>(AddressOf(&slot) + slot.uses % alignof(Slot));
}

Arenas::Slot* Arenas::SlotOf(const void* handle) {
  const size_t count = slot_count_.Load(platform::memory_order_acquire);  // see Add
  if (count == 0) return nullptr;
  const Addr offset = AddressOf(handle) - AddressOf(slots_.data());
  return offset / sizeof(Slot) < count ? &slots_[offset / sizeof(Slot)] : nullptr;
}

Arena* Arenas::Find(const void* handle) {
  Slot* slot = SlotOf(handle);
  if (GLEANER_UNLIKELY(slot == nullptr)) return nullptr;
  Arena* arena = slot->arena.Load(platform::memory_order_acquire);  // see Add
  return AddressOf(handle) % alignof(Slot) == slot->uses % alignof(Slot) ? arena : nullptr;
}

Arena* Arenas::Remove(const void* handle) {
  platform::LockGuard guard(lock_);
  Arena* arena = Find(handle);
  if (arena == nullptr) return nullptr;
  Slot* slot = SlotOf(handle);
  // Relaxed: the program promises that no other thread uses this arena, and the slot's next arena
  // is stored under lock_.
  slot->arena.Store(nullptr, platform::memory_order_relaxed);
  ++slot->uses;
  const auto index = static_cast<uint32_t>(slot - slots_.data());
  slot->next_free = kNoSlot;
  (last_free_ != kNoSlot ? slots_[last_free_].next_free : first_free_) = index;
  last_free_ = index;
  return arena;
}

void Arenas::LockForFork() {
  lock_.Acquire();
  const uint32_t count = slot_count_.Load(platform::memory_order_relaxed);  // the lock is held
  for (uint32_t i = 0; i < count; ++i) {
    // Relaxed: written under lock_, which is held.
    Arena* arena = slots_[i].arena.Load(platform::memory_order_relaxed);
    if (arena != nullptr) arena->LockForFork();
  }
}

void Arenas::UnlockAfterFork() {
  const uint32_t count = slot_count_.Load(platform::memory_order_relaxed);  // the lock is held
  for (uint32_t i = 0; i < count; ++i) {
    Arena* arena = slots_[i].arena.Load(platform::memory_order_relaxed);
    if (arena != nullptr) arena->UnlockAfterFork();
  }
  lock_.Release();
}

}  // namespace gleaner::runtime
