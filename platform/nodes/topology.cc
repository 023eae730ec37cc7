// Threads that load. One thread has g_loader, which holds its process's number, from before it
// reads until after it has published; others sleep on the word. Forbidden: that a topology is
// published twice, or that a thread sleeps for a load that nobody does.
// 1. A thread that gets the word looks again whether a topology is published: a load that ended
//    before has published its own, and its release of the word is what the thread acquires.
// 2. In a forked child the word may hold the number of another process, whose thread is not there.
//    Threads of the child see that it is not their own number, and one of them takes the word.
#include "platform/nodes/topology.h"

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/loader/loaded_objects.h"
#include "platform/nodes/topology_hwloc.h"
#include "platform/os/cancellation.h"
#include "platform/os/filters.h"
#include "platform/os/lock.h"
#include "platform/os/memory.h"
#include "platform/os/process.h"

namespace gleaner::platform {
namespace {

constinit Atomic<const Topology*> g_topology{nullptr};
constinit Atomic<uint32_t> g_loader{0};  // the process of the thread that loads; 0: none does
constinit Atomic<int32_t> g_loading_thread{0};  // that thread
constinit Hint<uint32_t> g_has_complained{0};   // 1: ComplainOfTopology has printed

enum class Several : uint8_t { kUnasked, kNo, kYes };
constinit Hint<Several> g_several{Several::kUnasked};

// Files of the system that list numbers have at most an OS page.
constexpr size_t kListBytes = 4096 + 1;

void AddProblem(Topology* topology, const char* problem) {
  char* text = topology->problem;
  const size_t length = strlen(text);
  snprintf(text + length, sizeof topology->problem - length, "%s%s", length == 0 ? "" : "; ",
           problem);
}

// Reads the file FOLDER/NAME. False if it cannot be read.
bool ReadIn(const char* folder, const char* name, char* text) {
  char path[256];
  const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length < static_cast<int>(sizeof path) && ReadSmallFile(path, text, kListBytes) == 0;
}

// Reads a list of numbers from such a file. False if it cannot be read or is something else.
template <class Set>
bool ReadList(const char* folder, const char* name, Set* set) {
  char text[kListBytes];
  const char* end = nullptr;
  return ReadIn(folder, name, text) && set->Parse(text, &end) && (*end == '\n' || *end == 0);
}

// The distances from a node to all nodes in rising order, with spaces between them.
void ReadDistances(const char* folder, int from, Topology* topology) {
  char name[32];
  char text[kListBytes];
  snprintf(name, sizeof name, "node%d/distance", from);
  if (!ReadIn(folder, name, text)) return;
  const NodeSet& nodes = topology->machine_nodes;
  char* rest = text;
  for (int to = nodes.First(); to >= 0; to = nodes.Next(to)) {
    const char* number = rest;
    const uint64_t distance = strtoull(number, &rest, 10);
    if (rest == number || distance > UINT16_MAX) return;
    topology->distances[from][to] = static_cast<uint16_t>(distance);
  }
}

// ReadByHwloc by the kernel's files. A kernel without support for nodes has no such files, and one
// node.
void ReadByKernel(const char* folder, Topology* topology) {
  NodeSet& nodes = topology->machine_nodes;
  const bool has_files = ReadList(folder, "online", &nodes);
  if (!has_files && !GetAllowedNodes(&nodes)) nodes.Add(0);
  if (!ReadList(folder, "has_memory", &topology->machine_memory_nodes)) {
    topology->machine_memory_nodes = nodes;
  }
  for (int node = nodes.First(); node >= 0; node = nodes.Next(node)) {
    char name[32];
    snprintf(name, sizeof name, "node%d/cpulist", node);
    if (!ReadList(folder, name, &topology->processors_of[node]) && has_files) {
      AddProblem(topology, "the kernel does not tell the processors of nodes");
    }
    topology->machine_processors.Unite(topology->processors_of[node]);
    ReadDistances(folder, node, topology);
  }
  if (!has_files) {
    if (!GetAffinityOfProcess(&topology->machine_processors)) topology->machine_processors = {};
    if (nodes.Count() == 1) topology->processors_of[nodes.First()] = topology->machine_processors;
    if (nodes.Count() > 1) AddProblem(topology, "the kernel's files do not tell of nodes");
  }
  topology->nodes = topology->machine_memory_nodes;
  topology->processors = topology->machine_processors;
}

// Leaves of `nodes` and `processors` what the kernel lets this process use.
void Restrict(Topology* topology) {
  NodeSet nodes;
  if (GetAllowedNodes(&nodes)) {
    topology->nodes.Intersect(nodes);
  } else if (errno != ENOSYS) {
    AddProblem(topology, "the system does not tell which nodes are allowed");
  }
  ProcessorSet processors;
  if (GetAffinityOfProcess(&processors)) {
    topology->processors.Intersect(processors);
  } else {
    AddProblem(topology, "the system does not tell which processors are allowed");
  }
}

// Each processor gets one node, the first that has it: several nodes have the same processors where
// memory of several kinds is equally near.
void AssignProcessors(Topology* topology) {
  const ProcessorSet& all = topology->machine_processors;
  for (int p = all.First(); p >= 0; p = all.Next(p)) topology->node_of_processor[p] = -1;
  const NodeSet& nodes = topology->machine_nodes;
  for (int node = nodes.First(); node >= 0; node = nodes.Next(node)) {
    ProcessorSet own;
    const ProcessorSet& listed = topology->processors_of[node];
    for (int p = listed.First(); p >= 0; p = listed.Next(p)) {
      if (!all.Has(p) || topology->node_of_processor[p] >= 0) continue;
      topology->node_of_processor[p] = static_cast<int16_t>(node);
      if (topology->processors.Has(p)) own.Add(p);
    }
    topology->processors_of[node] = own;
    if (!own.IsEmpty()) topology->processor_nodes.Add(node);
  }
}

void AssignIndices(Topology* topology) {
  NodeSet used = topology->nodes;
  used.Unite(topology->processor_nodes);
  const NodeSet& all = topology->machine_nodes;
  for (int node = all.First(); node >= 0; node = all.Next(node)) {
    topology->index_of[node] = -1;
    if (!used.Has(node)) continue;
    topology->index_of[node] = static_cast<int16_t>(topology->node_count);
    topology->node_at[topology->node_count++] = static_cast<int16_t>(node);
  }
}

// Memory that reads as zero.
Topology* NewTopology() {
  const size_t bytes = AlignUp(sizeof(Topology), OsPageBytes());
  void* memory = Reserve(bytes, OsPageBytes());
  if (memory == nullptr) return nullptr;
  if (!Commit(memory, bytes)) {
    Release(memory, bytes);
    return nullptr;
  }
  auto* topology = static_cast<Topology*>(memory);
  topology->is_this_machine = true;
  return topology;
}

// Why hwloc is not to be asked; null if it is.
const char* ReasonAgainstHwloc(const TopologySources& sources) {
  if (sources.hwloc == nullptr) return "forked while libhwloc was being loaded";
  if (HasElevatedRights())
    return "libhwloc is not loaded into a process with another user's rights";
  if (!LoaderIsTrusted()) return "libhwloc cannot be loaded in this forked process";
  return nullptr;
}

void AssumeDistances(Topology* topology) {
  const NodeSet& nodes = topology->machine_nodes;
  for (int from = nodes.First(); from >= 0; from = nodes.Next(from)) {
    for (int to = nodes.First(); to >= 0; to = nodes.Next(to)) {
      uint16_t& distance = topology->distances[from][to];
      if (distance == 0) distance = from == to ? kLocalDistance : kUnknownDistance;
    }
  }
}

}  // namespace

bool GetAllowedNodes(NodeSet* nodes) {
  *nodes = {};
  // The kernel takes the number of bits plus one.
  return syscall(SYS_get_mempolicy, nullptr, nodes->words(), kMaxNodes + 1, nullptr,
                 MPOL_F_MEMS_ALLOWED) == 0;
}

bool HasSeveralNodes() {
  const Several known = g_several.Get();
  if (known != Several::kUnasked) return known == Several::kYes;
  if (HasFilter()) return false;
  const int saved = errno;
  NodeSet nodes;
  if (!GetAllowedNodes(&nodes) && errno != ENOSYS) {
    const UncancellableSection section;
    (void)ReadList(TopologySources().nodes, "has_memory", &nodes);
  }
  const bool several = nodes.Count() > 1;
  g_several.Set(several ? Several::kYes : Several::kNo);
  errno = saved;
  return several;
}

const Topology* LoadedTopology() { return g_topology.Load(memory_order_acquire); }  // with Store

const Topology* ReadTopology(const TopologySources& sources) {
  Topology* topology = NewTopology();
  if (topology == nullptr) return nullptr;
  if (HasFilter()) {
    AddProblem(topology, "the program has a filter of system calls, so the system is not asked");
    topology->is_this_machine = false;
    return topology;
  }
  const char* problem = ReasonAgainstHwloc(sources);
  if (problem == nullptr) problem = ReadByHwloc(sources.hwloc, topology);
  topology->from_hwloc = problem == nullptr;
  if (problem != nullptr) {
    AddProblem(topology, problem);
    ReadByKernel(sources.nodes, topology);
  }
  if (topology->machine_memory_nodes.IsEmpty()) {  // sizes are not known
    topology->machine_memory_nodes = topology->machine_nodes;
  }
  topology->nodes.Intersect(topology->machine_memory_nodes);
  if (topology->is_this_machine) Restrict(topology);
  AssumeDistances(topology);
  AssignProcessors(topology);
  AssignIndices(topology);
  return topology;
}

const Topology* LoadTopology() {
  if (const Topology* loaded = LoadedTopology(); loaded != nullptr) return loaded;
  const UncancellableSection section;
  const int saved = errno;
  const auto self = static_cast<uint32_t>(getpid());
  TopologySources sources;
  for (uint32_t loader = 0;; loader = 0) {
    // Acquire, here and where the word is taken from another process: pairs with the release by
    // which a load ends.
    if (g_loader.CompareExchange(loader, self, memory_order_acquire)) break;
    if (loader != self) {
      if (!g_loader.CompareExchange(loader, self, memory_order_acquire)) continue;
      sources.hwloc = nullptr;
      break;
    }
    // Relaxed: a thread reads its own number only if it has stored it.
    if (g_loading_thread.Load(memory_order_relaxed) == CurrentThreadId()) return nullptr;
    FutexWait(&g_loader, self);
  }
  g_loading_thread.Store(CurrentThreadId(), memory_order_relaxed);  // for this thread alone
  const Topology* topology = LoadedTopology();
  if (topology == nullptr) {
    topology = ReadTopology(sources);
    g_topology.Store(topology, memory_order_release);  // pairs with LoadedTopology
  }
  g_loading_thread.Store(0, memory_order_relaxed);  // for this thread alone
  g_loader.Exchange(0, memory_order_release);       // pairs with CompareExchange
  FutexWakeAll(&g_loader);
  errno = saved;
  return topology;
}

void ComplainOfTopology(const Topology& topology) {
  if (topology.problem[0] == 0) return;
  if (g_has_complained.Exchange(1) != 0) return;
  Complain("memory nodes: %s", topology.problem);
}

// Quadratic: there are at most as many candidates as markers.
void NearestFirst(const Topology& topology, int from_node, const int* nodes_of_candidates,
                  size_t count, size_t turn, uint16_t* order) {
  for (size_t i = 0; i < count; ++i) {
    const uint16_t distance = topology.distance(from_node, nodes_of_candidates[i]);
    size_t nearer = 0;
    size_t equal = 0;
    size_t equal_before = 0;
    for (size_t j = 0; j < count; ++j) {
      const uint16_t other = topology.distance(from_node, nodes_of_candidates[j]);
      if (other < distance) ++nearer;
      if (other == distance) ++equal;
      if (other == distance && j < i) ++equal_before;
    }
    order[nearer + (equal_before + equal - turn % equal) % equal] = static_cast<uint16_t>(i);
  }
}

}  // namespace gleaner::platform
