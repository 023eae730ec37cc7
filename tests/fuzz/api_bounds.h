// Two kinds of episode whose memory has a bound that follows from the model, however long anything
// takes and whichever thread runs: in one the program gives back what it allocates, in the other
// finalizers give back what is no memory of the heap.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <set>
#include <tuple>
#include <utility>

#include "tests/fuzz/api_objects.h"

namespace gleaner::fuzz {

inline gleaner_stats Stats() {
  gleaner_stats stats = {};
  gleaner_get_stats(&stats, sizeof stats);
  return stats;
}

inline size_t AnonymousResidentBytes() {
  size_t size = 0, resident = 0, shared = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  EXPECT(file != nullptr && fscanf(file, "%zu %zu %zu", &size, &resident, &shared) == 3);
  fclose(file);
  return (resident - shared) * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

inline constexpr size_t kMaxGiven = 1 << 19;
inline constexpr size_t kMostStaying = 64;
inline void* g_given[kMaxGiven];       // static data: roots
inline void* g_staying[kMostStaying];  // the same

// A thread that does one thing after the other, while who asks for it waits.
class Helper {
 public:
  Helper() { EXPECT(pthread_create(&thread_, nullptr, Run, this) == 0); }
  ~Helper() {
    Do(nullptr);
    EXPECT(pthread_join(thread_, nullptr) == 0);
  }
  void Do(const std::function<void()>& what) {
    std::unique_lock<std::mutex> guard(mutex_);
    what_ = &what;
    changed_.notify_all();
    changed_.wait(guard, [this] { return what_ == nullptr; });
  }

 private:
  static void* Run(void* arg) {
    auto* self = static_cast<Helper*>(arg);
    std::unique_lock<std::mutex> guard(self->mutex_);
    for (bool goes_on = true; goes_on;) {
      self->changed_.wait(guard, [self] { return self->what_ != nullptr; });
      goes_on = static_cast<bool>(*self->what_);
      if (goes_on) (*self->what_)();
      self->what_ = nullptr;
      self->changed_.notify_all();
    }
    return nullptr;
  }

  pthread_t thread_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void()>* what_ = nullptr;
};

// Each turn one thread allocates objects of one sort and size. Others give them back by GC_free, in
// the order of allocation, backwards or at random; but a few stay for some turns. A large object
// stays all the time, so that a turn allocates less than the allowance, which is a third of the
// bytes that live at least: no collection is due, and what is given back must serve other sizes and
// other threads as it is.
//
// The bound, for each of the two spaces (objects with pointers, and those without): let l be the
// pages that the model's objects need, which is for those of the turn as many as they fill, and for
// each one that has stayed a page. No more are taken than the largest l so far and a slack
// (docs/design/lps_and_tree_fit.md, "The bound, and its slack"; k is 1): what is free in pages in
// part used is hidden from other sizes in current pages alone, one for each thread, sort and size
// so far [inv.free-slots]; and a thread takes up to 4 pages at a time. What is given back while a
// cycle marks is hidden until its end: so one that is under way after a turn is brought to its end.
//
// Not in that bound are pages that went back to their space, resident, from which best fit may take
// others that are not. But the heap asks before it has grown by a sixteenth, and does not grow if a
// quarter of it is free (docs/design/policy.md, "Growth"). So it has no more than that bound,
// or four thirds of what is in use, and a sixteenth.
class Frees {
 public:
  explicit Frees(unsigned seed) : random_(seed) {}

  void Run(size_t threads, size_t turns) {
    const size_t large_bytes = (size_t{16} << 20) + Below(size_t{16} << 20);
    memset(g_given, 1, sizeof g_given);
    memset(g_given, 0, sizeof g_given);
    void* large = GC_malloc_atomic(large_bytes);
    memset(large, 1, large_bytes);
    GC_gcollect();
    heap_before_ = Stats().heap_bytes;
    process_before_ = AnonymousResidentBytes();
    const uint64_t collections_before = Stats().collections;
    {
      std::vector<Helper> helpers(threads);
      for (size_t i = 0; i < turns; ++i) Turn(&helpers, large_bytes / 4);
    }
    GC_noop1(reinterpret_cast<GC_word>(large));
    printf(
        "%zu threads gave back %zu MiB in %zu turns, %zu KiB at most grown, %zu allowed, %lu "
        "collections\n",
        threads, all_bytes_ >> 20, turns, max_grown_ >> 10, Allowed() >> 10,
        Stats().collections - collections_before);
  }

 private:
  static constexpr size_t kPage = 16384;
  enum Space { kScanned, kPointerFree, kSpaces };
  struct Stays {
    uint64_t id = 0;  // 0: nothing
    Sort sort = Sort::kNormal;
    Space space = kScanned;
  };

  size_t Below(size_t n) { return random_() % n; }

  void Turn(std::vector<Helper>* helpers, size_t max_bytes) {
    static constexpr Sort kOfTurns[] = {Sort::kNormal, Sort::kAtomic, Sort::kUncollectable,
                                        Sort::kAtomicUncollectable, Sort::kTyped};
    sort_ = kOfTurns[Below(5)];
    const Space space = IsAtomic(sort_) ? kPointerFree : kScanned;
    bytes_ = std::min<size_t>(16 + Below(size_t{16} << Below(10)), 8192);
    count_ = std::min(max_bytes / 2 / bytes_ + Below(max_bytes / 2 / bytes_), kMaxGiven);
    const unsigned choice = random_();
    const size_t allocator = Below(helpers->size());
    (*helpers)[allocator].Do([&] {
      for (size_t i = 0; i < count_; ++i) {
        auto* words = static_cast<uintptr_t*>(Allocate(sort_, bytes_, choice));
        EXPECT(words != nullptr);
        if (IsZeroed(sort_)) EXPECT(words[0] == 0 && words[bytes_ / 8 - 1] == 0);
        words[0] = words[bytes_ / 8 - 1] = Word(first_id_ + i);
        g_given[i] = words;
      }
      slot_bytes_ = GC_size(g_given[0]);
    });
    all_bytes_ += count_ * slot_bytes_;
    current_.insert({allocator, sort_, slot_bytes_});
    const size_t slots = kPage / slot_bytes_;
    const size_t pages = (count_ + slots - 1) / slots;
    max_pages_[space] = std::max(max_pages_[space], pages + staying_[space]);
    max_at_once_ = std::max(max_at_once_, pages + staying_[kScanned] + staying_[kPointerFree]);
    Check();
    for (size_t i = Below(4); i > 0; --i) LetStay(space);
    switch (Below(3)) {
      case 0:
        std::shuffle(g_given, g_given + count_, random_);
        break;
      case 1:
        std::reverse(g_given, g_given + count_);
    }
    for (size_t done = 0; done < count_;) {
      const size_t end = Below(2) == 0 ? count_ : done + 1 + Below(count_ - done);
      (*helpers)[Below(helpers->size())].Do([&] {
        for (; done < end; ++done) GiveBack(std::exchange(g_given[done], nullptr));
      });
    }
    while (GC_collect_a_little() != 0) {
    }
    first_id_ += count_;
    Check();
  }

  static uintptr_t Word(uint64_t id) { return uintptr_t{0xf} << 60 | id; }
  void GiveBack(void* p) {
    if (p == nullptr) return;  // it stays
    const auto* words = static_cast<uintptr_t*>(p);
    EXPECT(words[0] >= Word(first_id_) && words[0] < Word(first_id_ + count_));
    EXPECT(words[bytes_ / 8 - 1] == words[0]);
    GC_free(p);
  }
  // In the place of one that has stayed until now.
  void LetStay(Space space) {
    const size_t place = Below(kMostStaying);
    Stays& stays = stays_[place];
    if (stays.id != 0) {
      EXPECT(*static_cast<uintptr_t*>(g_staying[place]) == Word(stays.id));
      GC_free(std::exchange(g_staying[place], nullptr));
      --staying_[stays.space];
    }
    g_staying[place] = std::exchange(g_given[Below(count_)], nullptr);
    stays = {};
    if (g_staying[place] == nullptr) return;
    stays = {*static_cast<uintptr_t*>(g_staying[place]) & ~(uintptr_t{0xf} << 60), sort_, space};
    ++staying_[space];
  }

  // Beyond what there was before.
  size_t Allowed() const {
    const size_t slack = current_.size() + 2 * (4 + 7) * kMaxThreads;
    const size_t of_spaces =
        heap_before_ + (max_pages_[kScanned] + max_pages_[kPointerFree] + slack) * kPage;
    const size_t in_use = heap_before_ + (max_at_once_ + slack) * kPage;
    const size_t max = std::max(of_spaces, in_use + in_use / 3);
    return max + max / 16 + (size_t{128} << 10) - heap_before_;
  }
  void Check() {
    const gleaner_stats stats = Stats();
    if (stats.heap_bytes > heap_before_) {
      max_grown_ = std::max<size_t>(max_grown_, stats.heap_bytes - heap_before_);
    }
    // 1,072 bytes of tables for each page; and stacks, of threads and markers, the model's memory.
    const size_t process = AnonymousResidentBytes();
    const size_t process_allowed = Allowed() + Allowed() / 15 + (size_t{8} << 20);
    if (stats.heap_bytes <= heap_before_ + Allowed() &&
        process <= process_before_ + process_allowed) {
      return;
    }
    fprintf(stderr,
            "the heap had %zu KiB and has %zu, %zu more allowed; the process had %zu KiB and has "
            "%zu, %zu more allowed; %zu bytes each of sort %d, %lu collections\n",
            heap_before_ >> 10, size_t{stats.heap_bytes} >> 10, Allowed() >> 10,
            process_before_ >> 10, process >> 10, process_allowed >> 10, slot_bytes_,
            static_cast<int>(sort_), stats.collections);
    abort();
  }

  std::mt19937 random_;
  Sort sort_ = Sort::kNormal;
  size_t count_ = 0, bytes_ = 0, slot_bytes_ = 0;
  uint64_t first_id_ = 1;
  Stays stays_[kMostStaying];
  size_t staying_[kSpaces] = {};
  size_t max_pages_[kSpaces] = {};
  size_t max_at_once_ = 0;
  std::set<std::tuple<size_t, Sort, size_t>> current_;
  size_t heap_before_ = 0, process_before_ = 0, max_grown_ = 0, all_bytes_ = 0;
};

// Objects with finalizers, each of which stands for something that only its finalizer releases. A
// few are in use; the others are garbage, as are objects of other sizes that are allocated besides.
//
// The bound, by gc/policy/pacer.h: let m be the least allowance and w what an object with a
// finalizer weighs. After a full collection only those in use are unreleased, in_use at most, which
// may all be garbage soon. N more are registered until the next full collection is due. It is due,
// however fast it goes, when p N w >= m and what has been allocated since reaches R, the larger of
// m and the third of twice the scanned live bytes and a fourth of the others. p, the part of such
// objects that collections have released so far, is 1 at first. While nothing is released, since
// all that are registered are in use, N is at most 2.2 times as large as before from one collection
// to the next: p = f / a with sums of which an eighth is forgotten, so p falls by a factor of at
// most 7/8 / (7/8 + N / a), and N <= a. So N w p >= m for an N no larger than 2.2 in_use. Then all
// that is registered releases another, and p rises. What threads have allocated is known but for
// their reports, a sixteenth of the allowance at most.
//
// A concurrent cycle ends, at the latest, when the allowance and an eighth of it are used up, and
// keeps what is registered meanwhile until the next one: N2 objects at most, twice.
class FinalizersBound {
 public:
  explicit FinalizersBound(unsigned seed) : random_(seed) {}

  void Run(size_t bytes) {
    const size_t in_use = 16 + Below(300);
    const size_t staying = Below(64) * 1024;
    const size_t min = (size_t{448} << 10) + Below(size_t{1} << 20);
    const size_t weight = 2000 + Below(30'000);
    const size_t other_bytes = 1024 + Below(size_t{1024} << Below(8));
    GC_set_min_bytes_allocd(min);
    GC_set_allocd_bytes_per_finalizer(weight);
    auto** used = static_cast<void**>(GC_malloc(in_use * sizeof(void*)));
    auto** stay = static_cast<void**>(GC_malloc((staying + 1) * sizeof(void*)));
    for (size_t i = 0; i < staying; ++i) stay[i] = GC_malloc(64);
    void* pointer_free = GC_malloc_atomic(1 + Below(size_t{16} << 20));
    const size_t scanned_bytes = GC_size(used) + GC_size(stay) + staying * 64 + in_use * 1024;
    const size_t due_bytes =
        std::max(min, (2 * scanned_bytes + GC_size(pointer_free) / 4) / 3) + min / 16;
    size_t max = 0, max_allowed = 0, allowance = 0;
    for (size_t i = 0; i < bytes / other_bytes; ++i) {
      Register(&used[Below(in_use)]);
      for (size_t bytes = 0; bytes < other_bytes;) {
        const size_t one = 16 + Below(1000);
        bytes += GC_size(Below(4) == 0 ? GC_malloc_atomic(one) : GC_malloc(one));
      }
      if (i % 16 == 0) allowance = std::max<size_t>(allowance, Stats().allowance_bytes);
      const size_t report = std::min(allowance / 16 + 4096, size_t{1} << 20);
      const size_t due =
          std::max({2 * min / weight + 1, in_use * 11 / 5, (due_bytes + report) / other_bytes});
      const size_t in_cycle = (allowance * 9 / 8 + report) / other_bytes;
      const size_t stale = 64;
      const size_t allowed = in_use + due + (MayMarkBeside() ? 2 * in_cycle : 0) + stale;
      const size_t unreleased = registered_ - released_;
      if (unreleased > max) max = unreleased;
      max_allowed = allowed;
      if (unreleased > allowed) {
        fprintf(stderr, "%zu unreleased of %zu, %zu allowed, %zu in use, %zu bytes each\n",
                unreleased, registered_, allowed, in_use, other_bytes);
        abort();
      }
    }
    GC_noop1(reinterpret_cast<GC_word>(pointer_free));
    const gleaner_stats stats = Stats();
    printf(
        "%zu in use, %zu unreleased at most of %zu, %zu allowed, %lu collections, %lu beside the "
        "program, %lu minor\n",
        in_use, max, registered_, max_allowed, stats.collections, stats.concurrent_collections,
        stats.minor_collections);
    EXPECT(stay[0] == nullptr || GC_base(stay[0]) == stay[0]);
  }

 private:
  size_t Below(size_t n) { return random_() % n; }

  static bool MayMarkBeside() {
    gleaner_modes modes = {};
    gleaner_get_modes(&modes, sizeof modes);
    return modes.concurrent != 0;
  }

  void Register(void** place) {
    const size_t words = 2 + Below(30);
    auto* object =
        static_cast<uintptr_t*>(Below(2) ? GC_malloc(words * 8) : GC_malloc_atomic(words * 8));
    EXPECT(object != nullptr);
    object[0] = ++registered_;
    void* data = this;
    switch (Below(3)) {
      case 0:
        GC_register_finalizer(object, Release, data, nullptr, nullptr);
        break;
      case 1:
        GC_register_finalizer_no_order(object, Release, data, nullptr, nullptr);
        break;
      default:
        GC_register_finalizer_unreachable(object, Release, data, nullptr, nullptr);
    }
    GC_PTR_STORE_AND_DIRTY(place, object);
  }
  static void Release(void* object, void* self) {
    auto* words = static_cast<uintptr_t*>(object);
    auto* bound = static_cast<FinalizersBound*>(self);
    EXPECT(words[0] != 0 && words[0] <= bound->registered_);
    words[0] = 0;  // once
    ++bound->released_;
  }

  std::mt19937 random_;
  size_t registered_ = 0, released_ = 0;
};

}  // namespace gleaner::fuzz
