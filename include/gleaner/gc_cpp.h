/* The short spelling, #include <gc_cpp.h>. Everything is in gc/gc_cpp.h. */
#include "gc/gc_cpp.h"
