/*
 * Gleaner's own interface, beside the GC_ functions of gc.h. Everything here is prefixed gleaner_.
 * A program can ask at run time whether it runs on Gleaner: dlsym(RTLD_DEFAULT, "gleaner_version").
 */
#ifndef GLEANER_GLEANER_H
#define GLEANER_GLEANER_H

#include <stddef.h>
#include <stdint.h>

#ifndef GLEANER_API
#define GLEANER_API extern __attribute__((__visibility__("default")))
#endif

/* The version of these headers; gleaner_version() is that of the library in use. */
#define GLEANER_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version as "major.minor.micro", a constant string. Any thread, at any time. */
GLEANER_API const char *gleaner_version(void);

/*
 * Figures of the heap and of the collections so far. Times are nanoseconds of CLOCK_MONOTONIC,
 * sizes are bytes. Before the first collection everything but heap_bytes and metadata_bytes is 0.
 * Later versions add fields at the end only.
 */
struct gleaner_stats {
  uint64_t collections;      /* completed collections of the whole heap */
  uint64_t live_bytes;       /* in objects that the last collection found reachable */
  uint64_t heap_bytes;       /* obtained for objects and not returned to the system, now */
  uint64_t last_pause_ns;    /* how long the last collection held the threads stopped */
  uint64_t mean_pause_ns;    /* total_pause_ns / collections */
  uint64_t max_pause_ns;     /* the longest pause so far */
  uint64_t total_pause_ns;   /* all pauses together */
  uint64_t mark_ns;          /* the marking part of the last collection */
  uint64_t markers;          /* threads that marked in the last collection, its own included */
  uint64_t bytes_freed_last; /* in objects that the last collection found unreachable */
  uint64_t metadata_bytes;   /* the collector's own tables, resident or not, outside heap_bytes */
};

/* Fills the first min(size, sizeof(struct gleaner_stats)) bytes of *stats, with `size` the caller's
   sizeof, and returns how many bytes it filled. The figures belong together: none is taken before
   and another after a collection. Any thread, not inside a collection callback. */
GLEANER_API size_t gleaner_get_stats(struct gleaner_stats *stats, size_t size);

#ifdef __cplusplus
}
#endif

#endif
