// Finalizers and disappearing links.
//
// Everything here is guarded by the collector lock, except where a comment says otherwise. The
// tables hold the complement of each object's address: the marker scans the finalizers' table, as
// the finalizers' data are roots, and must not find the objects there.
//
// Decided at the end of marking, with the world stopped, in this order:
//   1. short links to white objects are cleared;
//   2. for each white object with a finalizer, the objects that its *order* protects are marked:
//      with the orders normal and unreachable its contents, with ignore-self its contents except
//      pointers into itself, with no-order nothing;
//   3. objects that are still white, except those of the order unreachable, are queued and marked
//      with everything they refer to;
//   4. objects of the order unreachable that are still white are queued and marked; the others wait
//      in the table;
//   5. long links to white objects are cleared; links that lie in white objects are dropped.
//
// When the program frees an object (Move with `to` 0), all that is registered for it is dropped:
// its finalizers, also queued ones; the links to it, which are cleared; the links in it. When the
// object is resized and moves, its finalizers and the links in it move along; the links to it are
// cleared, since they hold the old address. PageInfo::registered tells which pages may have such
// objects: registering sets it, under the lock, before the program can free the object. So a thread
// that frees an object and finds it 0 does not need the lock.
#pragma once

#include "alloc/metadata/hash_table.h"
#include "gc/mark/marker.h"

namespace gleaner::gc {

// Bits of PageInfo::registered.
enum Registered : uint8_t {
  kFinalized = 1,
  kLinkTarget = 2,
  kHoldsLink = 4,
  kToggled = 8,
  kSampled = 16,  // gc/finish/heap_samples.h
};
// Sets the bit `what` for the page of the object that `a` points into, if there is an object.
void RecordRegistered(Addr a, Registered what);
// Whether anything was ever registered. Relaxed: a thread that has an object for which something is
// registered sees true, ordered by whatever passed the object to the thread.
extern platform::Atomic<bool> g_any_registered;
// Whether anything may be registered for the object that begins at `a`. Any thread.
inline bool MayBeRegistered(Addr a) {
  // Relaxed: true is visible to a thread that has such an object.
  return GLEANER_UNLIKELY(g_any_registered.Load(platform::memory_order_relaxed)) &&
         alloc::g_space.Contains(a) &&
         alloc::g_space.info[alloc::g_space.PageOf(a)].Registered() != 0;
}

enum class FinalizeOrder : uint8_t { kNormal, kIgnoreSelf, kNoOrder, kUnreachable };

struct Finalizer {
  void (*function)(void* object, void* data) = nullptr;
  void* data = nullptr;
  FinalizeOrder order = FinalizeOrder::kNormal;
};

// Guarded by the collector lock. Init once. Any number of Register, Move and Take; in the stop,
// AddRoots before marking and QueueUnreachable after it.
class Finalizers {
 public:
  [[nodiscard]] bool Init() {
    const size_t entries = alloc::g_space.bytes / 256;  // if the queue is full, objects wait
    return queue_.Reserve(entries < kMaxQueue ? entries : kMaxQueue);
  }

  // Sets (or, with a null function, removes) the finalizer of `object` and returns the old one in
  // `old`. False without memory. `object` is any pointer into an allocated object, for example a
  // tagged one (ecl). Each such pointer has its own finalizer, which is called with that pointer.
  [[nodiscard]] bool Register(Addr object, const Finalizer& finalizer, Finalizer* old);

  // Moves what is registered for the object to the `bytes` at `to`; drops it if `to` is 0.
  void Move(const alloc::ObjectRef& object, Addr to, size_t bytes);

  void AddRoots(RootTasks* roots) const;
  // Steps 2 to 4. Returns the number of objects queued.
  size_t QueueUnreachable(Marker* marker, void (*warn_cycle)(Addr object));
  // Queues every object that has a finalizer (GC_finalize_all).
  void QueueAll();
  // Called under the lock for each object that is queued. May be null. Any thread may set it,
  // without the lock. Relaxed: the function is all that the store says.
  platform::Atomic<void (*)(void* object)> on_queued{nullptr};

  struct Ready {
    void* object;
    void (*function)(void*, void*);
    void* data;
    Addr base;  // of the object
  };
  // Takes the oldest entry of the queue. False if the queue is empty.
  bool Take(Ready* out);
  // Calls f(const Ready&) for each entry of the queue, the oldest first.
  template <class F>
  void ForEachReady(F f) const {
    for (size_t i = head_; i < tail_; ++i) f(queue_[i]);
  }
  // The memory of these entries.
  platform::Range queue() const {
    return {AddressOf(queue_.data() + head_), AddressOf(queue_.data() + tail_)};
  }
  // Whether the address is in memory that AddRoots adds.
  bool Holds(Addr a) const {
    return a - table_.storage_begin() < table_.storage_end() - table_.storage_begin() ||
           a - AddressOf(queue_.data()) < queue_.max() * sizeof(Ready);
  }
  // Entries of the queue, including some whose objects were freed since.
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
  size_t max_offset_ = 0;  // largest offset of a registered pointer from its object's base
  // Objects that wait for their finalizer: strong roots, oldest first.
  alloc::ReservedArray<Ready> queue_;
  size_t head_ = 0;
  size_t tail_ = 0;
  // By ~base of an object freed while the queue was not empty: tail_ at that time. Entries of the
  // object below that index are void.
  alloc::HashTable<size_t> given_back_;
};

enum class LinkResult : uint8_t { kNew, kDuplicate, kNoMemory, kNotFound };

// Guarded by the collector lock. In the stop, after marking: ClearUnreachable, then ForgetDangling.
class Links {
 public:
  // `link` is the address of a word that is cleared when `object` dies.
  LinkResult Register(Addr link, Addr object);
  bool Unregister(Addr link);
  // Moves the registration; kDuplicate if `to` has one already.
  LinkResult Move(Addr from, Addr to);
  // Moves the registrations of links in the object to the `bytes` at `to`; drops them if `to` is 0.
  void MoveHeld(const alloc::ObjectRef& object, Addr to, size_t bytes);
  // The object is freed, or moves: clears the links to it. The first call after a collection looks
  // at all links, and so does a call for an object that has more links to it than bytes. Other
  // calls look only at links to the object.
  void ClearThoseTo(const alloc::ObjectRef& object);
  size_t size() const { return table_.size(); }
  // Calls f(link, object) for each link.
  template <class F>
  void ForEach(F f) {
    table_.ForEach([&](uint64_t hidden, const Target& x) { f(~Addr{hidden}, ~x.hidden_object); });
  }

  // Clears links whose object is white.
  void ClearUnreachable(const Marker& marker);
  // Drops links that lie in white objects.
  void ForgetDangling(const Marker& marker);

 private:
  struct Target {
    Addr hidden_object;
  };
  // An entry of the index: a link that led to an object when it was indexed. The link may have been
  // unregistered since, or lead to another object.
  struct Leading {
    Addr hidden_link;
    size_t count;  // in an object's entry 0: the number of its entries; 0 in the others
  };

  [[nodiscard]] bool IndexAll();
  [[nodiscard]] bool Index(Addr link, Addr object);
  void IndexIfWanted(Addr link, Addr object) {
    if (is_indexed_ && !Index(link, object)) DropIndex();
  }
  void DropIndex();

  alloc::HashTable<Target> table_;  // by ~link
  // The index: entry i of an object is under the complement of the object's base + i. Valid while
  // is_indexed_, from a call of ClearThoseTo to the next collection: after that other objects may
  // lie at these addresses.
  alloc::HashTable<Leading> by_object_;
  bool is_indexed_ = false;
};

}  // namespace gleaner::gc
