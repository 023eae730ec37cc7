#include "platform/control_group.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "platform/process.h"

namespace gleaner::platform {

namespace {

constexpr size_t kMaxPath = 1024;
constexpr const char* kUnified = "";  // the controllers' name of version 2

// Whether `name` is in a list of names separated by commas. The list ends at `end`.
bool IsInList(const char* list, const char* end, const char* name) {
  const size_t length = strlen(name);
  for (const char* item = list;; ++item) {
    const char* item_end = item;
    while (item_end < end && *item_end != ',') ++item_end;
    if (static_cast<size_t>(item_end - item) == length && memcmp(item, name, length) == 0) {
      return true;
    }
    if (item_end >= end) return false;
    item = item_end;
  }
}

// Finds the process's group in the hierarchy that has this controller: "/a/b", "" for the root.
// Each line is "number:controllers:group".
bool FindGroup(const ControlGroupFiles& files, const char* controller, char group[kMaxPath]) {
  char text[4096];
  if (!ReadSmallFile(files.membership, text, sizeof text)) return false;
  for (const char* line = text; line != nullptr && *line != 0;) {
    const char* list = strchr(line, ':');
    const char* path = list == nullptr ? nullptr : strchr(list + 1, ':');
    if (path == nullptr) return false;
    if (IsInList(list + 1, path, controller)) {
      snprintf(group, kMaxPath, "%.*s", static_cast<int>(strcspn(path + 1, "\n")), path + 1);
      if (strcmp(group, "/") == 0) group[0] = 0;
      return true;
    }
    line = strchr(path, '\n');
    if (line != nullptr) ++line;
  }
  return false;
}

// Calls visit(folder) for the process's group and for each group above it.
template <typename Visit>
void ForEachLevel(const ControlGroupFiles& files, const char* controller, const char* hierarchy,
                  Visit&& visit) {
  char group[kMaxPath];
  if (!FindGroup(files, controller, group)) return;
  for (;;) {
    char folder[2 * kMaxPath];
    snprintf(folder, sizeof folder, "%s%s%s", files.root, hierarchy, group);
    visit(static_cast<const char*>(folder));
    char* slash = strrchr(group, '/');
    if (slash == nullptr) return;
    *slash = 0;
  }
}

bool ReadIn(const char* folder, const char* name, char* text, size_t capacity) {
  char path[3 * kMaxPath];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return ReadSmallFile(path, text, capacity);
}

// Lowers *least to the processors of a quota of microseconds in each period; none if either is not
// positive.
void NoteQuota(long quota, long period, int* least) {
  if (quota <= 0 || period <= 0) return;
  const long processors = (quota + period - 1) / period;
  if (processors < *least) *least = static_cast<int>(processors);
}

// Lowers *least to the number in the file. "max" is no number.
void NoteBytes(const char* folder, const char* name, uint64_t* least) {
  char text[64];
  if (!ReadIn(folder, name, text, sizeof text)) return;
  char* rest = nullptr;
  const uint64_t bytes = strtoull(text, &rest, 10);
  if (rest != text && bytes < *least) *least = bytes;
}

}  // namespace

int ControlGroupProcessors(const ControlGroupFiles& files) {
  int least = INT32_MAX;
  ForEachLevel(files, kUnified, "", [&least](const char* folder) {
    char text[64];
    if (!ReadIn(folder, "cpu.max", text, sizeof text)) return;
    char* rest = nullptr;
    const long quota = strtol(text, &rest, 10);  // "max" reads as 0: no quota
    NoteQuota(quota, strtol(rest, nullptr, 10), &least);
  });
  ForEachLevel(files, "cpu", "/cpu", [&least](const char* folder) {
    char quota[64];
    char period[64];
    if (ReadIn(folder, "cpu.cfs_quota_us", quota, sizeof quota) &&
        ReadIn(folder, "cpu.cfs_period_us", period, sizeof period)) {
      NoteQuota(strtol(quota, nullptr, 10), strtol(period, nullptr, 10), &least);
    }
  });
  return least;
}

uint64_t ControlGroupMemoryBytes(const ControlGroupFiles& files) {
  // Version 1 says by a larger number that there is no limit.
  constexpr uint64_t kNoLimit = uint64_t{1} << 62;
  uint64_t least = kNoLimit;
  ForEachLevel(files, kUnified, "", [&least](const char* folder) {
    NoteBytes(folder, "memory.max", &least);
    NoteBytes(folder, "memory.high", &least);
  });
  ForEachLevel(files, "memory", "/memory", [&least](const char* folder) {
    NoteBytes(folder, "memory.limit_in_bytes", &least);
  });
  return least == kNoLimit ? 0 : least;
}

}  // namespace gleaner::platform
