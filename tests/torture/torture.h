// What the torture tests share: options, random numbers, and how one ends when it finds something.
#pragma once

#include <gc.h>
#include <gleaner.h>

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace torture {

inline const char* g_name = "torture";    // of the test
inline const char* g_process = "parent";  // or how far a child is
inline unsigned long g_seed = 1;
inline unsigned g_seconds = 3;
inline unsigned g_threads = 4;
inline unsigned g_nodes = 300;  // what a unit of work is made of

// A thread that starts may hold a lock of AddressSanitizer's malloc when the process forks, and the
// child waits for it for ever (GCC 12: the sanitizer has no fork handlers).
#ifdef __SANITIZE_ADDRESS__
inline constexpr bool kForks = false;
#else
inline constexpr bool kForks = true;
#endif

[[noreturn]] __attribute__((format(printf, 1, 2))) inline void Fail(const char* format, ...) {
  fprintf(stderr, "%s (seed %lu, %s, collection %lu): ", g_name, g_seed, g_process,
          static_cast<unsigned long>(GC_get_gc_no()));
  va_list arguments;
  va_start(arguments, format);
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fputc('\n', stderr);
  abort();
}

// Reads [--seed N] [--seconds N] [--threads N] [--nodes N] and prints what counts, the seed first.
// False, after a message, if there is something else or a number is out of range.
inline bool ReadOptions(int argc, char** argv, const char* name, unsigned max_threads) {
  g_name = name;
  for (int i = 1; i < argc; i += 2) {
    const unsigned long value = i + 1 < argc ? strtoul(argv[i + 1], nullptr, 10) : 0;
    if (strcmp(argv[i], "--seed") == 0) {
      g_seed = value;
    } else if (strcmp(argv[i], "--seconds") == 0) {
      g_seconds = static_cast<unsigned>(value);
    } else if (strcmp(argv[i], "--threads") == 0) {
      g_threads = static_cast<unsigned>(value);
    } else if (strcmp(argv[i], "--nodes") == 0) {
      g_nodes = static_cast<unsigned>(value);
    } else {
      fprintf(stderr, "%s: unknown option %s\n", name, argv[i]);
      return false;
    }
  }
  if (g_threads < 1 || g_threads > max_threads || g_nodes < 20) {
    fprintf(stderr, "%s: 1 to %u threads, at least 20 nodes\n", name, max_threads);
    return false;
  }
  printf("seed %lu, %u s, %u threads, %u nodes\n", g_seed, g_seconds, g_threads, g_nodes);
  fflush(stdout);
  return true;
}

inline uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(Mix(seed)) {}
  uint64_t Next() { return state_ = Mix(state_); }
  size_t Below(size_t n) { return static_cast<size_t>(Next() % n); }
  bool OneIn(size_t n) { return Below(n) == 0; }

 private:
  uint64_t state_;
};

// Seconds, of a clock that only goes on.
inline double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// --- Modes ---

inline int Asked(const char* option) {
  const char* value = getenv(option);
  return value != nullptr ? atoi(value) : 0;
}

inline gleaner_stats Statistics() {
  gleaner_stats stats;
  gleaner_get_stats(&stats, sizeof stats);
  return stats;
}

// Calls of the library fail: a mode may be off, a collection be given up.
inline bool CallsFail() { return Asked("GLEANER_FAILURES") != 0; }

// The collector chooses the modes.
inline bool IsAutomatic() { return getenv("GLEANER_AUTO_AFTER") != nullptr; }

// There have been collections in all modes that the environment asks for.
inline bool HaveModesShown() {
  const gleaner_stats stats = Statistics();
  return GC_get_gc_no() != 0 &&
         (!IsAutomatic() || stats.concurrent_collections + stats.minor_collections != 0) &&
         (Asked("GLEANER_CONCURRENT") == 0 || stats.concurrent_collections != 0) &&
         (Asked("GLEANER_GENERATIONAL") != 2 || stats.minor_collections != 0) &&
         (Asked("GLEANER_CONCURRENT_SWEEP") == 0 || stats.concurrent_sweeps != 0);
}

// How long the test goes on: for the time asked for, and on a loaded machine until it has come to
// what it is to test. What the collector chooses hangs on times that it has measured: if it has
// chosen no collection but stop-parallel ones by then, the program asks for the others.
class Period {
 public:
  bool IsOver() const {
    const double ran = Now() - begin_;
    if (ran < g_seconds) return false;
    if (CallsFail() || HaveModesShown()) return true;
    if (IsAutomatic()) GC_enable_incremental();
    return ran >= g_seconds + 120;
  }

 private:
  const double begin_ = Now();
};

// All modes that the environment asks for are on, and no others; and have shown. Where calls fail,
// the line that is printed says which were (tests/failures).
inline void CheckModes() {
  gleaner_modes modes;
  gleaner_get_modes(&modes, sizeof modes);
  const gleaner_stats stats = Statistics();
  printf("mode: tracking %s, %lu concurrent collections, %lu minor, %lu sweeps\n", modes.tracking,
         stats.concurrent_collections, stats.minor_collections, stats.concurrent_sweeps);
  if (CallsFail()) return;
  const bool chooses_minors = IsAutomatic() && GC_is_incremental_mode() == 0;
  if ((IsAutomatic() || Asked("GLEANER_CONCURRENT") != 0) != (modes.concurrent != 0) ||
      (chooses_minors || Asked("GLEANER_GENERATIONAL") != 0) != (modes.generational != 0)) {
    Fail("concurrent %d, generational %d (%s)", modes.concurrent, modes.generational, modes.reason);
  }
  const char* tracking = getenv("GLEANER_WRITE_TRACKING");
  const bool tracks = modes.concurrent != 0 || modes.generational != 0;
  if (tracks && tracking != nullptr && strcmp(tracking, modes.tracking) != 0) {
    Fail("writes are tracked by %s (%s)", modes.tracking, modes.reason);
  }
  if (!HaveModesShown()) Fail("no collection in the mode");
}

}  // namespace torture
