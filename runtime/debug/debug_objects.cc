#include "runtime/debug/debug_objects.h"

#include <cstdio>

#include "alloc/metadata/hash_table.h"
#include "alloc/metadata/meta.h"
#include "alloc/size_class.h"
#include "gc/collector.h"
#include "runtime/process/printing.h"

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

// Slots that hold a debugged object are no smaller than this.
constexpr size_t kMinBytes = 3 * alloc::kGranuleBytes;
constexpr size_t kMaxGroupedBytes = 256;
constexpr size_t kGroupEntries = alloc::kPageBytes / kMinBytes;

// The entries of a page: one for each kMinBytes of it, in which at most one slot begins. A group
// that is put aside has no entry present.
struct Group {
  union {
    size_t count;  // of entries that are present
    Group* next;   // of the groups put aside
  };
  DebugObject entries[kGroupEntries];
};
static_assert(sizeof(Group) <= alloc::kPageBytes / 2);

constinit platform::Lock g_lock{platform::LockRank::kDebugged};
// Guarded by g_lock.
constinit alloc::HashTable<Group*> g_groups;      // by the page's address
constinit alloc::HashTable<DebugObject> g_large;  // by ~base
constinit Group* g_aside = nullptr;
constinit size_t g_grouped = 0;  // entries of all groups

void PutAside(Group* group) {
  group->next = g_aside;
  g_aside = group;
}

// An empty group, or null.
Group* TakeGroup() {
  Group* group = g_aside;
  if (group == nullptr) return static_cast<Group*>(alloc::MetaAllocate(sizeof(Group)));
  g_aside = group->next;
  group->next = nullptr;
  group->count = 0;
  return group;
}

bool InsertLocked(Addr base, size_t bytes, Place place) {
  if (DebugObjects::BytesFor(bytes) > kMaxGroupedBytes) {
    return g_large.Insert(~uint64_t{base}, {.bytes = bytes, .place = place}) != nullptr;
  }
  const Addr page = AlignDown(base, alloc::kPageBytes);
  Group* group;
  if (Group** known = g_groups.Find(page); known != nullptr) {
    group = *known;
  } else {
    group = TakeGroup();
    if (group == nullptr) return false;
    if (g_groups.Insert(page, group) == nullptr) {
      PutAside(group);
      return false;
    }
  }
  const size_t offset = base - page;
  DebugObject& entry = group->entries[offset / kMinBytes];
  GLEANER_DCHECK(!entry.present, "the debugged object at %#llx has an entry [inv.debugged]",
                 AsNumber(base));
  // Made as a whole: a field set alone in memory makes the load of the others wait for all stores
  // before it, those to the object's header, too, which is in no cache.
  entry = {.bytes = bytes,
           .granule = offset % kMinBytes / alloc::kGranuleBytes,
           .present = true,
           .place = place};
  ++group->count;
  ++g_grouped;
  return true;
}

DebugObject* FindLocked(Addr base) {
  const Addr page = AlignDown(base, alloc::kPageBytes);
  if (Group** group = g_groups.Find(page); group != nullptr) {
    const size_t offset = base - page;
    DebugObject& entry = (*group)->entries[offset / kMinBytes];
    if (entry.present && entry.granule * alloc::kGranuleBytes == offset % kMinBytes) {
      return &entry;
    }
  }
  return g_large.Find(~uint64_t{base});
}

}  // namespace

constinit bool DebugObjects::started_ = false;

size_t DebugObjects::BytesFor(size_t bytes) {
  constexpr size_t kMax = SIZE_MAX / 2;
  return bytes > kMax ? 0 : kDebugHeaderBytes + AlignUp(bytes, kWordBytes) + kWordBytes;
}

bool DebugObjects::Watch(Addr base, size_t bytes, Place place) {
  static_assert(alloc::kSlotBytes[1] < kDebugHeaderBytes + kWordBytes &&
                alloc::kSlotBytes[2] >= kMinBytes);
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
  platform::LockGuard guard(g_lock);
  return InsertLocked(base, bytes, place);
}

bool DebugObjects::Find(Addr base, DebugObject* found) {
  platform::LockGuard guard(g_lock);
  const DebugObject* entry = FindLocked(base);
  if (entry != nullptr) *found = *entry;
  return entry != nullptr;
}

bool DebugObjects::SetFreed(Addr base, DebugObject* before) {
  platform::LockGuard guard(g_lock);
  DebugObject* entry = FindLocked(base);
  if (entry == nullptr) return false;
  *before = *entry;
  entry->freed = true;
  return true;
}

void DebugObjects::Forget(Addr base) {
  platform::LockGuard guard(g_lock);
  DebugObject* entry = FindLocked(base);
  if (entry == nullptr) return;
  if (!entry->present) return (void)g_large.Erase(~uint64_t{base});
  const Addr page = AlignDown(base, alloc::kPageBytes);
  Group* group = *g_groups.Find(page);
  *entry = {};
  --g_grouped;
  if (--group->count != 0) return;
  g_groups.Erase(page);
  PutAside(group);
}

void DebugObjects::Inspect(const gc::Marker& marker,
                           void (*damaged)(Addr base, const DebugObject& object, Addr where)) {
  platform::LockGuard guard(g_lock);
  const auto is_dead = [&](const alloc::ObjectRef& ref, DebugObject& object) {
    GLEANER_DCHECK(*ref.mark() != alloc::kFreeSlot,
                   "the debugged object at %#llx was given back [inv.debugged]",
                   AsNumber(ref.base));
    if (!marker.IsMarked(ref)) return true;
    if (object.freed || object.reported) return false;
    if (const Addr where = FindDamage(ref.base, object); where != 0) {
      object.reported = true;
      damaged(ref.base, object, where);
    }
    return false;
  };
  g_large.EraseIf([&](uint64_t hidden, DebugObject& object) {
    const Addr base = ~static_cast<Addr>(hidden);
    alloc::ObjectRef ref;
    const bool found = alloc::FindSlot(base, &ref) && ref.base == base;
    GLEANER_DCHECK(found, "no object at %#llx [inv.debugged]", AsNumber(base));
    return !found || is_dead(ref, object);
  });
  g_groups.EraseIf([&](uint64_t address, Group*& group) {
    const alloc::PageNumber page = alloc::g_space.PageOf(static_cast<Addr>(address));
    const alloc::PageInfo& info = alloc::g_space.info[page];
    GLEANER_DCHECK(info.LoadState() == alloc::PageState::kSmall,
                   "page %u has entries of small objects [inv.debugged]", page);
    for (size_t i = 0, left = group->count; left != 0; ++i) {
      DebugObject& object = group->entries[i];
      if (!object.present) continue;
      --left;
      const size_t offset = i * kMinBytes + object.granule * alloc::kGranuleBytes;
      const alloc::ObjectRef ref{static_cast<Addr>(address) + offset, info.slot_bytes, page,
                                 alloc::SlotIndex(offset, info.reciprocal)};
      if (!is_dead(ref, object)) continue;
      object.present = false;
      --group->count;
      --g_grouped;
    }
    if (group->count != 0) return false;
    PutAside(group);
    return true;
  });
}

void DebugObjects::LockForFork() { g_lock.Acquire(); }
void DebugObjects::UnlockAfterFork() { g_lock.Release(); }
void DebugObjects::ResetAfterFork() { g_lock.ResetAfterFork(); }

size_t DebugObjects::count() {
  platform::LockGuard guard(g_lock);
  return g_grouped + g_large.size();
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
