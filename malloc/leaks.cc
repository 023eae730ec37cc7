#include "malloc/leaks.h"

#include "alloc/metadata/meta.h"
#include "alloc/walk.h"
#include "platform/unwind/unwind.h"
#include "runtime/collect/collect.h"
#include "runtime/process/malloc_support.h"
#include "runtime/process/options.h"

namespace gleaner::malloc_proxy {
namespace {

using alloc::g_space;
using alloc::kGranuleBytes;
using alloc::ObjectRef;
using platform::Atomic;
using platform::memory_order_acquire;
using platform::memory_order_release;
using runtime::g_options;

// --- The side table ---

using Tag = uint32_t;
constexpr size_t kMaxSlack = (size_t{1} << (32 - kStackIdBits)) - 1;
static_assert(kMaxSlack + 1 >= alloc::kMaxSmallBytes);

// The table becomes writable in pieces, one for each kPieceHeapBytes of the heap.
constexpr size_t kPieceHeapBytes = 4 * kMiB;
constexpr size_t kPieceBytes = kPieceHeapBytes / kGranuleBytes * sizeof(Tag);

// Constant after Init.
constinit Tag* g_tags = nullptr;
constinit Atomic<bool>* g_pieces = nullptr;

// Null without memory.
Tag* WritableTagOf(Addr base) {
  const size_t offset = base - g_space.base;
  Atomic<bool>& piece = g_pieces[offset / kPieceHeapBytes];
  // Acquire: pairs with the release below; a thread that sees the flag may write the piece. Several
  // threads may make the same piece writable, which is harmless.
  if (GLEANER_UNLIKELY(!piece.Load(memory_order_acquire))) {
    char* memory = reinterpret_cast<char*>(g_tags) + offset / kPieceHeapBytes * kPieceBytes;
    if (!platform::Commit(memory, kPieceBytes)) return nullptr;
    piece.Store(true, memory_order_release);  // with the acquire above
  }
  return &g_tags[offset / kGranuleBytes];
}

StackId StackOf(Addr base) {
  return g_tags[(base - g_space.base) / kGranuleBytes] & (kMaxStacks - 1);
}
uint64_t BytesOf(const ObjectRef& object) {
  const size_t slack = g_tags[(object.base - g_space.base) / kGranuleBytes] >> kStackIdBits;
  return slack < object.bytes ? object.bytes - slack : 0;
}

// --- Examination. All with the world stopped, under the collector lock. ---

constexpr uint8_t kDirect = 32;
constexpr uint8_t kIndirect = 64;
constexpr uint8_t kSuppressed = 128;
static_assert(kDirect > alloc::kDisclaiming);

// The collecting thread's call of Examine. Null in collections of GLEANER_COLLECT.
struct Request {
  const RuleOfStack* rules;
  LeakCount* suppressed;  // by rule
  bool done;
};
constinit __thread Request* t_request = nullptr;

// By stack: blocks that were collected, and blocks that the last examination found.
constinit alloc::ReservedArray<StackLeaks> g_collected;
constinit alloc::ReservedArray<StackLeaks> g_found;
constinit size_t g_found_stacks = 0;
// Blocks that are to be searched for pointers.
constinit alloc::ReservedArray<Addr> g_pending;
constexpr size_t kMaxPending = size_t{1} << 30;

class Examination {
 public:
  Examination(const gc::Marker& marker, const Request* request)
      : marker_(marker), request_(request) {}

  bool Run() {
    const size_t stacks = StackTable::end();
    alloc::ReservedArray<StackLeaks>& counts = request_ != nullptr ? g_found : g_collected;
    if (!counts.EnsureCommitted(stacks)) return false;
    if (request_ != nullptr) {
      for (size_t i = 0; i < stacks; ++i) counts[i] = {};
      g_found_stacks = stacks;
    }
    if (request_ != nullptr && request_->rules != nullptr) FindSuppressed();
    alloc::ForEachSlot([this](const ObjectRef& object) {
      if (!IsLost(object)) return;
      leader_ = object.base;
      Reach(object, kDirect);
      Follow(kIndirect);
    });
    alloc::ForEachSlot([this, &counts](const ObjectRef& object) {
      uint8_t* mark = object.mark();
      if (*mark < kDirect) return;
      StackLeaks& leaks = counts[StackOf(object.base)];
      if (*mark == kDirect) leaks.direct.Add({1, BytesOf(object)});
      if (*mark == kIndirect) leaks.indirect.Add({1, BytesOf(object)});
      *mark = request_ != nullptr ? marker_.black() : alloc::g_epoch;
    });
    return true;
  }

 private:
  bool IsLost(const ObjectRef& object) const {
    return marker_.IsWhite(object) && !alloc::IsUncollectable(object.kind());
  }

  void FindSuppressed() {
    const auto rule_of = [this](Addr base) { return request_->rules[StackOf(base)]; };
    alloc::ForEachSlot([&](const ObjectRef& object) {
      if (!IsLost(object) || rule_of(object.base) == 0) return;
      rule_ = rule_of(object.base);
      Reach(object, kSuppressed);
      Follow(kSuppressed);
    });
  }

  void Reach(const ObjectRef& object, uint8_t state) {
    *object.mark() = state;
    if (state == kSuppressed) request_->suppressed[rule_].Add({1, BytesOf(object)});
    // Without memory the blocks that this block leads to count as direct.
    if (!g_pending.EnsureCommitted(pending_ + 1)) return;
    g_pending[pending_++] = object.base;
  }

  // Searches all pending blocks for pointers. White blocks that they lead to get the state.
  void Follow(uint8_t state) {
    while (pending_ != 0) {
      ObjectRef object;
      if (!alloc::FindSlot(g_pending[--pending_], &object)) continue;
      for (Addr at = object.base; at + kWordBytes <= object.base + object.bytes; at += kWordBytes) {
        const Addr word = LoadForeignWord(at);
        ObjectRef target;
        if (!g_space.Contains(word) || !alloc::FindSlot(word, &target)) continue;
        if (IsLost(target)) {
          Reach(target, state);
        } else if (*target.mark() == kDirect && target.base != leader_) {
          *target.mark() = kIndirect;
        }
      }
    }
  }

  const gc::Marker& marker_;
  const Request* const request_;
  size_t pending_ = 0;
  Addr leader_ = 0;
  RuleOfStack rule_ = 0;
};

void Inspect(const gc::Marker& marker) {
  const bool done = Examination(marker, t_request).Run();
  if (t_request != nullptr) {
    t_request->done = done;
  } else if (!done) {
    Complain("leaks: no memory to count what is collected: the report will lack it");
  }
}

}  // namespace

bool Leaks::Init() {
  const size_t pieces = (g_space.bytes + kPieceHeapBytes - 1) / kPieceHeapBytes;
  g_pieces = static_cast<Atomic<bool>*>(alloc::MetaAllocate(pieces * sizeof(Atomic<bool>)));
  auto* tags = static_cast<Tag*>(platform::ReserveZeroes(pieces * kPieceBytes));
  if (g_pieces == nullptr || tags == nullptr || !StackTable::Init() ||
      !g_collected.Reserve(kMaxStacks) || !g_found.Reserve(kMaxStacks) ||
      !g_pending.Reserve(kMaxPending)) {
    Complain("leaks: the system refuses memory for the tables: there will be no report");
    return false;
  }
  platform::InitUnwinder();
  g_tags = tags;
  runtime::g_malloc_support.inspect = Inspect;
  runtime::g_malloc_support.strict_roots = true;
  return true;
}

void Leaks::Record(void* p, size_t bytes) {
  if (GLEANER_UNLIKELY(g_tags == nullptr)) return;
  ObjectRef object;
  if (!alloc::FindSlot(AddressOf(p), &object)) return;
  Tag* tag = WritableTagOf(object.base);
  if (tag == nullptr) return;
  Addr frames[kMaxFrames];
  const runtime::Thread* self = runtime::Threads::Current();
  const size_t count =
      platform::CaptureStack(self != nullptr ? self->stack : platform::Range{},
                             platform::ThisObject(), frames, g_options.leaks_frames);
  const size_t slack = object.bytes > bytes ? object.bytes - bytes : 0;
  *tag = StackTable::Intern(frames, count) | static_cast<Tag>(slack < kMaxSlack ? slack : kMaxSlack)
                                                 << kStackIdBits;
}

bool Leaks::Examine(Addr stack_pointer, const RuleOfStack* rules, LeakCount* suppressed) {
  Request request{rules, suppressed, false};
  t_request = &request;
  const bool collected = runtime::CollectForMallocFrom(stack_pointer);
  t_request = nullptr;
  return collected && request.done;
}

size_t Leaks::stacks() { return g_found_stacks; }

StackLeaks Leaks::Of(StackId id) {
  StackLeaks leaks = g_found[id];
  if (id < g_collected.committed()) {
    leaks.direct.Add(g_collected[id].direct);
    leaks.indirect.Add(g_collected[id].indirect);
  }
  return leaks;
}

}  // namespace gleaner::malloc_proxy
