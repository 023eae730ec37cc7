// How many markers begin a marking, by what the last one was like.
//
// n markers mark for T(n) = W / n + c(n): W is the work of all together, and c(n) what it takes to
// wake them and to bring work to each. Both go on in a tree, in which those who have work divide it
// with others, so c(n) = a log2 n. What n markers have shown tells W and a:
//
//   W = T(n) A,  a = (T(n) - W / n) / log2 n,  where A is the parallelism, the mean number of
//                                              markers at work
//
// and T is least where its derivative is zero, with n' = W ln 2 / a = ln 2 log2 n A / (1 - A / n)
// markers. Where A is less than it has to be for n' = 2 after n = 2, that is 2 / (1 + ln 2), there
// was no work for several: of a list, c(n) is nearly all of T(n). Two begin then, and after two
// one. So a heap that is small, or narrow, begins with few, and one that keeps nearly all busy with
// all that there are. A helper that waits for its processor counts as one without work: where other
// programs use the processors, fewer are woken.
//
// The number is that of the start. While they mark, markers with work to divide wake more.
#pragma once

#include "platform/os/base.h"

namespace gleaner::gc {

// What a marking was like. All zero: there was none.
struct MarkingTimes {
  uint64_t elapsed_ns = 0;
  uint64_t busy_ns = 0;  // sum over the workers of the time in which they marked
  int workers = 0;       // that took part

  // Workers that marked, in the mean over the time. 1 to workers.
  double Parallelism() const {
    const double mean =
        static_cast<double>(busy_ns) / static_cast<double>(elapsed_ns == 0 ? 1 : elapsed_ns);
    return !(mean > 1) || workers < 2 ? 1 : mean < workers ? mean : workers;
  }
};

// For a marking like `last` with at most `max` workers: how many begin. 1 to max.
int MarkersAtStart(const MarkingTimes& last, int max);

}  // namespace gleaner::gc
