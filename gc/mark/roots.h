// Root tasks of one collection, copied root words, and the ranges the program registered.
#pragma once

#include "alloc/metadata/meta.h"
#include "platform/os/atomic.h"
#include "platform/threads/thread.h"

namespace gleaner::gc {

// How a root is read. On stacks and in registers interior pointers always count; in data they count
// only if they count in general (GC_set_all_interior_pointers).
enum class RootKind : uint8_t { kStack, kData, kUncollectablePages };

// The roots of a collection, cut into tasks that workers claim one by one. Call order: Init once;
// then for each collection Clear, Add and AddUncollectablePages, and Claim by the workers. The
// collecting thread calls all but Claim and AllClaimed.
class RootTasks {
 public:
  // Commits memory for the first tasks: later the system may have memory only after a collection.
  [[nodiscard]] bool Init() {
    const bool bounded = platform::AddressSpaceLimit() != SIZE_MAX;
    return tasks_.Reserve(bounded ? kMaxTasksWhenBounded : kMaxTasks) &&
           tasks_.EnsureCommitted(kFirstTasks);
  }

  // Collecting thread only, before marking.
  void Clear();
  // Adds the words of [begin, end), rounded inwards to word boundaries.
  void Add(RootKind kind, Addr begin, Addr end);
  // Adds the pages whose objects are roots, or whose objects' contents are roots.
  void AddUncollectablePages();

  // The whole list, for a caller that does not claim.
  size_t size() const { return count_; }
  struct Task {
    platform::Range range;  // of addresses; for kUncollectablePages, of page numbers
    RootKind kind;
  };
  const Task& at(size_t i) const { return tasks_[i]; }

  // Any worker: the next task's index, or size() when all are claimed.
  size_t Claim();
  // Whether the tasks that nobody has claimed yet have `bytes` of words to read at least. A hint.
  bool HasUnclaimed(uint64_t bytes) const;
  bool AllClaimed() const { return next_.Next() >= count_; }

 private:
  static constexpr size_t kMaxTasks = size_t{1} << 20;
  static constexpr size_t kMaxTasksWhenBounded = size_t{1} << 18;  // if there is an RLIMIT_AS
  static constexpr size_t kFirstTasks = 1024;
  static constexpr size_t kTaskBytes = 64 * kKiB;
  static constexpr size_t kPagesPerTask = 1024;

  bool Append(platform::Range range, RootKind kind);

  alloc::ReservedArray<Task> tasks_;
  size_t count_ = 0;
  platform::Tickets<size_t> next_{0};
};

// Copies of root words, which are scanned later: the memory they were read from may be gone by
// then. Guarded by the collector lock; workers read the copies while they mark. Call order: Init,
// then for each cycle Clear, Copy or CopyIfMapped, AddTo.
class RootBuffer {
 public:
  // False if the address space cannot be had. CopyIfMapped does its work if it was not called.
  [[nodiscard]] bool Init();
  void Clear();
  // Copies the words of [begin, end) that point into the reservation or one past it. `kind`: kStack
  // or kData. Without memory for more words it omits the rest: the final stop reads all roots
  // again.
  void Copy(RootKind kind, Addr begin, Addr end);
  // Copies words as Copy does from [*at, end), memory that may be unmapped meanwhile or may end
  // before `end`. Moves *at to `end` or to the first page that cannot be read. False without memory
  // for more words; then *at is where the copying ended.
  [[nodiscard]] bool CopyIfMapped(RootKind kind, Addr* at, Addr end);
  void AddTo(RootTasks* roots) const;
  // Whether the address is in the memory of the copies.
  bool Holds(Addr a) const;
  size_t size() const { return count_[0] + count_[1]; }

 private:
  static constexpr size_t kMaxWords = size_t{1} << 25;
  static constexpr size_t kMaxWordsWhenBounded = size_t{1} << 20;  // if there is an RLIMIT_AS
  static constexpr size_t kChunkWords = 8 * kKiB;                  // copied at a time

  [[nodiscard]] bool Reserve(size_t kind);

  // By kind: kStack, kData.
  alloc::ReservedArray<Addr> words_[2];
  size_t count_[2] = {};
};

// Ranges the program added (GC_add_roots) or excluded (GC_exclude_static_roots). Sorted, disjoint.
// Guarded by the collector lock. The first kFew ranges need no memory of the system. From half of
// them on each insertion tries to get such memory, so that a temporary refusal does no harm.
class RangeSet {
 public:
  // Commits memory for `ranges` ranges, so that insertions up to that number cannot fail. Optional.
  [[nodiscard]] bool Prepare(size_t ranges);
  [[nodiscard]] bool Add(platform::Range range);
  // Removes the range, also from the middle of a larger one. False if metadata is exhausted.
  [[nodiscard]] bool Remove(platform::Range range);
  void Clear() { count_ = 0; }
  bool Overlaps(platform::Range range) const;
  bool Contains(Addr a) const { return Overlaps({a, a + 1}); }
  // The range that the address lies in. False if there is none.
  bool Find(Addr a, platform::Range* found) const;
  size_t size() const { return count_; }
  platform::Range at(size_t i) const { return Item(i); }

  // Calls f(part) for each part of `range` that is not in the set.
  template <class F>
  void ForEachGap(platform::Range range, F f) const {
    for (size_t i = 0; i < count_ && range.begin < range.end; ++i) {
      const platform::Range& r = Item(i);
      if (r.end <= range.begin) continue;
      if (r.begin >= range.end) break;
      if (range.begin < r.begin) f(platform::Range{range.begin, r.begin});
      range.begin = r.end;
    }
    if (range.begin < range.end) f(range);
  }

 private:
  static constexpr size_t kMaxRanges = size_t{1} << 16;
  static constexpr size_t kFew = 32;
  // The first range that ends at `a` or above; count_ if there is none.
  size_t FirstFrom(Addr a) const;
  [[nodiscard]] bool InsertAt(size_t index, platform::Range range);
  platform::Range& Item(size_t i) { return is_large_ ? ranges_[i] : few_[i]; }
  const platform::Range& Item(size_t i) const { return is_large_ ? ranges_[i] : few_[i]; }

  alloc::ReservedArray<platform::Range> ranges_;
  platform::Range few_[kFew] = {};  // holds the ranges while !is_large_
  bool is_large_ = false;           // ranges_ holds the ranges
  size_t count_ = 0;
};

}  // namespace gleaner::gc
