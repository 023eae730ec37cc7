#include "platform/nodes/topology.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "platform/os/filters.h"
#include "tests/support/child.h"
#include "tests/support/refusals.h"

namespace gleaner::platform {
namespace {

template <class Set>
std::string List(const Set& set) {
  char text[4096];
  set.Format(text, sizeof text);
  return text;
}

bool ProcessMaps(const char* name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find(name) != std::string::npos) return true;
  }
  return false;
}

// A folder of the test's own.
class Folder {
 public:
  Folder() : path_(::testing::TempDir() + "gleaner_topology_XXXXXX") {
    EXPECT_NE(mkdtemp(path_.data()), nullptr);
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = path_ + "/" + name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
    return path;
  }
  const char* path() const { return path_.c_str(); }

 private:
  std::string path_;
};

// In a child, since hwloc reads the environment: what it makes of the text.
template <class F>
void WithSynthetic(const char* text, F f) {
  EXPECT_CHILD_OK([&] {
    setenv("HWLOC_SYNTHETIC", text, 1);
    const Topology* topology = LoadTopology();
    ASSERT_NE(topology, nullptr);
    EXPECT_EQ(LoadTopology(), topology);
    EXPECT_EQ(LoadedTopology(), topology);
    f(*topology);
  });
}

TEST(TopologyTest, OneNode) {
  WithSynthetic("node:1 core:4 pu:1", [](const Topology& t) {
    EXPECT_TRUE(t.from_hwloc);
    EXPECT_FALSE(t.is_this_machine);
    EXPECT_STREQ(t.problem, "");
    EXPECT_EQ(List(t.nodes), "0");
    EXPECT_EQ(List(t.ProcessorsOf(0)), "0-3");
    EXPECT_EQ(t.distance(0, 0), kLocalDistance);
  });
}

TEST(TopologyTest, SeveralNodes) {
  for (const int count : {2, 4, 8}) {
    const std::string text = "node:" + std::to_string(count) + " core:8 pu:1";
    WithSynthetic(text.c_str(), [&](const Topology& t) {
      EXPECT_EQ(t.node_count, count);
      EXPECT_EQ(t.nodes.Count(), count);
      EXPECT_EQ(t.processor_nodes, t.nodes);
      EXPECT_EQ(t.machine_nodes, t.nodes);
      EXPECT_EQ(t.processors.Count(), 8 * count);
      for (int node = 0; node < count; ++node) {
        EXPECT_EQ(t.NodeAt(node), node);
        EXPECT_EQ(t.IndexOf(node), node);
        EXPECT_EQ(t.ProcessorsOf(node).Count(), 8);
        for (int to = 0; to < count; ++to) EXPECT_EQ(t.distance(node, to), node == to ? 10 : 20);
      }
      for (int p = 0; p < 8 * count; ++p) EXPECT_EQ(t.NodeOfProcessor(p), p / 8);
      for (const int p : {-1, 8 * count, kMaxProcessors}) EXPECT_EQ(t.NodeOfProcessor(p), -1);
      for (const int node : {-1, count, kMaxNodes}) {
        EXPECT_EQ(t.IndexOf(node), -1);
        EXPECT_EQ(t.distance(0, node), kUnknownDistance);
      }
    });
  }
}

TEST(TopologyTest, NumbersMayHaveGaps) {
  WithSynthetic("node:3(indexes=252,0,8) pu:2", [](const Topology& t) {
    EXPECT_EQ(List(t.nodes), "0,8,252");
    EXPECT_EQ(t.IndexOf(252), 2);
    EXPECT_EQ(t.NodeAt(1), 8);
    EXPECT_EQ(t.NodeOfProcessor(0), 252);
    EXPECT_EQ(List(t.ProcessorsOf(8)), "4-5");
    EXPECT_EQ(t.distance(252, 8), kUnknownDistance);
  });
}

// As hwloc 2 exports it: node 1 is without memory, node 2 is allowed no more, and distances are by
// units of which 100 are local.
constexpr const char* kMachine = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
  <object type="Machine" os_index="0" cpuset="0x0000003f" complete_cpuset="0x0000003f"
      allowed_cpuset="0x0000000f" nodeset="0x00000007" complete_nodeset="0x00000007"
      allowed_nodeset="0x00000003" gp_index="1">
    <object type="Group" cpuset="0x00000003" complete_cpuset="0x00000003" nodeset="0x00000001"
        complete_nodeset="0x00000001" gp_index="2" kind="1001" subkind="0">
      <object type="NUMANode" os_index="0" cpuset="0x00000003" complete_cpuset="0x00000003"
          nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="3" local_memory="1000000"/>
      <object type="PU" os_index="0" cpuset="0x00000001" complete_cpuset="0x00000001"
          nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="4"/>
      <object type="PU" os_index="1" cpuset="0x00000002" complete_cpuset="0x00000002"
          nodeset="0x00000001" complete_nodeset="0x00000001" gp_index="5"/>
    </object>
    <object type="Group" cpuset="0x0000000c" complete_cpuset="0x0000000c" nodeset="0x00000002"
        complete_nodeset="0x00000002" gp_index="6" kind="1001" subkind="0">
      <object type="NUMANode" os_index="1" cpuset="0x0000000c" complete_cpuset="0x0000000c"
          nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="7"/>
      <object type="PU" os_index="2" cpuset="0x00000004" complete_cpuset="0x00000004"
          nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="8"/>
      <object type="PU" os_index="3" cpuset="0x00000008" complete_cpuset="0x00000008"
          nodeset="0x00000002" complete_nodeset="0x00000002" gp_index="9"/>
    </object>
    <object type="Group" cpuset="0x00000030" complete_cpuset="0x00000030" nodeset="0x00000004"
        complete_nodeset="0x00000004" gp_index="10" kind="1001" subkind="0">
      <object type="NUMANode" os_index="2" cpuset="0x00000030" complete_cpuset="0x00000030"
          nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="11" local_memory="1000000"/>
      <object type="PU" os_index="4" cpuset="0x00000010" complete_cpuset="0x00000010"
          nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="12"/>
      <object type="PU" os_index="5" cpuset="0x00000020" complete_cpuset="0x00000020"
          nodeset="0x00000004" complete_nodeset="0x00000004" gp_index="13"/>
    </object>
  </object>
  <distances2 type="NUMANode" nbobjs="3" kind="5" name="NUMALatency" indexing="os">
    <indexes length="6">0 1 2 </indexes>
    <u64values length="36">100 210 310 210 100 170 310 170 100 </u64values>
  </distances2>
</topology>
)";

TEST(TopologyTest, FromAFile) {
  const Folder folder;
  const std::string file = folder.Write("machine.xml", kMachine);
  EXPECT_CHILD_OK([&] {
    setenv("HWLOC_XMLFILE", file.c_str(), 1);
    const Topology* t = LoadTopology();
    EXPECT_TRUE(t->from_hwloc);
    EXPECT_FALSE(t->is_this_machine);
    EXPECT_EQ(List(t->machine_nodes), "0-2");
    EXPECT_EQ(List(t->machine_memory_nodes), "0,2");
    EXPECT_EQ(List(t->machine_processors), "0-5");
    EXPECT_EQ(List(t->nodes), "0");
    EXPECT_EQ(List(t->processors), "0-3");
    EXPECT_EQ(List(t->processor_nodes), "0-1");
    EXPECT_EQ(t->node_count, 2);
    EXPECT_EQ(t->IndexOf(2), -1);
    EXPECT_TRUE(t->ProcessorsOf(2).IsEmpty());
    EXPECT_EQ(t->NodeOfProcessor(4), 2);  // though it is not allowed
    EXPECT_EQ(t->distance(0, 1), 21);
    EXPECT_EQ(t->distance(1, 2), 17);
    EXPECT_EQ(t->distance(2, 0), 31);
    EXPECT_EQ(t->distance(2, 2), 10);
  });
}

CHILD_TEST(TopologyTest, NothingOfHwlocStays) {
  ASSERT_FALSE(ProcessMaps("libhwloc"));
  errno = 77;
  EXPECT_TRUE(LoadTopology()->from_hwloc);
  EXPECT_EQ(errno, 77);
  EXPECT_FALSE(ProcessMaps("libhwloc"));
  EXPECT_FALSE(ProcessMaps("libudev"));
}

// What every machine has, whoever tells of it.
void ExpectThisMachine(const Topology* t) {
  ASSERT_NE(t, nullptr);
  EXPECT_TRUE(t->is_this_machine);
  NodeSet nodes;
  if (GetAllowedNodes(&nodes)) nodes.Intersect(t->machine_memory_nodes);
  EXPECT_EQ(t->nodes, nodes);
  ProcessorSet processors;
  ASSERT_TRUE(GetAffinity(0, &processors));
  EXPECT_EQ(t->processors, processors);
  ProcessorSet of_nodes;
  for (int node = 0; node < kMaxNodes; ++node) {
    if (t->machine_nodes.Has(node)) of_nodes.Unite(t->ProcessorsOf(node));
  }
  EXPECT_EQ(of_nodes, processors);
  const int node = t->NodeOfProcessor(sched_getcpu());
  EXPECT_TRUE(t->processor_nodes.Has(node));
  EXPECT_EQ(t->distance(node, node), kLocalDistance);
}

TEST(TopologyTest, WrongVariablesAreOfNoAccount) {
  for (const auto& [name, value] :
       {std::pair{"HWLOC_SYNTHETIC", "nonsense:4"}, {"HWLOC_XMLFILE", "/no/such/file"}}) {
    EXPECT_CHILD_OK([&, name = name, value = value] {
      setenv(name, value, 1);
      ExpectThisMachine(LoadTopology());
    });
  }
}

TEST(TopologyTest, WithoutHwlocTheKernelTells) {
  const Topology* by_hwloc = ReadTopology();
  ExpectThisMachine(by_hwloc);
  for (const char* library : {"libnone.so.15", "libm.so.6"}) {
    const Topology* t = ReadTopology({.hwloc = library});
    ExpectThisMachine(t);
    EXPECT_FALSE(t->from_hwloc);
    EXPECT_EQ(t->machine_nodes, by_hwloc->machine_nodes);
    EXPECT_EQ(t->machine_processors, by_hwloc->machine_processors);
  }
}

TEST(TopologyTest, TheKernelsFiles) {
  const Folder folder;
  folder.Write("online", "0-1,3\n");
  folder.Write("has_memory", "0,3\n");
  folder.Write("node0/cpulist", "0-1000\n");
  folder.Write("node0/distance", "10 21 31\n");
  folder.Write("node1/cpulist", "2000-2001\n");
  folder.Write("node1/distance", "21 10 x\n");
  folder.Write("node3/cpulist", "\n");
  const Topology* t = ReadTopology({.hwloc = "libnone.so", .nodes = folder.path()});
  EXPECT_STREQ(t->problem, "libhwloc cannot be loaded");
  EXPECT_EQ(List(t->machine_nodes), "0-1,3");
  EXPECT_EQ(List(t->machine_memory_nodes), "0,3");
  EXPECT_EQ(List(t->nodes), "0");  // this machine has no other
  EXPECT_EQ(List(t->machine_processors), "0-1000,2000-2001");
  EXPECT_EQ(List(t->processor_nodes), "0");
  EXPECT_EQ(t->NodeOfProcessor(2000), 1);
  EXPECT_EQ(t->distance(0, 3), 31);
  EXPECT_EQ(t->distance(1, 0), 21);
  EXPECT_EQ(t->distance(1, 3), kUnknownDistance);  // its file says something else
  EXPECT_EQ(t->distance(3, 0), kUnknownDistance);  // there is no file
  EXPECT_EQ(t->distance(3, 3), kLocalDistance);
}

TEST(TopologyTest, WithoutAnythingThereIsOneNode) {
  const Topology* t = ReadTopology({.hwloc = "libnone.so", .nodes = "/no/such/folder"});
  ExpectThisMachine(t);
  EXPECT_EQ(t->node_count, 1);
}

TEST(TopologyTest, WhereTheSystemRefuses) {
  for (const bool with_hwloc : {true, false}) {
    for (const long call : {SYS_get_mempolicy, SYS_sched_getaffinity}) {
      EXPECT_CHILD_OK([=] {
        testing::Refuse(static_cast<uint32_t>(call));
        const Topology* t = with_hwloc ? ReadTopology() : ReadTopology({.hwloc = "libnone.so"});
        EXPECT_TRUE(t->is_this_machine);
        EXPECT_EQ(t->from_hwloc, with_hwloc);
        EXPECT_NE(strstr(t->problem, call == SYS_get_mempolicy ? "which nodes are allowed"
                                                               : "which processors are allowed"),
                  nullptr);
        EXPECT_TRUE(t->nodes.Has(t->machine_memory_nodes.First()));
        EXPECT_FALSE(t->processors.IsEmpty());
        EXPECT_EQ(HasSeveralNodes(), t->machine_memory_nodes.Count() > 1);
      });
    }
  }
}

CHILD_TEST(TopologyTest, UnderAFilterOfTheProgramNothingIsAsked) {
  testing::Refuse(SYS_get_mempolicy);
  RecordFilter();
  EXPECT_FALSE(HasSeveralNodes());
  const Topology* t = LoadTopology();
  EXPECT_FALSE(t->is_this_machine);
  EXPECT_EQ(t->node_count, 0);
  EXPECT_EQ(t->distance(0, 0), kUnknownDistance);
  EXPECT_EQ(t->NodeOfProcessor(0), -1);
}

TEST(TopologyTest, ItSaysOnceWhatIsNotKnown) {
  const auto result = testing::RunInChild([] {
    ComplainOfTopology(*ReadTopology());  // has nothing to say
    const Topology* t = ReadTopology({.hwloc = "libnone.so"});
    ComplainOfTopology(*t);
    ComplainOfTopology(*t);
  });
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.err, "gleaner: memory nodes: libhwloc cannot be loaded\n");
}

TEST(TopologyTest, ThereIsNoMemory) {
  if (testing::kAddressSanitizer) GTEST_SKIP() << "it needs memory itself";
  EXPECT_CHILD_OK([] {
    {
      const testing::MemoryRefused refused;
      EXPECT_EQ(LoadTopology(), nullptr);
      EXPECT_EQ(LoadedTopology(), nullptr);
    }
    EXPECT_NE(LoadTopology(), nullptr);
  });
}

CHILD_TEST(TopologyTest, AllThreadsGetTheSame) {
  std::vector<std::thread> threads;
  std::vector<const Topology*> loaded(4);
  for (const Topology*& mine : loaded) threads.emplace_back([&] { mine = LoadTopology(); });
  for (std::thread& thread : threads) thread.join();
  for (const Topology* each : loaded) EXPECT_EQ(each, LoadedTopology());
  EXPECT_TRUE(loaded[0] != nullptr && loaded[0]->from_hwloc);
}

// The load reads a pipe that nobody writes to, as if it were a file of a topology. So it lasts
// until the child of the fork has ended.
TEST(TopologyTest, ForkInTheMidstOfALoad) {
  const Folder folder;
  const std::string pipe = std::string(folder.path()) + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_CHILD_OK([&] {
    setenv("HWLOC_XMLFILE", pipe.c_str(), 1);
    std::thread loader([] { EXPECT_NE(LoadTopology(), nullptr); });
    const int writer = open(pipe.c_str(), O_WRONLY);  // returns when the loader has opened it
    const pid_t child = fork();  // RunInChild flushes files, of which the loader reads one
    if (child == 0) {
      alarm(60);
      const Topology* t = LoadTopology();
      ExpectThisMachine(t);
      EXPECT_FALSE(t->from_hwloc);
      EXPECT_STREQ(t->problem, "forked while libhwloc was being loaded");
      _exit(testing::CountFailures());
    }
    EXPECT_EQ(testing::StatusOf(child), 0);
    EXPECT_EQ(LoadedTopology(), nullptr);
    close(writer);
    while (LoadedTopology() == nullptr) {  // hwloc may open the file again
      const int again = open(pipe.c_str(), O_WRONLY | O_NONBLOCK);
      if (again >= 0) close(again);
      sched_yield();
    }
    loader.join();
  });
}

TEST(TopologyTest, VictimsAreSortedByDistance) {
  const Folder folder;
  const std::string file = folder.Write("machine.xml", kMachine);
  EXPECT_CHILD_OK([&] {
    setenv("HWLOC_XMLFILE", file.c_str(), 1);
    const Topology* t = LoadTopology();
    const std::vector<int> nodes = {0, 1, 2, 0, 1, 2, -1};
    const auto order = [&](int from, size_t turn) {
      std::vector<uint16_t> result(nodes.size());
      NearestFirst(*t, from, nodes.data(), nodes.size(), turn, result.data());
      return result;
    };
    EXPECT_EQ(order(0, 0), (std::vector<uint16_t>{0, 3, 6, 1, 4, 2, 5}));
    EXPECT_EQ(order(0, 1), (std::vector<uint16_t>{3, 0, 6, 4, 1, 5, 2}));
    EXPECT_EQ(order(0, 2), order(0, 0));
    EXPECT_EQ(order(1, 5), (std::vector<uint16_t>{4, 1, 5, 2, 6, 3, 0}));
    EXPECT_EQ(order(-1, 3), (std::vector<uint16_t>{3, 4, 5, 6, 0, 1, 2}));  // all equally far
    NearestFirst(*t, 0, nullptr, 0, 0, nullptr);
  });
}

}  // namespace
}  // namespace gleaner::platform
