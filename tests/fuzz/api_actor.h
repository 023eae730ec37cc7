// A thread of an episode: it makes, changes, moves, gives back and drops objects at random, and
// compares with the model what the library answers.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/api_calls.h"
#include "tests/fuzz/api_objects.h"

namespace gleaner::fuzz {

inline constexpr size_t kRoots = 150;
inline void* g_roots[kMaxThreads][kRoots];  // static data: roots

class Actor {
 public:
  Actor(size_t index, unsigned seed, bool alone) : index_(index), random_(seed), alone_(alone) {}

  void Run(size_t steps) {
    for (size_t i = 0; i < steps; ++i) Step();
    CheckAll();
  }

  // Lets go of everything.
  void DropAll() {
    for (size_t slot = 0; slot < kRoots; ++slot) DropRoot(slot);
  }
  // After that: links that must be cleared by and by, and those that are.
  void Count(size_t* objects, size_t* linked, size_t* cleared, size_t* finalized) const {
    *objects += records_.size();
    for (const Record* r : records_) {
      *finalized += r->finalized.load();
      if (r->was_freed || IsUncollectable(r->sort)) continue;
      *linked += r->linked + r->long_linked;
      *cleared += (r->linked && r->link == 0) + (r->long_linked && r->long_link == 0);
    }
  }

 private:
  size_t Below(size_t n) { return random_() % n; }

  size_t Bytes() {
    const size_t dice = Below(40);
    if (dice == 0) return 1 + Below(300'000);
    if (dice < 4) return 1 + Below(20'000);
    if (dice < 10) return 1 + Below(3000);
    return Below(200);
  }

  void Step() {
    const size_t dice = Below(1000);
    if (dice < 300) return Make();
    if (dice < 420) return DropRoot(Below(kRoots));
    if (dice < 500) return DropChild();
    if (dice < 580) return GiveBackAny();
    if (dice < 680) return Resize();
    if (dice < 740) return Watch();
    if (dice < 800) return Finalize();
    if (dice < 860) return Check(Any());
    if (dice < 890) return Ask();
    if (dice < 900) return MoveLink();
    if (dice < 930) return Impossible();
    if (dice < 960) return WrongCall(random_, alone_);
    if (dice < 985) return PlainCall(random_, index_ == 0);
    if (dice < 990) return InSections();
    if (dice == 990) return Fork();
    if (dice == 991) return CheckAll();
  }

  // --- Making and dropping ---

  void Make() {
    auto sort = static_cast<Sort>(Below(kSorts));
    if (sort == Sort::kFinalized && !g_shared.disclaims) sort = Sort::kNormal;
    size_t bytes = Bytes();
    if (sort == Sort::kTypedArray) bytes = (bytes / 32 + 1) * 32;
    if (sort == Sort::kGcj && bytes < 8) bytes = 8;
    if (sort == Sort::kMany) bytes = bytes / 16 * 16 + 16;
    void* p = Allocate(sort, bytes, random_());
    if (p == nullptr) {
      EXPECT(g_shared.may_run_out);
      return;
    }
    auto* r = new Record;
    r->sort = sort;
    r->bytes = bytes;
    r->hidden = ~reinterpret_cast<uintptr_t>(p);
    r->id = ++last_id_ * kMaxThreads + index_;
    EXPECT(GC_base(p) == BaseOf(*r));
    EXPECT(GC_size(BaseOf(*r)) >= bytes);
    if (IsZeroed(sort)) {
      ForEachWord(*r, FirstOwnWord(sort), [r](size_t word) { EXPECT(r->words()[word] == 0); });
    }
    Fill(*r);
    Hold(r);
    GC_noop1(reinterpret_cast<GC_word>(p));  // kept till here by this thread
    records_.push_back(r);
  }

  // Somewhere. The object is in the caller's hands until then.
  void Hold(Record* r) {
    if (Below(3) != 0) {
      Record* parent = Any();
      if (parent != nullptr && !IsAtomic(parent->sort) && parent->word_count() > 2 &&
          parent->children.size() < 8 && Depth() < 30) {
        const size_t span = parent->word_count() < 500 ? parent->word_count() : 500;
        const size_t word = FirstOwnWord(parent->sort) + Below(span - FirstOwnWord(parent->sort));
        // The first word of such an object says whether it was asked about.
        const bool is_first =
            word == 0 && (parent->sort == Sort::kMade || parent->sort == Sort::kFinalized);
        if (!is_first && HoldsPointerAt(parent->sort, word) && ChildAt(*parent, word) == nullptr) {
          parent->children.push_back({word, r});
          Store(&parent->words()[word], r->p());
          return;
        }
      }
    }
    const size_t slot = Below(kRoots);
    DropRoot(slot);
    g_roots[index_][slot] = r->p();
    held_[slot] = r;
  }
  size_t Depth() const { return last_depth_; }
  void Store(uintptr_t* place, void* value) {
    switch (Below(3)) {
      case 0:
        GC_PTR_STORE_AND_DIRTY(place, value);
        break;
      case 1:
        GLEANER_STORE(reinterpret_cast<void**>(place), value);
        break;
      default:
        *place = reinterpret_cast<uintptr_t>(value);
    }
  }

  // A live object: on the way down from a root at random. Null if there is none there.
  Record* Any(Record** parent = nullptr, size_t* root = nullptr) {
    const size_t slot = Below(kRoots);
    Record* r = held_[slot];
    Record* above = nullptr;
    last_depth_ = 0;
    while (r != nullptr && !r->children.empty() && Below(4) != 0) {
      above = r;
      r = r->children[Below(r->children.size())].child;
      ++last_depth_;
    }
    if (parent != nullptr) *parent = above;
    if (root != nullptr) *root = slot;
    return r;
  }

  void DropRoot(size_t slot) {
    Record* r = held_[slot];
    if (r == nullptr) return;
    MarkDropped(r);
    held_[slot] = nullptr;
    g_roots[index_][slot] = nullptr;
    EndThrottle(r);
  }
  void DropChild() {
    Record* parent;
    size_t slot;
    Record* r = Any(&parent, &slot);
    if (r == nullptr || parent == nullptr) return;
    MarkDropped(r);
    Detach(parent, r);
    EndThrottle(r);
  }
  void Detach(Record* parent, Record* child) {
    for (Edge& edge : parent->children) {
      if (edge.child != child) continue;
      parent->words()[edge.word] = Filling(*parent, edge.word);
      edge = parent->children.back();
      parent->children.pop_back();
      return;
    }
    EXPECT(false);
  }
  // Before it can go.
  static void MarkDropped(Record* r) {
    if (!IsUncollectable(r->sort)) r->state.store(State::kDropped);
    for (const Edge& edge : r->children) MarkDropped(edge.child);
  }
  // Uncollectable ones in the tree are given back: what they hold has been dropped. pre: nothing
  // holds r; it may be gone if it is collectable.
  void EndThrottle(Record* r) {
    for (const Edge& edge : r->children) EndThrottle(edge.child);
    if (!IsUncollectable(r->sort)) return;
    r->children.clear();
    GiveBack(r);
  }

  // Of the calls that do so. pre: nothing holds it but the caller.
  void GiveBack(Record* r) {
    r->state.store(State::kGone);
    r->was_freed = true;
    void* p = IsDebug(r->sort) ? r->p() : BaseOf(*r);
    if (IsDebug(r->sort)) {
      if (Below(4) == 0) {
        EXPECT(GC_debug_realloc(p, 0, "fuzz", 6) == nullptr);
      } else {
        GC_debug_free(p);
      }
    } else if (Below(4) == 0) {
      EXPECT(GC_realloc(p, 0) == nullptr);
    } else {
      GC_free(p);
    }
    if (r->linked) EXPECT(r->link == 0);
    if (r->long_linked) EXPECT(r->long_link == 0);
  }
  void GiveBackAny() {
    Record* parent;
    size_t slot;
    Record* r = Any(&parent, &slot);
    if (r == nullptr) return;
    Check(r);
    void* keep = r->p();  // what holds it lets go of it first
    for (const Edge& edge : r->children) MarkDropped(edge.child);
    if (parent != nullptr) {
      Detach(parent, r);
    } else {
      held_[slot] = nullptr;
      g_roots[index_][slot] = nullptr;
    }
    for (const Edge& edge : r->children) {
      r->words()[edge.word] = Filling(*r, edge.word);
      EndThrottle(edge.child);
    }
    r->children.clear();
    GiveBack(r);
    GC_noop1(reinterpret_cast<GC_word>(keep));
  }

  // --- Resizing ---

  void Resize() {
    Record* parent;
    size_t slot;
    Record* r = Any(&parent, &slot);
    if (r == nullptr) return;
    if (r->sort == Sort::kFinalized) {  // no object's start
      EXPECT(GC_realloc(r->p(), 100) == nullptr);
      return Check(r);
    }
    Check(r);
    size_t bytes = 1 + Bytes();
    if (Below(3) == 0) bytes = r->bytes / 2 + Below(r->bytes + 1);
    if (bytes < 16) bytes = 16;
    if (r->sort == Sort::kTypedArray) bytes = (bytes / 32 + 1) * 32;
    for (size_t i = 0; i < r->children.size();) {
      const Edge edge = r->children[i];
      if (edge.word < bytes / sizeof(uintptr_t)) {
        ++i;
        continue;
      }
      MarkDropped(edge.child);
      Detach(r, edge.child);
      EndThrottle(edge.child);
    }
    char* const old = r->p();
    const size_t old_words = r->word_count();
    void* p = IsDebug(r->sort) ? GC_debug_realloc(old, bytes, "fuzz", 7) : GC_realloc(old, bytes);
    if (p == nullptr) {
      EXPECT(g_shared.may_run_out);
      return Check(r);
    }
    const size_t old_bytes = r->bytes;
    r->hidden = ~reinterpret_cast<uintptr_t>(p);
    r->bytes = bytes;
    if (parent != nullptr) {
      for (const Edge& edge : parent->children) {
        if (edge.child == r) Store(&parent->words()[edge.word], p);
      }
    } else {
      g_roots[index_][slot] = p;
    }
    if (p != old) {
      if (r->linked) EXPECT(r->link == 0);
      if (r->long_linked) EXPECT(r->long_link == 0);
      r->linked = r->long_linked = false;
    }
    // What it gained, between words that are looked at in both sizes.
    const size_t kept = (bytes < old_bytes ? bytes : old_bytes) / sizeof(uintptr_t);
    if (old_words < 500) {
      // A part of a word that it had may be left of a larger size.
      const size_t gained = (old_bytes + sizeof(uintptr_t) - 1) / sizeof(uintptr_t);
      if (IsZeroed(r->sort)) {
        ForEachWord(*r, gained < FirstOwnWord(r->sort) ? FirstOwnWord(r->sort) : gained,
                    [r](size_t word) { EXPECT(r->words()[word] == 0); });
      }
      for (size_t word = FirstOwnWord(r->sort); word < kept; ++word) {
        if (ChildAt(*r, word) == nullptr) EXPECT(r->words()[word] == Filling(*r, word));
      }
    }
    Fill(*r);
    EXPECT(GC_base(p) == BaseOf(*r));
    EXPECT(GC_size(BaseOf(*r)) >= bytes);
  }

  // --- Links and finalizers ---

  void Watch() {
    Record* r = Any();
    if (r == nullptr || IsUncollectable(r->sort)) return;
    if (Below(2) == 0) {
      if (r->linked && Below(2) == 0) {
        EXPECT(GC_unregister_disappearing_link(reinterpret_cast<void**>(&r->link)) == 1);
        EXPECT(GC_unregister_disappearing_link(reinterpret_cast<void**>(&r->link)) == 0);
        r->linked = false;
        return;
      }
      r->link = r->hidden;
      r->linked = ExpectRegistered(
          GC_general_register_disappearing_link(reinterpret_cast<void**>(&r->link), r->p()),
          r->linked);
    } else {
      if (r->long_linked && Below(2) == 0) {
        EXPECT(GC_unregister_long_link(reinterpret_cast<void**>(&r->long_link)) == 1);
        EXPECT(GC_unregister_long_link(reinterpret_cast<void**>(&r->long_link)) == 0);
        r->long_linked = false;
        return;
      }
      r->long_link = r->hidden;
      r->long_linked = ExpectRegistered(
          GC_register_long_link(reinterpret_cast<void**>(&r->long_link), r->p()), r->long_linked);
    }
  }
  // Whether a link is registered now, of which it is known whether it was.
  static bool ExpectRegistered(int result, bool was) {
    if (result == GC_NO_MEMORY) {
      EXPECT(g_shared.calls_fail && !was);
      return false;
    }
    EXPECT(result == (was ? GC_DUPLICATE : GC_SUCCESS));
    return true;
  }
  // There and back again.
  void MoveLink() {
    Record* r = Any();
    if (r == nullptr || !r->linked) return;
    static thread_local uintptr_t elsewhere;
    elsewhere = r->link;
    auto** from = reinterpret_cast<void**>(&r->link);
    auto** to = reinterpret_cast<void**>(&elsewhere);
    EXPECT(GC_move_disappearing_link(from, to) == GC_SUCCESS);
    EXPECT(GC_move_disappearing_link(from, to) == GC_NOT_FOUND);
    EXPECT(elsewhere == r->hidden);
    EXPECT(GC_move_disappearing_link(to, from) == GC_SUCCESS);
  }

  void Finalize() {
    Record* r = Any();
    if (r == nullptr || IsUncollectable(r->sort) || r->sort == Sort::kFinalized ||
        r->sort == Sort::kMade) {
      return;
    }
    if (IsDebug(r->sort) && g_shared.may_run_out) return;  // it takes memory, and says nothing
    using Registration =
        void (*)(void*, GC_finalization_proc, void*, GC_finalization_proc*, void**);
    static const Registration kPlain[] = {GC_register_finalizer, GC_register_finalizer_ignore_self,
                                          GC_register_finalizer_no_order,
                                          GC_register_finalizer_unreachable};
    static const Registration kDebug[] = {
        GC_debug_register_finalizer, GC_debug_register_finalizer_ignore_self,
        GC_debug_register_finalizer_no_order, GC_debug_register_finalizer_unreachable};
    const Registration registration = (IsDebug(r->sort) ? kDebug : kPlain)[Below(4)];
    const bool remove = Below(4) == 0;
    GC_finalization_proc old = nullptr;
    void* old_data = nullptr;
    registration(r->p(), remove ? nullptr : OnFinalize, r, &old, &old_data);
    EXPECT(old == (r->finalizable ? OnFinalize : nullptr));
    EXPECT(old_data == (r->finalizable ? r : nullptr));
    r->finalizable = !remove;
    // A registration that is refused says nothing; the next one tells of it.
    while (g_shared.calls_fail && !remove && old != OnFinalize) {
      registration(r->p(), OnFinalize, r, &old, &old_data);
    }
  }

  // --- Checking ---

  void Check(const Record* r) {
    if (r == nullptr) return;
    EXPECT(r->state.load() == State::kLive);
    EXPECT(r->finalized.load() == 0);
    if (r->linked) EXPECT(r->link == r->hidden);
    if (r->long_linked) EXPECT(r->long_link == r->hidden);
    CheckContents(*r);
  }
  void CheckTree(const Record* r) {
    Check(r);
    for (const Edge& edge : r->children) CheckTree(edge.child);
  }
  void CheckAll() {
    for (size_t slot = 0; slot < kRoots; ++slot) {
      if (held_[slot] == nullptr) continue;
      EXPECT(g_roots[index_][slot] == held_[slot]->p());
      CheckTree(held_[slot]);
    }
  }

  void Ask() {
    const Record* r = Any();
    if (r == nullptr || r->bytes == 0) return;
    char* const inside = r->p() + Below(r->bytes);
    EXPECT(GC_base(inside) == BaseOf(*r));
    EXPECT(GC_is_heap_ptr(inside) == 1);
    EXPECT(GC_same_obj(inside, r->p()) == inside);
    size_t bytes = 0;
    EXPECT(GC_get_kind_and_size(BaseOf(*r), &bytes) >= 0);
    EXPECT(bytes == GC_size(BaseOf(*r)));
    EXPECT(GC_is_valid_displacement(r->p()) == r->p());
    if (IsUncollectable(r->sort)) return;
    const GC_word hidden = r->linked ? r->link : GC_HIDE_POINTER(r->p());
    EXPECT(GC_call_with_alloc_lock(
               [](void* h) { return GC_base(reinterpret_cast<void*>(~*static_cast<GC_word*>(h))); },
               const_cast<GC_word*>(&hidden)) == BaseOf(*r));
  }

  // Sizes that cannot be.
  void Impossible() {
    auto sort = static_cast<Sort>(Below(kSorts));
    const size_t bytes = Below(2) ? SIZE_MAX - Below(20'000) : (size_t{1} << (41 + Below(22)));
    if (sort == Sort::kFinalized && !g_shared.disclaims) sort = Sort::kNormal;
    if (sort == Sort::kTypedArray || sort == Sort::kAligned) {
      if (sort == Sort::kAligned)
        EXPECT(GC_memalign(size_t{1} << Below(63), Opaque(bytes)) == nullptr);
      return;
    }
    EXPECT(Allocate(sort, Opaque(bytes), random_()) == nullptr);
    Record* r = Any();
    if (r == nullptr || r->sort == Sort::kFinalized) return;
    if (IsDebug(r->sort)) {
      EXPECT(GC_debug_realloc(r->p(), Opaque(bytes), "fuzz", 8) == nullptr);
    } else {
      EXPECT(GC_realloc(r->p(), Opaque(bytes)) == nullptr);
    }
    Check(r);
  }

  // --- Sections, forks ---

  void InSections() {
    GC_do_blocking(
        [](void* self) -> void* {
          usleep(100);
          GC_call_with_gc_active(
              [](void* actor) -> void* {
                static_cast<Actor*>(actor)->Make();
                static_cast<Actor*>(actor)->Check(static_cast<Actor*>(actor)->Any());
                return nullptr;
              },
              self);
          return nullptr;
        },
        this);
  }

  // The child has this thread alone, and goes on.
  void Fork() {
    fflush(nullptr);
    const pid_t child = fork();
    EXPECT(child >= 0);
    if (child == 0) {
      alarm(50);
      alone_ = true;
      g_survivor = static_cast<int>(index_);
      GC_gcollect();
      CheckAll();
      for (int i = 0; i < 200; ++i) Make();
      GC_gcollect();
      CheckAll();
      _exit(0);
    }
    int status = 0;
    EXPECT(waitpid(child, &status, 0) == child);
    if (status != 0) fprintf(stderr, "in the child of a fork: status 0x%x\n", status);
    EXPECT(status == 0);
  }

  const size_t index_;
  std::mt19937 random_;
  bool alone_;
  uint64_t last_id_ = 0;
  size_t last_depth_ = 0;
  Record* held_[kRoots] = {};
  std::vector<Record*> records_;  // never deleted: what the collector calls may refer to them
};

}  // namespace gleaner::fuzz
