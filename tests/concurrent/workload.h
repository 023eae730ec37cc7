// What the tests of concurrent collections share: children that run with them, and threads
// that change graphs meanwhile and know what those should look like.
#pragma once

#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>
#include <gleaner.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ios>
#include <random>
#include <string>
#include <vector>

#include "tests/support/child.h"

namespace gleaner::testing {

inline constexpr size_t kMiB = size_t{1} << 20;

enum class Tracking { kAuto, kUserfaultfd, kProtection };
inline const char* NameOf(Tracking tracking) {
  constexpr const char* kNames[] = {"auto", "userfaultfd", "mprotect"};
  return kNames[static_cast<size_t>(tracking)];
}

// What the library says of itself is that both modes are as asked for.
inline void ExpectModes(bool concurrent, bool generational, const std::string& tracking) {
  gleaner_modes modes;
  ASSERT_EQ(gleaner_get_modes(&modes, sizeof modes), sizeof modes);
  EXPECT_EQ(modes.concurrent, concurrent ? 1 : 0) << modes.reason;
  EXPECT_EQ(modes.generational, generational ? 1 : 0) << modes.reason;
  EXPECT_EQ(modes.tracking, tracking) << modes.reason;
  EXPECT_EQ(GC_is_incremental_mode(), concurrent ? 1 : 0);
  const unsigned vdb = tracking == "mprotect"      ? GC_VDB_MPROTECT
                       : tracking == "userfaultfd" ? GC_VDB_SOFT
                                                   : GC_VDB_NONE;
  EXPECT_EQ(GC_get_actual_vdb(), vdb);
  EXPECT_EQ(GC_incremental_protection_needs(),
            tracking == "mprotect" ? GC_PROTECTS_POINTER_HEAP : GC_PROTECTS_NONE);
}

using Environment = std::vector<const char*>;

// What the tests run with unless they say otherwise: cycles one after the other, each verified.
inline const Environment kVerified = {"GLEANER_COLLECT_EVERY=4m", "GLEANER_MARK_VERIFY=1"};
// Verification needs memory itself.
inline const Environment kUnverified = {"GLEANER_COLLECT_EVERY=4m"};

// f in a child where collections mark concurrently.
template <class F>
ChildResult RunIncremental(Tracking tracking, const Environment& environment, F f) {
  return RunInChild([&] {
    setenv("GC_ENABLE_INCREMENTAL", "1", 1);
    setenv("GLEANER_WRITE_TRACKING", NameOf(tracking), 1);
    setenv("GLEANER_SHORT_PAUSE", "0", 1);  // also where a stop would be short
    setenv("GC_PRINT_STATS", "1", 1);
    for (const char* entry : environment) putenv(const_cast<char*>(entry));
    f();
  });
}

// The mechanisms that there are: userfaultfd needs a kernel that has it (the platform's tests see
// to it that it is found then).
inline std::vector<Tracking> Trackings() {
  std::vector<Tracking> work;
  for (const Tracking tracking : {Tracking::kUserfaultfd, Tracking::kProtection}) {
    const auto result = RunIncremental(tracking, {}, [] {
      GC_INIT();
      _exit(GC_is_incremental_mode() != 0 ? 0 : 1);
    });
    if (result.ok()) work.push_back(tracking);
  }
  EXPECT_TRUE(!work.empty() && work.back() == Tracking::kProtection);
  return work;
}

inline size_t Count(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++count;
  return count;
}

// Collections whose marking was concurrent, to the end or until memory was short.
inline size_t ConcurrentCycles(const ChildResult& result) {
  return Count(result.err, ", concurrent\n") + Count(result.err, ", overrun");
}

// All is well, and so many collections at least marked concurrently.
inline ::testing::AssertionResult IsConcurrent(const ChildResult& result, size_t cycles) {
  if (result.ok() && ConcurrentCycles(result) >= cycles) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "status 0x" << std::hex << result.status << std::dec << ", " << ConcurrentCycles(result)
         << " collections beside\n"
         << result.err;
}
#define EXPECT_CONCURRENT(result, cycles) \
  EXPECT_TRUE(::gleaner::testing::IsConcurrent(result, cycles))

// --- Cycles by steps ---

// Nothing is due by itself.
inline const Environment kSteps = {"GLEANER_CYCLE_THREAD=0", "GLEANER_CYCLE_SLICE=2k",
                                   "GLEANER_MIN_ALLOWANCE=1g", "GLEANER_MARK_VERIFY=1"};
inline constexpr size_t kMaxSteps = 20000;

// A step of the cycle. False when it is over.
inline bool Step() { return GC_collect_a_little() != 0; }

// Begins a cycle, and makes its first step.
inline void BeginCycle() {
  for (size_t polls = 0;; ++polls) {  // the last one's sweep comes first
    GC_start_incremental_collection();
    if (Step()) return;
    ASSERT_LT(polls, kMaxSteps);
  }
}
inline void FinishCycle() {
  size_t steps = 0;
  while (Step()) ASSERT_LT(++steps, kMaxSteps);
}

// --- Graphs ---

// Trees, so that every object has one reference to it: who loses that, has lost the object. The
// numbers that should be found are beside the references, in the same objects.
struct Node {
  static constexpr size_t kChildren = 3;
  uint64_t number;
  size_t words;  // of the contents
  Node* child[kChildren];
  uint64_t child_number[kChildren];
  uint64_t contents[];
};

class Graph {
 public:
  // pre: lies on the stack of a registered thread.
  Graph(uint64_t seed, size_t places) : random_(seed), seed_(seed), count_(places) {
    places_ = static_cast<Place*>(GC_malloc(places * sizeof(Place)));
  }
  bool ok() const { return places_ != nullptr; }
  size_t refused() const { return refused_; }

  // One small change. False, after a message, if something is not as it should be.
  bool Change() {
    const size_t dice = Below(1000);
    if (dice < 450) return Grow();
    if (dice < 850) return Move();
    if (dice < 990) return CheckSome();
    if (dice < 995) return Free();
    return Resize();
  }

  // Looks at everything.
  bool Check() {
    std::vector<Place> work(places_, places_ + count_);
    bool right = true;
    while (!work.empty() && right) {
      const Place place = work.back();
      work.pop_back();
      if (place.node == nullptr) continue;
      right = IsRight(place);
      for (size_t i = 0; right && i < Node::kChildren; ++i) {
        work.push_back({place.node->child[i], place.node->child_number[i]});
      }
    }
    return right;
  }

 private:
  struct Place {
    Node* node;
    uint64_t number;
  };

  // A reference somewhere, and the number beside it.
  struct Reference {
    Node** node;
    uint64_t* number;
  };

  size_t Below(size_t n) { return random_() % n; }
  static uint64_t Content(uint64_t number, size_t i) {
    return (number * 1009 + i) * 0x9e3779b97f4a7c15u | uint64_t{1} << 63;  // no address
  }

  bool IsRight(const Place& place) const {
    const Node* node = place.node;
    bool right = node->number == place.number;
    for (size_t i = 0; right && i < node->words; ++i) {
      right = node->contents[i] == Content(node->number, i);
    }
    if (!right) {
      fprintf(stderr, "seed %lu, collection %lu: object %lu at %p is %lu, of %zu words\n", seed_,
              static_cast<unsigned long>(GC_get_gc_no()), place.number,
              static_cast<const void*>(node), node->number, node->words);
    }
    return right;
  }

  Node* Make() {
    const size_t dice = Below(1000);
    const size_t bytes = dice < 700 ? Below(200) : dice < 997 ? Below(3000) : Below(100000);
    auto* node = static_cast<Node*>(GC_malloc(sizeof(Node) + bytes));
    if (node == nullptr) {
      ++refused_;
      return nullptr;
    }
    node->number = ++last_number_;
    node->words = bytes / sizeof(uint64_t);
    for (size_t i = 0; i < node->words; ++i) node->contents[i] = Content(node->number, i);
    return node;
  }

  Reference Somewhere() {
    Place& place = places_[Below(count_)];
    Reference at = {&place.node, &place.number};
    for (size_t steps = Below(6); steps != 0 && *at.node != nullptr; --steps) {
      const size_t i = Below(Node::kChildren);
      at = {&(*at.node)->child[i], &(*at.node)->child_number[i]};
    }
    return at;
  }
  static Place Take(Reference from) {
    const Place taken = {*from.node, *from.number};
    *from.node = nullptr;
    return taken;
  }
  static void Put(Reference to, const Place& place) {
    *to.number = place.number;
    *to.node = place.node;
  }

  // A new object in a place of its own, with what was elsewhere below it.
  bool Grow() {
    Node* node = Make();
    if (node == nullptr) return true;
    for (size_t i = 0; i < Node::kChildren; ++i) {
      if (Below(2) == 0) continue;
      Put({&node->child[i], &node->child_number[i]}, Take(Somewhere()));
    }
    Place& place = places_[Below(count_)];
    Put({&place.node, &place.number}, {node, node->number});
    return true;
  }

  // The only reference goes from one object to another, by way of a register.
  bool Move() {
    const Place taken = Take(Somewhere());
    Put(Somewhere(), taken);
    return true;
  }

  bool CheckSome() {
    const Reference at = Somewhere();
    return *at.node == nullptr || IsRight({*at.node, *at.number});
  }

  bool Free() {
    const Place taken = Take(Somewhere());
    if (taken.node != nullptr) GC_free(taken.node);  // what is below it is garbage
    return true;
  }

  bool Resize() {
    const Reference at = Somewhere();
    Node* node = *at.node;
    if (node == nullptr) return true;
    const size_t words = Below(20) == 0 ? Below(4 * kMiB / sizeof(uint64_t)) : node->words * 2;
    if (!IsRight({node, *at.number})) return false;
    auto* resized = static_cast<Node*>(GC_realloc(node, sizeof(Node) + words * sizeof(uint64_t)));
    if (resized == nullptr) {
      ++refused_;
      return true;
    }
    const size_t kept = resized->words < words ? resized->words : words;
    resized->words = kept;
    const bool right = IsRight({resized, *at.number});
    for (size_t i = kept; i < words; ++i) resized->contents[i] = Content(resized->number, i);
    resized->words = words;
    *at.node = resized;
    return right;
  }

  std::mt19937_64 random_;
  const uint64_t seed_;
  const size_t count_;
  Place* places_;
  uint64_t last_number_ = 0;
  size_t refused_ = 0;  // allocations
};

// --- Threads ---

struct Party {
  size_t places = 4000;  // of each thread: some megabytes
  uint64_t seed = std::random_device()();
  std::atomic<uint64_t> born{0};
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::atomic<size_t> refused{0};
};

inline void* ChangeGraph(void* argument) {
  Party& party = *static_cast<Party*>(argument);
  Graph graph(party.seed + party.born++, party.places);
  bool right = graph.ok();
  while (right && !party.stop) {
    for (int i = 0; right && i < 100; ++i) right = graph.Change();
  }
  right = right && graph.Check();
  if (!right) {
    ++party.wrong;
    party.stop = true;
  }
  party.refused += graph.refused();
  return nullptr;
}

// Waits for that many further collections; on a loaded machine only for a quarter of them, if the
// others take more than some seconds. Calls `meanwhile` all the time.
template <class F>
void AwaitCollections(GC_word collections, const std::atomic<bool>& stop, const F& meanwhile) {
  const GC_word before = GC_get_gc_no();
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  const auto is_enough = [&] {
    const GC_word done = GC_get_gc_no() - before;
    return done >= collections ||
           (done >= collections / 4 && std::chrono::steady_clock::now() >= end);
  };
  while (!stop && !is_enough()) meanwhile();
}

// That many threads change graphs until there have been so many collections.
template <class F>
void ChangeGraphs(size_t threads, GC_word collections, Party* party, const F& meanwhile) {
  fprintf(stderr, "seed %lu\n", party->seed);
  std::vector<pthread_t> all(threads);
  for (pthread_t& thread : all) {
    ASSERT_EQ(pthread_create(&thread, nullptr, ChangeGraph, party), 0);
  }
  AwaitCollections(collections, party->stop, meanwhile);
  party->stop = true;
  for (const pthread_t thread : all) ASSERT_EQ(pthread_join(thread, nullptr), 0);
  EXPECT_EQ(party->wrong, 0);
}
inline void Doze() { usleep(2000); }
inline void ChangeGraphs(size_t threads, GC_word collections) {
  Party party;
  ChangeGraphs(threads, collections, &party, Doze);
  EXPECT_EQ(party.refused, 0u);
}

}  // namespace gleaner::testing
