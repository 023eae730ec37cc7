#include "alloc/sampler.h"

namespace gleaner::alloc {

constinit size_t g_sample_mean_bytes = 0;
constinit uint64_t g_sample_seed = 0;

namespace {

// -ln(x) for x = bits / 2^53, 0 < bits <= 2^53, to 9 digits. The library has no libm.
double NegativeLog(uint64_t bits) {
  // x = m / 2^halvings with 1 <= m < 2, and ln(m) = 2 artanh((m - 1) / (m + 1)).
  const int zeros = __builtin_clzll(bits);
  const int halvings = zeros - 10;  // 2^53 has 10 zeros before it
  const double m = static_cast<double>(bits << zeros) / 0x1p63;
  const double z = (m - 1) / (m + 1);
  const double z2 = z * z;
  double sum = 0;
  for (int n = 17; n >= 1; n -= 2) sum = sum * z2 + 1.0 / n;
  constexpr double kLn2 = 0.69314718055994531;
  return halvings * kLn2 - 2 * z * sum;
}

}  // namespace

uint64_t SampleDistance(uint64_t random_bits, size_t mean_bytes) {
  if (mean_bytes <= 1) return 1;
  const double distance = NegativeLog((random_bits >> 11) + 1) * static_cast<double>(mean_bytes);
  return static_cast<uint64_t>(distance) + 1;
}

uint64_t Sampler::Draw() {
  random_ += 0x9e3779b97f4a7c15u;
  return SampleDistance(Mix64(random_), g_sample_mean_bytes);
}

size_t Sampler::Cut(Kind kind, size_t size_class, size_t slot_bytes, size_t window) {
  uint64_t& left = left_[static_cast<size_t>(kind)][size_class];
  if (left == 0) left = Draw();
  if (left <= slot_bytes) {
    left = 0;
    due_ = true;
    return slot_bytes;
  }
  const uint64_t whole = (left - 1) / slot_bytes * slot_bytes;  // ends before the sampled object
  if (window > whole) window = whole;
  left -= window;
  return window;
}

bool Sampler::IsLargeSampled(size_t bytes) {
  if (left_large_ == 0) left_large_ = Draw();
  if (left_large_ > bytes) {
    left_large_ -= bytes;
    return false;
  }
  left_large_ = 0;
  return true;
}

}  // namespace gleaner::alloc
