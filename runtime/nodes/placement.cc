#include "runtime/nodes/placement.h"

#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "alloc/address_space.h"
#include "platform/nodes/topology.h"
#include "runtime/process/options.h"

namespace gleaner::runtime {

using alloc::Pattern;
using alloc::Placement;
using platform::NodeSet;

namespace {

constexpr struct {
  const char* name;
  Pattern pattern;
} kPatterns[] = {{"local", Pattern::kLocal},
                 {"interleave", Pattern::kInterleave},
                 {"cyclic", Pattern::kBlockCyclic},
                 {"bind", Pattern::kBind},
                 {"preferred", Pattern::kPreferred}};

constexpr size_t kMaxBlockBytes = size_t{1} << 40;

// Reads a size with an optional suffix k, m or g; 0 if it is none, or out of range.
size_t ParseBlock(const char* text) {
  if (isdigit(static_cast<unsigned char>(*text)) == 0) return 0;
  char* rest;
  errno = 0;
  unsigned long long bytes = strtoull(text, &rest, 10);
  constexpr char kUnits[] = "kmg";
  const char* unit =
      *rest != 0 ? strchr(kUnits, tolower(static_cast<unsigned char>(*rest))) : nullptr;
  const int shift = unit == nullptr ? 0 : 10 * static_cast<int>(unit - kUnits + 1);
  if (unit != nullptr) ++rest;
  if (errno != 0 || *rest != 0 || bytes > (kMaxBlockBytes >> shift)) return 0;
  bytes <<= shift;
  return bytes % platform::OsPageBytes() == 0 ? bytes : 0;
}

}  // namespace

const char* ParsePlacement(const char* text, Placement* placement) {
  Placement read;
  const size_t length = strcspn(text, ":");
  const char* rest = text + length;
  bool is_known = false;
  for (const auto& row : kPatterns) {
    if (strlen(row.name) != length || strncasecmp(text, row.name, length) != 0) continue;
    read.pattern = row.pattern;
    is_known = true;
  }
  if (!is_known) return "the patterns are local, interleave, cyclic, bind and preferred";
  if (*rest == ':') {
    ++rest;
    if (strncmp(rest, "all", 3) == 0) {
      rest += 3;
    } else if (!platform::ParseNodes(rest, &rest, &read.nodes) || read.nodes.IsEmpty()) {
      return "the nodes are a list as 0-3,5, or all";
    }
  }
  if (read.pattern == Pattern::kBlockCyclic) {
    read.block_bytes = alloc::kDefaultBlockBytes;
    if (*rest == ':') {
      read.block_bytes = ParseBlock(rest + 1);
      rest += strlen(rest);
    }
    if (read.block_bytes == 0) {
      return "the block is a multiple of 4096 bytes, also as 64k or 2m, of 1024g at most";
    }
  }
  if (*rest != 0) return "there is something behind the nodes";
  const int count = read.nodes.Count();
  if (read.pattern == Pattern::kLocal && length != strlen(text)) return "local has no nodes";
  if (read.pattern == Pattern::kBind && count == 0) return "bind needs nodes";
  if (read.pattern == Pattern::kPreferred && count != 1) return "preferred needs one node";
  *placement = read;
  return nullptr;
}

void SetHeapPlacement() {
  const char* text = g_options.numa;
  if (text == nullptr) return;
  constexpr char kWithout[] = "memory lies where it is touched first";
  Placement placement;
  if (const char* wrong = ParsePlacement(text, &placement); wrong != nullptr) {
    return Complain("GLEANER_NUMA: '%s': %s; %s", text, wrong, kWithout);
  }
  const NodeSet usable = UsableNodes(placement);
  if (usable.IsEmpty()) {
    return Complain("GLEANER_NUMA: '%s': this process may use none of these nodes; %s", text,
                    kWithout);
  }
  if (!placement.nodes.IsEmpty() && !(usable == placement.nodes)) {
    char names[256];
    usable.Format(names, sizeof names);
    Complain("GLEANER_NUMA: '%s': of these nodes this process may use only %s", text, names);
  }
  if (!platform::HasSeveralNodes()) return;
  const int error = placement.pattern == Pattern::kBlockCyclic ? 0 : TryPlacement(placement);
  if (error != 0) {
    return Complain("GLEANER_NUMA: '%s': the system refuses it (errno %d); %s", text, error,
                    kWithout);
  }
  alloc::g_space.placement = placement;
}

}  // namespace gleaner::runtime
