#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tools/common/text.h"
#include "tools/numa/numa_text.h"

namespace gleaner::tools {
namespace {

// Files that are named one by one.
constexpr size_t kMaxFiles = 6;

std::string Nodes(const std::vector<int>& nodes) {
  return (nodes.size() == 1 ? "node " : "nodes ") + NumbersText(nodes);
}

// What the process is bound to, for "though it is ...".
std::string Binding(const NumaPlaces& places) {
  if (places.processors_node >= 0) {
    return "allowed processors of node " + std::to_string(places.processors_node) + " alone";
  }
  const std::vector<int> nodes = NodesOfPolicy(places.policy);
  if (nodes.empty()) return "bound elsewhere by the policies of these mappings";
  return (places.policy.starts_with("bind") ? "bound to " : "to take its memory from ") +
         Nodes(nodes);
}

void AddFiles(const NumaPlaces& places, std::vector<std::string>* findings) {
  size_t files = 0;
  uint64_t mappers = 1;
  std::string lines;
  BytesByNode others;
  for (const NumaPart& part : places.parts) {
    if (part.elsewhere_of_files.empty()) continue;
    mappers = std::max(mappers, part.max_mappers);
    if (++files > kMaxFiles) {
      AddTo(&others, part.elsewhere_of_files);
      continue;
    }
    lines += (lines.empty() ? "" : "; ") + NodesText(part.elsewhere_of_files) + " of " +
             (part.group == PartGroup::kText           ? "the text of "
              : part.group == PartGroup::kReadOnlyData ? "the read-only data of "
                                                       : "") +
             ForTerminal(part.name);
  }
  if (files == 0) return;
  if (!others.empty()) {
    lines += "; " + NodesText(others) + " of " + std::to_string(files - kMaxFiles) + " more";
  }
  const std::string shared =
      mappers > 1 ? "; here pages have up to " + Count(mappers) + " mappings" : "";
  findings->push_back(
      "Pages of files are elsewhere, though the process is " + Binding(places) + ": " + lines +
      ".\nFiles are in the page cache, which has one copy of a file for all processes. Its pages "
      "are where the file was first read, by whichever process, and stay there: a policy "
      "(numactl --membind, mbind) says where new pages come from, and a file that is in memory "
      "needs none. mbind with MPOL_MF_MOVE returns 0 and leaves every page that another process "
      "has mapped, too" +
      shared + ".\nWhat helps: `gleaner numa --fix " + std::to_string(places.process) +
      "` moves them, for all processes that have them (with CAP_SYS_NICE; without it, those that "
      "no other process has). `gleaner run --local-text PROGRAM` starts the program with a copy of "
      "its own, and needs no privilege. Or the page cache is dropped before the program starts, "
      "when no process has the file mapped (root: echo 1 >/proc/sys/vm/drop_caches), so that the "
      "file is read anew by a process that is bound.");
}

void AddOwnMemory(const NumaPlaces& places, std::vector<std::string>* findings) {
  BytesByNode own;
  std::string parts;
  for (const NumaPart& part : places.parts) {
    BytesByNode rest;
    for (const auto& [node, bytes] : part.elsewhere) {
      const auto of_files = part.elsewhere_of_files.find(node);
      const uint64_t known = of_files == part.elsewhere_of_files.end() ? 0 : of_files->second;
      if (bytes > known) rest[node] = bytes - known;
    }
    if (rest.empty()) continue;
    AddTo(&own, rest);
    const std::string name = part.group == PartGroup::kHeap    ? part.name
                             : part.group == PartGroup::kOther ? "other memory"
                                                               : NameOf(part.group);
    if (parts.find(name) == std::string::npos) parts += (parts.empty() ? "" : ", ") + name;
  }
  if (own.empty()) return;
  findings->push_back(
      "Memory of the process itself is elsewhere, though it is " + Binding(places) + ": " +
      NodesText(own) + ", of: " + parts +
      ".\nPages stay where they were when they were first touched: before the policy was set, by a "
      "thread on another node, or when the node was full. `gleaner numa --fix " +
      std::to_string(places.process) +
      "` moves them; they are the process's own, so its user may.");
}

void AddLimits(const NumaPlaces& places, std::vector<std::string>* findings) {
  const std::vector<int>& online = places.machine.online;
  if (online.size() == 1) {
    findings->push_back("The machine has one node: all memory is equally near.");
  }
  BytesByNode outside;
  for (const auto& [node, bytes] : places.SumByNode()) {
    const auto has = [node = node](const std::vector<int>& nodes) {
      return std::find(nodes.begin(), nodes.end(), node) != nodes.end();
    };
    if (!places.allowed_nodes.empty() && !has(places.allowed_nodes)) outside[node] = bytes;
  }
  std::vector<int> allowed_online;
  for (const int node : online) {
    if (std::find(places.allowed_nodes.begin(), places.allowed_nodes.end(), node) !=
        places.allowed_nodes.end()) {
      allowed_online.push_back(node);
    }
  }
  if (!allowed_online.empty() && allowed_online.size() < online.size()) {
    findings->push_back("Its cpuset allows memory of " + Nodes(allowed_online) +
                        " alone, of the machine's " + NumbersText(online) +
                        ": a policy that names others is reduced to these without an error" +
                        (outside.empty() ? "." : ". Yet there is " + NodesText(outside) + "."));
  }
}

void AddFailures(const NumaPlaces& places, std::vector<std::string>* findings) {
  if (!places.has_numa_maps) {
    findings->push_back(
        "There is no /proc/PID/numa_maps, as in a kernel that is built without NUMA: sizes are "
        "from "
        "smaps, and all memory is shown as that of node 0, wherever it is.");
  }
  if (places.unknown_heap_bytes != 0) {
    const std::string size = SizeText(places.unknown_heap_bytes) + " of the heap";
    findings->push_back(
        places.heap_error == 0
            ? "What " + size + " is used for is not known: its page table could not be read."
            : "Which node has which objects is not known for " + size + ": move_pages, which " +
                  "tells, fails with: " + strerror(places.heap_error) +
                  (places.heap_error == ENOSYS
                       ? " (a kernel without NUMA, or a filter of system calls)."
                       : " (a filter of system calls may forbid it)."));
  }
  if (places.is_heap_of_other_version) {
    findings->push_back(
        "Its Gleaner is of another version: the heap is part of the other memory. The tool of that "
        "version knows more.");
  }
  if (places.running_threads != 0) {
    findings->push_back("Threads that ran meanwhile: " + std::to_string(places.running_threads) +
                        ". Their stacks are part of the other memory.");
  }
}

}  // namespace

std::vector<std::string> FindingsOf(const NumaPlaces& places) {
  std::vector<std::string> findings;
  AddFiles(places, &findings);
  AddOwnMemory(places, &findings);
  AddLimits(places, &findings);
  AddFailures(places, &findings);
  return findings;
}

}  // namespace gleaner::tools
