// For the tests of write tracking: a heap with its tracker, and a model of what it may not lose.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "platform/os/memory.h"
#include "platform/tracking/write_tracking.h"
#include "tests/support/child.h"
#include "tests/support/rounds.h"

namespace gleaner::platform {

using gleaner::testing::Rounds;
using Pages = std::set<size_t>;
inline constexpr size_t kPage = kTrackedPageBytes;
inline constexpr size_t kPagesPerRegion = kRegionBytes / kPage;
inline constexpr size_t kCardsPerPage = kPage / kCardBytes;

// A heap of its own with its tracker. Pages are numbered from its beginning.
class TrackedHeap {
 public:
  TrackedHeap(TrackingKind kind, size_t pages, size_t max_mappings = 0)
      : pages_(pages), bytes_(AlignUp(pages * kPage, 4 * kMiB)) {
    reserved_ = Reserve(kReserved, 4 * kMiB);
    base_ = static_cast<char*>(reserved_) + kGuard;
    TrackingConfig config;
    config.base = AddressOf(base_);
    config.bytes = kReserved - kGuard;
    config.max_mappings = max_mappings;
    ok_ = reserved_ != nullptr && Commit(base_, bytes_) && tracking.Open(kind, config) &&
          tracking.CoverUpTo(AddressOf(base_) + bytes_);
  }
  ~TrackedHeap() {
    tracking.Close();
    if (reserved_ != nullptr) Release(reserved_, kReserved);
  }

  bool ok() const { return ok_; }
  char* page(size_t i) const { return base_ + i * kPage; }
  Addr address(size_t i) const { return AddressOf(page(i)); }
  size_t pages() const { return pages_; }

  void Write(size_t i, size_t offset = 8) {
    auto* word = reinterpret_cast<std::atomic<uint64_t>*>(page(i) + offset);
    word->store(word->load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    tracking.MarkDirty(AddressOf(word));
  }
  void TouchAll() {
    for (size_t i = 0; i < pages_; ++i) page(i)[0] = 1;
  }
  bool Arm(size_t first, size_t end) {
    const bool armed = tracking.Arm(address(first), address(end));
    tracking.FinishRound();
    return armed;
  }
  bool ArmAll() { return Arm(0, pages_); }
  // Armed, with pages that nobody has touched.
  bool Start() { return ok_ && ArmAll(); }
  // Armed, with pages that were all written before, and nothing to report.
  bool StartTouched() {
    if (!ok_) return false;
    TouchAll();
    return ArmAll() && FetchAll().empty();
  }
  Pages Fetch(size_t first, size_t end) {
    struct Found {
      TrackedHeap* heap;
      Pages pages;
    } found = {this, {}};
    tracking.FetchAndRearm(
        address(first), address(end),
        [](void* context, Addr from, Addr to) {
          auto* into = static_cast<Found*>(context);
          for (Addr a = AlignDown(from, kPage); a < to; a += kPage) {
            into->pages.insert((a - into->heap->address(0)) / kPage);
          }
        },
        &found);
    tracking.FinishRound();
    return found.pages;
  }
  Pages FetchAll() { return Fetch(0, pages_); }

  // Pages that may be reported along with one that was written.
  size_t precision() const {
    if (tracking.kind() == TrackingKind::kProtection) return kPagesPerRegion;
    return tracking.kind() == TrackingKind::kSoftDirty ? 512 : 1;  // a huge page
  }
  void ExpectReported(const Pages& written, const Pages& found) const {
    for (const size_t i : written) EXPECT_TRUE(found.count(i)) << "page " << i;
    Pages allowed;
    for (const size_t i : written) allowed.insert(i / precision());
    for (const size_t i : found) EXPECT_TRUE(allowed.count(i / precision())) << "page " << i;
  }

  WriteTracking tracking;

 private:
  static constexpr size_t kReserved = 16 * kGiB;
  static constexpr size_t kGuard = 4 * kMiB;
  size_t pages_;
  size_t bytes_;
  void* reserved_ = nullptr;
  char* base_ = nullptr;
  bool ok_ = false;
};

// Those that every system has, and those that this one has besides.
inline std::vector<TrackingKind> KindsToTest() {
  std::vector<TrackingKind> kinds = {TrackingKind::kProtection, TrackingKind::kCards};
  for (const TrackingKind kind : {TrackingKind::kUserfaultfd, TrackingKind::kSoftDirty}) {
    if (WriteTracking::Works(kind)) kinds.push_back(kind);
  }
  return kinds;
}

// The model: every card's worth of memory has a version, in its second word. A visitor that is
// given the memory copies the version; when mutators rest and the last fetch is done, every copy is
// right, or a write was lost.
class Model {
 public:
  explicit Model(TrackedHeap& heap) : heap_(heap), copies_(heap.pages() * kCardsPerPage) {}

  void Visit(Addr begin, Addr end) {
    for (size_t i = (begin - heap_.address(0)) / kCardBytes; begin < end; begin += kCardBytes) {
      copies_[i++].store(Version(begin), std::memory_order_relaxed);
    }
  }
  static void VisitDirtyRange(void* context, Addr begin, Addr end) {
    static_cast<Model*>(context)->Visit(begin, end);
  }
  size_t StaleCopies() const {
    size_t stale = 0;
    Addr at = heap_.address(0);
    for (const auto& copy : copies_) {
      stale += copy.load(std::memory_order_relaxed) != Version(at);
      at += kCardBytes;
    }
    return stale;
  }

 private:
  static uint64_t Version(Addr card) {
    return PointerAt<std::atomic<uint64_t>>(card + 8)->load(std::memory_order_relaxed);
  }
  TrackedHeap& heap_;
  std::vector<std::atomic<uint64_t>> copies_;
};

// Mutators that write, discard and make system calls until they are told to rest.
class Mutators {
 public:
  Mutators(TrackedHeap& heap, size_t threads, uint64_t seed) : heap_(heap) {
    for (size_t t = 0; t < threads; ++t) {
      threads_.emplace_back([this, t, threads, seed] { Run(t, threads, seed); });
    }
  }
  ~Mutators() {
    Rest();
    end_ = true;
    Go();
    for (auto& thread : threads_) thread.join();
  }
  void Rest() {
    rest_ = true;
    AwaitResting(threads_.size());
  }
  void Go() {
    rest_ = false;
    rest_.notify_all();
    AwaitResting(0);
  }

 private:
  // Nobody spins: on a loaded machine the others need the time.
  void AwaitResting(size_t count) {
    for (size_t now; (now = resting_) != count;) resting_.wait(now);
  }
  void Run(size_t thread, size_t threads, uint64_t seed) {
    std::mt19937_64 random(seed * 1000 + thread);
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    while (!end_) {
      if (rest_) {
        ++resting_;
        resting_.notify_all();
        rest_.wait(true);
        --resting_;
        resting_.notify_all();
        continue;
      }
      // Pages of one region belong to different threads.
      const size_t i = random() % (heap_.pages() / threads) * threads + thread;
      const uint64_t version = ++version_;
      char* slot = heap_.page(i) + random() % kCardsPerPage * kCardBytes + 8;
      const uint64_t what = random() % 256;
      if (what < 4) {
        const auto pinned = heap_.tracking.Pin(AddressOf(slot), AddressOf(slot) + sizeof version);
        EXPECT_EQ(write(ends[1], &version, sizeof version), ssize_t{sizeof version});
        EXPECT_EQ(read(ends[0], slot, sizeof version), ssize_t{sizeof version});
        heap_.tracking.MarkDirty(AddressOf(slot));
        heap_.tracking.Unpin(pinned);
        continue;
      }
      if (what < 8) {  // and say so: the store after it is of one card
        Discard(heap_.page(i), kPage);
        for (size_t card = 0; card < kCardsPerPage; ++card) {
          heap_.tracking.MarkDirty(heap_.address(i) + card * kCardBytes);
        }
      }
      reinterpret_cast<std::atomic<uint64_t>*>(slot)->store(version, std::memory_order_relaxed);
      heap_.tracking.MarkDirty(AddressOf(slot));
      for (uint64_t pause = what % 32; pause != 0; --pause) CpuRelax();
    }
    close(ends[0]);
    close(ends[1]);
  }

  TrackedHeap& heap_;
  std::atomic<bool> rest_{false}, end_{false};
  std::atomic<size_t> resting_{0};
  std::atomic<uint64_t> version_{0};
  std::vector<std::thread> threads_;
};

// Fetches the heap once, or, on request, arms it again and looks at all of it, with two threads and
// bounds that cut regions.
inline void FetchInParallel(TrackedHeap& heap, Model& model, bool arm, size_t cut) {
  const auto part = [&](size_t first, size_t end) {
    if (arm) {
      heap.tracking.Arm(heap.address(first), heap.address(end));  // may be refused: dirty then
      std::atomic_thread_fence(std::memory_order_seq_cst);
      model.Visit(heap.address(first), heap.address(end));
    } else {
      heap.tracking.FetchAndRearm(heap.address(first), heap.address(end), Model::VisitDirtyRange,
                                  &model);
    }
  };
  std::thread other(part, cut, heap.pages());
  part(0, cut);
  other.join();
  heap.tracking.FinishRound();
}

}  // namespace gleaner::platform
