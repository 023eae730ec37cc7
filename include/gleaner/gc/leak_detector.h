/*
 * Turns the malloc family of one source file into allocations that are checked for leaks.
 *
 * Include it last, in every source of the program whose blocks are to be checked, and set
 * GC_find_leak (or the environment variable GC_FIND_LEAK) before the first allocation. A block that
 * nothing points to, and that was not freed, is then reported by the next collection with the place
 * that allocated it. CHECK_LEAKS() collects; a program may define it to something else first.
 *
 * Macros a program may define before the inclusion:
 *   GC_DONT_INCLUDE_STDLIB  do not include <stdlib.h> and <string.h>, where the plain names are
 *                           declared. Including them later would trip over the macros.
 *   GC_REQUIRE_WCSDUP       wcsdup too, with <wchar.h>.
 */
#ifndef GC_LEAK_DETECTOR_H
#define GC_LEAK_DETECTOR_H

/* Allocations record their place. */
#ifndef GC_DEBUG
#define GC_DEBUG
#endif
#include "gc.h"

#ifndef GC_DONT_INCLUDE_STDLIB
#include <stdlib.h>
#include <string.h>
#endif

#undef malloc
#undef calloc
#undef realloc
#undef free
#define malloc(size) GC_MALLOC(size)
#define calloc(count, size) GC_MALLOC((count) * (size))
#define realloc(block, size) GC_REALLOC(block, size)
#define free(block) GC_FREE(block)

#undef strdup
#undef strndup
#define strdup(text) GC_STRDUP(text)
#define strndup(text, max) GC_STRNDUP(text, max)
#ifdef GC_REQUIRE_WCSDUP
#include <wchar.h>
#undef wcsdup
#define wcsdup(text) GC_WCSDUP(text)
#endif

#undef memalign
#undef posix_memalign
#define memalign(align, size) GC_memalign(align, size)
#define posix_memalign(result, align, size) GC_posix_memalign(result, align, size)

#ifndef CHECK_LEAKS
#define CHECK_LEAKS() GC_gcollect()
#endif

#endif
