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

}  // namespace gleaner::gc
