// Which functions of the API the process calls.
#pragma once

namespace gleaner::runtime {

// Whether GC_malloc and GC_malloc_atomic are this library's for the whole process. They are another
// object's if it comes first in the search order: one that counts calls, or another collector.
bool AreAllocationFunctionsOwn();

}  // namespace gleaner::runtime
