#include "tools/numa/numa_maps.h"

#include <gtest/gtest.h>

namespace gleaner::tools {
namespace {

using Numbers = std::vector<int>;

TEST(NumaMapsTest, Numbers) {
  for (const auto& [text, numbers] : std::map<std::string, Numbers>{
           {"0", {0}}, {"0-2,5", {0, 1, 2, 5}}, {"7,8", {7, 8}}, {"1-1", {1}}, {"", {}}}) {
    EXPECT_EQ(ParseNumbers(text), numbers) << text;
  }
  for (const char* text :
       {"x", "1-", "-1", "2-1", "1,x", "0-99999999", "99999999999999999999", "1 2"}) {
    EXPECT_TRUE(ParseNumbers(text).empty()) << text;
  }
  EXPECT_EQ(NumbersText({0, 1, 2, 5, 7, 8}), "0-2,5,7,8");
  EXPECT_EQ(NumbersText({}), "");
}

TEST(NumaMapsTest, NodesOfPolicies) {
  EXPECT_EQ(NodesOfPolicy("bind:0-1"), (Numbers{0, 1}));
  EXPECT_EQ(NodesOfPolicy("bind=static|balancing:3"), (Numbers{3}));
  EXPECT_EQ(NodesOfPolicy("prefer (many):0,2"), (Numbers{0, 2}));
  EXPECT_EQ(NodesOfPolicy("weighted interleave:1"), (Numbers{1}));
  EXPECT_TRUE(NodesOfPolicy("default").empty());
  EXPECT_TRUE(NodesOfPolicy("local").empty());
  EXPECT_TRUE(NodesOfPolicy("").empty());
}

TEST(NumaMapsTest, LinesAreJoined) {
  const std::vector<NumaMapping> mappings = JoinMaps(
      "1000-3000 r-xp 00000000 fe:00 5                    /a file (deleted)\n"
      "4000-5000 rw-p 00000000 00:00 0 \n"
      "6000-7000 rw-s 00000000 00:01 0                    /dev/zero (deleted)\n",
      "1000 prefer (many):0-1 file=/a\\040file mapped=2 mapmax=30 N0=1 N3=1 kernelpagesize_kB=4\n"
      "4000 weighted interleave:0 anon=3 dirty=3 N0=2 N1=1 kernelpagesize_kB=2048\n"
      "6000 default\n"
      "9000 bind:1 anon=1 N1=1 kernelpagesize_kB=4\n"
      "no line\n\n");
  ASSERT_EQ(mappings.size(), 4U);
  EXPECT_EQ(mappings[0].path, "/a file (deleted)");
  EXPECT_EQ(mappings[0].policy, "prefer (many):0-1");
  EXPECT_EQ(mappings[0].nodes, (BytesByNode{{0, 4096}, {3, 4096}}));
  EXPECT_EQ(mappings[0].max_mappers, 30U);
  EXPECT_TRUE(mappings[0].is_file() && mappings[0].is_executable() && !mappings[0].is_shared());
  EXPECT_EQ(mappings[1].policy, "weighted interleave:0");
  EXPECT_EQ(mappings[1].nodes, (BytesByNode{{0, 4U << 20}, {1, 2U << 20}}));
  EXPECT_EQ(mappings[1].anonymous_bytes, 6U << 20);
  EXPECT_TRUE(mappings[2].nodes.empty() && mappings[2].is_shared());
  EXPECT_EQ(mappings[3].begin, 0x9000U);  // made between the two texts
  EXPECT_EQ(mappings[3].end, 0x9000U);
  EXPECT_EQ(SumOf(mappings[3].nodes), 4096U);
}

TEST(NumaMapsTest, WithoutNuma) {
  const std::vector<NumaMapping> mappings = MapsOfOneNode(
      "1000-3000 r-xp 00000000 fe:00 5     /file\nSize:  8 kB\nKernelPageSize:  4 kB\nRss:   8 kB\n"
      "Anonymous:  4 kB\nVmFlags: rd ex mr\n"
      "4000-5000 rw-p 00000000 00:00 0 \nRss:    0 kB\n");
  ASSERT_EQ(mappings.size(), 2U);
  EXPECT_EQ(mappings[0].nodes, (BytesByNode{{0, 8192}}));
  EXPECT_EQ(mappings[0].anonymous_bytes, 4096U);
  EXPECT_EQ(mappings[0].page_bytes, 4096U);
  EXPECT_TRUE(mappings[1].nodes.empty());
}

}  // namespace
}  // namespace gleaner::tools
