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
  uint64_t collections;       /* completed collections */
  uint64_t live_bytes;        /* in objects that the last collection found reachable */
  uint64_t heap_bytes;        /* obtained for objects and not returned to the system, now */
  uint64_t last_pause_ns;     /* how long the last collection held the threads stopped */
  uint64_t mean_pause_ns;     /* total_pause_ns / collections */
  uint64_t max_pause_ns;      /* the longest pause so far */
  uint64_t total_pause_ns;    /* all pauses together */
  uint64_t mark_ns;           /* the marking part of the last collection */
  uint64_t markers;           /* threads that marked in the last collection, its own included */
  uint64_t bytes_freed_last;  /* in objects that the last collection found unreachable */
  uint64_t metadata_bytes;    /* the collector's own tables, resident or not, outside heap_bytes */
  uint64_t minor_collections; /* of the collections, those that looked at young objects alone */
  uint64_t minor_pause_ns;    /* their pauses together */
  uint64_t concurrent_collections; /* of the collections, those that marked beside the program */
  uint64_t concurrent_sweeps;      /* of the collections, those that swept beside the program */
};

/* Fills the first min(size, sizeof(struct gleaner_stats)) bytes of *stats, with `size` the caller's
   sizeof, and returns how many bytes it filled. The figures belong together: none is taken before
   and another after a collection. Any thread, not inside a collection callback. */
GLEANER_API size_t gleaner_get_stats(struct gleaner_stats *stats, size_t size);

/*
 * Modes of collection that must know what the program writes, and how that is found out:
 * docs/write_tracking.md.
 */
struct gleaner_modes {
  int concurrent;       /* 1: collections that allocation causes mark beside the program */
  int generational;     /* 1: some of them look at young objects alone */
  const char *tracking; /* "userfaultfd", "soft-dirty", "mprotect" or "cards"; "none" if neither */
  char reason[160];     /* why no better mechanism is in use, or why none: text; "" if the best is,
                           or nobody has asked */
};

/* Fills the first min(size, sizeof(struct gleaner_modes)) bytes of *modes, with `size` the caller's
   sizeof, and returns how many bytes it filled. What is true now: the system may refuse to go on
   with a mechanism; the next collection is followed by a choice among the others. Any thread, not
   inside a collection callback. */
GLEANER_API size_t gleaner_get_modes(struct gleaner_modes *modes, size_t size);

/*
 * The barrier: stores of pointers into objects that the collector is told of, a few instructions
 * each, so that collections which run beside the program need no help of the system. For programs
 * and compilers that use it for every such store, those that initialise a new object included, and
 * that say so by GC_set_manual_vdb_allowed(1) before GC_enable_incremental, or are run with
 * GLEANER_WRITE_TRACKING=cards: docs/write_tracking.md. In C++ gc::ptr of gleaner.hpp does it.
 *
 *     GLEANER_STORE(&node->next, other);                           node->next = other
 *     memcpy(to, from, bytes); gleaner_mark_cards(to, bytes);      while `from` is reachable
 *
 * Needed for fields and elements of all objects that are searched for pointers, uncollectable ones
 * too; harmless anywhere else, and when nothing is tracked. Not needed for NULL, and for objects
 * that hold no pointers. Any thread, at any time.
 *
 * Each 512 bytes have a byte in the table, a card, which the store sets to 1. While nothing is
 * tracked the mask is 0, and the table a single byte. Both words change once, the table first; so
 * whoever reads them reads the mask first, and in this order.
 */
#define GLEANER_CARD_SHIFT 9
GLEANER_API unsigned char *gleaner_card_table;
GLEANER_API uintptr_t gleaner_card_mask; /* number of cards less one */

/* Definitions of both, in one file of a program that may also run on Debian's libgc. Weak: the
   static library has them, too. */
#define GLEANER_DEFINE_CARDS                                                                  \
  static unsigned char gleaner_only_card;                                                     \
  unsigned char *gleaner_card_table __attribute__((__used__, __weak__)) = &gleaner_only_card; \
  uintptr_t gleaner_card_mask __attribute__((__used__, __weak__)) = 0

/* After a store to `slot`, of a pointer that is still in a variable then and used later: prefer
   GLEANER_STORE. */
static __inline__ void gleaner_mark_card(const volatile void *slot) {
  /* Acquire: who sees the mask sees its table. */
  const uintptr_t mask = __atomic_load_n(&gleaner_card_mask, __ATOMIC_ACQUIRE);
  /* Release: who sees the card sees the store that came before. */
  __atomic_store_n(&gleaner_card_table[((uintptr_t)slot >> GLEANER_CARD_SHIFT) & mask], 1,
                   __ATOMIC_RELEASE);
}

/* The pointer is in a register or on the stack up to here, where the collector finds it: a thread
   may be stopped between the store and the card. */
#define GLEANER_KEEP(pointer) __asm__ __volatile__("" : : "r"(pointer) : "memory")

/* *slot = value, with the barrier. A statement; each argument is evaluated once. `slot` is a
   pointer to a pointer, `value` one that may be assigned to it. */
#define GLEANER_STORE(slot, value)                           \
  do {                                                       \
    __typeof__(&*(slot)) const gleaner_slot_ = (slot);       \
    __typeof__(*gleaner_slot_) gleaner_value_ = (value);     \
    *gleaner_slot_ = gleaner_value_;                         \
    gleaner_mark_card((const volatile void *)gleaner_slot_); \
    GLEANER_KEEP(gleaner_value_);                            \
  } while (0)

/* After pointers were stored in some of these bytes, and while what they point to is reachable in
   another way, too: marks all cards of [begin, begin + bytes). */
GLEANER_API void gleaner_mark_cards(const void *begin, size_t bytes);

/*
 * Latency: what pauses are spent on, and how long threads were kept from running the program;
 * docs/latency.md. Times are nanoseconds of CLOCK_MONOTONIC. Later versions add fields at the end
 * of structures, and values at the end of enumerations, only.
 */
enum gleaner_pause {
  GLEANER_PAUSE_LAST,    /* of the last collection */
  GLEANER_PAUSE_LONGEST, /* the longest one so far */
  GLEANER_PAUSE_TOTAL,   /* all pauses together */
  GLEANER_PAUSE_MAXIMA   /* of each figure by itself the largest so far */
};

struct gleaner_pause_parts {
  uint64_t pause_ns;  /* the sum of all below, but for GLEANER_PAUSE_MAXIMA */
  uint64_t stop_ns;   /* from the first signal until every thread is stopped */
  uint64_t roots_ns;  /* finding the roots */
  uint64_t dirty_ns;  /* scanning anew what has been written to; 0 if nothing ran concurrently */
  uint64_t mark_ns;   /* marking, or what is left of it */
  uint64_t weak_ns;   /* links and finalizers */
  uint64_t sweep_ns;  /* classifying pages, pacing */
  uint64_t resume_ns; /* letting the threads go on */
};

/* Fills the first min(size, sizeof(struct gleaner_pause_parts)) bytes of *parts, with `size` the
   caller's sizeof, and returns how many; 0 after a message if `which` is no enum gleaner_pause or
   `parts` is NULL. All 0 before the first collection. Any thread, not inside a collection callback;
   takes the allocation lock. */
GLEANER_API size_t gleaner_get_pause_parts(int which, struct gleaner_pause_parts *parts,
                                           size_t size);

/* Why a registered thread was kept from running the program. A stall with several parts counts
   once, under the last of its causes in this order. */
enum gleaner_stall_cause {
  GLEANER_STALL_ALLOCATION,  /* memory from other threads or the system, a lock of the allocator */
  GLEANER_STALL_WRITE_FAULT, /* the first write to a tracked page */
  GLEANER_STALL_ASSIST,      /* an allocating thread waits for a cycle beside it, or marks for it */
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
   at any time, without locks; a stall that ends meanwhile may be in some of the figures only. */
GLEANER_API size_t gleaner_get_stall_stats(int cause, struct gleaner_stall_stats *stats,
                                           size_t size);

struct gleaner_stall_bucket {
  uint64_t from_ns;  /* stalls of from_ns <= ns < until_ns */
  uint64_t until_ns; /* UINT64_MAX in the bucket of all from 2^40 ns on */
  uint64_t count;
};

/* The histogram of the stalls: up to `capacity` of its buckets that are not empty, in rising order.
   Returns how many there are, which may be more; at most 592. Buckets are exact below 16 ns, then
   16 for each doubling. 0 after a message if `cause` is none, or `buckets` is NULL and `capacity`
   is not 0. Any thread, at any time, without locks. */
GLEANER_API size_t gleaner_get_stall_histogram(int cause, struct gleaner_stall_bucket *buckets,
                                               size_t capacity);

/*
 * Fibers: stacks of the program's own making, on which coroutines run. A registered stack is
 * searched for pointers, always, from the stack pointer it was left with to its end, until it is
 * destroyed. Any thread may go on with a suspended fiber. docs/fibers.md has the rules in full.
 *
 * Wrong use is reported on standard error and changes nothing; the results are errno values.
 */
typedef struct gleaner_fiber gleaner_fiber;

enum gleaner_fiber_state {
  GLEANER_FIBER_NONE,      /* not registered */
  GLEANER_FIBER_FRESH,     /* never switched to */
  GLEANER_FIBER_SUSPENDED, /* left by a switch */
  GLEANER_FIBER_RUNNING,   /* switched to by some thread */
  GLEANER_FIBER_ABANDONED  /* its thread ended on it, or is not in this process after a fork */
};

/* Registers the stack [stack, stack + bytes), which grows downwards. Both are multiples of 8; all
   of it is readable (no guard page) until gleaner_fiber_destroy. Of a fresh fiber the last 1,024
   bytes are searched. The memory stays the program's: if it is an object of the heap, the program
   keeps it reachable. Returns NULL, after a message, with errno EINVAL (no stack, misaligned),
   EEXIST (overlaps a fiber or a thread's stack) or ENOMEM; at most 262,144 fibers exist at a time,
   16,384 if the address space is bounded (RLIMIT_AS). Any thread; takes a lock and time
   proportional to the number of fibers at lower addresses (8 bytes moved for each). */
GLEANER_API gleaner_fiber *gleaner_fiber_create(void *stack, size_t bytes);

/* The stack is not searched any more and may be freed. 0; EINVAL: no fiber (destroyed before, say);
   EBUSY: it is running. Any thread; cost as above. */
GLEANER_API int gleaner_fiber_destroy(gleaner_fiber *fiber);

/* Continues on `to`, or for NULL on the calling thread's own stack, by way of
   switch_stacks(argument), which does what the program has for that (swapcontext, its own
   assembly). Everything it saves may lie anywhere: the registers are on the stack that is left
   before it is called. Returns 0 when some thread, perhaps another one, has switched back. Without
   having called switch_stacks: EINVAL (`to` is no fiber, NULL function, or the thread is not on the
   stack it last switched to), EBUSY (`to` is running, here or elsewhere, or NULL when the thread is
   on its own stack already), ESRCH (`to` is abandoned), EPERM (inside GC_do_blocking), ENOMEM (the
   thread cannot be registered). No lock and no system call: one atomic exchange beside the saving
   of six registers. */
GLEANER_API int gleaner_fiber_switch(gleaner_fiber *to, void (*switch_stacks)(void *argument),
                                     void *argument);

/* The same for a program that then switches by itself, at once. The callee-saved registers must get
   to where they are searched: onto the stack that is left, at most 1,024 bytes below the caller's
   frame; or into memory named by gleaner_fiber_set_context; or into data, or an object, that is
   reachable. Until the switch has happened both stacks are searched. Results as above; unless it is
   0, the thread counts as staying where it is. */
GLEANER_API int gleaner_fiber_announce(gleaner_fiber *to);

/* Memory beside the stack that is searched as long as the fiber exists: where the program saves its
   registers, for example a ucontext_t made by malloc. Replaces what was named before; NULL and 0
   name nothing. 0, or EINVAL: no fiber, or a range that wraps around. Any thread; takes a lock. */
GLEANER_API int gleaner_fiber_set_context(gleaner_fiber *fiber, const void *context, size_t bytes);

/* What the calling thread last switched to; NULL is its own stack. */
GLEANER_API gleaner_fiber *gleaner_fiber_current(void);

/* The fiber's state at this moment; GLEANER_FIBER_NONE for NULL and what is no fiber. Any thread.
 */
GLEANER_API enum gleaner_fiber_state gleaner_fiber_get_state(const gleaner_fiber *fiber);

/*
 * Arenas: allocation from one range of memory by a policy of the program's choice; docs/arenas.md.
 * The collector neither searches an arena for pointers nor reclaims its blocks. What describes an
 * arena's blocks lies outside its memory: writing past a block damages other blocks only.
 *
 * Wrong use is reported on standard error, with the call and the address, and changes nothing.
 */
typedef struct gleaner_arena gleaner_arena;

enum gleaner_arena_policy {
  GLEANER_ARENA_BINNED,    /* best fit, bins of small trees; every call O(log n) */
  GLEANER_ARENA_TREE,      /* best fit, one balanced tree as in the SWAlloc paper; O(log n) */
  GLEANER_ARENA_FIRST_FIT, /* to compare with: first fit, free list in address order; O(n) */
  GLEANER_ARENA_BUDDY      /* to compare with: powers of two; O(log n), up to half is padding */
};

enum gleaner_arena_flag {
  GLEANER_ARENA_THREAD_SAFE = 1, /* any thread may use it at any time; else one at a time */
  GLEANER_ARENA_HUGE_PAGES = 2   /* asks for 2 MiB pages; for memory of the arena's own only */
};

/* Begin with GLEANER_ARENA_OPTIONS, then change fields. Later versions add fields at the end. */
struct gleaner_arena_options {
  size_t size;            /* sizeof(struct gleaner_arena_options) */
  int policy;             /* enum gleaner_arena_policy */
  unsigned flags;         /* of enum gleaner_arena_flag */
  size_t granularity;     /* blocks begin at multiples of it: a power of two from 16 to 4,096 */
  size_t threshold;       /* blocks of up to so many bytes come from slabs; 0 to 262,144, 0: none */
  size_t resident_budget; /* so much free memory stays resident; SIZE_MAX: all. Own memory only */
  unsigned decay_ms;      /* more than that goes back after it was free for half of this time to */
                          /* the whole, by calls of free; 0: at once */
};
#define GLEANER_ARENA_OPTIONS \
  { sizeof(struct gleaner_arena_options), GLEANER_ARENA_BINNED, 0, 256, 131072, 67108864, 1000 }

/* An arena of `bytes`, rounded up to OS pages, of memory of its own, which becomes resident as it
   is touched. `options` may be NULL. Returns NULL with errno EINVAL after a message (0 bytes, an
   option out of range) or ENOMEM (the system refuses; 65,536 arenas exist). Any thread. */
GLEANER_API gleaner_arena *gleaner_arena_create(size_t bytes,
                                                const struct gleaner_arena_options *options);

/* An arena on the program's memory: readable, writable, used by nobody else until the arena is
   destroyed, with at least one multiple of the granularity in it that has as many bytes behind it.
   Need be neither aligned nor zero. The arena never writes to it (but for zeroed blocks). Result as
   above; EINVAL also for NULL and what is too small. */
GLEANER_API gleaner_arena *gleaner_arena_create_on(void *memory, size_t bytes,
                                                   const struct gleaner_arena_options *options);

/* A block of at least `size` bytes, rounded up to the granularity, at a multiple of `alignment`:
   any power of two, or 0 for the granularity; 0 bytes get the smallest block. Returns NULL with
   errno ENOMEM if the arena cannot hold it (it stays usable), or EINVAL after a message. But with
   buddies, an aligned request is certain to succeed if size + alignment bytes are free in one
   piece; with less it may be refused though the block would fit. Default policy: O(log n). */
GLEANER_API void *gleaner_arena_allocate(gleaner_arena *arena, size_t size, size_t alignment);

/* The same, and the block is zero. What is known to be zero is not written to. */
GLEANER_API void *gleaner_arena_allocate_zeroed(gleaner_arena *arena, size_t size,
                                                size_t alignment);

/* Frees a block. NULL is ignored. Returns 0; EINVAL after a message if no block of this arena that
   is in use begins at `block`. */
GLEANER_API int gleaner_arena_free(gleaner_arena *arena, void *block);

/* How many bytes the program may use of the block, as rounded; 0 if it is none in use. */
GLEANER_API size_t gleaner_arena_usable_size(gleaner_arena *arena, const void *block);

/* Gives the free memory of an arena with memory of its own back to the system, in whole 2 MiB.
   Returns the bytes of address space that this concerned. Time proportional to the arena's size. */
GLEANER_API size_t gleaner_arena_trim(gleaner_arena *arena);

/* Sizes in bytes. Later versions add fields at the end only. */
struct gleaner_arena_stats {
  uint64_t pool_bytes;      /* what there is to hand out */
  uint64_t used_bytes;      /* in blocks in use, as rounded */
  uint64_t largest_free;    /* the largest block that could be had; empty slabs do not count */
  uint64_t slab_bytes;      /* in slabs, blocks in use included */
  uint64_t idle_bytes;      /* in free pieces of 2 MiB that are resident, as far as touched */
  uint64_t discarded_bytes; /* of address space given back to the system, in all */
  uint64_t metadata_bytes;  /* of tables, outside the arena's memory */
  uint64_t used_blocks;     /* blocks in use, now */
  uint64_t free_blocks;     /* pieces of free memory between blocks and slabs, now */
  uint64_t allocations;     /* successful ones so far */
  uint64_t frees;           /* successful ones so far */
  uint64_t failures;        /* requests refused for want of room */
  uint64_t bad_frees;       /* frees refused */
};

/* Fills the first min(size, sizeof(struct gleaner_arena_stats)) bytes of *stats and returns how
   many that is; 0 after a message if there is no such arena. */
GLEANER_API size_t gleaner_arena_get_stats(gleaner_arena *arena, struct gleaner_arena_stats *stats,
                                           size_t size);

/* Ends the arena with all its blocks; the program's memory is its own again. Nobody else may be
   using the arena. Returns 0; EINVAL after a message for NULL and what is no arena, or no more. */
GLEANER_API int gleaner_arena_destroy(gleaner_arena *arena);

#ifdef __cplusplus
}
#endif

#endif
