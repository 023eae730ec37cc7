#include "tools/common/text.h"

#include <gtest/gtest.h>

namespace gleaner::tools {
namespace {

TEST(TextTest, FiguresHaveThreeDigits) {
  EXPECT_EQ(Duration(0), "0");
  EXPECT_EQ(Duration(999), "999 ns");
  EXPECT_EQ(Duration(12'345), "12.3 µs");
  EXPECT_EQ(Duration(1'234'567), "1.23 ms");
  EXPECT_EQ(Duration(999'600'000), "1.00 s");
  EXPECT_EQ(Bytes(0), "0 B");
  EXPECT_EQ(Bytes(16'384), "16.4 kB");
  EXPECT_EQ(Bytes(4e9), "4.00 GB");
  EXPECT_EQ(Share(0), "0 %");
  EXPECT_EQ(Share(0.0123), "1.2 %");
  EXPECT_EQ(Share(1), "100 %");
  EXPECT_EQ(Count(0), "0");
  EXPECT_EQ(Count(999), "999");
  EXPECT_EQ(Count(1'234'567), "1,234,567");
}

TEST(TextTest, WhatATerminalMayShow) {
  EXPECT_EQ(ForTerminal("plain \u00e9 \\"), "plain \u00e9 \\");
  EXPECT_EQ(ForTerminal("a\033[31m\nb\x7f"), "a\\033[31m\\012b\\177");
  EXPECT_EQ(ForTerminal("\xc2\x9b\xff\xc2"), "\\302\\233\\377\\302");
  EXPECT_EQ(ForTerminal("\xc2\xa0"), "\xc2\xa0");
}

}  // namespace
}  // namespace gleaner::tools
