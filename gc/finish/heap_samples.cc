#include "gc/finish/heap_samples.h"

#include <new>

#include "gc/finish/finalize.h"

namespace gleaner::gc {

using platform::kStackIdBits;

constinit HeapSamples g_heap_samples;

namespace {

constexpr uint64_t Hide(Addr a) { return ~a; }

// The key of a site: the stack in the low bits, then the bytes of an object, which are never 0.
constexpr uint64_t KeyOf(platform::StackId stack, size_t bytes) {
  return uint64_t{bytes} << kStackIdBits | stack;
}
constexpr uint64_t BytesOf(uint64_t key) { return key >> kStackIdBits; }
constexpr auto StackOf(uint64_t key) {
  return static_cast<platform::StackId>(key & (platform::kMaxStacks - 1));
}

}  // namespace

void HeapSamples::Record(Addr object, size_t bytes, platform::StackId stack) {
  if (is_suspended_) return;
  if (bytes != 0) RecordRegistered(object, kSampled);
  const platform::LockGuard guard(lock_);
  ForgetLocked(object);
  if (bytes == 0) return;
  const uint64_t key = KeyOf(stack, bytes);
  Counts* counts = sites_.Find(key);
  if (counts == nullptr) counts = sites_.Insert(key, {0, 0});
  if (counts == nullptr || live_.Insert(Hide(object), key) == nullptr) {
    ++lost_;
    return;
  }
  ++counts->live;
  ++counts->all;
}

void HeapSamples::Forget(Addr object) {
  if (is_suspended_) return;
  const platform::LockGuard guard(lock_);
  ForgetLocked(object);
}

void HeapSamples::ForgetLocked(Addr object) {
  const uint64_t* key = live_.Find(Hide(object));
  if (key == nullptr) return;
  --sites_.Find(*key)->live;
  live_.Erase(Hide(object));
}

void HeapSamples::ForgetUnreachable(const Marker& marker) {
  const platform::LockGuard guard(lock_);
  live_.EraseIf([&](uint64_t hidden, uint64_t& key) {
    alloc::ObjectRef object;
    if (alloc::FindSlot(Hide(hidden), &object) && marker.IsMarked(object)) return false;
    --sites_.Find(key)->live;
    return true;
  });
}

HeapSamples::Found HeapSamples::Copy(SampleSite* sites, size_t capacity) {
  const platform::LockGuard guard(lock_);
  size_t count = 0;
  sites_.ForEach([&](uint64_t key, const Counts& counts) {
    if (counts.all == 0) return;  // there was no memory for its only samples
    if (count < capacity) sites[count] = {StackOf(key), BytesOf(key), counts.live, counts.all};
    ++count;
  });
  return {count, lost_};
}

void HeapSamples::BeginAnewAfterFork() { new (this) HeapSamples; }

}  // namespace gleaner::gc
