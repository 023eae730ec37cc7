// First step of a scan: which words of a block could be heap pointers?
//
// A branch-free filter compacts them into a buffer; resolving them is the marker's second step. A
// branch a word costs 5-10 times as much, since whether a word is a pointer is unpredictable
// (DESIGN.md 5).
#pragma once

#include "platform/base.h"

namespace gleaner::gc {

// Words scanned in one go, and so the room a filter's output needs (plus one vector of slack).
inline constexpr size_t kScanWords = 512;
inline constexpr size_t kFilterSlack = 8;

// Copies the words w of [words, words + count) with w - base < bytes to `out`, in order, and returns
// how many. Writes at most kFilterSlack words past the last. Reads memory that others may own.
using FilterFunction = size_t (*)(const Addr* words, size_t count, Addr base, size_t bytes,
                                  Addr* out);

size_t FilterScalar(const Addr* words, size_t count, Addr base, size_t bytes, Addr* out);
#if defined(__x86_64__)
size_t FilterAvx512(const Addr* words, size_t count, Addr base, size_t bytes, Addr* out);
#endif

// The fastest this processor has.
FilterFunction ChooseFilter();

}  // namespace gleaner::gc
