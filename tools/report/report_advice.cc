// Each rule is a function of the model that returns its evidence, or nothing if its law does not
// hold. The laws ask for a share that a program notices: the constants below.
#include "tools/report/report_advice.h"

#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "tools/common/text.h"
#include "tools/report/report_figures.h"

namespace gleaner::tools {

using gc::CollectionKind;
using gc::PausePart;
using platform::StallCause;

namespace {

// Of the time of the run, or of its threads: what is worth a change.
constexpr double kNoticed = 0.01;
constexpr double kMuch = 0.1;
// Of a sum: what dominates.
constexpr double kQuarter = 0.25;
constexpr double kThird = 1.0 / 3;
// Collections of the whole heap that say something of a trend.
constexpr size_t kTrend = 8;
constexpr double kLargeBytes = 16e6;

double Ratio(double a, double b) { return b > 0 ? a / b : 0; }
double Ratio(uint64_t a, uint64_t b) {
  return Ratio(static_cast<double>(a), static_cast<double>(b));
}

uint64_t PausedNs(const ReportModel& model) { return LengthOf(model.pauses); }
double PausedShare(const ReportModel& model) { return Ratio(PausedNs(model), model.run_ns); }

uint64_t MutatorNs(const ReportModel& model) {
  uint64_t ns = 0;
  for (const auto& [number, thread] : model.threads) {
    if (thread.role == platform::TraceRole::kMutator) {
      ns += thread.life.end_ns - thread.life.begin_ns;
    }
  }
  return ns;
}

uint64_t AllStallsNs(const ReportModel& model) {
  uint64_t ns = 0;
  for (const StallSums& sums : model.stalls) ns += sums.total_ns;
  return ns;
}
const StallSums& StallsBy(const ReportModel& model, StallCause cause) {
  return model.stalls[static_cast<size_t>(cause)];
}
uint64_t PartNs(const ReportModel& model, PausePart part) {
  return model.parts_ns[static_cast<size_t>(part)];
}

// Live bytes at the collections of the whole heap, in order of time.
std::vector<uint64_t> LiveBytes(const ReportModel& model) {
  std::vector<uint64_t> live;
  for (const CollectionRow& row : model.collections) {
    if (row.kind != CollectionKind::kMinor) live.push_back(row.live_bytes);
  }
  return live;
}

uint64_t Median(const std::vector<uint64_t>& values, size_t begin, size_t end) {
  return Quantile({values.begin() + static_cast<ptrdiff_t>(begin),
                   values.begin() + static_cast<ptrdiff_t>(end)},
                  0.5);
}

// The share of their time for which the program's threads were ready to run and had no processor.
double WaitedShare(const ReportModel& model) { return Ratio(model.waited_ns, MutatorNs(model)); }
bool WantsProcessors(const ReportModel& model) { return WaitedShare(model) >= kMuch / 2; }
// Whether they were so for at least half of this time. Then it says how busy the machine was, and
// not what would help on one that is free.
bool IsForWantOfProcessors(const ReportModel& model, uint64_t ns) {
  return WantsProcessors(model) && model.waited_ns >= ns / 2;
}

// Stalls of a cause that are a quarter of all stalls, and of the time of the program's threads at
// least `noticed`.
std::string DominantStalls(const ReportModel& model, StallCause cause, double noticed) {
  const StallSums& sums = StallsBy(model, cause);
  const double of_threads = Ratio(sums.total_ns, MutatorNs(model));
  if (of_threads < noticed || Ratio(sums.total_ns, AllStallsNs(model)) < kQuarter ||
      IsForWantOfProcessors(model, sums.total_ns)) {
    return "";
  }
  return Count(sums.count) + " stalls took " + Duration(sums.total_ns) + ", which is " +
         Share(of_threads) + " of the time of the program’s threads and " +
         Share(Ratio(sums.total_ns, AllStallsNs(model))) + " of all stalls; the longest took " +
         Duration(sums.longest_ns) + ".";
}

// Parts of the pauses that are together at least `share` of them.
std::string DominantParts(const ReportModel& model, std::initializer_list<PausePart> parts,
                          double share) {
  const uint64_t all = std::accumulate(model.parts_ns.begin(), model.parts_ns.end(), uint64_t{0});
  uint64_t ns = 0;
  std::string names;
  for (const PausePart part : parts) {
    ns += PartNs(model, part);
    names += (names.empty() ? "“" : " and “") + std::string(NameOf(part)) + "”";
  }
  if (PausedShare(model) < kNoticed || Ratio(ns, all) < share) return "";
  return "Of all pauses " + names + (parts.size() == 1 ? " takes " : " take ") +
         Share(Ratio(ns, all)) + ": " + Duration(ns) + " of " + Duration(all) + ".";
}

std::string HeapTooSmall(const ReportModel& model) {
  const uint64_t assist_ns = StallsBy(model, StallCause::kAssist).total_ns;
  const double assisted = Ratio(assist_ns, MutatorNs(model));
  const double cost = PausedShare(model) + assisted;
  if (IsForWantOfProcessors(model, PausedNs(model) + assist_ns)) return "";
  double fill = 0;
  for (const CollectionRow& row : model.collections) {
    fill += Ratio(row.live_bytes, row.resident_bytes);
  }
  fill = Ratio(fill, static_cast<double>(model.collections.size()));
  if (cost < kMuch || fill < 0.4) return "";
  return Count(model.collections.size()) + " collections stopped the program for " +
         Share(PausedShare(model)) + " of the run (" + Duration(PausedNs(model)) + " of " +
         Duration(model.run_ns) + "), and its threads helped or waited for cycles " +
         Share(assisted) + " of their time. After a collection live objects filled " + Share(fill) +
         " of the resident heap on average.";
}

std::string NoProcessor(const ReportModel& model) {
  if (!WantsProcessors(model)) return "";
  return "The program’s threads were ready to run and had no processor for " +
         Duration(model.waited_ns) + ", which is " + Share(WaitedShare(model)) + " of their time.";
}

std::string PausesAboveGoal(const ReportModel& model) {
  const uint64_t goal_ns = model.tracking.goal_ns;
  if (goal_ns == 0 || model.collections.empty() || IsForWantOfProcessors(model, PausedNs(model))) {
    return "";
  }
  uint64_t above = 0;
  uint64_t longest_ns = 0;
  std::map<std::string, uint64_t> why;
  for (const CollectionRow& row : model.collections) {
    longest_ns = std::max(longest_ns, row.pause_ns);
    if (row.pause_ns <= goal_ns) continue;
    ++above;
    ++why[std::string(NameOf(row.kind)) + " (" + NameOf(row.reason) + ")"];
  }
  if (Ratio(above, model.collections.size()) < kNoticed) return "";
  const auto most = std::max_element(
      why.begin(), why.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return Count(above) + " of " + Count(model.collections.size()) + " pauses exceed the goal of " +
         Duration(goal_ns) + "; the longest took " + Duration(longest_ns) + ". " +
         Count(most->second) + " of these were of the kind " + most->first + ".";
}

std::string HelpersIdle(const ReportModel& model) {
  uint64_t mark_ns = 0;
  uint64_t looking_ns = 0;
  size_t helpers = 0;
  for (const auto& [worker, marker] : model.markers) {
    if (worker == 0) continue;
    ++helpers;
    mark_ns += marker.mark_ns;
    looking_ns += marker.looking_ns;
  }
  const double share = Ratio(looking_ns, mark_ns);
  if (helpers == 0 || share < 0.5 || Ratio(model.marking_ns, model.run_ns) < kNoticed) return "";
  return Count(helpers) + (helpers == 1 ? " helper" : " helpers") + " looked for work " +
         Share(share) + " of the time spent in marking (" + Duration(looking_ns) + " of " +
         Duration(mark_ns) + ").";
}

std::string RootsDominate(const ReportModel& model) {
  return DominantParts(model, {PausePart::kRoots}, kThird);
}
std::string StoppingDominates(const ReportModel& model) {
  return DominantParts(model, {PausePart::kStop, PausePart::kResume}, kThird);
}
std::string DirtyDominates(const ReportModel& model) {
  return DominantParts(model, {PausePart::kDirty}, kThird);
}
std::string WeakDominates(const ReportModel& model) {
  const std::string part = DominantParts(model, {PausePart::kWeak}, kQuarter);
  uint64_t finalizable = 0;
  for (const CollectionRow& row : model.collections) finalizable += row.finalizable;
  return part.empty() ? "" : part + " " + Count(finalizable) + " objects were finalized.";
}

std::string LiveGrows(const ReportModel& model) {
  const std::vector<uint64_t> live = LiveBytes(model);
  if (live.size() < kTrend) return "";
  uint64_t medians[4];
  for (size_t i = 0; i < 4; ++i) {
    medians[i] = Median(live, live.size() * i / 4, live.size() * (i + 1) / 4);
    if (i != 0 && Ratio(medians[i], medians[i - 1]) < 1.2) return "";
  }
  return "By quarters of the collections the median of live memory is " +
         Bytes(static_cast<double>(medians[0])) + ", " + Bytes(static_cast<double>(medians[1])) +
         ", " + Bytes(static_cast<double>(medians[2])) + " and " +
         Bytes(static_cast<double>(medians[3])) + ": it grew by a fifth or more each time.";
}

std::string LiveJumps(const ReportModel& model) {
  const std::vector<uint64_t> live = LiveBytes(model);
  const size_t half = live.size() / 2;
  if (live.size() - half < kTrend) return "";
  const uint64_t median = Median(live, half, live.size());
  const auto begin = live.begin() + static_cast<ptrdiff_t>(half);
  const uint64_t peak = *std::max_element(begin, live.end());
  const auto high = std::count_if(begin, live.end(),
                                  [median](uint64_t bytes) { return Ratio(bytes, median) > 1.5; });
  const auto share = Ratio(static_cast<uint64_t>(high), live.size() - half);
  if (Ratio(peak, median) < 2 || share > kQuarter || live.back() > median + median / 2) return "";
  return "In the second half of the run " + Count(static_cast<uint64_t>(high)) + " of " +
         Count(live.size() - half) + " collections found up to " +
         Bytes(static_cast<double>(peak)) + " live; the median is " +
         Bytes(static_cast<double>(median)) + ", to which it came back.";
}

std::string Sparse(const ReportModel& model) {
  double page_bytes = 0;
  double used_bytes = 0;
  for (const SizeClassRow& row : model.classes) {
    if (row.slot_bytes == 0) continue;
    page_bytes += static_cast<double>(row.pages * model.page_bytes());
    used_bytes += static_cast<double>(row.used_slots * row.slot_bytes);
  }
  if (page_bytes < kLargeBytes || used_bytes > page_bytes / 2) return "";
  return "At the end of the trace small objects filled " + Share(Ratio(used_bytes, page_bytes)) +
         " of their pages: " + Bytes(used_bytes) + " of " + Bytes(page_bytes) + ".";
}

std::string MuchFree(const ReportModel& model) {
  if (model.levels.empty() || model.collections.empty()) return "";
  const LevelRow& last = model.levels.back();
  const auto live = static_cast<double>(model.collections.back().live_bytes);
  const auto resident = static_cast<double>(last.resident_bytes);
  if (resident < kLargeBytes || resident < 4 * live) return "";
  return "At the end " + Bytes(resident) + " were resident for " + Bytes(live) +
         " of live objects; " + Bytes(static_cast<double>(last.free_bytes)) +
         " of it was free pages.";
}

std::string WriteFaults(const ReportModel& model) {
  const std::string stalls = DominantStalls(model, StallCause::kWriteFault, kNoticed);
  return stalls.empty() ? ""
                        : stalls + " Writes are tracked by " +
                              platform::TraitsOf(model.tracking.kind).name + ".";
}

std::string NoTracker(const ReportModel& model) {
  if (!model.tracking.is_known || model.tracking.kind != platform::TrackingKind::kNone ||
      model.tracking.reason.empty() || model.collections.empty()) {
    return "";
  }
  uint64_t longest_ns = 0;
  for (const CollectionRow& row : model.collections) {
    longest_ns = std::max(longest_ns, row.pause_ns);
  }
  return Count(model.collections.size()) + " collections stopped the program for all of their " +
         "marking, the longest for " + Duration(longest_ns) +
         ", as no mechanism that tracks writes could be used (" + model.tracking.reason + ").";
}

std::string Throttled(const ReportModel& model) {
  return DominantStalls(model, StallCause::kAssist, kNoticed);
}
std::string AllocationStalls(const ReportModel& model) {
  return DominantStalls(model, StallCause::kAllocation, kNoticed);
}

std::string Overruns(const ReportModel& model) {
  uint64_t overruns = 0;
  uint64_t cycles = 0;
  for (const CollectionRow& row : model.collections) {
    overruns += row.kind == CollectionKind::kOverrun;
    cycles += row.kind == CollectionKind::kOverrun || row.kind == CollectionKind::kConcurrent;
  }
  if (overruns < 2 || Ratio(overruns, cycles) < kMuch) return "";
  return Count(overruns) + " of " + Count(cycles) +
         " concurrent cycles had to be finished in a stop, since the program had allocated more "
         "than its allowance.";
}

std::string AskedFor(const ReportModel& model) {
  const auto asked = static_cast<uint64_t>(
      std::count_if(model.collections.begin(), model.collections.end(),
                    [](const CollectionRow& row) { return row.cause == gc::Cause::kExplicit; }));
  if (PausedShare(model) < kNoticed || Ratio(asked, model.collections.size()) < 0.5) return "";
  return Count(asked) + " of " + Count(model.collections.size()) +
         " collections were asked for by the program, and all pauses together are " +
         Share(PausedShare(model)) + " of the run.";
}

struct Rule {
  const char* name;
  const char* title;
  std::string (*evidence)(const ReportModel& model);
  const char* action;
  const char* document;
};

const Rule kRules[] = {
    {"no-processor", "Threads wait for processors", NoProcessor,
     "Other programs, or more threads than there are processors, had them. Pauses and stalls are "
     "longer by that time, and no setting of the heap makes them shorter: measure where processors "
     "are free, or run fewer threads.",
     "docs/reference/statistics.md#stalls"},
    {"heap-too-small", "The heap is too small for what is live", HeapTooSmall,
     "A larger heap is collected less often: lower GLEANER_FREE_SPACE_DIVISOR (1 or 2), or give a "
     "size with GLEANER_INITIAL_HEAP; see whether GLEANER_MAX_HEAP or a memory limit holds it "
     "down.",
     "docs/design/policy.md#the-law"},
    {"pauses-above-goal", "Pauses are longer than the goal", PausesAboveGoal,
     "Let collections run concurrently (GLEANER_MODE=concurrent) where they were stop-parallel; "
     "where the reason is “fast allocation”, the program builds data faster than it can be "
     "marked.",
     "docs/design/policy.md#what-is-decided"},
    {"helpers-idle", "Markers find little to do", HelpersIdle,
     "The heap is a chain or has few references to share: fewer markers (GLEANER_MARKERS) do as "
     "well, and leave processors to the program.",
     "docs/design/collection.md#marking"},
    {"roots-dominate", "Roots dominate the pauses", RootsDominate,
     "Many threads, deep stacks or large static data are listed in each pause: keep large tables "
     "of pointers in the heap, exclude data that holds none (GC_exclude_static_roots).",
     "docs/design/collection.md#roots"},
    {"stopping-dominates", "Stopping and resuming threads dominates the pauses", StoppingDominates,
     "More threads run than there are processors, or some block signals for long. Threads that "
     "wait, or compute without references to the heap, need no stop in GC_do_blocking.",
     "docs/design/collection.md#stopping"},
    {"rescanning-dominates", "Written memory dominates the pauses", DirtyDominates,
     "The program writes all over the heap while it is marked: fewer writes to old objects, or "
     "stop-parallel collections (GLEANER_MODE=stop) if their pauses do.",
     "docs/design/concurrent_cycle.md#the-steps"},
    {"weak-dominates", "Finalizers and links dominate the pauses", WeakDominates,
     "Register finalizers and disappearing links for fewer objects: those that own something "
     "outside the heap.",
     "docs/design/collection.md#finalizers-and-links"},
    {"live-grows", "Live memory grew all along", LiveGrows,
     "The program is still building its data; or it keeps what it does not need (a leak); or words "
     "that only look like references keep it (false retention): ask who keeps an object.",
     "docs/reference/heap.md#from-it-grows-to-the-line"},
    {"live-jumps", "False retention suspected", LiveJumps,
     "Something large was live now and then: a phase of the program, or words left over in stacks "
     "and registers that kept dead structures. Clear pointers to large structures when they are "
     "done with.",
     "docs/figures/performance.md#what-is-found-after-its-last-use"},
    {"sparse-pages", "Pages of small objects are half empty", Sparse,
     "Few live objects keep many pages: objects that live long are scattered among those that die. "
     "Allocate them together, at a time of their own.",
     "docs/design/lps_and_tree_fit.md#the-bound-and-its-slack"},
    {"much-free", "Most of the heap is free", MuchFree,
     "The heap has been larger: free memory goes back after six collections, or at once after "
     "GC_gcollect_and_unmap.",
     "docs/design/policy.md#growth"},
    {"write-faults", "Write faults dominate the stalls", WriteFaults,
     "Each first write to a tracked page is a signal: let the kernel’s userfaultfd do it, or mark "
     "stop-parallel (GLEANER_MODE=stop).",
     "docs/design/write_tracking.md#what-it-costs"},
    {"no-tracker", "Writes cannot be tracked", NoTracker,
     "Allow the mechanism that the system refuses, or choose one with GLEANER_WRITE_TRACKING.",
     "docs/design/write_tracking.md#choice"},
    {"throttled", "Threads wait for concurrent marking", Throttled,
     "The program allocates faster than the background markers mark: give them more processors "
     "(GLEANER_BACKGROUND_MARKERS), or the heap more room (GLEANER_FREE_SPACE_DIVISOR).",
     "docs/design/concurrent_cycle.md#who-is-throttled"},
    {"allocation-stalls", "Threads wait for memory", AllocationStalls,
     "Threads take pages that are new, or each other’s. Memory that is used again costs less: a "
     "higher GLEANER_FREE_SPACE_DIVISOR collects more often. A heap that begins large "
     "(GLEANER_INITIAL_HEAP) is spared the steps in which it grows, but not its new pages.",
     "docs/reference/statistics.md#stalls"},
    {"overruns", "Cycles end too late", Overruns,
     "Have cycles begin and mark earlier: more room (GLEANER_FREE_SPACE_DIVISOR), more background "
     "markers (GLEANER_BACKGROUND_MARKERS).",
     "docs/design/concurrent_cycle.md#who-is-throttled"},
    {"asked-for", "The program asks for collections itself", AskedFor,
     "Calls of GC_gcollect are seldom needed: the collector knows when one pays.",
     "docs/design/policy.md#pacing"},
};

}  // namespace

std::vector<Advice> Advise(const ReportModel& model) {
  std::vector<Advice> advice;
  for (const Rule& rule : kRules) {
    std::string evidence = rule.evidence(model);
    if (evidence.empty()) continue;
    advice.push_back({rule.name, rule.title, std::move(evidence), rule.action, rule.document});
  }
  return advice;
}

}  // namespace gleaner::tools
