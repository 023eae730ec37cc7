// The machine's memory nodes: which processors they have, how far they are from each other, and
// which of them this process may use.
//
// hwloc tells, or, where the system has no libhwloc, the kernel's files. libhwloc is loaded for the
// time of LoadTopology alone: nothing is linked with it, and nothing of it stays. It reads the
// program's variables HWLOC_SYNTHETIC and HWLOC_XMLFILE, by which people plan for other machines;
// nothing is to be placed by such a topology (is_this_machine).
//
// A process that may use one node needs none of this: HasSeveralNodes asks first.
#pragma once

#include "platform/nodes/node_set.h"
#include "platform/os/processor_set.h"

namespace gleaner::platform {

// Distances have the unit of the kernel and of ACPI: 10 is to the own node, 20 twice as far.
inline constexpr uint16_t kLocalDistance = 10;
inline constexpr uint16_t kUnknownDistance = 20;

// Constant once it is published. Tables have a place for each number of a node or processor that
// the system can have; what no node uses is never touched.
struct Topology {
  // What this process may use. Its threads may run on other processors than its first one, which
  // `processors` is taken of.
  NodeSet nodes;            // with memory
  NodeSet processor_nodes;  // with such a processor
  ProcessorSet processors;  // by the first thread's affinity and the control group
  // What the machine has.
  NodeSet machine_nodes;         // with memory, processors, or neither
  NodeSet machine_memory_nodes;  // with memory
  ProcessorSet machine_processors;

  bool from_hwloc = false;
  bool is_this_machine = true;  // hwloc_topology_is_thissystem; false: place nothing
  // What the system did not tell, in words, for a message; empty if it told all.
  char problem[200] = "";

  // The nodes that this process may use, for memory or processors, have indices from 0 on, in
  // rising order.
  int node_count = 0;
  // -1 for other nodes.
  int IndexOf(int node) const { return machine_nodes.Has(node) ? index_of[node] : -1; }
  // pre: 0 <= index < node_count.
  int NodeAt(int index) const { return node_at[index]; }

  // kUnknownDistance if one of the nodes is no node of the machine, such as -1.
  uint16_t distance(int from, int to) const {
    return machine_nodes.Has(from) && machine_nodes.Has(to) ? distances[from][to]
                                                            : kUnknownDistance;
  }
  // The node of any processor of the machine; -1 if it is not known.
  int NodeOfProcessor(int processor) const {
    return machine_processors.Has(processor) ? node_of_processor[processor] : -1;
  }
  // The node's processors that this process may use. pre: 0 <= node < kMaxNodes.
  const ProcessorSet& ProcessorsOf(int node) const { return processors_of[node]; }

  int16_t index_of[kMaxNodes];
  int16_t node_at[kMaxNodes];
  int16_t node_of_processor[kMaxProcessors];
  ProcessorSet processors_of[kMaxNodes];
  uint16_t distances[kMaxNodes][kMaxNodes];
};

// Gets the nodes from which this process may have memory, as the kernel says now: a control group
// may be changed at any time. False, with errno, if the kernel does not say. One system call.
// Async-signal-safe.
[[nodiscard]] bool GetAllowedNodes(NodeSet* nodes);

// Whether the process may use the memory of several nodes, as at the first call: that makes one
// system call, and reads a file if that is refused. False under a filter of system calls
// (filters.h) that came before the first call. Any thread; async-signal-safe; keeps errno.
bool HasSeveralNodes();

// The topology if it is loaded, else null. Any thread; async-signal-safe.
const Topology* LoadedTopology();
// The same by which memory and threads may be placed: null if it is of another machine.
inline const Topology* LoadedTopologyOfThisMachine() {
  const Topology* topology = LoadedTopology();
  return topology != nullptr && topology->is_this_machine ? topology : nullptr;
}

// Loads the topology, in the first call; later calls return the same one. Null only without memory,
// and for a call that the load itself leads to. May take 100 ms. Calls the loader, malloc and
// functions of hwloc that open files: never with a lock of this library, in a critical section, in
// a signal handler or at the start of malloc. Other threads wait meanwhile. In a child that was
// forked during the load, or while another thread had the loader's lock, the kernel's files tell
// instead of hwloc. Keeps errno; is no cancellation point.
const Topology* LoadTopology();

// Says on standard error what the system did not tell, once in the life of the process, if
// anything. For who has been asked for something that needs it.
void ComplainOfTopology(const Topology& topology);

// Sorts candidates, given by their nodes (-1: unknown), by their distance from a node: `order` gets
// their indices, nearest first. Among equally near ones those come first that would be behind the
// first `turn` in rising order, then these. So with a `turn` for each thief not all begin with the
// same victim, neither at their own node nor elsewhere. pre: count < 65536.
void NearestFirst(const Topology& topology, int from_node, const int* nodes_of_candidates,
                  size_t count, size_t turn, uint16_t* order);

// Where the system tells of nodes; other places for tests.
struct TopologySources {
  const char* hwloc = "libhwloc.so.15";
  const char* nodes = "/sys/devices/system/node";
};
// Reads a topology and publishes it nowhere. It is never freed.
const Topology* ReadTopology(const TopologySources& sources = {});

}  // namespace gleaner::platform
