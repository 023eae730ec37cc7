// Scan code in the vector instructions of x86-64 processors.
#pragma once

#include "gc/mark/scan.h"

namespace gleaner::gc {

// The first codes of FindScanCodes, without the scalar one. Returns their number; 0 on other
// processors.
size_t FindVectorScanCodes(ScanCode* codes);

}  // namespace gleaner::gc
