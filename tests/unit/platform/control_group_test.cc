#include "platform/os/control_group.h"

#include <gtest/gtest.h>

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "platform/os/base.h"

namespace gleaner::platform {
namespace {

class ControlGroupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = ::testing::TempDir() + "gleaner_groups_XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    membership_ = root_ + "/membership";
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = root_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  bool Get(uint64_t* bytes) const {
    return GetControlGroupMemoryBytes(bytes, {membership_.c_str(), root_.c_str()});
  }
  uint64_t Bytes() const {
    uint64_t bytes = 1;
    EXPECT_TRUE(Get(&bytes));
    return bytes;
  }
  int Processors() const { return ControlGroupProcessors({membership_.c_str(), root_.c_str()}); }

 private:
  std::string root_;
  std::string membership_;
};

TEST_F(ControlGroupTest, WithoutFilesNothingIsLimited) {
  EXPECT_EQ(Bytes(), 0u);
  EXPECT_EQ(Processors(), INT_MAX);
}

TEST_F(ControlGroupTest, TheSmallestLimitOfAllLevelsCounts) {
  Write("membership", "0::/a/b\n");
  Write("a/b/memory.max", "max\n");
  Write("a/b/memory.high", "300000\n");
  Write("a/memory.max", "200000\n");
  Write("a/memory.high", "max\n");
  Write("a/b/cpu.max", "350000 100000\n");
  Write("a/cpu.max", "max 100000\n");
  EXPECT_EQ(Bytes(), 200000u);
  EXPECT_EQ(Processors(), 4);
  Write("memory.max", "100000\n");  // a container's own root
  Write("cpu.max", "50000 100000\n");
  EXPECT_EQ(Bytes(), 100000u);
  EXPECT_EQ(Processors(), 1);
}

TEST_F(ControlGroupTest, Version1HasAHierarchyForEachController) {
  Write("membership",
        "11:name=systemd:/x\n5:cpu,cpuacct:/c\n4:memory:/docker/123\n3:cpuset:/\n0::/\n");
  Write("memory/docker/123/memory.limit_in_bytes", "9223372036854771712\n");
  EXPECT_EQ(Bytes(), 0u);
  Write("memory/memory.limit_in_bytes", "500000\n");
  EXPECT_EQ(Bytes(), 500000u);
  Write("cpu/c/cpu.cfs_quota_us", "-1\n");
  Write("cpu/c/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Processors(), INT_MAX);
  Write("cpu/c/cpu.cfs_quota_us", "150000\n");
  EXPECT_EQ(Processors(), 2);
}

TEST_F(ControlGroupTest, APathThatTheContainerDoesNotHaveIsLeftOut) {
  Write("membership", "4:memory:/docker/gone\n");
  Write("memory/memory.limit_in_bytes", "700000\n");
  EXPECT_EQ(Bytes(), 700000u);
}

TEST_F(ControlGroupTest, DamagedFilesLimitNothing) {
  for (const char* text : {"", "\n", "0", "0:", "0::", "::::", "4:memory", "no colons at all"}) {
    Write("membership", text);
    Write("memory.max", "lots\n");
    Write("cpu.max", "\n");
    EXPECT_EQ(Bytes(), 0u) << text;
    EXPECT_EQ(Processors(), INT_MAX) << text;
  }
  // A group of more than a path's length, many levels deep.
  std::string deep = "0::";
  for (int i = 0; i < 400; ++i) deep += "/level";
  Write("membership", deep + "\n");
  Write("memory.max", "600000\n");
  EXPECT_TRUE(Bytes() == 0u || Bytes() == 600000u);
}

TEST_F(ControlGroupTest, AFileOfZeroDoesNotHideAnother) {
  Write("membership", "0::/a\n");
  Write("a/memory.high", "0\n");
  EXPECT_EQ(Bytes(), 0u);
  Write("a/memory.max", "400000\n");
  EXPECT_EQ(Bytes(), 400000u);
}

TEST_F(ControlGroupTest, TheLargestQuotaIsNoSmallOne) {
  Write("membership", "0::/a\n");
  Write("a/cpu.max", std::to_string(LONG_MAX) + " 100000\n");
  EXPECT_EQ(Processors(), INT_MAX);
}

TEST_F(ControlGroupTest, AFileThatCannotBeReadIsNotTakenForNoLimit) {
  Write("membership", "0::/a\n");
  Write("a/memory.max/in_its_place_is_a_folder", "");
  uint64_t bytes = 17;
  EXPECT_FALSE(Get(&bytes));
  EXPECT_EQ(bytes, 17u);
  EXPECT_EQ(Processors(), INT_MAX);
}

}  // namespace
}  // namespace gleaner::platform
