#include "platform/unwind/stack_table.h"

#include <cstring>

#include "platform/os/memory.h"

namespace gleaner::platform {
namespace {

constexpr size_t kSlots = 4 * kMaxStacks;   // slots of the hash table
constexpr size_t kWords = size_t{1} << 24;  // words for frames: 128 MiB
constexpr size_t kMaxProbes = 64;

struct Stack {
  uint64_t hash;
  uint32_t first_word;
  uint32_t count;
};

// Constant after Init.
constinit Atomic<StackId>* g_slots = nullptr;
constinit Stack* g_stacks = nullptr;
constinit Addr* g_words = nullptr;

// Numbers of stacks and of their words. They may exceed their limits.
constinit Tickets<size_t> g_next_stack{1};
constinit Tickets<size_t> g_next_word{0};
constinit Hint<bool> g_full{false};  // there was no room for some stack

template <class T>
T* Table(size_t count) {
  const size_t bytes = AlignUp(count * sizeof(T), OsPageBytes());
  void* table = Reserve(bytes, OsPageBytes());
  return table != nullptr && Commit(table, bytes) ? static_cast<T*>(table) : nullptr;
}

uint64_t Hash(const Addr* frames, size_t count) {
  uint64_t hash = count;
  for (size_t i = 0; i < count; ++i) {
    hash = (hash ^ frames[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

bool IsSame(StackId id, uint64_t hash, const Addr* frames, size_t count) {
  const Stack& stack = g_stacks[id];
  return stack.hash == hash && stack.count == count &&
         memcmp(g_words + stack.first_word, frames, count * sizeof(Addr)) == 0;
}

StackId NoRoom() {
  g_full.Set(true);
  return kNoStack;
}

// Writes a new stack, which is not in the hash table yet, and returns its number; kNoStack if there
// is no room.
StackId Write(uint64_t hash, const Addr* frames, size_t count) {
  if (g_next_stack.Next() >= kMaxStacks || g_next_word.Next() + count > kWords) {
    return NoRoom();
  }
  // The release in Intern publishes the stack.
  const size_t id = g_next_stack.Take();
  const size_t word = g_next_word.Take(count);
  if (id >= kMaxStacks || word + count > kWords) return NoRoom();
  memcpy(g_words + word, frames, count * sizeof(Addr));
  g_stacks[id] = {hash, static_cast<uint32_t>(word), static_cast<uint32_t>(count)};
  return static_cast<StackId>(id);
}

}  // namespace

bool StackTable::Init() {
  g_slots = Table<Atomic<StackId>>(kSlots);
  g_stacks = Table<Stack>(kMaxStacks);
  g_words = Table<Addr>(kWords);
  if (g_slots == nullptr || g_words == nullptr) g_stacks = nullptr;
  return g_stacks != nullptr;
}

StackId StackTable::Intern(const Addr* frames, size_t count) {
  if (GLEANER_UNLIKELY(g_stacks == nullptr || count == 0)) return kNoStack;
  const uint64_t hash = Hash(frames, count);
  StackId own = kNoStack;
  for (size_t probe = 0; probe < kMaxProbes; ++probe) {
    Atomic<StackId>& slot = g_slots[(hash + probe) % kSlots];
    // Acquire: pairs with the release below [inv.stack-published].
    StackId id = slot.Load(memory_order_acquire);
    if (id == kNoStack) {
      if (own == kNoStack) own = Write(hash, frames, count);
      // Release: publishes the stack before its number. If the exchange fails, it acquires the
      // number of the other thread's stack.
      if (own == kNoStack || slot.CompareExchange(id, own, memory_order_release)) return own;
    }
    if (IsSame(id, hash, frames, count)) return id;
  }
  return NoRoom();
}

size_t StackTable::CountOf(StackId id) { return g_stacks[id].count; }
const Addr* StackTable::FramesOf(StackId id) { return g_words + g_stacks[id].first_word; }

size_t StackTable::end() {
  const size_t next = g_next_stack.Next();
  return next < kMaxStacks ? next : kMaxStacks;
}

bool StackTable::IsFull() { return g_full.Get(); }

}  // namespace gleaner::platform
