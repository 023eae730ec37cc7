#include "gc/mark/scan.h"

#include "gc/mark/scan_x86.h"

namespace gleaner::gc {
namespace {

GLEANER_NO_SANITIZE size_t FilterScalar(const Addr* words, size_t count, Addr base, size_t bytes,
                                        Addr* out) {
  size_t kept = 0;
  for (size_t i = 0; i < count; ++i) {
    Addr word = words[i];
    GLEANER_LOADED_ONCE("r", word);
    out[kept] = word;
    kept += word - base < bytes ? 1 : 0;
  }
  return kept;
}

}  // namespace

size_t FindScanCodes(ScanCode (&codes)[kMaxScanCodes]) {
  size_t count = FindVectorScanCodes(codes);
  codes[count++] = {"scalar", FilterScalar, nullptr, 0};
  return count;
}

}  // namespace gleaner::gc
