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
//
// An object that the program gives back takes what is registered for it along (Move, to nowhere):
// its finalizers, whether they wait for their call or not; the links to it, which are cleared; the
// links in it. One that it resizes, and that moves, keeps them, but for the links to it: what
// stands in them is its old address. PageInfo::registered says on which pages there may be such
// objects: registering notes it, under the lock, before the program can give the object back. So
// whoever gives one back and finds nothing noted has no need of the lock.
#pragma once

#include "alloc/hash_table.h"
#include "gc/marker.h"

namespace gleaner::gc {

// In PageInfo::registered.
enum Registered : uint8_t { kFinalized = 1, kLinkTarget = 2, kHoldsLink = 4, kToggled = 8 };
// Notes it of the object that `a` points into, if there is one.
void NoteRegistered(Addr a, Registered what);
// Whether anything was ever registered. Relaxed: who has an object for which something was
// registered sees it, by whatever showed the thread the object.
extern platform::Atomic<bool> g_any_registered;
// Whether anything may be registered for the object that begins at `a`. Any thread.
inline bool MayBeRegistered(Addr a) {
  return GLEANER_UNLIKELY(g_any_registered.Load(platform::memory_order_relaxed)) &&  // see there
         alloc::g_space.Contains(a) &&
         alloc::g_space.info[alloc::g_space.PageOf(a)].Registered() != 0;
}

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

  // What is registered for the object is so for the `bytes` at `to` instead; nowhere if `to` is 0.
  void Move(const alloc::ObjectRef& object, Addr to, size_t bytes);

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
    Addr base;  // of the object
  };
  bool Take(Ready* out);
  // Some of them may be of objects that were given back since.
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
  void MoveOne(Addr from, Addr to);
  void MoveQueued(const alloc::ObjectRef& object, Addr to, size_t bytes);

  alloc::HashTable<Finalizer> table_;  // by ~object
  size_t most_offset_ = 0;             // of what was registered, from the base of its object
  // Objects that wait for their finalizer: strong roots, oldest first.
  alloc::ReservedArray<Ready> queue_;
  size_t head_ = 0;
  size_t tail_ = 0;
  // By ~base: of objects that were given back while the queue was not empty, where its end was.
  alloc::HashTable<size_t> given_back_;
};

enum class LinkResult : uint8_t { kNew, kDuplicate, kNoMemory, kNotFound };

class Links {
 public:
  // `link` is the address of a word to be cleared when `object` goes.
  LinkResult Register(Addr link, Addr object);
  bool Unregister(Addr link);
  // Moves the registration; kDuplicate if `to` has one already.
  LinkResult Move(Addr from, Addr to);
  // As Finalizers::Move, of links in the object.
  void MoveHeld(const alloc::ObjectRef& object, Addr to, size_t bytes);
  // The object is given back, or gets another address: links to it are cleared. The first call
  // after a collection looks at all links, and so does one for an object to which more have been
  // registered since than it has bytes; the others at those to the object.
  void ClearThoseTo(const alloc::ObjectRef& object);
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
  // A link that has been registered to an object since the last collection, or was there then. It
  // may be gone, or lead elsewhere.
  struct Leading {
    Addr hidden_link;
    size_t count;  // of the object's, in the first
  };

  [[nodiscard]] bool IndexAll();
  [[nodiscard]] bool Index(Addr link, Addr object);
  void IndexIfWanted(Addr link, Addr object) {
    if (is_indexed_ && !Index(link, object)) DropIndex();
  }
  void DropIndex();

  alloc::HashTable<Target> table_;  // by ~link
  // The i-th link to an object is under the complement of the object's i-th address. Of use while
  // is_indexed_: from a call of ClearThoseTo to the next collection, after which other objects may
  // lie there.
  alloc::HashTable<Leading> by_object_;
  bool is_indexed_ = false;
};

}  // namespace gleaner::gc
