#include "tools/numa/numa_maps.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string_view>

namespace gleaner::tools {
namespace {

constexpr int kMaxNumber = 65535;  // of nodes and processors, that are believed

template <class F>
void ForEachLine(const std::string& text, F f) {
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    f(std::string_view(text).substr(at, end - at));
    at = end + 1;
  }
}

// The next word of the line, which loses it.
std::string_view TakeWord(std::string_view* line) {
  const size_t begin = std::min(line->find_first_not_of(' '), line->size());
  const size_t end = std::min(line->find(' ', begin), line->size());
  const std::string_view word = line->substr(begin, end - begin);
  line->remove_prefix(end);
  return word;
}

// Whether the word is `key` and a number; the number.
bool IsNumber(std::string_view word, std::string_view key, uint64_t* number) {
  if (!word.starts_with(key)) return false;
  *number = strtoull(std::string(word.substr(key.size())).c_str(), nullptr, 10);
  return true;
}

// One line of maps. False if it is none.
bool ParseMap(std::string_view line, NumaMapping* mapping) {
  const std::string text(line);
  char rights[5] = {};
  int path_at = 0;
  if (sscanf(text.c_str(), "%" SCNx64 "-%" SCNx64 " %4s %*x %*s %*s%n", &mapping->begin,
             &mapping->end, rights, &path_at) < 3 ||
      path_at == 0) {
    return false;
  }
  mapping->rights = rights;
  const size_t path = text.find_first_not_of(' ', static_cast<size_t>(path_at));
  if (path != std::string::npos) mapping->path = text.substr(path);
  return true;
}

// "N0=5" is 5 pages on node 0.
bool IsNode(std::string_view word, int* node, uint64_t* pages) {
  return word.size() > 1 && word[0] == 'N' &&
         sscanf(std::string(word).c_str(), "N%d=%" SCNu64, node, pages) == 2 && *node >= 0 &&
         *node <= kMaxNumber;
}

// The words behind the address in a line of numa_maps.
void ParseNuma(std::string_view line, NumaMapping* mapping) {
  mapping->policy = TakeWord(&line);
  // Two policies have a blank in their names: "prefer (many):0-1", "weighted interleave:0".
  std::string_view rest = line;
  const std::string_view second = TakeWord(&rest);
  if (second.starts_with("(many)") || second.starts_with("interleave")) {
    mapping->policy += " " + std::string(second);
    line = rest;
  }
  uint64_t anonymous_pages = 0;
  uint64_t kilobytes = 4;
  std::vector<std::pair<int, uint64_t>> pages;
  while (!line.empty()) {
    const std::string_view word = TakeWord(&line);
    int node;
    uint64_t number;
    if (IsNode(word, &node, &number)) {
      pages.emplace_back(node, number);
    } else if (!IsNumber(word, "anon=", &anonymous_pages) &&
               !IsNumber(word, "mapmax=", &mapping->max_mappers)) {
      IsNumber(word, "kernelpagesize_kB=", &kilobytes);
    }
  }
  mapping->page_bytes = kilobytes << 10;
  mapping->anonymous_bytes = anonymous_pages * mapping->page_bytes;
  for (const auto& [node, count] : pages) mapping->nodes[node] += count * mapping->page_bytes;
}

}  // namespace

std::vector<int> ParseNumbers(const std::string& text) {
  std::vector<int> numbers;
  const char* at = text.c_str();
  while (*at != 0) {
    char* end;
    const long first = strtol(at, &end, 10);
    if (end == at) return {};
    long last = first;
    if (*end == '-') {
      at = end + 1;
      last = strtol(at, &end, 10);
      if (end == at) return {};
    }
    if (first < 0 || last < first || last > kMaxNumber || (*end != ',' && *end != 0)) return {};
    for (long n = first; n <= last; ++n) numbers.push_back(static_cast<int>(n));
    at = *end == ',' ? end + 1 : end;
  }
  return numbers;
}

std::string NumbersText(const std::vector<int>& numbers) {
  std::string text;
  for (size_t i = 0; i < numbers.size();) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) text += (last > i + 1 ? "-" : ",") + std::to_string(numbers[last]);
    i = last + 1;
  }
  return text;
}

uint64_t SumOf(const BytesByNode& nodes) {
  uint64_t sum = 0;
  for (const auto& [node, bytes] : nodes) sum += bytes;
  return sum;
}

void AddTo(BytesByNode* sum, const BytesByNode& nodes) {
  for (const auto& [node, bytes] : nodes) (*sum)[node] += bytes;
}

std::vector<NumaMapping> JoinMaps(const std::string& maps, const std::string& numa_maps) {
  std::map<uint64_t, NumaMapping> by_begin;
  ForEachLine(maps, [&](std::string_view line) {
    NumaMapping mapping;
    if (ParseMap(line, &mapping)) by_begin[mapping.begin] = mapping;
  });
  ForEachLine(numa_maps, [&](std::string_view line) {
    char* end;
    const std::string address(TakeWord(&line));
    const uint64_t begin = strtoull(address.c_str(), &end, 16);
    if (end == address.c_str() || *end != 0) return;
    NumaMapping& mapping = by_begin[begin];
    if (mapping.end == 0) mapping.begin = mapping.end = begin;
    ParseNuma(line, &mapping);
  });
  std::vector<NumaMapping> mappings;
  mappings.reserve(by_begin.size());
  for (auto& [begin, mapping] : by_begin) mappings.push_back(std::move(mapping));
  return mappings;
}

std::vector<NumaMapping> MapsOfOneNode(const std::string& smaps) {
  std::vector<NumaMapping> mappings;
  ForEachLine(smaps, [&](std::string_view line) {
    NumaMapping mapping;
    std::string_view rest = line;
    const std::string_view key = TakeWord(&rest);
    if (!key.ends_with(":")) {
      if (ParseMap(line, &mapping)) mappings.push_back(mapping);
      return;
    }
    if (mappings.empty()) return;
    NumaMapping& last = mappings.back();
    const uint64_t bytes = strtoull(std::string(TakeWord(&rest)).c_str(), nullptr, 10) << 10;
    if (key == "Rss:" && bytes != 0) last.nodes[0] = bytes;
    if (key == "Anonymous:") last.anonymous_bytes = bytes;
    if (key == "KernelPageSize:") last.page_bytes = bytes;
  });
  return mappings;
}

std::vector<int> NodesOfPolicy(const std::string& policy) {
  const size_t colon = policy.rfind(':');
  return colon == std::string::npos ? std::vector<int>{} : ParseNumbers(policy.substr(colon + 1));
}

}  // namespace gleaner::tools
