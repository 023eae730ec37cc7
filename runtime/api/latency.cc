// gleaner.h: pauses and stalls.
#include "platform/os/stalls.h"
#include "runtime/api/api.h"

using platform::StallCause;
using platform::StallHistogram;

namespace {

static_assert(GLEANER_STALL_ALLOCATION == static_cast<int>(StallCause::kAllocation));
static_assert(GLEANER_STALL_WRITE_FAULT == static_cast<int>(StallCause::kWriteFault));
static_assert(GLEANER_STALL_ASSIST == static_cast<int>(StallCause::kAssist));
static_assert(GLEANER_STALL_WAIT == static_cast<int>(StallCause::kWait));
static_assert(GLEANER_STALL_PAUSE == static_cast<int>(StallCause::kPause));

// False, after a message, if there is no such cause.
bool ReadStallsOf(const char* call, int cause, StallHistogram* out) {
  if (cause >= 0 && cause < platform::kStallCauses) {
    ReadStalls(static_cast<StallCause>(cause), out);
    return true;
  }
  if (cause != GLEANER_STALL_ANY) {
    Complain("%s: there is no cause %d", call, cause);
    return false;
  }
  StallHistogram part;
  for (int i = 0; i < platform::kStallCauses; ++i) {
    ReadStalls(static_cast<StallCause>(i), &part);
    out->Add(part);
  }
  return true;
}

}  // namespace

extern "C" {

size_t gleaner_get_pause_parts(int which, gleaner_pause_parts* parts, size_t size) {
  if (RejectNull("gleaner_get_pause_parts", "the result", parts)) return 0;
  gc::PauseTimes times;
  {
    platform::LockGuard guard(gc::g_collector.lock());
    const gc::CollectorTotals& totals = gc::g_collector.totals();
    switch (which) {
      case GLEANER_PAUSE_LAST:
        times = gc::g_collector.last().pause;
        break;
      case GLEANER_PAUSE_LONGEST:
        times = totals.longest_pause;
        break;
      case GLEANER_PAUSE_TOTAL:
        times = totals.pauses;
        break;
      case GLEANER_PAUSE_MAXIMA:
        times = totals.longest_parts;
        break;
      default:
        Complain("gleaner_get_pause_parts: there is no pause %d", which);
        return 0;
    }
  }
  using gc::PausePart;
  const gleaner_pause_parts all = {
      times.all_ns,
      times.of(PausePart::kStop),
      times.of(PausePart::kRoots),
      times.of(PausePart::kDirty),
      times.of(PausePart::kMark),
      times.of(PausePart::kWeak),
      times.of(PausePart::kSweep),
      times.of(PausePart::kResume),
  };
  return CopyOut(parts, size, &all, sizeof all);
}

size_t gleaner_get_stall_stats(int cause, gleaner_stall_stats* stats, size_t size) {
  if (RejectNull("gleaner_get_stall_stats", "the result", stats)) return 0;
  StallHistogram stalls;
  if (!ReadStallsOf("gleaner_get_stall_stats", cause, &stalls)) return 0;
  const gleaner_stall_stats all = {stalls.count,         stalls.total_ns,
                                   stalls.max_ns,        stalls.Quantile(500),
                                   stalls.Quantile(990), stalls.Quantile(999)};
  return CopyOut(stats, size, &all, sizeof all);
}

size_t gleaner_get_stall_histogram(int cause, gleaner_stall_bucket* buckets, size_t capacity) {
  if (capacity != 0 && RejectNull("gleaner_get_stall_histogram", "the result", buckets)) return 0;
  StallHistogram stalls;
  if (!ReadStallsOf("gleaner_get_stall_histogram", cause, &stalls)) return 0;
  size_t found = 0;
  for (int i = 0; i < platform::kStallBuckets; ++i) {
    if (stalls.buckets[i] == 0) continue;
    if (found < capacity) {
      const uint64_t until =
          i + 1 < platform::kStallBuckets ? platform::StallBucketBegin(i + 1) : UINT64_MAX;
      buckets[found] = {platform::StallBucketBegin(i), until, stalls.buckets[i]};
    }
    ++found;
  }
  return found;
}

}  // extern "C"
