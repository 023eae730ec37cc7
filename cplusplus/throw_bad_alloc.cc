// GC_throw_bad_alloc of gc_cpp.h: the whole of libgctba, and part of libgccpp.
#include <new>

#include "gc/gc_cpp.h"

void GC_CALL GC_throw_bad_alloc() { throw std::bad_alloc(); }
