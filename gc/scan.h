// First step of a scan: which words of a block could be heap pointers?
//
// A branch-free filter compacts them into a buffer; resolving them is the marker's second step. A
// branch a word costs 5-10 times as much, since whether a word is a pointer is unpredictable.
#pragma once

#include "alloc/page.h"

namespace gleaner::gc {

// Words scanned in one go, and so the room a filter's output needs (plus one vector of slack).
inline constexpr size_t kScanWords = 512;
inline constexpr size_t kFilterSlack = 8;

// Copies the words w of [words, words + count) with w - base < bytes to `out`, in order, and
// returns how many. Writes at most kFilterSlack words past the last. Reads memory that others may
// own.
using FilterFunction = size_t (*)(const Addr* words, size_t count, Addr base, size_t bytes,
                                  Addr* out);

size_t FilterScalar(const Addr* words, size_t count, Addr base, size_t bytes, Addr* out);
#if defined(__x86_64__)
size_t FilterAvx512(const Addr* words, size_t count, Addr base, size_t bytes, Addr* out);
#endif

// The fastest this processor has.
FilterFunction ChooseFilter();

// Second step for many words at once: which of them does the marker still have to look at? Drops
// those whose slot is marked already, or not allocated, or in the waste at the end of a page; keeps
// white ones and all that do not lie on a page of small slots. In long arrays nearly all pointers
// are dropped here, at a third of the cost of resolving them one by one. The mark bytes are read
// without waiting for a prefetch: the groups of eight are independent, so many reads are under way
// at once.
struct SelectContext {
  Addr base;
  const void* info;      // alloc::PageInfo of page 0
  const uint8_t* marks;  // of page 0
  uint8_t white;         // a mask
  size_t hole_begin;     // pages whose descriptors are not looked at
  size_t hole_pages;
};
// In place: `words` are `count` words inside the reservation; returns how many are left.
using SelectFunction = size_t (*)(const SelectContext& context, Addr* words, size_t count);

#if defined(__x86_64__)
size_t SelectAvx512(const SelectContext& context, Addr* words, size_t count);
#endif

// Null where there is none: then every word is resolved.
SelectFunction ChooseSelect();

}  // namespace gleaner::gc
