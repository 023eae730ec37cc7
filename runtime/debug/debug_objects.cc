#include "runtime/debug/debug_objects.h"

#include <cstdio>

#include "alloc/metadata/meta.h"
#include "gc/collector.h"

namespace gleaner::runtime {

namespace {

struct Header {
  const char* file;
  intptr_t line;
  size_t bytes;
  Addr mark;
};
static_assert(sizeof(Header) == kDebugHeaderBytes);

// The marks depend on the object's address, so that copying one object over another is noticed. No
// memory address has such high bits.
constexpr Addr kStartMark = 0xfeed0b9ec7ed5a17u;
constexpr Addr kEndMark = 0xbadc0de5e7f1a93cu;
constexpr uint8_t kPadByte = 0xa5;
// The word that GC_debug_free fills the object with; the same as libgc's.
constexpr Addr kFreedWord = 0xefbeaddedeadbeefu;

Addr UserPart(Addr base) { return base + kDebugHeaderBytes; }
Addr EndMarkOf(Addr base, size_t bytes) { return UserPart(base) + AlignUp(bytes, kWordBytes); }

}  // namespace

constinit platform::Lock DebugObjects::lock_{platform::LockRank::kDebugged};
constinit bool DebugObjects::started_ = false;
constinit alloc::HashTable<DebugObjects::Group*> DebugObjects::groups_;
constinit alloc::HashTable<DebugObject> DebugObjects::large_;
constinit DebugObjects::Group* DebugObjects::aside_ = nullptr;
constinit size_t DebugObjects::grouped_ = 0;

size_t DebugObjects::BytesFor(size_t bytes) {
  constexpr size_t kMax = SIZE_MAX / 2;
  return bytes > kMax ? 0 : kDebugHeaderBytes + AlignUp(bytes, kWordBytes) + kWordBytes;
}

bool DebugObjects::Watch(Addr base, size_t bytes, Place place) {
  static_assert(alloc::kSlotBytes[1] < kDebugHeaderBytes + kWordBytes &&
                alloc::kSlotBytes[2] >= kLeastBytes);
  if (!Started()) {
    platform::LockGuard guard(gc::g_collector.lock());
    // A pointer to the program's part keeps the object, also where other interior pointers do not.
    gc::g_collector.ValidateDisplacement(kDebugHeaderBytes);
    // Relaxed: stored before there is an entry of this thread
    __atomic_store_n(&started_, true, __ATOMIC_RELAXED);
  }
  *PointerAt<Header>(base) = {place.file, place.line, bytes, kStartMark ^ base};
  const Addr end = EndMarkOf(base, bytes);
  for (Addr pad = UserPart(base) + bytes; pad % kWordBytes != 0; ++pad) {
    *PointerAt<uint8_t>(pad) = kPadByte;
  }
  *PointerAt<Addr>(end) = kEndMark ^ base;
  // The marks come first: Inspect may look at the object once there is an entry.
  platform::LockGuard guard(lock_);
  return InsertLocked(base, bytes, place);
}

bool DebugObjects::InsertLocked(Addr base, size_t bytes, Place place) {
  if (BytesFor(bytes) > kMaxGroupedBytes) {
    return large_.Insert(~uint64_t{base}, {.bytes = bytes, .place = place}) != nullptr;
  }
  const Addr page = AlignDown(base, alloc::kPageBytes);
  Group* group;
  if (Group** known = groups_.Find(page); known != nullptr) {
    group = *known;
  } else {
    group = TakeGroup();
    if (group == nullptr) return false;
    if (groups_.Insert(page, group) == nullptr) {
      PutAside(group);
      return false;
    }
  }
  const size_t offset = base - page;
  DebugObject& entry = group->entries[offset / kLeastBytes];
  GLEANER_DCHECK(!entry.present, "the debugged object at %#llx has an entry [inv.debugged]",
                 static_cast<unsigned long long>(base));
  // Made as a whole: a field set alone in memory makes the load of the others wait for all stores
  // before it, those to the object's header, too, which is in no cache.
  entry = {.bytes = bytes,
           .granule = offset % kLeastBytes / alloc::kGranuleBytes,
           .present = true,
           .place = place};
  ++group->count;
  ++grouped_;
  return true;
}

// An empty group, or null.
DebugObjects::Group* DebugObjects::TakeGroup() {
  Group* group = aside_;
  if (group == nullptr) return static_cast<Group*>(alloc::MetaAllocate(sizeof(Group)));
  aside_ = group->next;
  group->next = nullptr;
  group->count = 0;
  return group;
}

DebugObject* DebugObjects::FindLocked(Addr base) {
  const Addr page = AlignDown(base, alloc::kPageBytes);
  if (Group** group = groups_.Find(page); group != nullptr) {
    const size_t offset = base - page;
    DebugObject& entry = (*group)->entries[offset / kLeastBytes];
    if (entry.present && entry.granule * alloc::kGranuleBytes == offset % kLeastBytes) {
      return &entry;
    }
  }
  return large_.Find(~uint64_t{base});
}

bool DebugObjects::Find(Addr base, DebugObject* found) {
  platform::LockGuard guard(lock_);
  const DebugObject* entry = FindLocked(base);
  if (entry != nullptr) *found = *entry;
  return entry != nullptr;
}

bool DebugObjects::NoteFreed(Addr base, DebugObject* before) {
  platform::LockGuard guard(lock_);
  DebugObject* entry = FindLocked(base);
  if (entry == nullptr) return false;
  *before = *entry;
  entry->freed = true;
  return true;
}

void DebugObjects::Forget(Addr base) {
  platform::LockGuard guard(lock_);
  DebugObject* entry = FindLocked(base);
  if (entry == nullptr) return;
  if (!entry->present) return (void)large_.Erase(~uint64_t{base});
  const Addr page = AlignDown(base, alloc::kPageBytes);
  Group* group = *groups_.Find(page);
  *entry = {};
  --grouped_;
  if (--group->count != 0) return;
  groups_.Erase(page);
  PutAside(group);
}

size_t DebugObjects::count() {
  platform::LockGuard guard(lock_);
  return grouped_ + large_.size();
}

void DebugObjects::Empty(Addr base, const DebugObject& object) {
  const Addr end = EndMarkOf(base, object.bytes);
  for (Addr a = UserPart(base); a < end; a += kWordBytes) *PointerAt<Addr>(a) = kFreedWord;
}

Addr DebugObjects::FindDamage(Addr base, const DebugObject& object) {
  const auto* header = PointerAt<const Header>(base);
  if (header->file != object.place.file) return AddressOf(&header->file);
  if (header->line != object.place.line) return AddressOf(&header->line);
  if (header->bytes != object.bytes) return AddressOf(&header->bytes);
  if (header->mark != (kStartMark ^ base)) return AddressOf(&header->mark);
  const Addr end = EndMarkOf(base, object.bytes);
  for (Addr a = UserPart(base) + object.bytes; a < end; ++a) {
    if (*PointerAt<const uint8_t>(a) != kPadByte) return a;
  }
  return *PointerAt<const Addr>(end) == (kEndMark ^ base) ? 0 : end;
}

const char* Describe(const Place& place, char* out) {
  if (place.file != nullptr) {
    snprintf(out, kPlaceChars, "%s:%ld", place.file, static_cast<long>(place.line));
  } else {
    snprintf(out, kPlaceChars, "code at %#lx", static_cast<unsigned long>(place.line));
  }
  return out;
}

}  // namespace gleaner::runtime
