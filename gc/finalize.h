// Finalizers and disappearing links.
//
// All of it is guarded by the collector lock. Objects are kept under their complement, so that the
// tables may lie where a conservative scan of ours goes: the finalizers' data are roots, the
// objects are not.
//
// Decided at the end of marking, with the world stopped, in this order:
//   1. short links to white objects are cleared;
//   2. each white object with a finalizer marks what the *order* says must outlive it: with the
//      orders normal and unreachable its contents, with ignore-self its contents but not pointers
//      into itself, with no-order nothing;
//   3. objects still white are queued and marked, with what they refer to, but for the order
//      unreachable;
//   4. of that order, objects still white now are queued and marked; the others wait in the table;
//   5. long links to white objects are cleared; links that lay in white objects are forgotten.
#pragma once

#include "alloc/hash_table.h"
#include "gc/marker.h"

namespace gleaner::gc {

enum class FinalizeOrder : uint8_t { kNormal, kIgnoreSelf, kNoOrder, kUnreachable };

struct Finalizer {
  void (*function)(void* object, void* data) = nullptr;
  void* data = nullptr;
  FinalizeOrder order = FinalizeOrder::kNormal;
};

class Finalizers {
 public:
  [[nodiscard]] bool Init() {
    const size_t entries = alloc::g_space.bytes / 256;  // a full queue makes objects wait
    return queue_.Reserve(entries < kMaxQueue ? entries : kMaxQueue);
  }

  // Sets (or, with a null function, removes) the object's finalizer and returns the old one in
  // `old`. False without memory. `object` is any pointer into an allocated object, say a tagged one
  // (ecl); each has a finalizer of its own, which is called with that pointer.
  [[nodiscard]] bool Register(Addr object, const Finalizer& finalizer, Finalizer* old);

  void AddRoots(RootTasks* roots) const;
  // Steps 2 to 4. Returns the number of objects queued.
  size_t QueueUnreachable(Marker* marker, void (*warn_cycle)(Addr object));
  // Queues every object that has a finalizer (GC_finalize_all).
  void QueueAll();
  // Called, under the lock, for each object that is queued. May be null; any thread may set it.
  void (*on_queued)(void* object) = nullptr;

  struct Ready {
    void* object;
    void (*function)(void*, void*);
    void* data;
  };
  bool Take(Ready* out);
  size_t ready() const { return tail_ - head_; }
  size_t registered() const { return table_.size(); }
  // Calls f(object, finalizer) for each object that has one and is not queued.
  template <class F>
  void ForEach(F f) {
    table_.ForEach([&](uint64_t hidden, const Finalizer& x) { f(~Addr{hidden}, x); });
  }

 private:
  static constexpr size_t kMaxQueue = size_t{1} << 30;

  [[nodiscard]] bool Enqueue(Addr object, const Finalizer& finalizer);

  alloc::HashTable<Finalizer> table_;  // by ~object
  // Objects that wait for their finalizer: strong roots, oldest first.
  alloc::ReservedArray<Ready> queue_;
  size_t head_ = 0;
  size_t tail_ = 0;
};

enum class LinkResult : uint8_t { kNew, kDuplicate, kNoMemory, kNotFound };

class Links {
 public:
  // `link` is the address of a word to be cleared when `object` goes.
  LinkResult Register(Addr link, Addr object);
  bool Unregister(Addr link);
  // Moves the registration; kDuplicate if `to` has one already.
  LinkResult Move(Addr from, Addr to);
  size_t size() const { return table_.size(); }
  // Calls f(link, object) for each link.
  template <class F>
  void ForEach(F f) {
    table_.ForEach([&](uint64_t hidden, const Target& x) { f(~Addr{hidden}, ~x.hidden_object); });
  }

  // Clears links whose object is white.
  void ClearUnreachable(const Marker& marker);
  // Forgets links that lie in white objects.
  void ForgetDangling(const Marker& marker);

 private:
  struct Target {
    Addr hidden_object;
  };
  alloc::HashTable<Target> table_;  // by ~link
};

}  // namespace gleaner::gc
