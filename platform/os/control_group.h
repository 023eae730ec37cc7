// What the control groups (cgroups) of the process allow it.
//
// In version 2 each level from the process's group to the root may set a limit, and the smallest
// counts. In version 1 each controller has a hierarchy of its own. Inside a container the path that
// the system tells may not exist; then its beginnings do, down to the root.
//
// Any thread. Both calls read files, some 20 us each, and keep errno.
#pragma once

#include <cstdint>

namespace gleaner::platform {

// Where the system tells of groups; other places for tests.
struct ControlGroupFiles {
  const char* membership = "/proc/self/cgroup";
  const char* root = "/sys/fs/cgroup";
};

// The processors that the quotas come to, rounded up; INT32_MAX without a quota.
int ControlGroupProcessors(const ControlGroupFiles& files = {});

// Gets the bytes of memory that the process's groups may have, 0 without a limit: the smallest of
// memory.max and memory.high, in version 1 of memory.limit_in_bytes. A file that says 0 does not
// count: nothing could run below it. False if a file is there and cannot be read, as where no
// descriptor is left.
[[nodiscard]] bool GetControlGroupMemoryBytes(uint64_t* bytes, const ControlGroupFiles& files = {});

}  // namespace gleaner::platform
