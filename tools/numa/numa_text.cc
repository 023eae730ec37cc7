#include "tools/numa/numa_text.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "tools/common/text.h"

namespace gleaner::tools {
namespace {

constexpr size_t kMaxRowsOfGroup = 6;  // unless all are asked for; those with pages elsewhere stay
constexpr size_t kGroupColumns = 11;
constexpr size_t kNameColumns = 34;
constexpr size_t kTextColumns = 100;

// The text with the length of `columns`, cut in front if it is longer: paths differ at their ends.
std::string Left(const std::string& text, size_t columns) {
  if (text.size() <= columns) return text + std::string(columns - text.size(), ' ');
  return "..." + text.substr(text.size() - columns + 3);
}
std::string Right(const std::string& text, size_t columns) {
  return std::string(columns - std::min(columns, text.size()), ' ') + text;
}

// Paragraphs with lines of kTextColumns, the first of which begins with "* ".
std::string Wrapped(const std::string& text) {
  std::string wrapped = "*";
  size_t column = 1;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const size_t length = end - at;
    if (column + 1 + length > kTextColumns) {
      wrapped += "\n ";
      column = 1;
    }
    wrapped += " " + text.substr(at, length);
    column += 1 + length;
    if (end < text.size() && text[end] == '\n') {
      wrapped += "\n ";
      column = 1;
    }
    at = end + 1;
  }
  return wrapped + "\n";
}

std::vector<int> ColumnsOf(const NumaPlaces& places) {
  std::vector<int> nodes = places.machine.online;
  for (const auto& [node, bytes] : places.SumByNode()) nodes.push_back(node);
  std::sort(nodes.begin(), nodes.end());
  nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
  return nodes;
}

std::string ShareText(uint64_t bytes, uint64_t of) {
  if (bytes == 0 || of == 0) return "-";
  const double share = 100 * static_cast<double>(bytes) / static_cast<double>(of);
  char text[64];
  snprintf(text, sizeof text, "%.1f %%", share);
  return share < 0.05 ? "<0.1 %" : text;
}

std::string Row(const char* group, const std::string& name, const BytesByNode& nodes,
                const std::vector<int>& columns, const std::string& policy,
                const BytesByNode& elsewhere) {
  const uint64_t sum = SumOf(nodes);
  std::string row =
      Left(group, kGroupColumns) + Left(name, kNameColumns) + Right(SizeText(sum), 10);
  for (const int node : columns) {
    const auto found = nodes.find(node);
    row += Right(ShareText(found == nodes.end() ? 0 : found->second, sum), 9);
  }
  row += "  " + Left(policy, std::max<size_t>(policy.size(), 11)) +
         Right(elsewhere.empty() ? "-" : SizeText(SumOf(elsewhere)), 10);
  return row + "\n";
}

// Objects of the same group that are not worth a row.
struct Joined {
  size_t count = 0;
  NumaPart sum;

  void Add(const NumaPart& part) {
    if (count++ == 0) sum.policy = part.policy;
    if (sum.policy != part.policy) sum.policy = "several";
    AddTo(&sum.nodes, part.nodes);
    AddTo(&sum.elsewhere, part.elsewhere);
  }
};

std::string Rows(const NumaPlaces& places, bool all, const std::vector<int>& columns) {
  std::string rows;
  for (size_t i = 0; i < places.parts.size();) {
    const PartGroup group = places.parts[i].group;
    Joined joined;
    for (size_t in_group = 0; i < places.parts.size() && places.parts[i].group == group; ++i) {
      const NumaPart& part = places.parts[i];
      if (all || group == PartGroup::kHeap || in_group < kMaxRowsOfGroup) {
        rows += Row(NameOf(group), ForTerminal(part.name), part.nodes, columns, part.policy,
                    part.elsewhere);
        ++in_group;
      } else {
        joined.Add(part);
      }
    }
    if (joined.count != 0) {
      rows += Row(NameOf(group), std::to_string(joined.count) + " more", joined.sum.nodes, columns,
                  joined.sum.policy, joined.sum.elsewhere);
    }
  }
  return rows;
}

std::string LargeObjects(const NumaPlaces& places, const std::vector<int>& columns) {
  std::string rows;
  for (const LargeObject& object : places.large_objects) {
    char name[64];
    snprintf(name, sizeof name, "0x%" PRIx64 "%s", object.address,
             object.is_pointer_free ? ", pointer-free" : "");
    rows += Row("large", name, object.nodes, columns, "", {});
  }
  return rows.empty() ? rows : "\n" + rows;
}

Json JsonOf(const BytesByNode& nodes) {
  Json all = Json::object();
  for (const auto& [node, bytes] : nodes) all[std::to_string(node)] = bytes;
  return all;
}

}  // namespace

std::string NodesText(const BytesByNode& nodes) {
  std::string text;
  for (const auto& [node, bytes] : nodes) {
    text += (text.empty() ? "" : ", ") + SizeText(bytes) + " on node " + std::to_string(node);
  }
  return text;
}

std::string NumaTable(const NumaPlaces& places, bool all) {
  const std::vector<int> columns = ColumnsOf(places);
  std::string text = "gleaner numa: process " + std::to_string(places.process) + " (" +
                     ForTerminal(places.name) + ")";
  if (!places.policy.empty()) text += ", policy " + places.policy;
  if (places.processors_node >= 0) {
    text += ", processors of node " + std::to_string(places.processors_node);
  }
  text += "\n\n" + Left("part", kGroupColumns + kNameColumns) + Right("resident", 10);
  for (const int node : columns) text += Right("node " + std::to_string(node), 9);
  text += "  " + Left("policy", 11) + Right("elsewhere", 10) + "\n";
  text += Rows(places, all, columns);
  text += Row("all", "", places.SumByNode(), columns, "", places.Elsewhere());
  text += LargeObjects(places, columns);
  const std::vector<std::string> findings = FindingsOf(places);
  if (!findings.empty()) text += "\n";
  for (const std::string& finding : findings) text += Wrapped(finding);
  return text;
}

Json NumaJson(const NumaPlaces& places) {
  Json all = {{"process", places.process},
              {"name", places.name},
              {"policy", places.policy},
              {"nodes", places.machine.online},
              {"allowed_nodes", places.allowed_nodes}};
  if (places.processors_node >= 0) all["processors_node"] = places.processors_node;
  all.update({{"numa_maps", places.has_numa_maps},
              {"bytes", JsonOf(places.SumByNode())},
              {"elsewhere", JsonOf(places.Elsewhere())},
              {"parts", Json::array()},
              {"large_objects", Json::array()},
              {"findings", FindingsOf(places)}});
  for (const NumaPart& part : places.parts) {
    all["parts"].push_back({{"group", NameOf(part.group)},
                            {"name", part.name},
                            {"policy", part.policy},
                            {"bytes", JsonOf(part.nodes)},
                            {"elsewhere", JsonOf(part.elsewhere)}});
  }
  for (const LargeObject& object : places.large_objects) {
    all["large_objects"].push_back({{"address", object.address},
                                    {"object_bytes", object.bytes},
                                    {"pointer_free", object.is_pointer_free},
                                    {"bytes", JsonOf(object.nodes)}});
  }
  return all;
}

}  // namespace gleaner::tools
