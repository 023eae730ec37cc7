// graph_torture, with the fast path of GC_MALLOC and GC_MALLOC_ATOMIC compiled into the program.
#define GLEANER_INLINE_MALLOC
#include "graph_torture.cc"  // NOLINT(bugprone-suspicious-include)
