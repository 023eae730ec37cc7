// Options, time and the result line; see bench_util.h.
#include "bench_util.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

namespace bench {
namespace {

const char* g_program = "bench";

std::string OptionName(const char* name) { return std::string("--") + name; }

}  // namespace

void Fail(const char* format, ...) {
  std::fprintf(stderr, "%s: ", g_program);
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
  std::exit(1);
}

uint64_t NowNs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<uint64_t>(now.tv_nsec);
}

uint64_t StatusKb(const char* key) {
  std::FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return 0;
  char line[256];
  uint64_t kb = 0;
  while (kb == 0 && std::fgets(line, sizeof line, status) != nullptr) {
    if (std::strncmp(line, key, std::strlen(key)) == 0) {
      kb = std::strtoull(line + std::strlen(key), nullptr, 10);
    }
  }
  std::fclose(status);
  return kb;
}

double Median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  if (values.size() % 2 == 1) return values[middle];
  return (values[middle - 1] + values[middle]) / 2;
}

uint64_t RandomWork::Scaled(uint64_t count) const {
  return std::max<uint64_t>(1,
                            static_cast<uint64_t>(std::round(static_cast<double>(count) * scale)));
}

uint64_t RandomWork::SeedOf(int thread) const {
  return Mix64(seed) + static_cast<uint64_t>(thread);
}

Options::Options(const char* program, const char* summary)
    : app_(std::make_unique<CLI::App>(summary, program)) {
  g_program = program;
  app_->failure_message(CLI::FailureMessage::simple);
  Number("threads", &threads_, 1, 2, 1, kMaxThreads, "threads, the main one included");
  Flag("wake-markers", &wake_markers_, "create a thread first, which starts libgc's markers");
  Flag("gaps", &gaps_, "measure the longest time between two allocations or operations");
  Flag("smoke", &smoke_, "a tiny run, to test that the program works");
}

Options::~Options() = default;

void Options::Number(const char* name, uint64_t* value, uint64_t normal, uint64_t smoke,
                     uint64_t min, uint64_t max, const char* help) {
  *value = normal;
  const CLI::Option* option = app_->add_option(OptionName(name), *value, help)
                                  ->capture_default_str()
                                  ->check(CLI::Range(min, max));
  smoke_values_.push_back([option, value, smoke] {
    if (option->count() == 0) *value = smoke;
  });
}

void Options::Real(const char* name, double* value, double normal, double min, double max,
                   const char* help) {
  *value = normal;
  app_->add_option(OptionName(name), *value, help)
      ->capture_default_str()
      ->check(CLI::Range(min, max))
      // A range contains what is neither less nor more.
      ->check([](const std::string& text) {
        const bool is_nan = std::isnan(std::strtod(text.c_str(), nullptr));
        return is_nan ? "Value " + text + " is not a number" : std::string();
      });
}

void Options::Text(const char* name, std::string* value, const char* normal, const char* help) {
  *value = normal;
  app_->add_option(OptionName(name), *value, help)->capture_default_str();
}

void Options::Flag(const char* name, bool* value, const char* help) {
  app_->add_flag(OptionName(name), *value, help)->disable_flag_override();
}

void Options::SeedAndScale(RandomWork* work) {
  Number("seed", &work->seed, 1, 1, 0, INT64_MAX, "of the pseudo-random numbers");
  Real("scale", &work->scale, 1, 1e-6, 1e6, "multiplies the operations");
}

void Options::Choice(const char* name, int* value, std::vector<std::string> words,
                     const char* help) {
  std::vector<std::pair<std::string, int>> numbers;
  for (const std::string& word : words) numbers.emplace_back(word, numbers.size());
  *value = 0;
  app_->add_option(OptionName(name), *value, help)->transform(CLI::CheckedTransformer(numbers));
}

void Options::Parse(int argc, char** argv) {
  try {
    app_->parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool wants_help = error.get_exit_code() == 0;
    if (!wants_help) std::fprintf(stderr, "%s: ", g_program);
    app_->exit(error);
    std::exit(wants_help ? 0 : 2);
  }
  for (const auto& set : smoke_values_) {
    if (smoke_) set();
  }
  smoke_values_.clear();
  app_.reset();
}

void ResultLine::Text(const char* key, const std::string& value) {
  if (!line_.empty()) line_ += ' ';
  line_ += key;
  line_ += '=';
  line_ += value;
}

void ResultLine::Count(const char* key, uint64_t value) { Text(key, std::to_string(value)); }

void ResultLine::Real(const char* key, double value) {
  char text[48];
  std::snprintf(text, sizeof text, "%.9g", value);
  Text(key, text);
}

void ResultLine::Hex(const char* key, uint64_t value) {
  char text[24];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  Text(key, text);
}

void ResultLine::Print() {
  Count("peak_rss_kb", StatusKb("VmHWM:"));
  std::puts(line_.c_str());
  std::fflush(stdout);
}

}  // namespace bench
