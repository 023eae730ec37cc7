// When the next collection comes, and of which kind: a test for each row of the tables in
// gc/policy/next_collection.h, and for each boundary between two rows.
#include "gc/policy/next_collection.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

#include "platform/os/base.h"

namespace gleaner::gc {
namespace {

constexpr ptrdiff_t kAllowance = 64 * kMiB;
constexpr uint64_t kGoalNs = 10'000'000;

// As in the automatic mode, where a cycle is possible and nobody has set the goal.
Tunables Automatic() {
  Tunables tunables;
  tunables.concurrent_mark = true;
  tunables.automatic = true;
  tunables.weighs_cost = true;
  tunables.short_pause_ns = kGoalNs;
  return tunables;
}

// A stop would be long, and a cycle fits and costs nothing.
Measurements LongStop() {
  Measurements found;
  found.allowance_bytes = kAllowance;
  found.expected_stop_ns = 2 * kGoalNs;
  found.run_ns = 1e9;
  return found;
}

struct Row {
  const char* name;
  Tunables tunables;
  Measurements found;
  NextCollection next;
  Reason reason;
  bool stands;
};

// The row that `change` makes of the long stop in the automatic mode.
template <class Change>
Row Changed(const char* name, NextCollection next, Reason reason, bool stands,
            const Change& change) {
  Row row = {name, Automatic(), LongStop(), next, reason, stands};
  change(&row.tunables, &row.found);
  return row;
}

constexpr double kHalf = static_cast<double>(kAllowance) / 2;
// The price of a cycle is a tenth of the program's time.
constexpr double kDear = 1e9 / 10;

void MakeMinor(Measurements* found, bool is_long) {
  found->is_minor_next = true;
  found->is_minor_long = is_long;
}

// With the changes at the end.
#define ROW(name, next, reason, stands, ...) \
  Changed(name, next, reason, stands,        \
          []([[maybe_unused]] Tunables* t, [[maybe_unused]] Measurements* m) { __VA_ARGS__; })

TEST(NextCollectionTest, EachRowOfTheTable) {
  using enum NextCollection;
  using enum Reason;
  const Row kRows[] = {
      ROW("K1", kStop, kOnlyKind, false, t->concurrent_mark = false),
      ROW("K1 before K2", kStop, kOnlyKind, false, t->concurrent_mark = false,
          m->is_cycle_wanted = true),
      ROW("K1 before K3", kStop, kOnlyKind, false, t->concurrent_mark = false, MakeMinor(m, false)),
      ROW("K2", kConcurrent, kAsked, false, m->is_cycle_wanted = true),
      ROW("K2 before all below", kConcurrent, kAsked, false, m->is_cycle_wanted = true,
          MakeMinor(m, false), m->is_near_limit = true, m->expected_stop_ns = 0,
          m->garbage_in_cycle_bytes = 2 * kHalf, m->cycle_ns = 1e12),
      ROW("K3, short", kMinor, kYoungDie, true, MakeMinor(m, false)),
      ROW("K3, long, and no cycle fits", kMinor, kYoungDie, true, MakeMinor(m, true),
          m->garbage_in_cycle_bytes = kHalf + 1),
      ROW("K3, long, and a cycle is dear", kMinor, kYoungDie, true, MakeMinor(m, true),
          m->cycle_ns = kDear * 1.01),
      ROW("K3 before K4", kMinor, kYoungDie, true, MakeMinor(m, false), m->is_near_limit = true),
      ROW("not K3: long, and a cycle fits", kConcurrent, kLongStop, false, MakeMinor(m, true)),
      ROW("not K3: long, and the mode does not ask whether a cycle fits", kConcurrent, kLongStop,
          false, t->automatic = t->weighs_cost = false, MakeMinor(m, true),
          m->garbage_in_cycle_bytes = kHalf + 1),
      ROW("not K3: no minor one is prepared", kConcurrent, kLongStop, false,
          m->is_minor_long = true),
      ROW("K4", kStop, kMemoryLimit, true, m->is_near_limit = true),
      ROW("K4 for a long minor one", kStop, kMemoryLimit, true, MakeMinor(m, true),
          m->is_near_limit = true),
      ROW("K4 before K5", kStop, kMemoryLimit, true, m->is_near_limit = true,
          m->expected_stop_ns = 0),
      ROW("not K4: the mode is not automatic", kConcurrent, kLongStop, false, t->automatic = false,
          m->is_near_limit = true),
      ROW("K5", kStop, kShortStop, true, m->expected_stop_ns = kGoalNs - 1),
      ROW("not K5: as long as the goal", kConcurrent, kLongStop, false,
          m->expected_stop_ns = kGoalNs),
      ROW("K5 in the mode concurrent", kStop, kShortStop, true,
          t->automatic = t->weighs_cost = false, m->expected_stop_ns = kGoalNs - 1),
      ROW("not K5: the program's goal is shorter", kConcurrent, kLongStop, false,
          t->pause_target_ns = kGoalNs / 2, m->expected_stop_ns = kGoalNs / 2),
      ROW("K5: the program's goal is longer", kStop, kShortStop, true,
          t->pause_target_ns = 2 * kGoalNs, m->expected_stop_ns = kGoalNs - 1),
      ROW("not K5: a goal of 0", kConcurrent, kLongStop, false, t->short_pause_ns = 0,
          m->expected_stop_ns = 0),
      ROW("K5 before K6", kStop, kShortStop, true, m->expected_stop_ns = 0,
          m->garbage_in_cycle_bytes = kHalf + 1),
      ROW("K6", kStop, kFastAllocation, true, m->garbage_in_cycle_bytes = kHalf + 1),
      ROW("not K6: half of the allowance", kConcurrent, kLongStop, false,
          m->garbage_in_cycle_bytes = kHalf),
      ROW("not K6: the mode is not automatic", kConcurrent, kLongStop, false,
          t->automatic = t->weighs_cost = false, m->garbage_in_cycle_bytes = kHalf + 1),
      ROW("not K6: the goal is set", kConcurrent, kLongStop, false, t->weighs_cost = false,
          m->garbage_in_cycle_bytes = kHalf + 1),
      ROW("K6 before K7", kStop, kFastAllocation, true, m->garbage_in_cycle_bytes = kHalf + 1,
          m->cycle_ns = 1e12),
      ROW("K7", kStop, kDearCycle, true, m->cycle_ns = kDear * 1.01),
      ROW("not K7: a tenth of the time", kConcurrent, kLongStop, false, m->cycle_ns = kDear),
      ROW("not K7: the goal is set", kConcurrent, kLongStop, false, t->weighs_cost = false,
          m->cycle_ns = 1e12),
      ROW("not K7: the budget has as much", kConcurrent, kLongStop, false,
          m->cycle_ns = kDear * 1.01, m->budget.Run(static_cast<uint64_t>(50 * kDear * 1.01) + 1)),
      ROW("K7: the budget has lost it", kStop, kDearCycle, true, m->cycle_ns = kDear * 1.01,
          m->budget.Run(static_cast<uint64_t>(50 * kDear * 1.01) + 1), m->budget.AddLoss(kDear)),
      ROW("K7: cycles come twice as often, for the garbage that they keep", kStop, kFastAllocation,
          true, m->cycle_ns = kDear * 0.51, m->garbage_in_cycle_bytes = kHalf),
      ROW("not K7: a third more often", kConcurrent, kLongStop, false, m->cycle_ns = kDear * 0.7,
          m->garbage_in_cycle_bytes = kHalf / 2),
      ROW("K7: they have cost more than is expected", kStop, kDearCycle, true,
          m->excess_ns = kDear * 1.01),
      ROW("not K7: they have cost less", kConcurrent, kLongStop, false, m->excess_ns = -1e12),
      ROW("K8", kConcurrent, kLongStop, false),
      ROW("K8: a cycle gains", kConcurrent, kLongStop, false, m->stop_ns = 1e9),
  };
  for (const Row& row : kRows) {
    const Decision decision = Decide(row.tunables, row.found);
    EXPECT_EQ(decision.next, row.next) << row.name;
    EXPECT_STREQ(NameOf(decision.reason), NameOf(row.reason)) << row.name;
    EXPECT_EQ(decision.stands, row.stands) << row.name;
  }
}

// The same rule told the other way round: from the kind to what it takes.
Decision Expected(const Tunables& t, const Measurements& m) {
  const bool can = t.concurrent_mark;
  const bool asked = can && m.is_cycle_wanted;
  const double allowance = static_cast<double>(m.allowance_bytes);
  const bool keeps_much = t.weighs_cost && m.garbage_in_cycle_bytes > allowance / 2;
  const auto costs_much_with = [&](double garbage) {
    const double often =
        garbage <= 0 || garbage >= allowance ? 1 : allowance / (allowance - garbage);
    const double loss = std::max(often * m.cycle_ns - m.stop_ns, m.excess_ns);
    return t.weighs_cost && loss * 10 > m.run_ns && !m.budget.Allows(loss);
  };
  const bool costs_much = costs_much_with(m.garbage_in_cycle_bytes);
  const bool is_good = !keeps_much && !costs_much;
  const bool minor = can && !asked && m.is_minor_next && !(m.is_minor_long && is_good);
  const bool full = can && !asked && !minor;
  uint64_t goal = t.short_pause_ns;
  if (t.pause_target_ns != 0 && t.pause_target_ns < goal) goal = t.pause_target_ns;
  const bool limited = full && t.automatic && m.is_near_limit;
  const bool is_short = full && !limited && m.expected_stop_ns < goal;
  if (asked) return {NextCollection::kConcurrent, Reason::kAsked, false};
  if (full && !limited && !is_short && is_good) {
    return {NextCollection::kConcurrent, Reason::kLongStop, false};
  }
  if (minor) return {NextCollection::kMinor, Reason::kYoungDie, true};
  return {NextCollection::kStop,
          !can                                ? Reason::kOnlyKind
          : limited                           ? Reason::kMemoryLimit
          : is_short                          ? Reason::kShortStop
          : keeps_much || !costs_much_with(0) ? Reason::kFastAllocation
                                              : Reason::kDearCycle,
          can};
}

TEST(NextCollectionTest, TheRuleToldFromTheKinds) {
  const unsigned seed = std::random_device{}();
  std::mt19937 random(seed);
  const auto any_of = [&random](auto... values) {
    const double all[] = {static_cast<double>(values)...};
    return all[random() % sizeof...(values)];
  };
  int seen[8] = {};
  for (int i = 0; i < 200'000; ++i) {
    Tunables t;
    t.concurrent_mark = random() % 8 != 0;
    t.automatic = random() % 2 != 0;
    t.weighs_cost = random() % 2 != 0;
    t.short_pause_ns = static_cast<uint64_t>(any_of(0, 1, kGoalNs));
    t.pause_target_ns = static_cast<uint64_t>(any_of(0, 1, kGoalNs, 2 * kGoalNs));
    Measurements m;
    m.is_cycle_wanted = random() % 8 == 0;
    m.is_minor_next = random() % 2 != 0;
    m.is_minor_long = random() % 2 != 0;
    m.is_near_limit = random() % 4 == 0;
    m.allowance_bytes = static_cast<ptrdiff_t>(any_of(0, kMiB, kAllowance));
    m.expected_stop_ns = static_cast<uint64_t>(any_of(0, kGoalNs - 1, kGoalNs, 1e12));
    m.garbage_in_cycle_bytes = any_of(-1, 0, kHalf - 1, kHalf, kHalf + 1, 1e12);
    m.cycle_ns = any_of(0, 1, kDear / 2, kDear, 1e9, 1e12);
    m.stop_ns = any_of(0, 1, kDear, 1e9);
    m.excess_ns = any_of(-1e9, 0, kDear, 1e12);
    m.run_ns = any_of(0, 1e9, 1e12);
    m.budget.Run(static_cast<uint64_t>(any_of(0, 50, 1e11)));
    m.budget.AddLoss(any_of(0, 1e9));
    const Decision expected = Expected(t, m);
    const Decision decision = Decide(t, m);
    ++seen[static_cast<int>(decision.reason)];
    ASSERT_EQ(decision.next, expected.next) << "seed " << seed << ", case " << i;
    ASSERT_STREQ(NameOf(decision.reason), NameOf(expected.reason)) << "seed " << seed;
    ASSERT_EQ(decision.stands, expected.stands) << "seed " << seed << ", case " << i;
  }
  for (const int times : seen) EXPECT_GT(times, 100);
}

TEST(NextCollectionTest, TheGoalsPriceIsTold) {
  Measurements m = LongStop();
  EXPECT_EQ(Decide(Automatic(), m).price, 0) << "a cycle costs nothing";
  m.cycle_ns = 0.25e9;
  m.stop_ns = 0.2e9;
  EXPECT_DOUBLE_EQ(Decide(Automatic(), m).price, 0.05);
  m.cycle_ns = 2.2e9;
  EXPECT_DOUBLE_EQ(Decide(Automatic(), m).price, 2);
  m.run_ns = 0;
  EXPECT_EQ(Decide(Automatic(), m).price, 0) << "not known";
  m = LongStop();
  m.cycle_ns = 1e9;
  m.expected_stop_ns = 0;
  EXPECT_EQ(Decide(Automatic(), m).price, 0) << "not weighed";
}

// Machines whose faults cost 0.5 to 200 us, with 1, 2 and 64 processors, and heaps of 1 MB to 100
// GB. A program that keeps one processor busy, or all, allocates its heap's size in a second for
// each GB and writes a hundredth, or all, of its heap in a cycle. Marking takes a nanosecond a
// byte. Decide keeps the goal if and only if that costs a tenth at most; whatever it takes costs at
// most a tenth of the time more than the other kind.
TEST(NextCollectionTest, OnNoMachineDoesTheGoalCostMoreThanATenth) {
  int kinds[4] = {};
  for (const double fault_ns : {500.0, 5'000.0, 50'000.0, 200'000.0}) {
    for (const double processors : {1.0, 2.0, 64.0}) {
      for (const double heap : {1e6, 1e7, 1e8, 1e9, 1e10, 1e11}) {
        for (const double busy : {1.0, processors}) {
          for (const double written : {0.01, 1.0}) {
            Measurements m;
            m.allowance_bytes = static_cast<ptrdiff_t>(heap);
            m.expected_stop_ns = static_cast<uint64_t>(heap / processors);
            m.stop_ns = busy * heap / processors;
            m.run_ns = busy * 1e9 * std::max(heap / 1e9, 0.1);
            const double taken = busy == processors ? 1 : 0;
            m.cycle_ns = taken * 1.5 * heap + written * heap / 4096 * fault_ns;
            const Decision decision = Decide(Automatic(), m);
            ++kinds[static_cast<int>(decision.next)];
            const double more = m.cycle_ns - m.stop_ns;
            if (decision.next == NextCollection::kConcurrent) {
              EXPECT_LE(more, m.run_ns / 10);
              EXPECT_GE(m.expected_stop_ns, kGoalNs);
            } else {
              EXPECT_TRUE(m.expected_stop_ns < kGoalNs || more > m.run_ns / 10);
              EXPECT_EQ(decision.next, NextCollection::kStop);
            }
          }
        }
      }
    }
  }
  EXPECT_GT(kinds[static_cast<int>(NextCollection::kConcurrent)], 10);
  EXPECT_GT(kinds[static_cast<int>(NextCollection::kStop)], 10);
}

TEST(NextCollectionTest, ACycleBeginsAsMuchBeforeTheEndAsCyclesTake) {
  EXPECT_EQ(BeginsAt(kAllowance, PTRDIFF_MAX), kAllowance / 2) << "before the first";
  EXPECT_EQ(BeginsAt(kAllowance, kAllowance), kAllowance / 2);
  EXPECT_EQ(BeginsAt(kAllowance, kAllowance / 2), kAllowance / 2);
  // A quarter more than they take, which may be more than half.
  EXPECT_EQ(BeginsAt(kAllowance, kAllowance / 2 - 4), kAllowance / 2 - kAllowance / 8 + 5);
  EXPECT_EQ(BeginsAt(kAllowance, 8 * kMiB), kAllowance - 10 * kMiB);
  EXPECT_EQ(BeginsAt(kAllowance, 0), kAllowance - kAllowance / 16);
  EXPECT_EQ(BeginsAt(kAllowance, -kAllowance), kAllowance - kAllowance / 16);
  EXPECT_EQ(BeginsAt(0, 0), 0);
}

// The pacer is told of allocation, and its allowance is a round number.
class ScheduleTest : public ::testing::Test {
 protected:
  void SetUp() override {
    PacerConfig config;
    config.stress_bytes = kAllowance;
    pacer_->Configure(config);
    ASSERT_EQ(pacer_->allowance(), kAllowance);
  }
  void AllocateUpTo(ptrdiff_t bytes) { pacer_->CountAllocated(bytes - pacer_->allocated()); }

  const std::unique_ptr<Pacer> pacer_ = std::make_unique<Pacer>();
  Schedule schedule_{*pacer_};
};

TEST_F(ScheduleTest, T4AndT5TheAllowanceIsUsedUpButForACycle) {
  AllocateUpTo(kAllowance / 2 - 1);
  EXPECT_FALSE(schedule_.IsTimeToDecide());
  AllocateUpTo(kAllowance / 2);
  EXPECT_TRUE(schedule_.IsTimeToDecide());
  schedule_.EndCycle(8 * kMiB);
  EXPECT_FALSE(schedule_.IsTimeToDecide());
  AllocateUpTo(kAllowance - 10 * kMiB - 1);
  EXPECT_FALSE(schedule_.IsTimeToDecide());
  AllocateUpTo(kAllowance - 10 * kMiB);
  EXPECT_TRUE(schedule_.IsTimeToDecide());
}

TEST_F(ScheduleTest, T4CyclesThatTakeMoreCountAtOnceAndThoseThatTakeLessInPart) {
  schedule_.EndCycle(8 * kMiB);
  schedule_.EndCycle(16 * kMiB);
  AllocateUpTo(kAllowance - 20 * kMiB);
  EXPECT_TRUE(schedule_.IsTimeToDecide());
  schedule_.EndCycle(8 * kMiB);  // counts as 14 MiB
  EXPECT_FALSE(schedule_.IsTimeToDecide());
  AllocateUpTo(kAllowance - 14 * kMiB * 5 / 4);
  EXPECT_TRUE(schedule_.IsTimeToDecide());
  AllocateUpTo(kAllowance - 14 * kMiB * 5 / 4 - 1);
  EXPECT_FALSE(schedule_.IsTimeToDecide());
}

TEST_F(ScheduleTest, T3HurryLastsUntilTheStop) {
  schedule_.Hurry();
  EXPECT_TRUE(schedule_.IsHurried());
  EXPECT_TRUE(schedule_.IsTimeToDecide());
  schedule_.BeginCycle();
  EXPECT_TRUE(schedule_.IsTimeToDecide());
  schedule_.BeginStop();
  EXPECT_FALSE(schedule_.IsHurried());
  EXPECT_FALSE(schedule_.IsTimeToDecide());
}

TEST_F(ScheduleTest, T2AShortMinorCollectionIsNotDecidedOn) {
  AllocateUpTo(kAllowance);
  schedule_.Hurry();
  schedule_.PrepareMinor(true, false);
  EXPECT_TRUE(schedule_.IsMinorNext());
  EXPECT_FALSE(schedule_.IsTimeToDecide());
  schedule_.PrepareMinor(true, true);
  EXPECT_TRUE(schedule_.IsTimeToDecide());
  schedule_.PrepareMinor(false, false);
  EXPECT_FALSE(schedule_.IsMinorNext());
  EXPECT_TRUE(schedule_.IsTimeToDecide());
}

TEST_F(ScheduleTest, T1AWantedCycleComesFirst) {
  schedule_.PrepareMinor(true, false);
  schedule_.WantCycle();
  EXPECT_TRUE(schedule_.IsTimeToDecide());
  schedule_.BeginStop();
  EXPECT_TRUE(schedule_.IsCycleWanted()) << "a stop is no cycle";
  schedule_.BeginCycle();
  EXPECT_FALSE(schedule_.IsCycleWanted());
  EXPECT_FALSE(schedule_.IsMinorNext()) << "the cycle has dropped the record of writes";
  EXPECT_FALSE(schedule_.IsTimeToDecide());
}

TEST_F(ScheduleTest, AFullCollectionThatIsDueForFinalizersIsNotMinor) {
  schedule_.PrepareMinor(true, false);
  const auto no_time = [] { return uint64_t{0}; };
  AllocateUpTo(kAllowance);
  ASSERT_TRUE(pacer_->WeighFinalizable(1000, 1 * kMiB, no_time));
  EXPECT_FALSE(schedule_.IsMinorNext());
  EXPECT_TRUE(schedule_.IsTimeToDecide());
}

TEST_F(ScheduleTest, TheHintIsThatOfTheLastDecision) {
  EXPECT_TRUE(schedule_.MayBeConcurrent()) << "it is undecided";
  EXPECT_EQ(schedule_.decision().next, NextCollection::kUndecided);
  schedule_.Set({NextCollection::kConcurrent, Reason::kLongStop, false});
  EXPECT_TRUE(schedule_.MayBeConcurrent());
  schedule_.Set({NextCollection::kStop, Reason::kShortStop, true});
  EXPECT_FALSE(schedule_.MayBeConcurrent());
  EXPECT_EQ(schedule_.decision().reason, Reason::kShortStop);
  schedule_.Set({NextCollection::kMinor, Reason::kYoungDie, true});
  EXPECT_FALSE(schedule_.MayBeConcurrent());
  schedule_.BeginStop();
  EXPECT_TRUE(schedule_.MayBeConcurrent());
  EXPECT_EQ(schedule_.decision().reason, Reason::kOnlyKind);
  EXPECT_FALSE(schedule_.decision().stands);
}

TEST_F(ScheduleTest, WhatTheScheduleKnowsIsAmongTheMeasurements) {
  Measurements found;
  schedule_.AddTo(&found);
  EXPECT_FALSE(found.is_cycle_wanted || found.is_minor_next || found.is_minor_long ||
               found.is_near_limit);
  EXPECT_EQ(found.allowance_bytes, kAllowance);
  schedule_.WantCycle();
  schedule_.PrepareMinor(true, true);
  schedule_.AddTo(&found);
  EXPECT_TRUE(found.is_cycle_wanted && found.is_minor_next && found.is_minor_long);
}

}  // namespace
}  // namespace gleaner::gc
