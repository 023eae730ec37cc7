// Objects of every sort that the API can make, and a simple model of them: who holds which, what is
// in them, and which of them may go.
//
// Each object is held by a root or by one other object, in a word that only the model writes, so
// that what the model drops is garbage but for stale words. Each of its other words has a value of
// its own, no pointer, until it goes. What the model knows stands in memory of malloc, where the
// collector does not look, pointers there hidden.
#pragma once

#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>
#include <gc/gc_backptr.h>
#include <gc/gc_disclaim.h>
#include <gc/gc_gcj.h>
#include <gc/gc_inline.h>
#include <gc/gc_mark.h>
#include <gc/gc_typed.h>
#include <gc/javaxfc.h>
#include <gleaner.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

namespace gleaner::fuzz {

// Ends the episode. Its seed is known to who started it.
#define EXPECT(condition)                                                                 \
  ((condition) ? (void)0                                                                  \
               : (fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition), \
                  fflush(stderr), abort()))

inline constexpr size_t kMaxThreads = 4;

enum class Sort : uint8_t {
  kNormal,
  kAtomic,
  kUncollectable,
  kAtomicUncollectable,
  kIgnoreOffPage,
  kAtomicIgnoreOffPage,
  kAligned,
  kTyped,        // odd words are pointers
  kTypedArray,   // of elements of 4 words
  kGcj,          // as kTyped; the first word is the type
  kFinalized,    // with a closure in its header
  kMade,         // of a kind of the program's, with a disclaim procedure
  kByProcedure,  // of one with a mark procedure: odd words are pointers
  kMany,         // of GC_malloc_many
  kDebug,
  kDebugAtomic,
  kDebugUncollectable,
};
inline constexpr size_t kSorts = 17;

enum class State : uint32_t { kLive, kDropped, kGone };

struct Record;
struct Edge {
  size_t word;
  Record* child;
};

struct Record {
  std::atomic<State> state{State::kLive};
  uintptr_t hidden = 0;  // ~ of what the program has
  Sort sort = Sort::kNormal;
  size_t bytes = 0;  // asked for
  uint64_t id = 0;
  std::vector<Edge> children;
  // Cleared when the object goes; 0 if none is registered.
  uintptr_t link = 0;
  uintptr_t long_link = 0;
  bool linked = false, long_linked = false;
  bool finalizable = false;
  std::atomic<uint32_t> finalized{0};
  bool was_freed = false;

  char* p() const { return reinterpret_cast<char*>(~hidden); }
  uintptr_t* words() const { return reinterpret_cast<uintptr_t*>(~hidden); }
  size_t word_count() const { return bytes / sizeof(uintptr_t); }
};

inline bool IsDebug(Sort sort) {
  return sort == Sort::kDebug || sort == Sort::kDebugAtomic || sort == Sort::kDebugUncollectable;
}
inline bool IsUncollectable(Sort sort) {
  return sort == Sort::kUncollectable || sort == Sort::kAtomicUncollectable ||
         sort == Sort::kDebugUncollectable;
}
inline bool IsAtomic(Sort sort) {
  return sort == Sort::kAtomic || sort == Sort::kAtomicUncollectable ||
         sort == Sort::kAtomicIgnoreOffPage || sort == Sort::kDebugAtomic;
}
inline bool IsZeroed(Sort sort) { return !IsAtomic(sort); }
// What the collector takes for the object's start.
inline char* BaseOf(const Record& r) {
  if (r.sort == Sort::kFinalized) return r.p() - sizeof(uintptr_t);
  return IsDebug(r.sort) ? r.p() - GC_get_debug_header_size() : r.p();
}
inline bool HoldsPointerAt(Sort sort, size_t word) {
  switch (sort) {
    case Sort::kTyped:
    case Sort::kTypedArray:
    case Sort::kGcj:
    case Sort::kByProcedure:
      return word % 2 == 1;
    default:
      return !IsAtomic(sort);
  }
}

// The value of a word that holds no pointer. Nothing of the heap lies there.
inline uintptr_t Filling(const Record& r, size_t word) {
  return uintptr_t{0xf} << 60 | ((r.id * 0x9e3779b97f4a7c15u + word * 0x2545f491u) >> 8);
}

// Calls f(word) for the words that are looked at: all, or those near both ends.
template <class F>
void ForEachWord(const Record& r, size_t from, F f) {
  constexpr size_t kNear = 600;
  const size_t count = r.word_count();
  for (size_t word = from; word < count; ++word) {
    if (word >= kNear && word + kNear < count) word = count - kNear;
    f(word);
  }
}
inline size_t FirstOwnWord(Sort sort) { return sort == Sort::kGcj ? 1 : 0; }

// Children are few.
inline const Edge* ChildAt(const Record& r, size_t word) {
  for (const Edge& edge : r.children) {
    if (edge.word == word) return &edge;
  }
  return nullptr;
}

// All words but those that hold children: at no time they do not.
inline void Fill(const Record& r) {
  ForEachWord(r, FirstOwnWord(r.sort), [&r](size_t word) {
    if (ChildAt(r, word) == nullptr) r.words()[word] = Filling(r, word);
  });
}

inline void CheckContents(const Record& r) {
  ForEachWord(r, FirstOwnWord(r.sort), [&r](size_t word) {
    const Edge* child = ChildAt(r, word);
    const uintptr_t expected = child != nullptr ? ~child->child->hidden : Filling(r, word);
    if (r.words()[word] == expected) return;
    fprintf(stderr, "object %p of sort %d, %zu bytes, word %zu: 0x%lx in place of 0x%lx\n",
            static_cast<void*>(r.p()), static_cast<int>(r.sort), r.bytes, word, r.words()[word],
            expected);
    abort();
  });
}

// What is the same for all threads of an episode.
struct Shared {
  GC_descr typed = 0;
  GC_descr typed_array = 0;
  int made_kind = 0;
  int procedure_kind = 0;
  bool may_run_out = false;  // of memory for objects
  bool calls_fail = false;   // system calls: of any memory, threads and modes
  bool disclaims = false;    // kFinalized and kMade have procedures; there is no kFinalized else
};
inline Shared g_shared;

struct GcjType {
  GC_word name;
  GC_word descriptor;
};
inline GcjType g_gcj_type = {0, GC_MAKE_PROC(0, 0)};

inline GC_ms_entry* MarkOddWords(GC_word* object, GC_ms_entry* top, GC_ms_entry* limit, GC_word) {
  for (size_t i = 1; i < GC_size(object) / sizeof *object; i += 2) {
    if (object[i] == 0) continue;
    top = GC_MARK_AND_PUSH(reinterpret_cast<void*>(object[i]), top, limit, nullptr);
  }
  return top;
}

// In the child of a fork, the thread that it has: what others had in their hands alone is lost
// there.
inline int g_survivor = -1;
inline bool IsOfVanished(const Record& r) {
  return g_survivor >= 0 && r.id % kMaxThreads != static_cast<uint64_t>(g_survivor);
}

// The object has become unreachable: the model must have dropped it, and nobody has touched it.
inline void ExpectDropped(const Record& r, const char* by) {
  if (r.state.load() == State::kDropped) return;
  fprintf(stderr, "%s: object of sort %d, %zu bytes, state %d\n", by, static_cast<int>(r.sort),
          r.bytes, static_cast<int>(r.state.load()));
  abort();
}

inline void OnFinalize(void* object, void* data) {
  auto* r = static_cast<Record*>(data);
  if (IsOfVanished(*r)) return;
  ExpectDropped(*r, "finalized");
  EXPECT(object == r->p());
  EXPECT(r->finalized.exchange(1) == 0);
  if (!IsAtomic(r->sort))
    ForEachWord(*r, r->sort == Sort::kGcj ? 1 : 0, [r](size_t word) {
      // What it held may have been given back, or cleared.
      const uintptr_t value = r->words()[word];
      if (value >> 60 == 0xf) EXPECT(value == Filling(*r, word));
    });
}

// In the first word of objects that are asked about, or 0 where nobody has filled them in.
inline constexpr uintptr_t kAsked = uintptr_t{0xa} << 60;

inline void OnHeaderFinalizer(void* object, void*) {
  auto* word = static_cast<uintptr_t*>(object);
  EXPECT(*word == 0 || *word >> 60 == 0xf);
  *word = kAsked;
}
inline constexpr GC_finalizer_closure kClosure = {OnHeaderFinalizer, nullptr};

inline int OnDisclaim(void* object) {
  auto* word = static_cast<uintptr_t*>(object);
  if (*word == 0) return 0;
  EXPECT(*word >> 60 == 0xf);
  *word = kAsked;
  return 0;
}

inline void* Opaque(void* p) {
  asm volatile("" : "+r"(p));
  return p;
}
inline size_t Opaque(size_t n) {
  asm volatile("" : "+r"(n));
  return n;
}

// Memory of that sort, null if there is none. `choice` is among the calls that make it.
inline void* Allocate(Sort sort, size_t bytes, unsigned choice) {
  switch (sort) {
    case Sort::kNormal:
      switch (choice % 5) {
        case 0:
          return GC_generic_malloc(bytes, GC_I_NORMAL);
        case 1:
          return GC_malloc_kind(bytes, GC_I_NORMAL);
        case 2:
          return GC_malloc_stubborn(bytes);
        case 3:
          return GC_realloc(nullptr, bytes);
        default:
          return GC_malloc(bytes);
      }
    case Sort::kAtomic:
      return choice % 2 ? GC_malloc_atomic(bytes) : GC_malloc_kind_global(bytes, GC_I_PTRFREE);
    case Sort::kUncollectable:
      return choice % 2 ? GC_malloc_uncollectable(bytes) : GC_generic_or_special_malloc(bytes, 2);
    case Sort::kAtomicUncollectable:
      return GC_malloc_atomic_uncollectable(bytes);
    case Sort::kIgnoreOffPage:
      return choice % 2 ? GC_malloc_ignore_off_page(bytes)
                        : GC_generic_malloc_ignore_off_page(bytes, GC_I_NORMAL);
    case Sort::kAtomicIgnoreOffPage:
      return GC_malloc_atomic_ignore_off_page(bytes);
    case Sort::kAligned: {
      const size_t alignment = size_t{8} << choice % 11;
      void* p = nullptr;
      switch (choice % 7) {
        case 0:
          p = GC_valloc(bytes);
          EXPECT(reinterpret_cast<uintptr_t>(p) % 4096 == 0);
          return p;
        case 1:
          p = GC_pvalloc(bytes);
          EXPECT(reinterpret_cast<uintptr_t>(p) % 4096 == 0);
          return p;
        case 2:
        case 3:
          if (GC_posix_memalign(&p, alignment, bytes) != 0) return nullptr;
          break;
        default:
          p = GC_memalign(alignment, bytes);
      }
      EXPECT(reinterpret_cast<uintptr_t>(p) % alignment == 0);
      return p;
    }
    case Sort::kTyped:
      return choice % 2 ? GC_malloc_explicitly_typed(bytes, g_shared.typed)
                        : GC_malloc_explicitly_typed_ignore_off_page(bytes, g_shared.typed);
    case Sort::kTypedArray:
      return GC_calloc_explicitly_typed(bytes / 32, 32, g_shared.typed_array);
    case Sort::kGcj:
      return choice % 2 ? GC_gcj_malloc(bytes, &g_gcj_type)
                        : GC_gcj_malloc_ignore_off_page(bytes, &g_gcj_type);
    case Sort::kFinalized:
      return GC_finalized_malloc(bytes, &kClosure);
    case Sort::kMade:
      return GC_generic_malloc(bytes, g_shared.made_kind);
    case Sort::kByProcedure:
      return GC_malloc_kind(bytes, g_shared.procedure_kind);
    case Sort::kMany: {
      void* list = nullptr;
      if (choice % 2) {
        list = GC_malloc_many(bytes);
      } else {
        GC_generic_malloc_many(bytes, GC_I_NORMAL, &list);
      }
      // The others are dropped.
      if (list != nullptr) GC_NEXT(list) = nullptr;
      return list;
    }
    case Sort::kDebug:
      return choice % 2 ? GC_debug_malloc(bytes, "fuzz", 1)
                        : GC_debug_generic_or_special_malloc(bytes, GC_I_NORMAL, "fuzz", 2);
    case Sort::kDebugAtomic:
      return choice % 2 ? GC_debug_malloc_atomic(bytes, "fuzz", 3)
                        : GC_debug_malloc_atomic_ignore_off_page(bytes, "fuzz", 4);
    case Sort::kDebugUncollectable:
      return GC_debug_malloc_uncollectable(bytes, "fuzz", 5);
  }
  return nullptr;
}

}  // namespace gleaner::fuzz
