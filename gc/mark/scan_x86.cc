// The whole file is for x86-64; on other processors there is no vector code.
#include "gc/mark/scan_x86.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

// GCC 12 warns of variables of its own headers for AVX-512.
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace gleaner::gc {
namespace {

// Layout of PageInfo's first word and of the mark table, as the vector code below computes with it.
static_assert(sizeof(alloc::PageInfo) == 16 && offsetof(alloc::PageInfo, slot_count) == 6);
static_assert(alloc::kPageShift == 14 && alloc::kMarkBytesPerPage == 1024);

// --- AVX-512: eight words at a time ---

GLEANER_NO_SANITIZE __attribute__((target("avx512f"))) size_t FilterAvx512(const Addr* words,
                                                                           size_t count, Addr base,
                                                                           size_t bytes,
                                                                           Addr* out) {
  const __m512i low = _mm512_set1_epi64(static_cast<long long>(base));
  const __m512i length = _mm512_set1_epi64(static_cast<long long>(bytes));
  size_t kept = 0;
  for (size_t i = 0; i < count; i += 8) {
    const size_t left = count - i;
    const auto valid = static_cast<__mmask8>(left >= 8 ? 0xff : (1u << left) - 1);
    __m512i word = _mm512_maskz_loadu_epi64(valid, words + i);
    GLEANER_LOADED_ONCE("v", word);
    const __mmask8 inside =
        _mm512_mask_cmplt_epu64_mask(valid, _mm512_sub_epi64(word, low), length);
    _mm512_storeu_si512(out + kept, _mm512_maskz_compress_epi64(inside, word));
    kept += static_cast<size_t>(__builtin_popcount(inside));
  }
  return kept;
}

GLEANER_NO_SANITIZE __attribute__((target("avx512f"))) size_t SelectAvx512(
    const SelectContext& context, Addr* words, size_t count) {
  const __m512i base = _mm512_set1_epi64(static_cast<long long>(context.base));
  const __m512i page_mask = _mm512_set1_epi64(alloc::kPageBytes - 1);
  const __m512i white = _mm512_set1_epi64(context.white);
  const __m512i hole_begin = _mm512_set1_epi64(static_cast<long long>(context.hole_begin));
  const __m512i hole_pages = _mm512_set1_epi64(static_cast<long long>(context.hole_pages));
  size_t kept = 0;
  for (size_t i = 0; i < count; i += 8) {
    const size_t left = count - i;
    const auto valid = static_cast<__mmask8>(left >= 8 ? 0xff : (1u << left) - 1);
    const __m512i word = _mm512_maskz_loadu_epi64(valid, words + i);
    const __m512i page = _mm512_srli_epi64(_mm512_sub_epi64(word, base), alloc::kPageShift);
    const __mmask8 outside =
        _mm512_mask_cmpge_epu64_mask(valid, _mm512_sub_epi64(page, hole_begin), hole_pages);
    // Descriptors are 16 bytes; the gather's scale reaches 8.
    const __m512i info = _mm512_mask_i64gather_epi64(_mm512_setzero_si512(), outside,
                                                     _mm512_slli_epi64(page, 1), context.info, 8);
    const __m512i slot = _mm512_srli_epi64(
        _mm512_mul_epu32(_mm512_and_si512(word, page_mask), info), 32);  // the reciprocal is low
    const __m512i slot_count = _mm512_srli_epi64(info, 48);
    const __mmask8 small = _mm512_mask_cmplt_epu64_mask(outside, slot, slot_count);
    const __mmask8 other = _mm512_mask_testn_epi64_mask(valid, slot_count, slot_count);
    // The mark byte, by way of the aligned four bytes it lies in.
    const __m512i index = _mm512_add_epi64(_mm512_slli_epi64(page, 10), slot);
    const __m512i aligned = _mm512_andnot_epi64(_mm512_set1_epi64(3), index);
    const __m512i four = _mm512_cvtepu32_epi64(
        _mm512_mask_i64gather_epi32(_mm256_setzero_si256(), small, aligned, context.marks, 1));
    const __m512i shift = _mm512_slli_epi64(_mm512_and_si512(index, _mm512_set1_epi64(3)), 3);
    const __m512i mark = _mm512_srlv_epi64(four, shift);  // in the lowest byte
    const auto keep =
        static_cast<__mmask8>(other | _mm512_mask_test_epi64_mask(small, mark, white));
    _mm512_storeu_si512(words + kept, _mm512_maskz_compress_epi64(keep, word));
    kept += static_cast<size_t>(__builtin_popcount(keep));
  }
  return kept;
}

// --- AVX2: four words at a time ---

// For each set of lanes of 64 bits: the permutation of halves that moves these lanes to the front.
struct Permutations {
  alignas(32) uint32_t of[16][8];
};
constexpr Permutations MakePermutations() {
  Permutations made = {};
  for (uint32_t lanes = 0; lanes < 16; ++lanes) {
    uint32_t to = 0;
    for (uint32_t lane = 0; lane < 4; ++lane) {
      if ((lanes >> lane & 1) == 0) continue;
      made.of[lanes][to++] = 2 * lane;
      made.of[lanes][to++] = 2 * lane + 1;
    }
  }
  return made;
}
constexpr Permutations kToFront = MakePermutations();

// The sign bit of each lane, as a set of lanes.
__attribute__((target("avx2"))) inline unsigned LanesOf(__m256i lanes) {
  return static_cast<unsigned>(_mm256_movemask_pd(_mm256_castsi256_pd(lanes)));
}

// Stores the lanes at `out`, in order, and up to four words in all. Returns the number of lanes.
__attribute__((target("avx2,popcnt"))) inline size_t StoreLanes(Addr* out, __m256i words,
                                                                unsigned lanes) {
  const __m256i order = _mm256_load_si256(reinterpret_cast<const __m256i*>(kToFront.of[lanes]));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), _mm256_permutevar8x32_epi32(words, order));
  return static_cast<size_t>(__builtin_popcount(lanes));
}

// a < b, unsigned; the instructions compare signed numbers.
__attribute__((target("avx2"))) inline __m256i IsBelow(__m256i a, __m256i b) {
  const __m256i sign = _mm256_set1_epi64x(INT64_MIN);
  return _mm256_cmpgt_epi64(_mm256_xor_si256(b, sign), _mm256_xor_si256(a, sign));
}

// All bits of the first `left` lanes; of all if there are more.
__attribute__((target("avx2"))) inline __m256i FirstLanes(size_t left) {
  const auto count = static_cast<long long>(left < 4 ? left : 4);
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(count), _mm256_setr_epi64x(0, 1, 2, 3));
}

GLEANER_NO_SANITIZE __attribute__((target("avx2,popcnt"))) size_t FilterAvx2(
    const Addr* words, size_t count, Addr base, size_t bytes, Addr* out) {
  const __m256i low = _mm256_set1_epi64x(static_cast<long long>(base));
  const __m256i length = _mm256_set1_epi64x(static_cast<long long>(bytes));
  size_t kept = 0;
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    __m256i word = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(words + i));
    GLEANER_LOADED_ONCE("x", word);
    kept += StoreLanes(out + kept, word, LanesOf(IsBelow(_mm256_sub_epi64(word, low), length)));
  }
  if (i == count) return kept;
  const __m256i valid = FirstLanes(count - i);
  __m256i word = _mm256_maskload_epi64(reinterpret_cast<const long long*>(words + i), valid);
  GLEANER_LOADED_ONCE("x", word);
  const __m256i inside = IsBelow(_mm256_sub_epi64(word, low), length);
  return kept + StoreLanes(out + kept, word, LanesOf(_mm256_and_si256(inside, valid)));
}

GLEANER_NO_SANITIZE __attribute__((target("avx2,popcnt"))) size_t SelectAvx2(
    const SelectContext& context, Addr* words, size_t count) {
  const __m256i base = _mm256_set1_epi64x(static_cast<long long>(context.base));
  const __m256i page_mask = _mm256_set1_epi64x(alloc::kPageBytes - 1);
  const __m256i white = _mm256_set1_epi64x(context.white);
  const __m256i hole_begin = _mm256_set1_epi64x(static_cast<long long>(context.hole_begin));
  const __m256i hole_pages = _mm256_set1_epi64x(static_cast<long long>(context.hole_pages));
  const __m256i three = _mm256_set1_epi64x(3);
  const __m256i zero = _mm256_setzero_si256();
  size_t kept = 0;
  for (size_t i = 0; i < count; i += 4) {
    const __m256i valid = FirstLanes(count - i);
    const __m256i word =
        _mm256_maskload_epi64(reinterpret_cast<const long long*>(words + i), valid);
    const __m256i page = _mm256_srli_epi64(_mm256_sub_epi64(word, base), alloc::kPageShift);
    const __m256i in_hole = IsBelow(_mm256_sub_epi64(page, hole_begin), hole_pages);
    // Descriptors are 16 bytes; the gather's scale reaches 8.
    const __m256i info = _mm256_mask_i64gather_epi64(
        zero, static_cast<const long long*>(context.info), _mm256_slli_epi64(page, 1),
        _mm256_andnot_si256(in_hole, valid), 8);
    const __m256i slot = _mm256_srli_epi64(
        _mm256_mul_epu32(_mm256_and_si256(word, page_mask), info), 32);  // the reciprocal is low
    const __m256i slot_count = _mm256_srli_epi64(info, 48);
    const __m256i small = _mm256_cmpgt_epi64(slot_count, slot);
    const __m256i other = _mm256_and_si256(_mm256_cmpeq_epi64(slot_count, zero), valid);
    // The mark byte, by way of the aligned four bytes it lies in.
    const __m256i index = _mm256_add_epi64(_mm256_slli_epi64(page, 10), slot);
    const __m256i even_halves = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
    const __m128i small_halves =
        _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(small, even_halves));
    const __m256i four = _mm256_cvtepu32_epi64(_mm256_mask_i64gather_epi32(
        _mm_setzero_si128(), reinterpret_cast<const int*>(context.marks),
        _mm256_andnot_si256(three, index), small_halves, 1));
    const __m256i shift = _mm256_slli_epi64(_mm256_and_si256(index, three), 3);
    const __m256i mark = _mm256_srlv_epi64(four, shift);  // in the lowest byte
    const __m256i is_not_white = _mm256_cmpeq_epi64(_mm256_and_si256(mark, white), zero);
    const __m256i keep = _mm256_or_si256(other, _mm256_andnot_si256(is_not_white, small));
    kept += StoreLanes(words + kept, word, LanesOf(keep));
  }
  return kept;
}

// Select pays if many words are dropped, as in long arrays. Objects of up to eight words make at
// most 71 words pending, most of which are kept.
constexpr size_t kMinSelectAvx2 = 72;

// Whether the system saves these parts of the registers. (The compiler's own
// __builtin_cpu_supports would bring a global constructor with it.)
__attribute__((target("xsave"))) bool SystemSaves(unsigned long long state) {
  unsigned a, b, c, d;
  return __get_cpuid_count(1, 0, &a, &b, &c, &d) != 0 && (c & bit_OSXSAVE) != 0 &&
         (_xgetbv(0) & state) == state;
}

}  // namespace

size_t FindVectorScanCodes(ScanCode* codes) {
  constexpr unsigned long long kYmmState = 0x06;  // SSE, AVX
  constexpr unsigned long long kZmmState = 0xe6;  // these, opmask, both halves of ZMM
  unsigned a, b, c, d;
  if (!SystemSaves(kYmmState) || __get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return 0;
  size_t count = 0;
  if ((b & bit_AVX512F) != 0 && SystemSaves(kZmmState)) {
    codes[count++] = {"avx512", FilterAvx512, SelectAvx512, 0};
  }
  if ((b & bit_AVX2) != 0) {  // popcnt is older
    codes[count++] = {"avx2", FilterAvx2, SelectAvx2, kMinSelectAvx2};
  }
  return count;
}

}  // namespace gleaner::gc

#else

namespace gleaner::gc {

size_t FindVectorScanCodes(ScanCode*) { return 0; }

}  // namespace gleaner::gc

#endif
