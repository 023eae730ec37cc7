#include "runtime/debug/latency.h"

#include <cstdio>

#include "gc/collector.h"
#include "platform/os/stalls.h"
#include "runtime/collect/tracking.h"
#include "runtime/process/printing.h"

namespace gleaner::runtime {

using platform::StallCause;
using platform::StallHistogram;

namespace {

double Ms(uint64_t ns) { return static_cast<double>(ns) / 1e6; }

void PrintPauses(Stream stream) {
  const gc::CollectorTotals& totals = gc::g_collector.totals();
  const auto line = [stream](const char* name, uint64_t total_ns, uint64_t in_longest_ns,
                             uint64_t max_ns) {
    Print(stream, "gleaner:   %-12s %12.3f %12.3f %12.3f\n", name, Ms(total_ns), Ms(in_longest_ns),
          Ms(max_ns));
  };
  Print(stream, "gleaner: pauses of %llu collections, ms:\n",
        AsNumber(totals.collections - totals.inspections));
  Print(stream, "gleaner:   %-12s %12s %12s %12s\n", "part", "total", "in longest", "longest");
  for (int i = 0; i < gc::kPauseParts; ++i) {
    line(NameOf(static_cast<gc::PausePart>(i)), totals.pauses.part_ns[i],
         totals.longest_pause.part_ns[i], totals.longest_parts.part_ns[i]);
  }
  line("all", totals.pauses.all_ns, totals.longest_pause.all_ns, totals.longest_parts.all_ns);
  if (totals.minors == 0) return;
  Print(stream, "gleaner: of these, %llu minor collections, %.3f ms\n", AsNumber(totals.minors),
        Ms(totals.minor_ns));
}

void PrintStallsOf(Stream stream, const char* name, const StallHistogram& stalls) {
  Print(stream, "gleaner:   %-12s %12llu %12.3f %10.4f %10.4f %10.4f %10.4f\n", name,
        AsNumber(stalls.count), Ms(stalls.total_ns), Ms(stalls.Quantile(500)),
        Ms(stalls.Quantile(990)), Ms(stalls.Quantile(999)), Ms(stalls.max_ns));
}

}  // namespace

void PrintCollection() {
  const gc::CycleReport& r = gc::g_collector.last();
  char parts[gc::kPauseParts * 32];
  size_t length = 0;
  for (int i = 0; i < gc::kPauseParts; ++i) {
    length += static_cast<size_t>(
        snprintf(parts + length, sizeof parts - length, "%s%s %.3f", i == 0 ? "" : ", ",
                 NameOf(static_cast<gc::PausePart>(i)), Ms(r.pause.part_ns[i])));
    if (length >= sizeof parts) length = sizeof parts - 1;
  }
  Log("gleaner: gc %llu (%s): live %.3f MB in %llu objects, freed %.3f MB, heap %.3f MB, pause "
      "%.3f ms (%s), %d marker%s, %llu finalizable%s\n",
      AsNumber(r.number), NameOf(r.cause), static_cast<double>(r.live_bytes) / 1e6,
      AsNumber(r.live_objects), static_cast<double>(r.freed_bytes) / 1e6,
      static_cast<double>(r.resident_bytes) / 1e6, Ms(r.pause.all_ns), parts, r.markers,
      r.markers == 1 ? "" : "s", AsNumber(r.finalizable),
      r.minor        ? ", minor"
      : r.overrun    ? ", overrun"
      : r.concurrent ? ", concurrent"
                     : "");
  if (IsAutomatic() && r.reason != gc::Reason::kOnlyKind) {
    char price[64] = "";
    if (r.price > 0) {
      snprintf(price, sizeof price, "; a cycle costs %.1f %% of the program's time", 100 * r.price);
    }
    Log("gleaner: gc %llu was chosen for: %s; expected stop %.3f ms%s\n", AsNumber(r.number),
        NameOf(r.reason), Ms(r.expected_ns), price);
  }
}

void PrintLatency(Stream stream) {
  PrintPauses(stream);
  Print(stream, "gleaner: stalls of threads, ms:\n");
  Print(stream, "gleaner:   %-12s %12s %12s %10s %10s %10s %10s\n", "cause", "stalls", "total",
        "p50", "p99", "p99.9", "longest");
  StallHistogram all;
  StallHistogram stalls;
  for (int i = 0; i < platform::kStallCauses; ++i) {
    const auto cause = static_cast<StallCause>(i);
    ReadStalls(cause, &stalls);
    PrintStallsOf(stream, NameOf(cause), stalls);
    all.Add(stalls);
  }
  PrintStallsOf(stream, "any", all);
}

}  // namespace gleaner::runtime
