// Calls of the API that concern no object of the model: questions, settings, collections; and wrong
// ones, which must be refused without harm.
#pragma once

#include <unistd.h>

#include "tests/fuzz/api_objects.h"

namespace gleaner::fuzz {

inline int StopSoon() {
  static thread_local unsigned calls;
  return ++calls % 3 == 0;
}

inline void Collect(unsigned choice) {
  switch (choice % 8) {
    case 0:
      return GC_gcollect();
    case 1:
      return GC_gcollect_and_unmap();
    case 2:
      GC_try_to_collect(StopSoon);
      return;
    case 3:
      return GC_start_incremental_collection();
    default:
      for (unsigned i = 0; i < choice % 64 && GC_collect_a_little(); ++i) {
      }
  }
}

inline void AskFigures() {
  GC_word heap = 0, free = 0, unmapped = 0, since = 0, total = 0;
  GC_get_heap_usage_safe(&heap, &free, &unmapped, &since, &total);
  EXPECT(free <= heap);
  EXPECT(GC_get_memory_use() <= GC_get_heap_size() + (64 << 20));
  GC_get_free_bytes();
  GC_get_unmapped_bytes();
  GC_get_bytes_since_gc();
  GC_get_expl_freed_bytes_since_gc();
  GC_get_total_bytes();
  GC_get_obtained_from_os_bytes();
  GC_get_full_gc_total_time();
  GC_get_non_gc_bytes();
  GC_prof_stats_s figures;
  EXPECT(GC_get_prof_stats(&figures, sizeof figures) == sizeof figures);
  EXPECT(GC_get_prof_stats(&figures, 8) == 8);
  EXPECT(GC_get_prof_stats_unsafe(&figures, sizeof figures) == sizeof figures);
  gleaner_stats stats;
  EXPECT(gleaner_get_stats(&stats, sizeof stats) == sizeof stats);
  EXPECT(stats.concurrent_collections + stats.minor_collections <= stats.collections);
  EXPECT(gleaner_get_stats(&stats, 3) == 3);
  gleaner_modes modes;
  EXPECT(gleaner_get_modes(&modes, sizeof modes) == sizeof modes);
  gleaner_pause_parts parts;
  gleaner_stall_stats stalls;
  gleaner_stall_bucket buckets[4];
  for (int i = -1; i < 12; ++i) {
    gleaner_get_pause_parts(i, &parts, sizeof parts);
    gleaner_get_stall_stats(i, &stalls, sizeof stalls);
    gleaner_get_stall_histogram(i, buckets, 4);
  }
}

// What is set is what is got.
inline void Set(unsigned choice, unsigned value) {
  const int on = value % 2 == 0 ? 0 : 1;
#define ROUND_TRIP(name, type, to)                    \
  do {                                                \
    const type before_ = GC_get_##name();             \
    GC_set_##name(to);                                \
    EXPECT(GC_get_##name() == static_cast<type>(to)); \
    GC_set_##name(before_);                           \
  } while (false)
  switch (choice % 19) {
    case 0:
      GC_set_free_space_divisor(1 + value % 20);
      EXPECT(GC_get_free_space_divisor() == 1 + value % 20);
      break;
    case 1:
      GC_set_full_freq(static_cast<int>(value % 30));
      EXPECT(GC_get_full_freq() == static_cast<int>(value % 30));
      break;
    case 2:
      GC_set_rate(static_cast<int>(1 + value % 40));
      break;
    case 3:
      GC_set_finalize_on_demand(on);
      EXPECT(GC_get_finalize_on_demand() == on);
      break;
    case 4:
      GC_set_java_finalization(on);
      EXPECT(GC_get_java_finalization() == on);
      break;
    case 5:
      ROUND_TRIP(dont_expand, int, on);
      break;
    case 6:
      ROUND_TRIP(max_retries, GC_word, value % 10);
      break;
    case 7:
      ROUND_TRIP(time_limit, unsigned long, value % 100);
      break;
    case 8:
      GC_set_force_unmap_on_gcollect(on);
      EXPECT(GC_get_force_unmap_on_gcollect() == on);
      break;
    case 9:
      GC_set_min_bytes_allocd(1 + value % 1'000'000);
      break;
    case 10:
      GC_set_allocd_bytes_per_finalizer(value % 100'000);
      EXPECT(GC_get_allocd_bytes_per_finalizer() == value % 100'000);
      break;
    case 11:
      ROUND_TRIP(dont_precollect, int, on);
      break;
    case 12:
      ROUND_TRIP(max_prior_attempts, int, static_cast<int>(value % 5));
      break;
    case 13:
      GC_set_non_gc_bytes(GC_get_non_gc_bytes());
      break;
    case 14:
      ROUND_TRIP(disable_automatic_collection, int, on);
      break;
    case 15:
      GC_enable_incremental();
      break;
    case 16:
      GC_start_mark_threads();
      break;
    case 17:
      GC_register_displacement(value % 5000);
      GC_debug_register_displacement(value % 3000);
      break;
    default:
      GC_expand_hp(value % 2'000'000);
  }
#undef ROUND_TRIP
}

inline void AskAboutAnything(std::mt19937& random) {
  const auto number = (uintptr_t{random()} << 32 | random()) >> random() % 64;
  void* p = reinterpret_cast<void*>(number);
  if (random() % 2) p = static_cast<char*>(GC_malloc(random() % 100)) + random() % 100'000;
  void* base = GC_base(p);
  if (base != nullptr) EXPECT(base <= p && GC_is_heap_ptr(base));
  if (base != nullptr) GC_is_marked(base);
  GC_is_heap_ptr(p);
  GC_is_tmp_root(p);
  void* source;
  size_t offset;
  if (base != nullptr && random() % 20 == 0) GC_get_back_ptr_info(base, &source, &offset);
  GC_get_size_map_at(static_cast<int>(number));
}

inline void* OnShortThread(void* bytes) {
  void* p = GC_malloc(reinterpret_cast<uintptr_t>(bytes));
  for (int i = 0; i < 200; ++i) {
    void* next = GC_malloc(48);
    if (next == nullptr) break;
    *static_cast<void**>(next) = p;
    p = next;
  }
  EXPECT(GC_thread_is_registered() == 1);
  return p;
}

inline void UseArena(std::mt19937& random) {
  gleaner_arena* arena = gleaner_arena_create(size_t{1} << 20, nullptr);
  if (arena == nullptr) return EXPECT(g_shared.calls_fail);
  void* blocks[20] = {};
  for (int i = 0; i < 200; ++i) {
    void*& block = blocks[random() % 20];
    if (block != nullptr) EXPECT(gleaner_arena_free(arena, block) == 0);
    block = gleaner_arena_allocate_zeroed(arena, 1 + random() % 5000, size_t{1} << random() % 10);
    if (block != nullptr) EXPECT(*static_cast<char*>(block) == 0);
  }
  gleaner_arena_trim(arena);
  EXPECT(gleaner_arena_destroy(arena) == 0);
}

inline void CopyTexts() {
  static const char kText[] = "all that glitters";
  EXPECT(strcmp(GC_strdup(kText), kText) == 0);
  EXPECT(strcmp(GC_strndup(kText, 3), "all") == 0);
  EXPECT(strcmp(GC_strndup(kText, SIZE_MAX), kText) == 0);
  EXPECT(strcmp(GC_debug_strdup(kText, "fuzz", 1), kText) == 0);
  EXPECT(strcmp(GC_debug_strndup(kText, 5, "fuzz", 1), "all t") == 0);
}

// A right call. `first`: of the thread that may change settings.
inline void PlainCall(std::mt19937& random, bool first) {
  const unsigned choice = random(), value = random();
  switch (choice % 16) {
    case 0:
    case 1:
    case 2:
    case 3:
      return Collect(value);
    case 4:
    case 5:
      return first ? Set(value, random()) : AskFigures();
    case 6:
      return AskFigures();
    case 7:
    case 8:
      return AskAboutAnything(random);
    case 9: {
      GC_disable();
      EXPECT(GC_is_disabled() != 0);
      for (unsigned i = 0; i < value % 100; ++i) GC_malloc(value % 2000);
      return GC_enable();
    }
    case 10: {
      pthread_t thread;
      void* result = nullptr;
      const int error = pthread_create(&thread, nullptr, OnShortThread,
                                       reinterpret_cast<void*>(uintptr_t{value % 5000}));
      if (error != 0) return EXPECT(g_shared.calls_fail);
      EXPECT(pthread_join(thread, &result) == 0);
      EXPECT(GC_base(result) == result);
      return;
    }
    case 11:
      return g_shared.may_run_out ? (void)0 : CopyTexts();
    case 12:
      GC_invoke_finalizers();
      GC_should_invoke_finalizers();
      return;
    case 13:
      return UseArena(random);
    case 14: {
      // Roots of the program's own, for a while.
      void** words = static_cast<void**>(malloc(100 * sizeof(void*)));
      memset(words, 0, 100 * sizeof(void*));
      GC_add_roots(words, words + 100);
      for (int i = 0; i < 100; ++i) words[i] = GC_malloc_atomic(24);
      for (int i = 0; i < 100; ++i) {
        if (words[i] != nullptr) strcpy(static_cast<char*>(words[i]), "here");
      }
      if (value % 4 == 0) GC_gcollect();
      for (int i = 0; i < 1000; ++i) {
        if (void* p = GC_malloc_atomic(24); p != nullptr) memset(p, 7, 24);
      }
      for (int i = 0; i < 100; ++i) {
        if (words[i] != nullptr) EXPECT(strcmp(static_cast<char*>(words[i]), "here") == 0);
      }
      GC_remove_roots(words, words + 100);
      free(words);
      return;
    }
    default:
      GC_alloc_lock();
      GC_enumerate_reachable_objects_inner(
          [](void* object, size_t bytes, void*) { EXPECT(object != nullptr && bytes >= 16); },
          nullptr);
      return GC_alloc_unlock();
  }
}

// A wrong one. `alone`: no other thread of the process takes what is given back at that moment.
inline void WrongCall(std::mt19937& random, bool alone) {
  char on_stack[64] = {};
  static char in_data[64];
  const unsigned choice = random(), value = random();
  char* const foreign = value % 2 ? on_stack + 16 : in_data + 16;
  auto* const object = static_cast<char*>(GC_malloc(40 + value % 5000));
  if (object == nullptr) return;
  void* result = nullptr;
  void* const link = object;
  switch (choice % 20) {
    case 0:
      return GC_free(foreign);
    case 1:
      return GC_free(object + 8 + value % 24);
    case 2:
      if (!alone) return;
      GC_free(object);
      return GC_free(object);
    case 3:
      EXPECT(GC_realloc(foreign, 10) == nullptr);
      return;
    case 4:
      EXPECT(GC_realloc(object + 16, 10) == nullptr);
      return;
    case 5:
      EXPECT(GC_size(foreign) == 0);
      EXPECT(GC_base(foreign) == nullptr);
      return;
    case 6:
      EXPECT(GC_generic_malloc(100, 14 + static_cast<int>(value % 1000)) == nullptr);
      EXPECT(GC_malloc_kind(100, -1 - static_cast<int>(value % 1000)) == nullptr);
      return;
    case 7:
      EXPECT(GC_memalign(3 + 4 * (value % 1000), 100) == nullptr);
      EXPECT(GC_posix_memalign(&result, 4, 100) == EINVAL);
      EXPECT(GC_posix_memalign(&result, 24, 100) == EINVAL);
      return;
    case 8:
      GC_register_finalizer(foreign, OnFinalize, nullptr, nullptr, nullptr);
      return;
    case 9:
      EXPECT(GC_general_register_disappearing_link(reinterpret_cast<void**>(foreign + 3), object) ==
             GC_NOT_FOUND);
      EXPECT(GC_unregister_disappearing_link(reinterpret_cast<void**>(foreign)) == 0);
      EXPECT(GC_unregister_long_link(reinterpret_cast<void**>(foreign)) == 0);
      return;
    case 10:
      EXPECT(GC_register_disappearing_link(reinterpret_cast<void**>(foreign)) == GC_NOT_FOUND);
      return;
    case 11:
      EXPECT(GC_get_kind_and_size(foreign, nullptr) == -1);
      return;
    case 12:
      GC_debug_free(object);  // not a debugged one: freed after a message
      return;
    case 13:
      GC_debug_free(foreign);
      EXPECT(GC_debug_realloc(foreign, 10, "fuzz", 1) == nullptr);
      return;
    case 14:
      EXPECT(GC_toggleref_add(foreign, 1) == GC_SUCCESS);
      return;
    case 15:
      GC_remove_roots(in_data, in_data + 16);
      GC_add_roots(in_data + 32, in_data + 16);
      return;
    case 16:
      // Such a descriptor nobody has made.
      result = GC_malloc_explicitly_typed(100, GC_MAKE_PROC(40, value));
      EXPECT(result != nullptr || g_shared.may_run_out);
      return;
    case 17:
      EXPECT(GC_move_disappearing_link(reinterpret_cast<void**>(foreign),
                                       reinterpret_cast<void**>(foreign + 8)) == GC_NOT_FOUND);
      return;
    case 18:
      GC_register_disclaim_proc(15, OnDisclaim, 0);
      GC_register_displacement(SIZE_MAX);
      return;
    default:
      if (!g_shared.disclaims) return;
      GC_finalized_malloc(20, reinterpret_cast<const GC_finalizer_closure*>(foreign + 4));
      GC_noop1(reinterpret_cast<GC_word>(link));
  }
}

}  // namespace gleaner::fuzz
