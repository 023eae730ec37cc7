#include "gc/scan.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace gleaner::gc {

GLEANER_NO_SANITIZE size_t FilterScalar(const Addr* words, size_t count, Addr base, size_t bytes,
                                        Addr* out) {
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    const Addr word = words[i];
    out[kept] = word;
    kept += word - base < bytes ? 1 : 0;
  }
  return kept;
}

#if defined(__x86_64__)
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
    const __m512i word = _mm512_maskz_loadu_epi64(valid, words + i);
    const __mmask8 inside =
        _mm512_mask_cmplt_epu64_mask(valid, _mm512_sub_epi64(word, low), length);
    _mm512_storeu_si512(out + kept, _mm512_maskz_compress_epi64(inside, word));
    kept += static_cast<size_t>(__builtin_popcount(inside));
  }
  return kept;
}
#endif

#if defined(__x86_64__)
// Layout of PageInfo's first word and of the mark table, as the vector code below computes with it.
static_assert(sizeof(alloc::PageInfo) == 16 && offsetof(alloc::PageInfo, slot_count) == 6);
static_assert(alloc::kPageShift == 14 && alloc::kMarkBytesPerPage == 1024);

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
#endif

#if defined(__x86_64__)
namespace {

// Whether the processor has AVX-512 and the system saves its registers. (The compiler's own
// __builtin_cpu_supports would bring a global constructor with it.)
__attribute__((target("xsave"))) bool HasAvx512() {
  unsigned a, b, c, d;
  if (__get_cpuid_count(1, 0, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0) return false;
  constexpr unsigned long long kZmmState = 0xe6;  // SSE, AVX, opmask, both halves of ZMM
  if ((_xgetbv(0) & kZmmState) != kZmmState) return false;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_AVX512F) != 0;
}

}  // namespace
#endif

FilterFunction ChooseFilter() {
#if defined(__x86_64__)
  if (HasAvx512()) return FilterAvx512;
#endif
  return FilterScalar;
}

SelectFunction ChooseSelect() {
#if defined(__x86_64__)
  if (HasAvx512()) return SelectAvx512;
#endif
  return nullptr;
}

}  // namespace gleaner::gc
