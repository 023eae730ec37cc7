/* The short spelling, #include <gc.h>. Everything is in gc/gc.h. */
#include "gc/gc.h"
