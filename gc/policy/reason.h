// Why a collection is of its kind: docs/design/policy.md, "What is decided".
#pragma once

#include <cstdint>

namespace gleaner::gc {

enum class Reason : uint8_t {
  kOnlyKind,        // no other kind was possible
  kAsked,           // concurrent: the program asked for a cycle
  kYoungDie,        // minor: most young objects die, and minor collections pay
  kShortStop,       // stop-parallel: it is expected to keep to the pause goal
  kLongStop,        // concurrent: a stop-parallel one is expected to exceed the pause goal
  kFastAllocation,  // stop-parallel: the program would use up its allowance during the marking
  kMemoryLimit,     // stop-parallel: the process is near its memory limit
  kDearCycle,       // stop-parallel: a concurrent cycle would cost the program too much time
};
// Whether it is a reason to mark concurrently.
constexpr bool IsForConcurrent(Reason reason) {
  return reason == Reason::kAsked || reason == Reason::kLongStop;
}
constexpr const char* NameOf(Reason reason) {
  constexpr const char* kNames[] = {"only kind", "asked for",       "young die",    "short stop",
                                    "long stop", "fast allocation", "memory limit", "dear cycle"};
  return kNames[static_cast<int>(reason)];
}

}  // namespace gleaner::gc
