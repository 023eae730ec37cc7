#include "runtime/debug_objects.h"

#include <cstdio>

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

constinit bool DebugObjects::started_ = false;
constinit alloc::HashTable<DebugObject> DebugObjects::table_;

size_t DebugObjects::BytesFor(size_t bytes) {
  constexpr size_t kMax = SIZE_MAX / 2;
  return bytes > kMax ? 0 : kDebugHeaderBytes + AlignUp(bytes, kWordBytes) + kWordBytes;
}

bool DebugObjects::Watch(Addr base, size_t bytes, Place place) {
  if (!started_) {
    // A pointer to the program's part keeps the object, also where other interior pointers do not.
    gc::g_collector.ValidateDisplacement(kDebugHeaderBytes);
    // Relaxed: stored under the collector lock before the table has an entry
    __atomic_store_n(&started_, true, __ATOMIC_RELAXED);
  }
  if (table_.Insert(~uint64_t{base}, {bytes, place}) == nullptr) return false;
  *PointerAt<Header>(base) = {place.file, place.line, bytes, kStartMark ^ base};
  const Addr end = EndMarkOf(base, bytes);
  const Addr pad = UserPart(base) + bytes;
  memset(PointerAt<void>(pad), kPadByte, end - pad);
  *PointerAt<Addr>(end) = kEndMark ^ base;
  return true;
}

DebugObject* DebugObjects::Find(Addr base) { return table_.Find(~uint64_t{base}); }
void DebugObjects::Forget(Addr base) { table_.Erase(~uint64_t{base}); }

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
