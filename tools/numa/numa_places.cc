#include "tools/numa/numa_places.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <set>

#include "tools/heap/live_heap.h"
#include "tools/system/process_nodes.h"

namespace gleaner::tools {
namespace {

constexpr char kNodeFolder[] = "/sys/devices/system/node/";

// The value of a line "Key:\tvalue" of /proc/PID/status.
std::string FieldOf(const std::string& status, const std::string& key) {
  const size_t line = ("\n" + status).find("\n" + key + ":");
  if (line == std::string::npos) return {};
  const size_t begin = status.find_first_not_of(" \t", line + key.size() + 1);
  const size_t end = status.find('\n', line);
  return begin < end ? status.substr(begin, end - begin) : std::string();
}

bool IsSubset(const std::vector<int>& of, const std::vector<int>& all) {
  return std::all_of(of.begin(), of.end(),
                     [&](int n) { return std::find(all.begin(), all.end(), n) != all.end(); });
}

// The one node that has memory and all processors that the threads may use, or -1.
int NodeOfThreads(const ProcessMemory& memory, const NumaNodes& machine) {
  int found = -1;
  for (const int thread : memory.Threads()) {
    std::string status;
    if (memory.ReadThreadFile(thread, "status", &status) != 0) {
      continue;  // it has ended
    }
    const std::vector<int> allowed = ParseNumbers(FieldOf(status, "Cpus_allowed_list"));
    int node = -1;
    for (const auto& [number, processors] : machine.processors) {
      if (!allowed.empty() && IsSubset(allowed, processors)) node = number;
    }
    if (node < 0 || (found >= 0 && found != node)) return -1;
    found = node;
  }
  return IsSubset({found}, machine.with_memory) ? found : -1;
}

// Where the stacks of the threads are that are not running: addresses in them.
std::vector<uint64_t> StackPointers(const ProcessMemory& memory, size_t* running) {
  constexpr int kTries = 3;  // a thread that runs may wait a moment later
  std::vector<uint64_t> pointers;
  *running = 0;
  for (const int thread : memory.Threads()) {
    std::string call;
    bool is_found = false;
    for (int i = 0; i < kTries && !is_found; ++i) {
      if (memory.ReadThreadFile(thread, "syscall", &call) != 0) break;
      // "number arguments stack-pointer instruction", or "running".
      uint64_t pointer;
      const size_t last = call.rfind(' ');
      const size_t before = last == std::string::npos ? last : call.rfind(' ', last - 1);
      is_found = before != std::string::npos &&
                 sscanf(call.c_str() + before, " 0x%" SCNx64, &pointer) == 1;
      if (is_found) pointers.push_back(pointer);
    }
    *running += !is_found;
  }
  std::sort(pointers.begin(), pointers.end());
  return pointers;
}

bool StartsWithAny(const std::string& text, std::initializer_list<const char*> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](const char* beginning) { return text.starts_with(beginning); });
}

// Where the memory of the object file ends whose head is mapped at the address: behind that of the
// file, as far as it begins as zeroes. 0 if that is none.
uint64_t EndOfObject(const ProcessMemory& memory, uint64_t address) {
  Elf64_Ehdr head;
  std::vector<Elf64_Phdr> segments;
  uint64_t bias;
  if (!ReadHead(memory, address, &head) || !ReadSegments(memory, address, head, &segments, &bias)) {
    return 0;
  }
  uint64_t end = 0;
  for (const Elf64_Phdr& segment : segments) {
    if (segment.p_type == PT_LOAD) end = std::max(end, segment.p_vaddr + segment.p_memsz);
  }
  return bias + end;
}

class PlacesReader {
 public:
  PlacesReader(const ProcessMemory& memory, NumaPlaces* places)
      : memory_(memory), places_(places) {}

  [[nodiscard]] bool Read(std::string* message) {
    if (const int error = ReadMappings(); error != 0) {
      *message = "/proc/" + std::to_string(memory_.process()) +
                 "/numa_maps cannot be read: " + strerror(error);
      return false;
    }
    FindProcess();
    FindHeaps();
    std::vector<uint64_t> stacks = StackPointers(memory_, &places_->running_threads);
    FindCopies();
    for (const NumaMapping& mapping : mappings_) {
      if (mapping.is_executable() && (mapping.is_file() || !mapping.copied_file.empty())) {
        object_files_.insert(mapping.is_file() ? mapping.path : mapping.copied_file);
      }
    }
    FindEndsOfObjects();
    const NumaMapping* before = nullptr;  // the data of an object file up to the mapping
    for (const NumaMapping& mapping : mappings_) {
      const auto stack = std::lower_bound(stacks.begin(), stacks.end(), mapping.begin);
      const bool has_stack = stack != stacks.end() && *stack < mapping.end;
      Place(mapping, before, has_stack);
      const bool is_data = mapping.is_file() && object_files_.contains(mapping.path);
      before = is_data ? &mapping : nullptr;
    }
    Finish();
    return true;
  }

 private:
  int ReadMappings() {
    std::string maps;
    std::string numa_maps;
    const int error = memory_.ReadFile("numa_maps", &numa_maps);
    if (error == 0 && !numa_maps.empty()) {
      if (const int other = memory_.ReadFile("maps", &maps); other != 0) return other;
      mappings_ = JoinMaps(maps, numa_maps);
      // A process that ends has no mappings any more.
      return mappings_.empty() ? ESRCH : 0;
    }
    if (error != 0 && error != ENOENT) return error;
    // A kernel without NUMA has one node, and no such file.
    places_->has_numa_maps = false;
    std::string smaps;
    if (const int other = memory_.ReadFile("smaps", &smaps); other != 0) return other;
    mappings_ = MapsOfOneNode(smaps);
    return mappings_.empty() ? ESRCH : 0;
  }

  void FindProcess() {
    places_->process = memory_.process();
    places_->name = memory_.name();
    places_->machine = ReadNumaNodes();
    std::string status;
    if (memory_.ReadFile("status", &status) == 0) {
      places_->allowed_nodes = ParseNumbers(FieldOf(status, "Mems_allowed_list"));
    }
    // The stack has no policy of its own.
    for (const NumaMapping& mapping : mappings_) {
      if (mapping.path == "[stack]") places_->policy = mapping.policy;
    }
    if (places_->machine.online.size() > 1 && NodesOfPolicy(places_->policy).empty()) {
      places_->processors_node = NodeOfThreads(memory_, places_->machine);
    }
  }

  // Copies of a file's segments (platform/loader/text_copies.h) have no file, and are where its
  // mapping would be: the next one is of the file, or a copy.
  void FindCopies() {
    for (size_t i = mappings_.size(); i-- > 1;) {
      const NumaMapping& next = mappings_[i];
      NumaMapping& mapping = mappings_[i - 1];
      if (!mapping.path.empty() || !mapping.is_read_only() || mapping.end != next.begin) continue;
      mapping.copied_file = next.is_file() ? next.path : next.copied_file;
    }
  }

  void FindEndsOfObjects() {
    for (const ProcessMemory::File& file : memory_.Files()) {
      if (!object_files_.contains(file.path)) continue;
      if (const uint64_t end = EndOfObject(memory_, file.address); end != 0) {
        ends_of_objects_[file.address] = end;
      }
    }
  }
  // Whether most of the mapping, which follows the data of an object file, is that file's, too: the
  // kernel joins it with other memory behind it.
  bool BelongsToObject(const NumaMapping& mapping) const {
    auto object = ends_of_objects_.upper_bound(mapping.begin);
    if (object == ends_of_objects_.begin()) return false;
    const uint64_t end = (--object)->second;
    return end > mapping.begin && end - mapping.begin > (mapping.end - mapping.begin) / 2;
  }

  void FindHeaps() {
    bool has_32_bits;
    live_heaps_ = LiveHeap::Find(memory_, &has_32_bits);
    for (LiveHeap& heap : live_heaps_) {
      HeapSample ignored;
      const LiveHeap::Found found = heap.Read(memory_, &ignored);
      places_->is_heap_of_other_version |= found == LiveHeap::Found::kOtherVersion;
      if (heap.tables() != nullptr) heaps_.emplace_back(memory_, *heap.tables());
    }
  }

  // The nodes that the mapping's memory is to be on; empty: any.
  std::vector<int> NodesFor(const NumaMapping& mapping) const {
    std::vector<int> nodes = NodesOfPolicy(mapping.policy);
    if (nodes.empty() && places_->processors_node >= 0) nodes = {places_->processors_node};
    return nodes;
  }

  void Add(PartGroup group, const std::string& name, const NumaMapping& mapping,
           const BytesByNode& nodes) {
    if (nodes.empty()) return;
    auto [entry, is_new] = parts_.try_emplace({group, name});
    NumaPart& part = entry->second;
    if (is_new) {
      part.group = group;
      part.name = name;
      part.policy = mapping.policy;
    }
    if (part.policy != mapping.policy) part.policy = "several";
    AddTo(&part.nodes, nodes);
    const std::vector<int> expected = NodesFor(mapping);
    if (expected.empty()) return;
    bool is_misplaced = false;
    uint64_t files_left =
        mapping.is_file() ? SumOf(nodes) - std::min(SumOf(nodes), mapping.anonymous_bytes) : 0;
    for (const auto& [node, bytes] : nodes) {
      if (IsSubset({node}, expected)) continue;
      is_misplaced = true;
      part.elsewhere[node] += bytes;
      // The kernel does not tell where a file's pages are, and where those that the process has
      // written and has for itself: the latter come from where they are to.
      if (files_left != 0) part.elsewhere_of_files[node] += std::min(files_left, bytes);
      files_left -= std::min(files_left, bytes);
    }
    if (is_misplaced) part.max_mappers = std::max(part.max_mappers, mapping.max_mappers);
  }

  void RecordMisplaced(const NumaMapping& mapping) {
    const std::vector<int> expected = NodesFor(mapping);
    if (expected.empty() || mapping.end <= mapping.begin) return;
    for (const auto& [node, bytes] : mapping.nodes) {
      if (IsSubset({node}, expected)) continue;
      places_->misplaced.push_back({mapping.begin, mapping.end, expected});
      return;
    }
  }

  // Adds the mapping to the parts. `before`: the mapping of an object file before it, or null.
  void Place(const NumaMapping& mapping, const NumaMapping* before, bool has_stack) {
    if (mapping.nodes.empty()) return;
    RecordMisplaced(mapping);
    for (NumaHeap& heap : heaps_) {
      if (heap.HasPages(mapping)) return PlaceHeap(&heap, mapping);
      if (const std::string table = heap.TableOf(mapping); !table.empty()) {
        return Add(PartGroup::kHeap, table, mapping, mapping.nodes);
      }
    }
    std::string name;
    const PartGroup group = GroupOf(mapping, before, has_stack, &name);
    Add(group, name, mapping, mapping.nodes);
  }

  void PlaceHeap(NumaHeap* heap, const NumaMapping& mapping) {
    NumaHeap::Uses uses;
    int error;
    if (!heap->Attribute(mapping, &uses, &error)) {
      if (error != 0) places_->heap_error = error;
      places_->unknown_heap_bytes += SumOf(mapping.nodes);
      return Add(PartGroup::kHeap, "of unknown use", mapping, mapping.nodes);
    }
    for (const auto& [use, nodes] : uses) Add(PartGroup::kHeap, use, mapping, nodes);
  }

  PartGroup GroupOf(const NumaMapping& mapping, const NumaMapping* before, bool has_stack,
                    std::string* name) const {
    const std::string& path = mapping.path;
    if (StartsWithAny(path, {"/dev/shm/", "/memfd:", "/SYSV", "/dev/zero", "[anon_shmem:"})) {
      *name = path;
      return PartGroup::kSharedMemory;
    }
    if (mapping.is_file()) {
      *name = path;
      if (!object_files_.contains(path)) return PartGroup::kMappedFiles;
      if (mapping.is_executable()) return PartGroup::kText;
      // Relocated data is read-only and has pages of its own.
      return mapping.is_writable() || mapping.anonymous_bytes != 0 ? PartGroup::kData
                                                                   : PartGroup::kReadOnlyData;
    }
    if (!mapping.copied_file.empty()) {
      *name = mapping.copied_file + " (copy)";
      return mapping.is_executable() ? PartGroup::kText : PartGroup::kReadOnlyData;
    }
    if (path == "[heap]") return PartGroup::kCHeap;
    if (path == "[stack]" || has_stack || path.find("stack") != std::string::npos) {
      return PartGroup::kStacks;
    }
    if (path.starts_with("[anon:")) *name = path.substr(6, path.size() - 7);
    if (mapping.is_executable()) return PartGroup::kCode;
    if (before != nullptr && before->end == mapping.begin && mapping.is_writable() &&
        BelongsToObject(mapping)) {
      *name = before->path;  // what begins as zeroes
      return PartGroup::kData;
    }
    return PartGroup::kOther;
  }

  void Finish() {
    for (auto& [key, part] : parts_) places_->parts.push_back(std::move(part));
    std::stable_sort(
        places_->parts.begin(), places_->parts.end(), [](const NumaPart& a, const NumaPart& b) {
          return a.group != b.group ? a.group < b.group : SumOf(a.nodes) > SumOf(b.nodes);
        });
    for (const NumaHeap& heap : heaps_) {
      for (const LargeObject& object : heap.LargestObjects()) {
        places_->large_objects.push_back(object);
      }
    }
  }

  const ProcessMemory& memory_;
  NumaPlaces* places_;
  std::vector<NumaMapping> mappings_;
  std::vector<LiveHeap> live_heaps_;  // whose tables `heaps_` refer to
  std::vector<NumaHeap> heaps_;
  std::set<std::string> object_files_;
  std::map<uint64_t, uint64_t> ends_of_objects_;  // by the address of the object's head
  std::map<std::pair<PartGroup, std::string>, NumaPart> parts_;
};

}  // namespace

NumaNodes ReadNumaNodes() {
  NumaNodes nodes;
  const std::string folder = kNodeFolder;
  nodes.online = ParseNumbers(FirstLine(folder + "online"));
  if (nodes.online.empty()) nodes.online = {0};  // a kernel without NUMA
  nodes.with_memory = ParseNumbers(FirstLine(folder + "has_memory"));
  if (nodes.with_memory.empty()) nodes.with_memory = nodes.online;
  for (const int node : nodes.online) {
    nodes.processors[node] =
        ParseNumbers(FirstLine(folder + "node" + std::to_string(node) + "/cpulist"));
  }
  return nodes;
}

const char* NameOf(PartGroup group) {
  constexpr const char* kNames[] = {"heap", "C heap", "stacks", "text", "read-only",
                                    "data", "file",   "shared", "code", "other"};
  return kNames[static_cast<size_t>(group)];
}

BytesByNode NumaPlaces::SumByNode() const {
  BytesByNode sum;
  for (const NumaPart& part : parts) AddTo(&sum, part.nodes);
  return sum;
}

BytesByNode NumaPlaces::Elsewhere() const {
  BytesByNode sum;
  for (const NumaPart& part : parts) AddTo(&sum, part.elsewhere);
  return sum;
}

uint64_t NumaPlaces::Sum() const { return SumOf(SumByNode()); }

bool ReadNumaPlaces(const ProcessMemory& memory, NumaPlaces* places, std::string* message) {
  *places = {};
  return PlacesReader(memory, places).Read(message);
}

}  // namespace gleaner::tools
