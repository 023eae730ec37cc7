// Options, time and the result line; see bench_util.h.
#include "bench_util.h"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

namespace bench {
namespace {

const char* g_program = "bench";

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

uint64_t PeakRssKb() {
  std::FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return 0;
  char line[256];
  unsigned long long kb = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "VmHWM: %llu", &kb) == 1) break;
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

Options::Options(const char* program, const char* summary) : summary_(summary) {
  g_program = program;
  Number("threads", &threads_, 1, 2, 1, kMaxThreads, "threads, the main one included");
  Flag("wake-markers", &wake_markers_, "create a thread first, which starts libgc's markers");
  Flag("gaps", &gaps_, "measure the longest time between two allocations or operations");
  Flag("smoke", &smoke_, "a tiny run, to test that the program works");
}

Options::Option& Options::Declare(Kind kind, const char* name, const char* help) {
  Option& option = options_.emplace_back();
  option.kind = kind;
  option.name = name;
  option.help = help;
  return option;
}

void Options::Number(const char* name, uint64_t* value, uint64_t normal, uint64_t smoke,
                     uint64_t min, uint64_t max, const char* help) {
  Option& option = Declare(Kind::kNumber, name, help);
  option.number = value;
  option.normal = normal;
  option.smoke = smoke;
  option.min = min;
  option.max = max;
}

void Options::Real(const char* name, double* value, double normal, double min, double max,
                   const char* help) {
  Option& option = Declare(Kind::kReal, name, help);
  option.real = value;
  option.real_normal = normal;
  option.real_min = min;
  option.real_max = max;
}

void Options::Flag(const char* name, bool* value, const char* help) {
  Option& option = Declare(Kind::kFlag, name, help);
  option.flag = value;
}

void Options::Choice(const char* name, int* value, std::vector<std::string> words,
                     const char* help) {
  Option& option = Declare(Kind::kChoice, name, help);
  option.choice = value;
  option.words = std::move(words);
}

void Options::Parse(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--help") Usage();
    if (!argument.starts_with("--")) Bad("unexpected argument '" + argument + "'");
    const size_t equals = argument.find('=');
    const std::string name = argument.substr(2, equals == std::string::npos ? equals : equals - 2);
    auto option = std::find_if(options_.begin(), options_.end(),
                               [&](const Option& candidate) { return candidate.name == name; });
    if (option == options_.end()) Bad("unknown option '--" + name + "'");
    if (option->kind == Kind::kFlag) {
      if (equals != std::string::npos) Bad("option '--" + name + "' takes no value");
      *option->flag = true;
    } else if (equals != std::string::npos) {
      Set(*option, argument.substr(equals + 1));
    } else if (i + 1 < argc) {
      Set(*option, argv[++i]);
    } else {
      Bad("option '--" + name + "' needs a value");
    }
    option->given = true;
  }
  for (Option& option : options_) {
    if (option.given) continue;
    if (option.kind == Kind::kNumber) *option.number = smoke_ ? option.smoke : option.normal;
    if (option.kind == Kind::kReal) *option.real = option.real_normal;
    if (option.kind == Kind::kChoice) *option.choice = 0;
  }
}

void Options::Set(Option& option, const std::string& text) const {
  const std::string shown = "option '--" + option.name + "': '" + text + "'";
  char* end = nullptr;
  errno = 0;
  if (option.kind == Kind::kNumber) {
    const uint64_t value = std::strtoull(text.c_str(), &end, 10);
    if (text.empty() || text[0] == '-' || *end != '\0' || errno != 0 || value < option.min ||
        value > option.max) {
      Bad(shown + " is not a whole number from " + std::to_string(option.min) + " to " +
          std::to_string(option.max));
    }
    *option.number = value;
  } else if (option.kind == Kind::kReal) {
    const double value = std::strtod(text.c_str(), &end);
    if (text.empty() || *end != '\0' || errno != 0 ||
        !(value >= option.real_min && value <= option.real_max)) {
      char range[96];
      std::snprintf(range, sizeof range, " is not a number from %g to %g", option.real_min,
                    option.real_max);
      Bad(shown + range);
    }
    *option.real = value;
  } else {
    const auto word = std::find(option.words.begin(), option.words.end(), text);
    if (word == option.words.end()) {
      std::string list;
      for (const std::string& each : option.words) list += " " + each;
      Bad(shown + " is none of" + list);
    }
    *option.choice = static_cast<int>(word - option.words.begin());
  }
}

void Options::Usage() const {
  std::printf("%s: %s\n", g_program, summary_);
  for (const Option& option : options_) {
    std::string left = "--" + option.name;
    std::string right = option.help;
    char text[128] = "";
    switch (option.kind) {
      case Kind::kNumber:
        left += " N";
        std::snprintf(text, sizeof text, " (%llu)", static_cast<unsigned long long>(option.normal));
        break;
      case Kind::kReal:
        left += " X";
        std::snprintf(text, sizeof text, " (%g)", option.real_normal);
        break;
      case Kind::kChoice:
        left += " W";
        for (size_t i = 0; i < option.words.size(); ++i) {
          right += (i == 0 ? ": " : " | ") + option.words[i];
        }
        break;
      case Kind::kFlag:
        break;
    }
    std::printf("  %-20s %s%s\n", left.c_str(), right.c_str(), text);
  }
  std::exit(0);
}

void Options::Bad(const std::string& message) const {
  std::fprintf(stderr, "%s: %s (--help lists the options)\n", g_program, message.c_str());
  std::exit(2);
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
  Count("peak_rss_kb", PeakRssKb());
  std::puts(line_.c_str());
  std::fflush(stdout);
}

}  // namespace bench
