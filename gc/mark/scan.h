// First step of a scan: find the words of a block that could be heap pointers.
//
// A branch-free filter compacts them into a buffer; the marker's second step resolves them. A
// branch for each word costs 5-10 times as much, since it is unpredictable whether a word is a
// pointer.
#pragma once

#include "alloc/page.h"

namespace gleaner::gc {

// Maximum of words scanned in one call. A filter's output needs this room and kFilterSlack.
inline constexpr size_t kScanWords = 512;
inline constexpr size_t kFilterSlack = 8;

// Keeps a word, or a vector of words, in a register: the compiler must not load again, for a second
// use, what another thread may write meanwhile (GCC 12 does so).
#define GLEANER_LOADED_ONCE(constraint, word) asm("" : "+" constraint(word))

// Copies the words w of [words, words + count) with w - base < bytes to `out`, in order, and
// returns their number. Writes at most kFilterSlack words past the last. The words may be memory
// that other threads write: what is copied is what was compared.
using FilterFunction = size_t (*)(const Addr* words, size_t count, Addr base, size_t bytes,
                                  Addr* out);

// Second step for many words at once. Drops words whose slot is marked already, not allocated, or
// in the waste at the end of a page; keeps words whose slot is white, and all words that do not
// point to a page of small slots. In long arrays nearly all pointers are dropped here, at a third
// of the cost of resolving them one by one. The mark bytes are read without a prefetch: the groups
// of words in a vector are independent, so many reads are under way at once.
struct SelectContext {
  Addr base;
  const void* info;      // alloc::PageInfo of page 0
  const uint8_t* marks;  // mark bytes of page 0
  uint8_t white;         // a mask
  size_t hole_begin;     // first page whose descriptor must not be read
  size_t hole_pages;     // number of such pages
};
// Works in place on `count` words inside the reservation; returns the number of words kept.
// Writes at most kFilterSlack - 1 words past the last, none if `count` is a multiple of
// kFilterSlack.
using SelectFunction = size_t (*)(const SelectContext& context, Addr* words, size_t count);

// Both steps in instructions that some processors have.
struct ScanCode {
  const char* name;  // as in the option mark_instructions
  FilterFunction filter;
  SelectFunction select;    // null: the caller resolves every word
  size_t min_select_words;  // fewer words are resolved without select, which is faster then
};

// The codes that this processor can run, best first; the scalar one is the last. Returns their
// number.
inline constexpr size_t kMaxScanCodes = 3;
size_t FindScanCodes(ScanCode (&codes)[kMaxScanCodes]);

}  // namespace gleaner::gc
