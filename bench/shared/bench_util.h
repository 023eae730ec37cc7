// What every benchmark shares and that knows nothing of a collector: options, time, pseudo-random
// numbers and the one line of `key=value` pairs on stdout that bench/experiments reads.
// Thread-safety: Options and ResultLine belong to the main thread; the functions may be called
// from any thread.
#ifndef GLEANER_BENCH_BENCH_UTIL_H_
#define GLEANER_BENCH_BENCH_UTIL_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace bench {

inline constexpr int kMaxThreads = 256;

// Prints "<program>: <message>" on stderr and exits with status 1.
[[noreturn]] void Fail(const char* format, ...) __attribute__((format(printf, 1, 2)));

// Monotonic time in nanoseconds.
uint64_t NowNs();

// A figure of /proc/self/status, in KiB: "VmHWM:", the highest resident set since the exec, or
// "VmRSS:", the present one.
uint64_t StatusKb(const char* key);

// Takes a copy; the values may be in any order. An empty list has median 0.
double Median(std::vector<double> values);

// The finaliser of splitmix64: a bijection of 64-bit words.
inline uint64_t Mix64(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// splitmix64. Equal seeds give equal sequences everywhere, which makes checksums comparable.
class Rng {
 public:
  explicit Rng(uint64_t seed) : state_(Mix64(seed + 0x5851f42d4c957f2du)) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    return Mix64(state_);
  }

  // Uniform in [0, bound), bound >= 1.
  uint64_t Below(uint64_t bound) {
    __extension__ using Wide = unsigned __int128;
    return static_cast<uint64_t>((static_cast<Wide>(Next()) * bound) >> 64);
  }

  // Uniform in [0, 1).
  double Unit() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

 private:
  uint64_t state_;
};

// What --seed and --scale say. Nothing depends on the seed where nothing is pseudo-random.
struct RandomWork {
  uint64_t seed = 1;
  double scale = 1;

  // How often to do what is done `count` times at scale 1; at least once.
  uint64_t Scaled(uint64_t count) const;
  // Another one for each thread.
  uint64_t SeedOf(int thread) const;
  // Is added to seeds that a program gives itself; 0 if --seed is the default.
  uint64_t SeedOffset() const { return Mix64(seed - 1); }
};

// The command line. Every option has a normal default and one for --smoke; --threads,
// --wake-markers, --gaps (gc_run.h), --smoke and --help exist in every program. Values are written
// `--name value` or `--name=value`.
class Options {
 public:
  Options(const char* program, const char* summary);
  ~Options();

  // Declares --name with its defaults and inclusive range; `*value` has its value after Parse.
  void Number(const char* name, uint64_t* value, uint64_t normal, uint64_t smoke, uint64_t min,
              uint64_t max, const char* help);
  void Real(const char* name, double* value, double normal, double min, double max,
            const char* help);
  void Text(const char* name, std::string* value, const char* normal, const char* help);
  void Flag(const char* name, bool* value, const char* help);
  // Declares --seed and --scale.
  void SeedAndScale(RandomWork* work);
  // `*value` becomes the index of the word chosen; the first one is the default.
  void Choice(const char* name, int* value, std::vector<std::string> words, const char* help);

  // Exits with status 0 after --help, with status 2 and a message on a bad command line.
  void Parse(int argc, char** argv);

  int threads() const { return static_cast<int>(threads_); }
  bool wake_markers() const { return wake_markers_; }
  bool gaps() const { return gaps_; }

 private:
  std::unique_ptr<CLI::App> app_;  // null after Parse: its memory is not the benchmark's
  std::vector<std::function<void()>> smoke_values_;  // each sets a number that was not given
  uint64_t threads_ = 1;
  bool wake_markers_ = false;
  bool gaps_ = false;
  bool smoke_ = false;
};

// The result of a run, in the order of the calls.
class ResultLine {
 public:
  explicit ResultLine(const char* benchmark) { Text("bench", benchmark); }
  void Text(const char* key, const std::string& value);
  void Count(const char* key, uint64_t value);
  void Real(const char* key, double value);
  void Hex(const char* key, uint64_t value);
  // Adds peak_rss_kb and writes the line to stdout.
  void Print();

 private:
  std::string line_;
};

}  // namespace bench

#endif  // GLEANER_BENCH_BENCH_UTIL_H_
