#include "tools/report/report_profile.h"

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

#include "tools/common/frame_names.h"
#include "tools/common/text.h"
#include "tools/report/report_drawing.h"

namespace gleaner::tools {

namespace {

constexpr size_t kMaxDepth = 60;
constexpr size_t kSites = 20;
constexpr double kMaxMeanBytes = 1e15;  // what is multiplied by it stays finite

// What a line of `objects` objects of together `bytes` stands for: an object of size b is sampled
// with probability 1 - exp(-b / mean).
double Unsampled(uint64_t objects, uint64_t bytes, double mean) {
  const auto all = static_cast<double>(bytes);
  if (objects == 0 || mean <= 1) return all;
  const double chance = -std::expm1(-all / static_cast<double>(objects) / mean);
  return chance > 0 ? all / chance : 0;
}

bool ParseStack(const std::string& line, double mean, AllocationStack* stack) {
  uint64_t live_objects = 0;
  uint64_t live_bytes = 0;
  uint64_t all_objects = 0;
  uint64_t all_bytes = 0;
  int length = 0;
  if (sscanf(line.c_str(), " %" SCNu64 ": %" SCNu64 " [%" SCNu64 ": %" SCNu64 "] @%n",
             &live_objects, &live_bytes, &all_objects, &all_bytes, &length) != 4 ||
      length == 0) {
    return false;
  }
  *stack = {{}, Unsampled(live_objects, live_bytes, mean), Unsampled(all_objects, all_bytes, mean)};
  for (const char* at = line.c_str() + length; *at == ' ';) {
    char* end = nullptr;
    const uint64_t address = strtoull(at, &end, 16);
    if (end == at) break;
    stack->frames.push_back(address == 0 ? 0 : address - 1);
    at = end;
  }
  return true;
}

struct Node {
  double bytes = 0;
  std::map<std::string, Node> callees;
};

size_t DepthOf(const Node& node) {
  size_t depth = 0;
  for (const auto& [name, callee] : node.callees) depth = std::max(depth, DepthOf(callee) + 1);
  return depth;
}

class Flame {
 public:
  Flame(const HeapProfile& profile, bool of_live, FrameNames* names) {
    for (const AllocationStack& stack : profile.stacks) {
      const double bytes = of_live ? stack.live_bytes : stack.all_bytes;
      if (bytes <= 0) continue;
      Node* node = &root_;
      node->bytes += bytes;
      const size_t depth = std::min(stack.frames.size(), kMaxDepth);
      for (size_t i = depth; i-- > 0;) {
        node = &node->callees[names->FunctionAt(stack.frames[i])];
        node->bytes += bytes;
      }
    }
  }

  std::string Draw() {
    const size_t rows = DepthOf(root_) + 1;
    out_ =
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Flame graph\">"
        "<svg class=\"flame\" width=\"1000\" viewBox=\"0 0 1000 " +
        std::to_string(rows * kRow) +
        "\" role=\"img\" aria-label=\"Functions by the bytes allocated below them\"><g "
        "class=\"flame\">\n";
    DrawNode("all", root_, 0, 0);
    return out_ + "</g></svg></div>\n";
  }

 private:
  static constexpr size_t kRow = 18;
  static constexpr double kWidth = 1000;
  static constexpr double kLeast = 1;      // narrower ones are left out
  static constexpr double kReadable = 24;  // those have a text
  static constexpr size_t kMaxName = 200;  // no line shows more

  void DrawNode(const std::string& name, const Node& node, double x, size_t depth) {
    const double width = node.bytes / root_.bytes * kWidth;
    if (width < kLeast) return;
    // An SVG of its own for each, which cuts its text off at its edge.
    char place[160];
    snprintf(place, sizeof place, "x=\"%.1f\" y=\"%zu\" width=\"%.1f\" height=\"%zu\"", x,
             depth * kRow, width, kRow);
    const size_t shade = std::hash<std::string>()(name) % 4;
    const std::string tip =
        name + ": " + Bytes(node.bytes) + ", " + Share(node.bytes / root_.bytes);
    out_ += std::string("<svg ") + place + "><title>" + Escaped(tip) +
            "</title><rect width=\"100%\" height=\"100%\" class=\"f" + std::to_string(shade) +
            "\"/>";
    if (width >= kReadable) {
      out_ += "<text x=\"3\" y=\"13\">" + Escaped(name.substr(0, kMaxName)) + "</text>";
    }
    out_ += "</svg>\n";
    for (const auto& [callee_name, callee] : node.callees) {
      DrawNode(callee_name, callee, x, depth + 1);
      x += callee.bytes / root_.bytes * kWidth;
    }
  }

  Node root_;
  std::string out_;
};

PlainTable Sites(const HeapProfile& profile, FrameNames* names) {
  struct Site {
    double live_bytes = 0;
    double all_bytes = 0;
    uint64_t frame = 0;
  };
  std::map<std::string, Site> sites;
  for (const AllocationStack& stack : profile.stacks) {
    const uint64_t frame = stack.frames.empty() ? 0 : stack.frames[0];
    Site& site = sites[frame == 0 ? "unknown" : names->FunctionAt(frame)];
    site.live_bytes += stack.live_bytes;
    site.all_bytes += stack.all_bytes;
    site.frame = frame;
  }
  std::vector<std::pair<std::string, Site>> order(sites.begin(), sites.end());
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.second.live_bytes + a.second.all_bytes > b.second.live_bytes + b.second.all_bytes;
  });
  if (order.size() > kSites) order.resize(kSites);
  PlainTable table = {{"Function that allocates", "Place", "Live", "Allocated"}, {}};
  for (const auto& [name, site] : order) {
    table.rows.push_back({name, site.frame == 0 ? "" : names->PlaceOf(site.frame),
                          Bytes(site.live_bytes), Bytes(site.all_bytes)});
  }
  return table;
}

}  // namespace

bool HeapProfile::Read(const std::string& path, std::string* reason) {
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  std::string line;
  if (!file || !std::getline(file, line)) {
    *reason = path + ": " + (errno != 0 ? strerror(errno) : "empty");
    return false;
  }
  const char* format = strstr(line.c_str(), "@ heap_v2/");
  if (!line.starts_with("heap profile:") || format == nullptr) {
    *reason = path + ": no heap profile";
    return false;
  }
  mean_bytes = std::min(strtod(format + strlen("@ heap_v2/"), nullptr), kMaxMeanBytes);
  bool is_map = false;
  while (std::getline(file, line)) {
    AllocationStack stack;
    if (line == "# end") {
      is_complete = true;
    } else if (stacks.empty() && sscanf(line.c_str(), "# process=%" SCNu64 " %" SCNu64, &process,
                                        &process_start) >= 1) {
      continue;
    } else if (line == "MAPPED_LIBRARIES:") {
      is_map = true;
    } else if (is_map) {
      maps += line + "\n";
    } else if (ParseStack(line, mean_bytes, &stack)) {
      stacks.push_back(std::move(stack));
    }
  }
  return true;
}

std::string DrawnProfile(const HeapProfile& profile) {
  FrameNames names(profile.maps);
  const bool any_live = std::any_of(profile.stacks.begin(), profile.stacks.end(),
                                    [](const AllocationStack& s) { return s.live_bytes > 0; });
  std::string out;
  if (!profile.is_complete) out += "<p class=\"missing\">The end of the profile is missing.</p>\n";
  const bool any =
      any_live || std::any_of(profile.stacks.begin(), profile.stacks.end(),
                              [](const AllocationStack& s) { return s.all_bytes > 0; });
  if (!any) return out + "<p>The profile has no sample.</p>\n";
  out += std::string("<figure><figcaption>") +
         (any_live ? "What is live, by the functions that have allocated it"
                   : "What was allocated, by function") +
         ": callers above, the function that allocates at the bottom of its column.</figcaption>" +
         Flame(profile, any_live, &names).Draw() + "</figure>\n";
  return out + Drawn(Sites(profile, &names), "Allocation sites");
}

}  // namespace gleaner::tools
