#include "tools/report/report_advice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <set>

namespace gleaner::tools {
namespace {

using platform::StallCause;

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kMb = 1'000'000;

// A run of a second in which nothing stands out: ten collections of 0.1 ms, mostly marking.
ReportModel QuietRun() {
  ReportModel model;
  model.run_ns = 1000 * kMs;
  model.tracking = {true, platform::TrackingKind::kUserfaultfd, true, false, true, 10 * kMs, ""};
  for (uint64_t i = 0; i < 10; ++i) {
    CollectionRow row;
    row.at_ns = (i + 1) * 90 * kMs;
    row.number = i + 1;
    row.cause = gc::Cause::kAllocation;
    row.pause_ns = kMs / 10;
    row.live_bytes = 20 * kMb;
    row.resident_bytes = 40 * kMb;
    model.collections.push_back(row);
    model.pauses.push_back({row.at_ns - row.pause_ns, row.at_ns});
    model.parts_ns[static_cast<size_t>(gc::PausePart::kMark)] += row.pause_ns;
  }
  model.levels.push_back({0, 40 * kMb, 20 * kMb, kMb, 100 * kMb});
  model.threads[1].life = {0, model.run_ns};
  model.classes.push_back({32, 2000, 0, 2000 * 400});
  return model;
}

void Pause(ReportModel* model, uint64_t ns, gc::PausePart part) {
  model->pauses = {{0, ns}};
  model->parts_ns[static_cast<size_t>(part)] += ns;
}
void Stall(ReportModel* model, StallCause cause, uint64_t ns) {
  model->stalls[static_cast<size_t>(cause)] = {10, ns, ns / 2};
}

std::set<std::string> RulesThatSpeak(const ReportModel& model) {
  std::set<std::string> rules;
  for (const Advice& advice : Advise(model)) rules.insert(advice.rule);
  return rules;
}

TEST(ReportAdviceTest, NothingStandsOutOfNothing) {
  EXPECT_EQ(RulesThatSpeak(ReportModel()), std::set<std::string>());
  EXPECT_EQ(RulesThatSpeak(QuietRun()), std::set<std::string>());
}

// What makes one rule speak, and what nearly does.
struct Case {
  const char* rule;
  std::function<void(ReportModel*)> speaks;
  std::function<void(ReportModel*)> is_silent;
};

void SetMarkers(ReportModel* model, uint64_t looking_ns) {
  model->marking_ns = 100 * kMs;
  model->markers[0] = {{}, 100 * kMs, 0, 0, 0};
  model->markers[1] = {{}, 100 * kMs, looking_ns, 0, 0};
}
void SetLive(ReportModel* model, const std::function<uint64_t(size_t)>& bytes) {
  CollectionRow row = model->collections.front();
  model->collections.assign(32, row);
  for (size_t i = 0; i < 32; ++i) {
    model->collections[i].live_bytes = bytes(i);
    model->collections[i].resident_bytes = 400 * kMb;
  }
}
void SetKinds(ReportModel* model, size_t overruns) {
  for (size_t i = 0; i < model->collections.size(); ++i) {
    model->collections[i].kind =
        i < overruns ? gc::CollectionKind::kOverrun : gc::CollectionKind::kConcurrent;
  }
}
void AskFor(ReportModel* model, size_t collections) {
  Pause(model, 20 * kMs, gc::PausePart::kMark);
  for (size_t i = 0; i < collections; ++i) model->collections[i].cause = gc::Cause::kExplicit;
}
void Lose(ReportModel* model, const char* reason) {
  model->tracking.kind = platform::TrackingKind::kNone;
  model->tracking.reason = reason;
}

void Wait(ReportModel* model, uint64_t ns) { model->waited_ns = ns; }

const Case kCases[] = {
    {"no-processor", [](ReportModel* m) { Wait(m, 60 * kMs); },
     [](ReportModel* m) { Wait(m, 40 * kMs); }},
    {"heap-too-small", [](ReportModel* m) { Pause(m, 120 * kMs, gc::PausePart::kMark); },
     [](ReportModel* m) { Pause(m, 80 * kMs, gc::PausePart::kMark); }},
    {"pauses-above-goal", [](ReportModel* m) { m->collections[3].pause_ns = 11 * kMs; },
     [](ReportModel* m) { m->collections[3].pause_ns = 10 * kMs; }},
    {"helpers-idle", [](ReportModel* m) { SetMarkers(m, 60 * kMs); },
     [](ReportModel* m) { SetMarkers(m, 40 * kMs); }},
    {"roots-dominate", [](ReportModel* m) { Pause(m, 20 * kMs, gc::PausePart::kRoots); },
     [](ReportModel* m) { Pause(m, 5 * kMs, gc::PausePart::kRoots); }},
    {"stopping-dominates", [](ReportModel* m) { Pause(m, 20 * kMs, gc::PausePart::kStop); },
     [](ReportModel* m) { Pause(m, 5 * kMs, gc::PausePart::kResume); }},
    {"rescanning-dominates", [](ReportModel* m) { Pause(m, 20 * kMs, gc::PausePart::kDirty); },
     [](ReportModel* m) { Pause(m, 5 * kMs, gc::PausePart::kDirty); }},
    {"weak-dominates", [](ReportModel* m) { Pause(m, 20 * kMs, gc::PausePart::kWeak); },
     [](ReportModel* m) { Pause(m, 5 * kMs, gc::PausePart::kWeak); }},
    {"live-grows", [](ReportModel* m) { SetLive(m, [](size_t i) { return (10 + i * 3) * kMb; }); },
     [](ReportModel* m) { SetLive(m, [](size_t i) { return (100 + i % 9) * kMb; }); }},
    {"live-jumps",
     [](ReportModel* m) { SetLive(m, [](size_t i) { return (i == 24 ? 250 : 100) * kMb; }); },
     [](ReportModel* m) { SetLive(m, [](size_t i) { return (i == 24 ? 190 : 100) * kMb; }); }},
    {"sparse-pages", [](ReportModel* m) { m->classes[0].used_slots = 2000 * 200; },
     [](ReportModel* m) {
       m->classes[0] = {32, 500, 0, 500 * 100};
     }},
    {"much-free", [](ReportModel* m) { m->collections.back().live_bytes = 9 * kMb; },
     [](ReportModel* m) { m->collections.back().live_bytes = 11 * kMb; }},
    {"write-faults", [](ReportModel* m) { Stall(m, StallCause::kWriteFault, 20 * kMs); },
     [](ReportModel* m) { Stall(m, StallCause::kWriteFault, 9 * kMs); }},
    {"no-tracker", [](ReportModel* m) { Lose(m, "userfaultfd: PAGEMAP_SCAN (errno 1)"); },
     [](ReportModel* m) { Lose(m, ""); }},
    {"throttled", [](ReportModel* m) { Stall(m, StallCause::kAssist, 20 * kMs); },
     [](ReportModel* m) { Stall(m, StallCause::kAssist, 9 * kMs); }},
    {"allocation-stalls", [](ReportModel* m) { Stall(m, StallCause::kAllocation, 20 * kMs); },
     [](ReportModel* m) { Stall(m, StallCause::kAllocation, 9 * kMs); }},
    {"overruns", [](ReportModel* m) { SetKinds(m, 2); }, [](ReportModel* m) { SetKinds(m, 1); }},
    {"asked-for", [](ReportModel* m) { AskFor(m, 5); }, [](ReportModel* m) { AskFor(m, 4); }},
};

TEST(ReportAdviceTest, ARuleSpeaksIfItsLawHolds) {
  for (const Case& each : kCases) {
    ReportModel model = QuietRun();
    each.speaks(&model);
    EXPECT_EQ(RulesThatSpeak(model), std::set<std::string>{each.rule});
    model = QuietRun();
    each.is_silent(&model);
    EXPECT_EQ(RulesThatSpeak(model), std::set<std::string>()) << "nearly " << each.rule;
  }
}

// What a machine without a free processor explains is not put down to the heap.
TEST(ReportAdviceTest, NothingIsBlamedForWantOfProcessors) {
  for (const char* rule :
       {"heap-too-small", "pauses-above-goal", "write-faults", "throttled", "allocation-stalls"}) {
    const auto* each = std::find_if(std::begin(kCases), std::end(kCases), [rule](const Case& one) {
      return std::string(one.rule) == rule;
    });
    ASSERT_NE(each, std::end(kCases));
    ReportModel model = QuietRun();
    each->speaks(&model);
    Wait(&model, 60 * kMs);
    EXPECT_EQ(RulesThatSpeak(model), std::set<std::string>{"no-processor"}) << rule;
  }
}

TEST(ReportAdviceTest, AdviceHasItsFigure) {
  for (const Case& each : kCases) {
    ReportModel model = QuietRun();
    each.speaks(&model);
    for (const Advice& advice : Advise(model)) {
      EXPECT_NE(advice.evidence.find_first_of("0123456789"), std::string::npos) << each.rule;
    }
  }
}

}  // namespace
}  // namespace gleaner::tools
