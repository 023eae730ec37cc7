// The option parser: values, libgc's names, and what is said about mistakes.
#include "runtime/process/options.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <string>

#include "tests/support/child.h"

namespace gleaner::runtime {
namespace {

using testing::RunInChild;

struct Variable {
  const char* name;
  const char* value;
};

// Reads the options in a child with just these variables, runs f there, and returns what was said.
template <class F>
std::string Read(std::initializer_list<Variable> variables, F f) {
  const auto result = RunInChild([&] {
    clearenv();
    for (const Variable& variable : variables) setenv(variable.name, variable.value, 1);
    ReadOptions();
    f();
  });
  EXPECT_TRUE(result.ok()) << result.err;
  return result.err;
}

template <class F>
void ExpectTaken(std::initializer_list<Variable> variables, F f) {
  EXPECT_EQ(Read(variables, f), "");
}

// Reads one option that must be refused: the message names variable, value, range and default.
void ExpectRefused(const char* name, const char* value, const char* range,
                   const char* default_text) {
  const std::string said = Read({{name, value}}, [] {});
  const std::string expected = std::string("gleaner: option ") + name + ": '" + value +
                               "' is not allowed (" + range + "); using " + default_text + "\n";
  EXPECT_EQ(said, expected);
}

TEST(OptionsTest, Defaults) {
  ExpectTaken({}, [] {
    EXPECT_EQ(g_options.policy, 0u);
    EXPECT_EQ(g_options.k, 1.0);
    EXPECT_EQ(g_options.markers, 0u);
    EXPECT_EQ(g_options.free_space_divisor, 3u);
    EXPECT_EQ(g_options.min_allowance, 448 * kKiB);
    EXPECT_EQ(g_options.reserve, 0u);
    EXPECT_TRUE(g_options.huge_pages);
    EXPECT_TRUE(g_options.all_interior_pointers);
    EXPECT_EQ(g_options.log_file, nullptr);
  });
}

TEST(OptionsTest, EveryTypeIsRead) {
  ExpectTaken({{"GLEANER_POLICY", "PS"},
               {"GLEANER_K", "2.5"},
               {"GLEANER_MARKERS", "7"},
               {"GLEANER_MAX_HEAP", "64m"},
               {"GLEANER_HUGE_PAGES", "off"},
               {"GLEANER_LOG_FILE", "/tmp/x"}},
              [] {
                EXPECT_EQ(g_options.policy, 2u);
                EXPECT_EQ(g_options.k, 2.5);
                EXPECT_EQ(g_options.markers, 7u);
                EXPECT_EQ(g_options.max_heap, 64 * kMiB);
                EXPECT_FALSE(g_options.huge_pages);
                EXPECT_STREQ(g_options.log_file, "/tmp/x");
              });
}

TEST(OptionsTest, BytesTakeSuffixes) {
  const struct {
    const char* text;
    uint64_t bytes;
  } cases[] = {{"1048576", kMiB}, {"1024k", kMiB},
               {"1024K", kMiB},   {"1m", kMiB},
               {"1M", kMiB},      {"1MB", kMiB},
               {"1MiB", kMiB},    {"1.5m", 3 * kMiB / 2},
               {"2g", 2 * kGiB},  {"1t", uint64_t{1} << 40}};
  for (const auto& test : cases) {
    ExpectTaken({{"GLEANER_COLLECT_EVERY", test.text}},
                [&] { EXPECT_EQ(g_options.collect_every, test.bytes) << test.text; });
  }
}

TEST(OptionsTest, SwitchesTakeWords) {
  for (const char* yes : {"1", "true", "TRUE", "yes", "on"}) {
    ExpectTaken({{"GLEANER_DONT_GC", yes}}, [] { EXPECT_TRUE(g_options.dont_gc); });
  }
  for (const char* no : {"0", "false", "No", "off"}) {
    ExpectTaken({{"GLEANER_MARK_SPLIT", no}}, [] { EXPECT_FALSE(g_options.mark_split); });
  }
}

TEST(OptionsTest, RangesAreInclusive) {
  ExpectTaken({{"GLEANER_MARKERS", "64"}, {"GLEANER_K", "65535"}, {"GLEANER_MIN_ALLOWANCE", "64k"}},
              [] {
                EXPECT_EQ(g_options.markers, 64u);
                EXPECT_EQ(g_options.k, 65535.0);
                EXPECT_EQ(g_options.min_allowance, 64 * kKiB);
              });
}

TEST(OptionsTest, WhatIsNotAllowedIsNamedWithRangeAndDefault) {
  ExpectRefused("GLEANER_MARKERS", "65", "0 to 64", "0");
  ExpectRefused("GLEANER_MARKERS", "-1", "0 to 64", "0");
  ExpectRefused("GLEANER_MARKERS", "2.5", "0 to 64", "0");
  ExpectRefused("GLEANER_MARKERS", "two", "0 to 64", "0");
  ExpectRefused("GLEANER_MARKERS", "4x", "0 to 64", "0");
  ExpectRefused("GLEANER_MARKERS", "1e300", "0 to 64", "0");
  ExpectRefused("GLEANER_MARKERS", "nan", "0 to 64", "0");
  ExpectRefused("GLEANER_MARKERS", "inf", "0 to 64", "0");
  ExpectRefused("GLEANER_K", "0.5", "1 to 65535", "1");
  ExpectRefused("GLEANER_K", "nan", "1 to 65535", "1");
  ExpectRefused("GLEANER_POLICY", "lpss", "lps/al/ps", "lps");
  ExpectRefused("GLEANER_POLICY", "l", "lps/al/ps", "lps");
  ExpectRefused("GLEANER_POLICY", "lps|al", "lps/al/ps", "lps");
  ExpectRefused("GLEANER_TERMINATION", "3", "states/counter", "states");
  ExpectRefused("GLEANER_HUGE_PAGES", "maybe", "0 or 1", "1");
  ExpectRefused("GLEANER_HUGE_PAGES", "2", "0 or 1", "1");
  ExpectRefused("GLEANER_RESERVE", "1m", "64m to 16t", "0");
  ExpectRefused("GLEANER_RESERVE", "64mm", "64m to 16t", "0");
  ExpectRefused("GLEANER_RESERVE", "64 m", "64m to 16t", "0");
  ExpectRefused("GLEANER_MIN_ALLOWANCE", "1k", "64k to 1t", "448k");
}

TEST(OptionsTest, AnEmptyValueIsNone) {
  ExpectTaken({{"GLEANER_POLICY", ""},
               {"GLEANER_K", ""},
               {"GLEANER_MARKERS", ""},
               {"GLEANER_MAX_HEAP", ""},
               {"GLEANER_HUGE_PAGES", ""},
               {"GLEANER_DONT_GC", ""},
               {"GLEANER_LOG_FILE", ""},
               {"GC_INITIAL_HEAP_SIZE", ""},
               {"GC_LOG_FILE", ""}},
              [] {
                EXPECT_EQ(g_options.policy, 0u);
                EXPECT_EQ(g_options.k, 1.0);
                EXPECT_EQ(g_options.markers, 0u);
                EXPECT_EQ(g_options.max_heap, 0u);
                EXPECT_TRUE(g_options.huge_pages);
                EXPECT_FALSE(g_options.dont_gc);
                EXPECT_EQ(g_options.initial_heap, 0u);
                EXPECT_EQ(g_options.log_file, nullptr);
              });
}

TEST(OptionsTest, AnEmptyValueLeavesTheWordToLibgcsName) {
  ExpectTaken({{"GLEANER_MARKERS", ""}, {"GC_MARKERS", "5"}},
              [] { EXPECT_EQ(g_options.markers, 5u); });
}

// Programs and scripts that set GC_DONT_GC= for libgc mean it.
TEST(OptionsTest, LibgcsSwitchesAreOnThoughEmpty) {
  ExpectTaken({{"GC_DONT_GC", ""}, {"GC_PRINT_STATS", ""}}, [] {
    EXPECT_TRUE(g_options.dont_gc);
    EXPECT_EQ(g_options.print_stats, 1u);
  });
}

TEST(OptionsTest, ARefusedValueLeavesTheDefault) {
  Read({{"GLEANER_RESERVE", "1"}, {"GLEANER_POLICY", "none"}, {"GLEANER_K", "0"}}, [] {
    EXPECT_EQ(g_options.reserve, 0u);
    EXPECT_EQ(g_options.policy, 0u);
    EXPECT_EQ(g_options.k, 1.0);
  });
}

TEST(OptionsTest, AMisspeltNameGetsASuggestion) {
  const std::string said =
      Read({{"GLEANER_MARKRES", "4"}}, [] { EXPECT_EQ(g_options.markers, 0u); });
  EXPECT_NE(said.find("GLEANER_MARKRES is no option; did you mean GLEANER_MARKERS?"),
            std::string::npos)
      << said;
  const std::string lower =
      Read({{"GLEANER_markers", "4"}}, [] { EXPECT_EQ(g_options.markers, 0u); });
  EXPECT_NE(lower.find("GLEANER_markers is no option"), std::string::npos) << lower;
}

TEST(OptionsTest, AnyMisspeltNameIsReported) {
  for (const std::string& name :
       {std::string("GLEANER_"), std::string("GLEANER_X"), "GLEANER_" + std::string(54, 'Q'),
        "GLEANER_" + std::string(300, 'Q')}) {
    const std::string said = Read({{name.c_str(), "1"}}, [] {});
    EXPECT_NE(said.find(name.substr(0, 40)), std::string::npos) << name << ": " << said;
    EXPECT_NE(said.find(" is no option"), std::string::npos) << name << ": " << said;
  }
}

TEST(OptionsTest, LibgcsNamesWorkAndOursWin) {
  ExpectTaken({{"GC_MARKERS", "3"}, {"GC_FREE_SPACE_DIVISOR", "9"}, {"GC_DONT_GC", "1"}}, [] {
    EXPECT_EQ(g_options.markers, 3u);
    EXPECT_EQ(g_options.free_space_divisor, 9u);
    EXPECT_TRUE(g_options.dont_gc);
  });
  ExpectTaken({{"GC_MARKERS", "3"}, {"GLEANER_MARKERS", "5"}},
              [] { EXPECT_EQ(g_options.markers, 5u); });
  // A switch of libgc's is on when it exists.
  ExpectTaken({{"GC_DONT_GC", ""}}, [] { EXPECT_TRUE(g_options.dont_gc); });
  ExpectTaken({{"GC_DONT_GC", "0"}}, [] { EXPECT_FALSE(g_options.dont_gc); });
  const std::string said = Read({{"GC_MARKERS", "1000"}}, [] { EXPECT_EQ(g_options.markers, 0u); });
  EXPECT_NE(said.find("GC_MARKERS"), std::string::npos);
  EXPECT_NE(said.find("0 to 64"), std::string::npos);
}

TEST(OptionsTest, OtherVariablesAreNotLookedAt) {
  ExpectTaken({{"GC_NO_SUCH_THING", "1"}, {"GLEANER", "1"}, {"XGLEANER_MARKERS", "99"}}, [] {});
}

}  // namespace
}  // namespace gleaner::runtime
