#include "platform/control_group.h"

#include <cerrno>
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

// What has been read so far, from all levels.
struct Reading {
  bool failed = false;  // a file that is there could not be read

  // ReadSmallFile. False if there is nothing to read.
  bool Read(const char* path, char* text, size_t capacity) {
    const int error = ReadSmallFile(path, text, capacity);
    if (error != 0 && error != ENOENT && error != ENOTDIR && error != ENODATA) failed = true;
    return error == 0;
  }
  bool ReadIn(const char* folder, const char* name, char* text, size_t capacity) {
    char path[3 * kMaxPath];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return Read(path, text, capacity);
  }
};

// Finds the process's group in the hierarchy that has this controller: "/a/b", "" for the root.
// Each line is "number:controllers:group".
bool FindGroup(const ControlGroupFiles& files, const char* controller, char group[kMaxPath],
               Reading* reading) {
  char text[4096];
  if (!reading->Read(files.membership, text, sizeof text)) return false;
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
                  Reading* reading, Visit&& visit) {
  char group[kMaxPath];
  if (!FindGroup(files, controller, group, reading)) return;
  for (;;) {
    char folder[2 * kMaxPath];
    snprintf(folder, sizeof folder, "%s%s%s", files.root, hierarchy, group);
    visit(static_cast<const char*>(folder));
    char* slash = strrchr(group, '/');
    if (slash == nullptr) return;
    *slash = 0;
  }
}

// Lowers *least to the processors of a quota of microseconds in each period; none if either is not
// positive.
void NoteQuota(long quota, long period, int* least) {
  if (quota <= 0 || period <= 0) return;
  const long processors = quota / period + (quota % period != 0 ? 1 : 0);
  if (processors < *least) *least = static_cast<int>(processors);
}

// Lowers *least to the number in the file, if it is not 0. "max" reads as 0.
void NoteBytes(const char* folder, const char* name, Reading* reading, uint64_t* least) {
  char text[64];
  if (!reading->ReadIn(folder, name, text, sizeof text)) return;
  const uint64_t bytes = strtoull(text, nullptr, 10);
  if (bytes != 0 && bytes < *least) *least = bytes;
}

}  // namespace

int ControlGroupProcessors(const ControlGroupFiles& files) {
  int least = INT32_MAX;
  Reading reading;
  ForEachLevel(files, kUnified, "", &reading, [&](const char* folder) {
    char text[64];
    if (!reading.ReadIn(folder, "cpu.max", text, sizeof text)) return;
    char* rest = nullptr;
    const long quota = strtol(text, &rest, 10);  // "max" reads as 0: no quota
    NoteQuota(quota, strtol(rest, nullptr, 10), &least);
  });
  ForEachLevel(files, "cpu", "/cpu", &reading, [&](const char* folder) {
    char quota[64];
    char period[64];
    if (reading.ReadIn(folder, "cpu.cfs_quota_us", quota, sizeof quota) &&
        reading.ReadIn(folder, "cpu.cfs_period_us", period, sizeof period)) {
      NoteQuota(strtol(quota, nullptr, 10), strtol(period, nullptr, 10), &least);
    }
  });
  return least;
}

bool GetControlGroupMemoryBytes(uint64_t* bytes, const ControlGroupFiles& files) {
  // Version 1 says by a larger number that there is no limit.
  constexpr uint64_t kNoLimit = uint64_t{1} << 62;
  uint64_t least = kNoLimit;
  Reading reading;
  ForEachLevel(files, kUnified, "", &reading, [&](const char* folder) {
    NoteBytes(folder, "memory.max", &reading, &least);
    NoteBytes(folder, "memory.high", &reading, &least);
  });
  ForEachLevel(files, "memory", "/memory", &reading, [&](const char* folder) {
    NoteBytes(folder, "memory.limit_in_bytes", &reading, &least);
  });
  if (reading.failed) return false;
  *bytes = least == kNoLimit ? 0 : least;
  return true;
}

}  // namespace gleaner::platform
