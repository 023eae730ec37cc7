// The library is loaded by its name, and its functions are looked up, so that the header gives only
// their types and nothing is linked with it.
#include "platform/nodes/topology_hwloc.h"

#include <dlfcn.h>
#include <hwloc.h>

#include "platform/faults/failures.h"

namespace gleaner::platform {
namespace {

// The functions that are used, by their names in hwloc.h.
struct Functions {
  decltype(&hwloc_get_api_version) get_api_version;
  decltype(&hwloc_topology_init) topology_init;
  decltype(&hwloc_topology_destroy) topology_destroy;
  decltype(&hwloc_topology_set_flags) topology_set_flags;
  decltype(&hwloc_topology_load) topology_load;
  decltype(&hwloc_topology_is_thissystem) topology_is_thissystem;
  decltype(&hwloc_topology_get_topology_cpuset) topology_get_topology_cpuset;
  decltype(&hwloc_topology_get_allowed_cpuset) topology_get_allowed_cpuset;
  decltype(&hwloc_topology_get_allowed_nodeset) topology_get_allowed_nodeset;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth;
  decltype(&hwloc_bitmap_next) bitmap_next;
  decltype(&hwloc_distances_get_by_type) distances_get_by_type;
  decltype(&hwloc_distances_release) distances_release;
};

template <class F>
bool LookUp(void* handle, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(handle, name));
  return *function != nullptr;
}

bool LookUpAll(void* handle, Functions* f) {
  return LookUp(handle, "hwloc_get_api_version", &f->get_api_version) &&
         LookUp(handle, "hwloc_topology_init", &f->topology_init) &&
         LookUp(handle, "hwloc_topology_destroy", &f->topology_destroy) &&
         LookUp(handle, "hwloc_topology_set_flags", &f->topology_set_flags) &&
         LookUp(handle, "hwloc_topology_load", &f->topology_load) &&
         LookUp(handle, "hwloc_topology_is_thissystem", &f->topology_is_thissystem) &&
         LookUp(handle, "hwloc_topology_get_topology_cpuset", &f->topology_get_topology_cpuset) &&
         LookUp(handle, "hwloc_topology_get_allowed_cpuset", &f->topology_get_allowed_cpuset) &&
         LookUp(handle, "hwloc_topology_get_allowed_nodeset", &f->topology_get_allowed_nodeset) &&
         LookUp(handle, "hwloc_get_obj_by_depth", &f->get_obj_by_depth) &&
         LookUp(handle, "hwloc_bitmap_next", &f->bitmap_next) &&
         LookUp(handle, "hwloc_distances_get_by_type", &f->distances_get_by_type) &&
         LookUp(handle, "hwloc_distances_release", &f->distances_release);
}

// With all objects that contain processors, though only nodes are asked for: when hwloc reads a
// file of lstopo, a node gets the processors of the innermost of them around it that is not
// filtered out. With what this process may not use: its processors' nodes matter even if their
// memory is not allowed. The calling thread stays where it is; versions before 2.5 do not know that
// flag.
bool Load(const Functions& f, hwloc_topology_t hwloc) {
  constexpr unsigned long kFlags = HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED;
  constexpr unsigned long kLaterFlags = kFlags | HWLOC_TOPOLOGY_FLAG_DONT_CHANGE_BINDING;
  return (f.topology_set_flags(hwloc, kLaterFlags) == 0 ||
          f.topology_set_flags(hwloc, kFlags) == 0) &&
         f.topology_load(hwloc) == 0;
}

template <class Set>
void CopyNumbers(const Functions& f, hwloc_const_bitmap_t from, Set* to) {
  *to = {};
  // An infinite set has numbers beyond those of any machine.
  constexpr int kLimit = Set::kWords * 64;
  for (int n = f.bitmap_next(from, -1); n >= 0 && n < kLimit; n = f.bitmap_next(from, n)) {
    to->Add(n);
  }
}

void TakeNodes(const Functions& f, hwloc_topology_t hwloc, Topology* topology) {
  for (unsigned i = 0;; ++i) {
    const hwloc_obj* node = f.get_obj_by_depth(hwloc, HWLOC_TYPE_DEPTH_NUMANODE, i);
    if (node == nullptr) return;
    if (node->os_index >= kMaxNodes) continue;
    const auto number = static_cast<int>(node->os_index);
    topology->machine_nodes.Add(number);
    if (node->attr->numanode.local_memory != 0) topology->machine_memory_nodes.Add(number);
    CopyNumbers(f, node->cpuset, &topology->processors_of[number]);
  }
}

// The kernel's distances, or those that somebody has measured. They are scaled so that the distance
// to the own node is 10.
void TakeDistances(const Functions& f, hwloc_topology_t hwloc, Topology* topology) {
  hwloc_distances_s* found = nullptr;
  unsigned count = 1;
  if (f.distances_get_by_type(hwloc, HWLOC_OBJ_NUMANODE, &count, &found,
                              HWLOC_DISTANCES_KIND_MEANS_LATENCY, 0) != 0 ||
      count == 0) {
    return;
  }
  const size_t n = found->nbobjs;
  for (size_t i = 0; i < n; ++i) {
    const uint64_t local = found->values[i * n + i];
    for (size_t j = 0; j < n; ++j) {
      const unsigned from = found->objs[i]->os_index;
      const unsigned to = found->objs[j]->os_index;
      const uint64_t value = found->values[i * n + j];
      if (from >= kMaxNodes || to >= kMaxNodes || local == 0 || value > UINT32_MAX) continue;
      const uint64_t scaled = value * kLocalDistance / local;
      topology->distances[from][to] =
          static_cast<uint16_t>(scaled < UINT16_MAX ? scaled : UINT16_MAX);
    }
  }
  f.distances_release(hwloc, found);
}

}  // namespace

const char* ReadByHwloc(const char* library, Topology* topology) {
  void* handle = Fails(Failing::kFile) ? nullptr : dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return "libhwloc cannot be loaded";
  const char* problem = "libhwloc is of an unknown version";
  Functions f;
  hwloc_topology_t hwloc = nullptr;
  if (LookUpAll(handle, &f) && f.get_api_version() >> 16 == HWLOC_API_VERSION >> 16) {
    problem = "hwloc fails";
    if (f.topology_init(&hwloc) != 0) hwloc = nullptr;
  }
  if (hwloc != nullptr && Load(f, hwloc)) {
    problem = nullptr;
    topology->is_this_machine = f.topology_is_thissystem(hwloc) != 0;
    TakeNodes(f, hwloc, topology);
    CopyNumbers(f, f.topology_get_topology_cpuset(hwloc), &topology->machine_processors);
    CopyNumbers(f, f.topology_get_allowed_cpuset(hwloc), &topology->processors);
    CopyNumbers(f, f.topology_get_allowed_nodeset(hwloc), &topology->nodes);
    TakeDistances(f, hwloc, topology);
  }
  if (hwloc != nullptr) f.topology_destroy(hwloc);
  dlclose(handle);
  return problem;
}

}  // namespace gleaner::platform
