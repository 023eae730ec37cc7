/*
 * Gleaner's own interface, in addition to the GC_ functions of gc.h. All names begin with gleaner_.
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
  uint64_t collections;       /* completed collections */
  uint64_t live_bytes;        /* bytes of objects that the last collection found reachable */
  uint64_t heap_bytes;        /* obtained for objects and not returned to the system, now */
  uint64_t last_pause_ns;     /* how long the last collection held the threads stopped */
  uint64_t mean_pause_ns;     /* the mean of the pauses of total_pause_ns */
  uint64_t max_pause_ns;      /* the longest pause so far */
  uint64_t total_pause_ns;    /* all pauses, but for those of heap snapshots and leak reports */
  uint64_t mark_ns;           /* time that the last collection spent marking */
  uint64_t markers;           /* marking threads of the last collection, with the collecting one */
  uint64_t bytes_freed_last;  /* bytes of objects that the last collection found unreachable */
  uint64_t metadata_bytes;    /* the collector's own tables, resident or not, outside heap_bytes */
  uint64_t minor_collections; /* collections that looked at young objects only */
  uint64_t minor_pause_ns;    /* pauses of all minor collections together */
  uint64_t concurrent_collections; /* collections that marked concurrently */
  uint64_t concurrent_sweeps;      /* collections that swept concurrently */
  uint64_t allocated_bytes; /* since the last collection, less what was freed, as far as threads
                               have reported it */
  uint64_t allowance_bytes; /* with this much in allocated_bytes the next collection is due */
  uint64_t pages_taken;     /* times that a thread began to allocate small objects in a page */
  uint64_t remote_pages;    /* of these, in a page on another memory node; where there is one node,
                               in a page that another thread had touched first */
  uint64_t first_write_ns;  /* what the program's first write to a page takes while writes are
                               tracked, as measured last; 0 before */
};

/* Fills the first min(size, sizeof(struct gleaner_stats)) bytes of *stats, with `size` the caller's
   sizeof, and returns how many bytes it filled. The figures are consistent: all are read between
   the same two collections. Returns 0 after a message if `stats` is NULL. Any thread, not inside a
   collection callback; takes the allocation lock. */
GLEANER_API size_t gleaner_get_stats(struct gleaner_stats *stats, size_t size);

/* Writes the heap profile to the file, for pprof (docs/reference/heap.md): which objects
   have been sampled so far, and which of these the last collection has not found dead. A heap
   profile of that name is replaced. Returns 0, or the number of an error: ENOTSUP if nothing is
   sampled (GLEANER_PROFILE), EINVAL if `path` is NULL, EEXIST if the file is something else, EBUSY
   if another thread writes a profile or another process this file; else what the system says. Any
   thread, not inside a collection callback or a signal handler. */
GLEANER_API int gleaner_write_heap_profile(const char *path);

/*
 * Modes of collection that need to know what the program writes, and the mechanism that tracks
 * writes for them: docs/design/write_tracking.md.
 */
struct gleaner_modes {
  int concurrent;       /* 1: collections that allocation causes mark concurrently */
  int generational;     /* 1: some of these collections look at young objects only */
  const char *tracking; /* "userfaultfd", "soft-dirty", "mprotect" or "cards"; "none" if neither */
  char reason[160];     /* text: why no better mechanism is in use, or why none is; "" if the best
                           is in use, or no mode is wanted */
  int automatic;        /* 1: the program has asked for no mode, and the collector chooses among the
                           kinds of collection that are possible (GLEANER_MODE=auto) */
};

/* Fills the first min(size, sizeof(struct gleaner_modes)) bytes of *modes, with `size` the caller's
   sizeof, and returns how many bytes it filled. The answer is of this moment: the system may stop
   supporting a mechanism, and another one is chosen after the next collection. Returns 0 after a
   message if `modes` is NULL. Any thread, not inside a collection callback. */
GLEANER_API size_t gleaner_get_modes(struct gleaner_modes *modes, size_t size);

/* Sets how long a collection should stop the program, in nanoseconds, where the collector chooses
   the kind of collection (GLEANER_MODE=auto, the default): where a stop is expected to take longer,
   marking is concurrent, if the program leaves time for it. 0 is taken as 1. The next collection
   counts. Without this call and without GLEANER_PAUSE_GOAL it is 10 ms, as long as that costs the
   program little: docs/design/policy.md. Any thread, at any time. */
GLEANER_API void gleaner_set_pause_goal(uint64_t nanoseconds);
GLEANER_API uint64_t gleaner_get_pause_goal(void);

/* Sets a soft limit on the anonymous resident memory of the whole process, in bytes: near it the
   heap is collected more often, and free memory returns to the system. If that would take more than
   half of the processor time, the limit is let go, with one warning (GC_set_warn_proc). 0 stands
   for nine tenths of what the process's control group (cgroup) may have, UINT64_MAX for no limit.
   The next collection counts. The first value is that of GLEANER_MEMORY_LIMIT, 0. The getter
   returns the limit in force, 0 if there is none; the group's is looked up once the heap has 8 MiB.
   Any thread, not inside a collection callback. */
GLEANER_API void gleaner_set_memory_limit(uint64_t bytes);
GLEANER_API uint64_t gleaner_get_memory_limit(void);

/* Why the last collection was of its kind. Later versions add fields at the end only. */
struct gleaner_choice {
  uint64_t collection;  /* its number, counted from 1; 0 if there was none */
  int concurrent;       /* 1: it marked concurrently */
  int minor;            /* 1: it looked at young objects only */
  const char *reason;   /* "only kind", "asked for", "young die", "short stop", "long stop",
                           "fast allocation", "memory limit" or "dear cycle": docs/design/policy.md */
  uint64_t expected_ns; /* how long it was expected to stop the program; if it marked concurrently,
                           how long a stop-parallel one was expected to */
  uint64_t actual_ns;   /* how long it stopped the program */
  uint64_t price_permille; /* what concurrent marking was expected to cost the program more than a
                              stop, in thousandths of its processor time; at most 10^9. 0: nothing,
                              or it was not weighed. Up to 100 it is paid to keep the pause goal,
                              and any price if the program has set the goal */
};

/* Fills the first min(size, sizeof(struct gleaner_choice)) bytes of *choice, with `size` the
   caller's sizeof, and returns how many bytes it filled. Returns 0 after a message if `choice` is
   NULL. Any thread, not inside a collection callback; takes the allocation lock. */
GLEANER_API size_t gleaner_get_choice(struct gleaner_choice *choice, size_t size);

/*
 * The barrier: stores of pointers into objects that tell the collector, in a few instructions each.
 * With it, concurrent collections need no write tracking by the system. It is for programs and
 * compilers that use it for every such store, also for those that initialise a new object. They
 * declare that by GC_set_manual_vdb_allowed(1) before GC_enable_incremental, or run with
 * GLEANER_WRITE_TRACKING=cards: docs/design/write_tracking.md. In C++, gc::ptr of gleaner.hpp uses
 * it.
 *
 *     GLEANER_STORE(&node->next, other);                           node->next = other
 *     memcpy(to, from, bytes); gleaner_mark_cards(to, bytes);      while `from` is reachable
 *
 * The barrier is needed for fields and elements of all objects that are searched for pointers,
 * uncollectable ones too. It is harmless anywhere else, and while no writes are tracked. It is not
 * needed for stores of NULL, nor in objects that hold no pointers. Any thread, at any time.
 *
 * Every 512 bytes of memory have a card, a byte in the table, which the store sets to 1. While no
 * writes are tracked, the mask is 0 and the table is a single byte. Both words change once, the
 * table first; so a reader loads the mask first, with acquire, and the table after it.
 */
#define GLEANER_CARD_SHIFT 9
GLEANER_API unsigned char *gleaner_card_table;
GLEANER_API uintptr_t gleaner_card_mask; /* number of cards minus one */

/* Defines both words; for one file of a program that may also run on Debian's libgc. Weak, since
   the static library defines them, too. */
#define GLEANER_DEFINE_CARDS                                                                  \
  static unsigned char gleaner_only_card;                                                     \
  unsigned char *gleaner_card_table __attribute__((__used__, __weak__)) = &gleaner_only_card; \
  uintptr_t gleaner_card_mask __attribute__((__used__, __weak__)) = 0

/* Marks the card of `slot`; called after a pointer was stored there. The pointer must stay in a
   variable that is used after this call. GLEANER_STORE does all of that. */
static __inline__ void gleaner_mark_card(const volatile void *slot) {
  /* Acquire: a thread that sees the mask sees the table that belongs to it. */
  const uintptr_t mask = __atomic_load_n(&gleaner_card_mask, __ATOMIC_ACQUIRE);
  /* Release: a collector that sees the card sees the store that came before it. */
  __atomic_store_n(&gleaner_card_table[((uintptr_t)slot >> GLEANER_CARD_SHIFT) & mask], 1,
                   __ATOMIC_RELEASE);
}

/* Keeps the pointer in a register or on the stack up to this point, where the collector finds it: a
   thread may be stopped between the store and the marking of the card. */
#define GLEANER_KEEP(pointer) __asm__ __volatile__("" : : "r"(pointer) : "memory")

/* *slot = value, with the barrier. A statement; each argument is evaluated once. `slot` is a
   pointer to a pointer, and `value` a pointer that may be assigned to it. */
#define GLEANER_STORE(slot, value)                           \
  do {                                                       \
    __typeof__(&*(slot)) const gleaner_slot_ = (slot);       \
    __typeof__(*gleaner_slot_) gleaner_value_ = (value);     \
    *gleaner_slot_ = gleaner_value_;                         \
    gleaner_mark_card((const volatile void *)gleaner_slot_); \
    GLEANER_KEEP(gleaner_value_);                            \
  } while (0)

/* Marks all cards of [begin, begin + bytes); called after pointers were stored in some of these
   bytes. The objects that they point to must be reachable in another way, too, until this call
   returns. Any thread. */
GLEANER_API void gleaner_mark_cards(const void *begin, size_t bytes);

/*
 * Latency: the parts of pauses, and how long threads were kept from running the program;
 * docs/reference/statistics.md. Times are nanoseconds of CLOCK_MONOTONIC. Later versions add fields
 * and values only at the end of structures and enumerations.
 */
enum gleaner_pause {
  GLEANER_PAUSE_LAST,    /* of the last collection */
  GLEANER_PAUSE_LONGEST, /* the longest one so far */
  GLEANER_PAUSE_TOTAL,   /* all pauses together */
  GLEANER_PAUSE_MAXIMA   /* the largest value so far of each figure by itself */
};

struct gleaner_pause_parts {
  uint64_t pause_ns;  /* the sum of the fields below, except for GLEANER_PAUSE_MAXIMA */
  uint64_t stop_ns;   /* from the first signal until every thread is stopped */
  uint64_t roots_ns;  /* finding the roots */
  uint64_t dirty_ns;  /* rescanning what was written meanwhile; 0 if nothing ran concurrently */
  uint64_t mark_ns;   /* marking, or the rest of concurrent marking */
  uint64_t weak_ns;   /* links and finalizers */
  uint64_t sweep_ns;  /* classifying pages, pacing */
  uint64_t resume_ns; /* letting the threads go on */
};

/* Fills the first min(size, sizeof(struct gleaner_pause_parts)) bytes of *parts, with `size` the
   caller's sizeof, and returns how many; 0 after a message if `which` is no enum gleaner_pause or
   `parts` is NULL. All fields are 0 before the first collection. Any thread, not inside a
   collection callback; takes the allocation lock. */
GLEANER_API size_t gleaner_get_pause_parts(int which, struct gleaner_pause_parts *parts,
                                           size_t size);

/*
 * Heap snapshots, for `gleaner why` and `gleaner snapshot`: all live objects and what refers to
 * them; docs/reference/heap.md.
 */
/* Collects, and writes a snapshot to the file, which only its owner may read: it holds words of the
   program's stacks. The threads are stopped until it is written. A file of that name is replaced if
   it is empty, or a snapshot that no other running process has written. Finalizers that have become
   due run before the call returns. Returns 0 or an errno value; then the file, if it was opened, is
   empty: EINVAL if `path` is NULL or "", ECANCELED if collections are disabled, EEXIST if the file
   exists and is no snapshot, EBUSY if another process has written it, the call comes from inside
   the collector or with the allocation lock, or other threads take snapshots for a minute, EAGAIN
   if the program cannot be stopped, ENOMEM, or what the system says of the file. Any thread, which
   is registered by the call; not in signal handlers. */
GLEANER_API int gleaner_heap_snapshot(const char *path);

/* Why a registered thread was kept from running the program. A stall with several parts counts
   once, under the last of its causes in this order. */
enum gleaner_stall_cause {
  GLEANER_STALL_ALLOCATION,  /* memory from other threads or the system, an allocator lock */
  GLEANER_STALL_WRITE_FAULT, /* the first write to a tracked page */
  GLEANER_STALL_ASSIST,      /* an allocating thread waits or marks for a concurrent cycle */
  GLEANER_STALL_WAIT,        /* waiting for a collection or for the allocation lock */
  GLEANER_STALL_PAUSE,       /* stopped, or collecting; one stall for each thread in a pause */
  GLEANER_STALL_ANY = 64     /* all of them together */
};

/* Quantiles are upper bounds, at most a sixteenth too large, and never above the maximum. */
struct gleaner_stall_stats {
  uint64_t count;    /* stalls of all threads so far */
  uint64_t total_ns; /* their sum */
  uint64_t max_ns;   /* the longest */
  uint64_t p50_ns;   /* half of the stalls took no longer */
  uint64_t p99_ns;
  uint64_t p999_ns; /* 99.9 % */
};

/* Fills the first min(size, sizeof(struct gleaner_stall_stats)) bytes of *stats and returns how
   many; 0 after a message if `cause` is no enum gleaner_stall_cause or `stats` is NULL. Any thread,
   at any time, without locks; a stall that ends meanwhile may be in only some of the figures. */
GLEANER_API size_t gleaner_get_stall_stats(int cause, struct gleaner_stall_stats *stats,
                                           size_t size);

struct gleaner_stall_bucket {
  uint64_t from_ns;  /* stalls of from_ns <= ns < until_ns */
  uint64_t until_ns; /* UINT64_MAX in the last bucket, which begins at 2^40 ns */
  uint64_t count;
};

/* Copies up to `capacity` non-empty buckets of the histogram of stalls, in rising order. Returns
   the number of non-empty buckets, which may be larger; at most 592. Buckets are exact below 16 ns;
   above, there are 16 for each doubling. Returns 0 after a message if `cause` is no enum
   gleaner_stall_cause, or `buckets` is NULL and `capacity` is not 0. Any thread, at any time,
   without locks. */
GLEANER_API size_t gleaner_get_stall_histogram(int cause, struct gleaner_stall_bucket *buckets,
                                               size_t capacity);

/*
 * What the program does, on the calling thread's track of the collector's trace (GLEANER_TRACE,
 * docs/reference/statistics.md), as "program: NAME": between
 *
 *     uint64_t begin = gleaner_trace_begin();
 *     gleaner_trace_end("exchange", begin);
 *
 * gleaner_trace_begin returns a time of CLOCK_MONOTONIC in nanoseconds, or 0 while nothing is
 * traced. gleaner_trace_end copies the first 24 bytes of `name`; it does nothing if `begin` is 0 or
 * lies in the future, or for a thread that the collector does not know. A call costs less than a
 * microsecond, but may now and then write what has been traced to the file. Any thread; not in a
 * signal handler.
 */
GLEANER_API uint64_t gleaner_trace_begin(void);
GLEANER_API void gleaner_trace_end(const char *name, uint64_t begin);

/*
 * Fibers: stacks that the program has made, on which coroutines run. Until its fiber is destroyed,
 * each collection searches a registered stack for pointers, from the stack pointer it was left with
 * to its end. Any thread may go on with a suspended fiber. docs/reference/extensions.md has the
 * rules in full.
 *
 * Wrong use is reported on standard error and changes nothing. Results are errno values.
 */
typedef struct gleaner_fiber gleaner_fiber;

enum gleaner_fiber_state {
  GLEANER_FIBER_NONE,      /* not registered */
  GLEANER_FIBER_FRESH,     /* never switched to */
  GLEANER_FIBER_SUSPENDED, /* left by a switch */
  GLEANER_FIBER_RUNNING,   /* switched to by some thread */
  GLEANER_FIBER_ABANDONED  /* its thread has ended, or is not in this process after a fork */
};

/* Registers the stack [stack, stack + bytes), which grows downwards. `stack` and `bytes` are
   multiples of 8, and all of the stack is readable (no guard page) until gleaner_fiber_destroy. Of
   a fresh fiber the last 1,024 bytes are searched. The memory stays the program's: if it is an
   object of the heap, the program keeps it reachable. Returns NULL, after a message, with errno
   EINVAL (no stack, misaligned), EEXIST (overlaps a fiber or a thread's stack) or ENOMEM; at most
   262,144 fibers exist at a time, 16,384 if the address space is bounded (RLIMIT_AS). Any thread;
   takes a lock and time proportional to the number of fibers at lower addresses (8 bytes moved for
   each). */
GLEANER_API gleaner_fiber *gleaner_fiber_create(void *stack, size_t bytes);

/* Unregisters the fiber; its stack is not searched any more and may be freed. Returns 0; EINVAL: no
   fiber, for example a destroyed one; EBUSY: it is running. Any thread; cost as for
   gleaner_fiber_create. */
GLEANER_API int gleaner_fiber_destroy(gleaner_fiber *fiber);

/* Continues on `to`, or for NULL on the calling thread's own stack. The switch itself is made by
   switch_stacks(argument), a function of the program's (swapcontext, its own assembly). That
   function may save registers anywhere: they are on the stack that is left before it is called.
   Returns 0 when some thread, perhaps another one, has switched back. Errors are returned without a
   call of switch_stacks: EINVAL (`to` is no fiber, the function is NULL, or the thread is not on
   the stack it last switched to), EBUSY (`to` is running on this or another thread, or is NULL
   while the thread is on its own stack), ESRCH (`to` is abandoned), EPERM (inside GC_do_blocking),
   ENOMEM (the thread cannot be registered). Takes no lock and makes no system call; the cost is one
   atomic exchange and the saving of six registers. */
GLEANER_API int gleaner_fiber_switch(gleaner_fiber *to, void (*switch_stacks)(void *argument),
                                     void *argument);

/* gleaner_fiber_switch for a program that makes the switch itself, directly after this call. It
   must save the callee-saved registers where the collector searches: on the stack that is left, at
   most 1,024 bytes below the caller's frame; in memory named by gleaner_fiber_set_context; or in
   reachable data or objects. Until the switch has happened both stacks are searched. Results as for
   gleaner_fiber_switch; if it is not 0, the thread stays on its stack. */
GLEANER_API int gleaner_fiber_announce(gleaner_fiber *to);

/* Names memory outside the stack that is searched as long as the fiber exists: where the program
   saves the fiber's registers, for example a ucontext_t from malloc. Replaces the memory named
   before; NULL and 0 name none. Returns 0, or EINVAL: no fiber, or the range wraps around. Any
   thread; takes a lock. */
GLEANER_API int gleaner_fiber_set_context(gleaner_fiber *fiber, const void *context, size_t bytes);

/* The fiber that the calling thread last switched to; NULL is its own stack. */
GLEANER_API gleaner_fiber *gleaner_fiber_current(void);

/* The fiber's state at this moment; GLEANER_FIBER_NONE if `fiber` is no fiber. Any thread. */
GLEANER_API enum gleaner_fiber_state gleaner_fiber_get_state(const gleaner_fiber *fiber);

/*
 * Memory nodes (NUMA): where memory lies on machines with several; docs/reference/numa.md. Where
 * there is one node, placements are accepted and without effect. Sizes are bytes unless said
 * otherwise.
 */
enum gleaner_pattern {
  GLEANER_LOCAL,        /* on the node of the processor that touches the page first */
  GLEANER_INTERLEAVE,   /* the OS pages on the nodes in turn, by their addresses */
  GLEANER_BLOCK_CYCLIC, /* blocks of block_bytes on the nodes in turn, from the memory's begin; all
                           of it becomes resident */
  GLEANER_BIND,     /* on the nodes and no others: if none has room, the system ends processes */
  GLEANER_PREFERRED /* on the lowest of the nodes, elsewhere if that is full */
};

/* Begin with GLEANER_PLACEMENT(pattern), then change fields; or use gleaner_parse_placement. */
struct gleaner_placement {
  size_t size;        /* sizeof(struct gleaner_placement) */
  int pattern;        /* enum gleaner_pattern */
  size_t block_bytes; /* GLEANER_BLOCK_CYCLIC: a multiple of the OS page, 4,096. With a multiple of
                         2 MiB, and memory that begins at one, huge pages stay whole */
  uint64_t
      nodes[16]; /* bit n % 64 of nodes[n / 64] is node n; all 0: all that the process may use */
};
#define GLEANER_PLACEMENT(pattern)                          \
  {                                                         \
    sizeof(struct gleaner_placement), pattern, 65536, { 0 } \
  }

/* What came of a placement, in OS pages that lie in the memory as a whole. Later versions add
   fields at the end only. */
struct gleaner_placed {
  uint64_t pages;     /* the sum of the next three */
  uint64_t placed;    /* resident where the placement says */
  uint64_t elsewhere; /* resident on another node: the nodes were full, or `error` says why */
  uint64_t absent;    /* not resident; they follow the placement when they are touched */
  int reduced;        /* 1: the process may not use all of the nodes; the others are used */
  int error;          /* errno of what the system refused first, 0 if nothing */
};

/* Reads a placement as GLEANER_NUMA has it: "local", "interleave[:NODES]",
   "cyclic[:NODES[:BLOCK]]", "bind:NODES" or "preferred:NODE", with NODES as "0-3,5" or "all", and
   BLOCK as 64k or 2m. Returns 0, or EINVAL after a message. Any thread, at any time. */
GLEANER_API int gleaner_parse_placement(const char *text, struct gleaner_placement *placement);

/* GC_malloc and GC_malloc_atomic for an object whose pages are its own and lie where the placement
   says; it takes 16 KiB at least. Fills the first min(size, sizeof(struct gleaner_placed)) bytes of
   *placed, with `size` the caller's sizeof, unless `placed` is NULL. Returns NULL with errno
   EINVAL, after a message, if there is no such placement, or the process may use none of the nodes;
   else as GC_malloc. The memory of gleaner_malloc_atomic_placed is zero, too. Costs some system
   calls here and when the object is freed. Any thread. */
GLEANER_API void *gleaner_malloc_placed(size_t bytes, const struct gleaner_placement *placement,
                                        struct gleaner_placed *placed, size_t size);
GLEANER_API void *gleaner_malloc_atomic_placed(size_t bytes,
                                               const struct gleaner_placement *placement,
                                               struct gleaner_placed *placed, size_t size);

/* Puts memory where the placement says, with its contents, while other threads may use it: an
   object of the heap, memory of an arena or of malloc, or any other private memory. OS pages that
   lie in it in part stay as they are. The placement of a large object (more than 8 KiB) ends with
   the object; elsewhere it belongs to the addresses. Results are those of gleaner_malloc_placed;
   returns 0, or EINVAL after a message. Any thread. */
GLEANER_API int gleaner_place(void *memory, size_t bytes, const struct gleaner_placement *placement,
                              struct gleaner_placed *placed, size_t size);

/* From now on large objects (more than 8 KiB) that the calling thread allocates by GC_malloc and
   its like lie where the placement says; NULL: as those of other threads. Returns 0, EINVAL after a
   message, or ENOMEM if the thread cannot be registered. */
GLEANER_API int gleaner_set_thread_placement(const struct gleaner_placement *placement);

/* Touches memory as the threads of a parallel loop would that work on it, so that each page that is
   not resident yet comes to the node of the thread that will use it. Thread t of `threads` takes
   the t-th share of the memory if `pattern` is 0, as schedule(static) of OpenMP does, else blocks
   of `pattern` bytes in turn, as schedule(static, n) does. The threads run on the processors that
   this process may use, spread evenly over all of them in the order of the nodes; 0 threads: one
   for each processor. Contents do not change. Returns 0; EINVAL after a message if the memory is
   NULL, wraps around, or `threads` is above 4,096; else why threads could not be started or bound
   (then the memory is touched all the same), or why memory could not be touched: EACCES if it must
   not be written, ENOMEM if none is there. Any thread with 64 KiB of stack left; not in a signal
   handler. */
GLEANER_API int gleaner_first_touch(void *memory, size_t bytes, size_t pattern, unsigned threads);

/* Counts the OS pages of the memory by node: pages[n] is set to the number of those resident on
   node n, for n < count. Returns 0, EINVAL after a message if the memory or `pages` is NULL, or
   what the system says. Any thread. */
GLEANER_API int gleaner_count_pages(const void *memory, size_t bytes, uint64_t *pages,
                                    size_t count);

/*
 * Arenas: allocation from one range of memory by a policy of the program's choice;
 * docs/reference/extensions.md. The collector neither searches an arena for pointers nor reclaims
 * its blocks. The tables of an arena lie outside its memory: a write past the end of a block
 * damages other blocks only.
 *
 * Wrong use is reported on standard error, with the call and the address, and changes nothing.
 */
typedef struct gleaner_arena gleaner_arena;

enum gleaner_arena_policy {
  GLEANER_ARENA_BINNED,    /* best fit, bins of small trees; every call O(log n) */
  GLEANER_ARENA_TREE,      /* best fit, one balanced tree as in the SWAlloc paper; O(log n) */
  GLEANER_ARENA_FIRST_FIT, /* for comparison: first fit, free list in address order; O(n) */
  GLEANER_ARENA_BUDDY      /* for comparison: powers of two; O(log n), up to half is padding */
};

enum gleaner_arena_flag {
  GLEANER_ARENA_THREAD_SAFE = 1, /* several threads may use the arena at once; else one at a time */
  GLEANER_ARENA_HUGE_PAGES = 2   /* asks for 2 MiB pages; only if the arena has its own memory */
};

/* Begin with GLEANER_ARENA_OPTIONS, then change fields. Later versions add fields at the end. */
struct gleaner_arena_options {
  size_t size;            /* sizeof(struct gleaner_arena_options) */
  int policy;             /* enum gleaner_arena_policy */
  unsigned flags;         /* of enum gleaner_arena_flag */
  size_t granularity;     /* blocks begin at multiples of this: a power of two from 16 to 4,096 */
  size_t threshold;       /* blocks up to this many bytes come from slabs; 0 (none) to 262,144 */
  size_t resident_budget; /* this much free memory stays resident; SIZE_MAX: all. Own memory only */
  unsigned decay_ms;      /* free memory above resident_budget is returned to the system by calls */
                          /* of free, once free for half to all of this time; 0: at once */
  const struct gleaner_placement *placement; /* where its own memory lies, or NULL; read by the
                             call. GLEANER_BLOCK_CYCLIC makes all of it resident, and keeps it so */
};
#define GLEANER_ARENA_OPTIONS \
  { sizeof(struct gleaner_arena_options), GLEANER_ARENA_BINNED, 0, 256, 131072, 67108864, 1000, 0 }

/* Makes an arena with `bytes` of memory of its own, rounded up to OS pages, which becomes resident
   as it is touched. `options` may be NULL. Returns NULL with errno EINVAL after a message (0 bytes,
   an option out of range) or ENOMEM (the system refuses; 65,536 arenas exist). Any thread. */
GLEANER_API gleaner_arena *gleaner_arena_create(size_t bytes,
                                                const struct gleaner_arena_options *options);

/* Makes an arena on the program's memory, which must be readable and writable, must not be used in
   any other way until the arena is destroyed, and has room for at least one aligned block of the
   granularity. It need be neither aligned nor zero. The arena writes to it only to zero blocks.
   Result as for gleaner_arena_create; EINVAL also if the memory is NULL or too small. */
GLEANER_API gleaner_arena *gleaner_arena_create_on(void *memory, size_t bytes,
                                                   const struct gleaner_arena_options *options);

/* Allocates a block of at least `size` bytes, rounded up to the granularity, at a multiple of
   `alignment`: any power of two, or 0 for the granularity. A size of 0 gets the smallest block.
   Returns NULL with errno ENOMEM if the arena has no room (it stays usable), or EINVAL after a
   message. Except with GLEANER_ARENA_BUDDY, an aligned request is certain to succeed if size +
   alignment bytes are free in one piece; with less it may be refused though the block would fit.
   Default policy: O(log n). */
GLEANER_API void *gleaner_arena_allocate(gleaner_arena *arena, size_t size, size_t alignment);

/* gleaner_arena_allocate for a zeroed block. Memory that is known to be zero is not written. */
GLEANER_API void *gleaner_arena_allocate_zeroed(gleaner_arena *arena, size_t size,
                                                size_t alignment);

/* Frees a block. NULL is ignored. Returns 0; EINVAL after a message if no block of this arena that
   is in use begins at `block`. */
GLEANER_API int gleaner_arena_free(gleaner_arena *arena, void *block);

/* The block's size in bytes, as rounded up; 0 if `block` is no block in use. */
GLEANER_API size_t gleaner_arena_usable_size(gleaner_arena *arena, const void *block);

/* Returns free memory of an arena with its own memory to the system, in whole pieces of 2 MiB.
   Returns the bytes of address space of these pieces. Time proportional to the arena's size. */
GLEANER_API size_t gleaner_arena_trim(gleaner_arena *arena);

/* Sizes in bytes. Later versions add fields at the end only. */
struct gleaner_arena_stats {
  uint64_t pool_bytes;      /* all memory of the arena for blocks */
  uint64_t used_bytes;      /* in blocks in use, sizes as rounded up */
  uint64_t largest_free;    /* the largest block that could be had; empty slabs do not count */
  uint64_t slab_bytes;      /* in slabs, blocks in use included */
  uint64_t idle_bytes;      /* in free pieces of 2 MiB that are resident, as far as touched */
  uint64_t discarded_bytes; /* address space returned to the system, in all so far */
  uint64_t metadata_bytes;  /* the arena's tables, outside its memory */
  uint64_t used_blocks;     /* blocks in use, now */
  uint64_t free_blocks;     /* pieces of free memory between blocks and slabs, now */
  uint64_t allocations;     /* successful allocations so far */
  uint64_t frees;           /* successful frees so far */
  uint64_t failures;        /* requests refused for lack of room */
  uint64_t bad_frees;       /* frees refused */
};

/* Fills the first min(size, sizeof(struct gleaner_arena_stats)) bytes of *stats and returns how
   many that is; 0 after a message if there is no such arena. */
GLEANER_API size_t gleaner_arena_get_stats(gleaner_arena *arena, struct gleaner_arena_stats *stats,
                                           size_t size);

/* Ends the arena with all its blocks; memory that the program gave it may be used again. No other
   thread may be using the arena. Returns 0; EINVAL after a message if `arena` is no arena. */
GLEANER_API int gleaner_arena_destroy(gleaner_arena *arena);

#ifdef __cplusplus
}
#endif

#endif
