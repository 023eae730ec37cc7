#include "platform/os/control_group.h"

#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "platform/os/process.h"

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

// The files of the process's group in one hierarchy, and of each group above it. Takes little room,
// since a collection may read them on a thread's stack of 16 KiB.
class Levels {
 public:
  explicit Levels(const ControlGroupFiles& files) : files_(files) {}

  // Goes to the process's group in the hierarchy that has this controller. False if there is none.
  bool Find(const char* controller, const char* hierarchy);
  // Goes to the group above. False at the root.
  bool Up() {
    while (length_ > root_length_ && path_[length_ - 1] != '/') --length_;
    if (length_ == root_length_) return false;
    path_[--length_] = 0;
    return true;
  }
  // ReadSmallFile in this group. False if there is nothing to read.
  bool Read(const char* name, char* text, size_t capacity) {
    const size_t length = length_;
    const bool fits = Append("/", 1) && Append(name, strlen(name));
    const int error = fits ? ReadSmallFile(path_, text, capacity) : ENOENT;
    path_[length_ = length] = 0;
    RecordError(error);
    return error == 0;
  }
  // Whether a file that is there could not be read.
  bool failed() const { return failed_; }

 private:
  void RecordError(int error) {
    if (error != 0 && error != ENOENT && error != ENOTDIR && error != ENODATA) failed_ = true;
  }
  bool Append(const char* text, size_t length) {
    if (length_ + length >= sizeof path_) return false;
    memcpy(path_ + length_, text, length);
    path_[length_ += length] = 0;
    return true;
  }
  bool TakeLine(const char* controller);

  const ControlGroupFiles& files_;
  bool failed_ = false;
  char path_[kMaxPath] = "";  // of the root of the hierarchy, and of the group in it, if any
  size_t root_length_ = 0;
  size_t length_ = 0;
};

// A line "number:controllers:group" stands behind the root's path. If the controller is in it, the
// group takes its place; the root group is the empty path.
bool Levels::TakeLine(const char* controller) {
  char* line = path_ + root_length_;
  const char* list = strchr(line, ':');
  const char* group = list == nullptr ? nullptr : strchr(list + 1, ':');
  if (group == nullptr || !IsInList(list + 1, group, controller)) return false;
  ++group;
  length_ = root_length_ + strlen(group);
  memmove(line, group, strlen(group) + 1);
  if (strcmp(line, "/") == 0) path_[length_ = root_length_] = 0;
  return true;
}

bool Levels::Find(const char* controller, const char* hierarchy) {
  length_ = 0;
  if (!Append(files_.root, strlen(files_.root)) || !Append(hierarchy, strlen(hierarchy))) {
    return false;
  }
  root_length_ = length_;
  const int saved = errno;
  const int fd = OpenForReading(files_.membership);
  ssize_t n = -1;
  bool found = false;
  bool fits = true;
  for (char part[256]; !found && fd >= 0 && (n = read(fd, part, sizeof part)) > 0;) {
    for (ssize_t i = 0; i < n && !found; ++i) {
      if (part[i] != '\n') {
        fits = fits && Append(part + i, 1);
        continue;
      }
      found = fits && TakeLine(controller);
      if (!found) path_[length_ = root_length_] = 0;
      fits = true;
    }
  }
  if (n < 0) RecordError(errno);
  if (n == 0 && fits) found = TakeLine(controller);  // the last line's end is missing
  if (fd >= 0) close(fd);
  errno = saved;
  return found;
}

// Lowers *min to the processors of a quota of microseconds in each period; none if either is not
// positive.
void LowerToQuota(long quota, long period, int* min) {
  if (quota <= 0 || period <= 0) return;
  const long processors = quota / period + (quota % period != 0 ? 1 : 0);
  if (processors < *min) *min = static_cast<int>(processors);
}

// Lowers *min to the number in the file, if it is not 0. "max" reads as 0.
void LowerToBytes(Levels* levels, const char* name, uint64_t* min) {
  char text[64];
  if (!levels->Read(name, text, sizeof text)) return;
  const uint64_t bytes = strtoull(text, nullptr, 10);
  if (bytes != 0 && bytes < *min) *min = bytes;
}

}  // namespace

int ControlGroupProcessors(const ControlGroupFiles& files) {
  int min = INT32_MAX;
  Levels levels(files);
  char quota[64];
  char period[64];
  for (bool more = levels.Find(kUnified, ""); more; more = levels.Up()) {
    if (!levels.Read("cpu.max", quota, sizeof quota)) continue;
    char* rest = nullptr;
    const long microseconds = strtol(quota, &rest, 10);  // "max" reads as 0: no quota
    LowerToQuota(microseconds, strtol(rest, nullptr, 10), &min);
  }
  for (bool more = levels.Find("cpu", "/cpu"); more; more = levels.Up()) {
    if (levels.Read("cpu.cfs_quota_us", quota, sizeof quota) &&
        levels.Read("cpu.cfs_period_us", period, sizeof period)) {
      LowerToQuota(strtol(quota, nullptr, 10), strtol(period, nullptr, 10), &min);
    }
  }
  return min;
}

bool GetControlGroupMemoryBytes(uint64_t* bytes, const ControlGroupFiles& files) {
  // Version 1 says by a larger number that there is no limit.
  constexpr uint64_t kNoLimit = uint64_t{1} << 62;
  uint64_t min = kNoLimit;
  Levels levels(files);
  for (bool more = levels.Find(kUnified, ""); more; more = levels.Up()) {
    LowerToBytes(&levels, "memory.max", &min);
    LowerToBytes(&levels, "memory.high", &min);
  }
  for (bool more = levels.Find("memory", "/memory"); more; more = levels.Up()) {
    LowerToBytes(&levels, "memory.limit_in_bytes", &min);
  }
  if (levels.failed()) return false;
  *bytes = min == kNoLimit ? 0 : min;
  return true;
}

}  // namespace gleaner::platform
