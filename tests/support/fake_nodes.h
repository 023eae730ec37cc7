// A machine with several memory nodes for tests of one process: the calls of the system that tell
// of nodes are answered from a model, in which a page is on the node that the test was on when the
// model first saw it resident. All else goes to the system, and all before StartNodes does. For one
// file of a program that is linked with --wrap for getcpu, madvise and syscall.
#pragma once

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cerrno>
#include <cstdarg>
#include <unordered_map>

#include "platform/os/os_page.h"

namespace gleaner::testing {

inline int g_node_count = 0;    // 0: the system answers
inline int g_current_node = 0;  // where the test runs
inline std::unordered_map<Addr, int> g_node_of_os_page;

inline void StartNodes(int count) { g_node_count = count; }

// The node of the OS page; -1 if it is not resident.
inline int NodeOfOsPage(Addr address) {
  const Addr page = AlignDown(address, platform::OsPageBytes());
  unsigned char resident = 0;
  if (mincore(PointerAt<void>(page), platform::OsPageBytes(), &resident) != 0 ||
      (resident & 1) == 0) {
    g_node_of_os_page.erase(page);
    return -1;
  }
  return g_node_of_os_page.try_emplace(page, g_current_node).first->second;
}

}  // namespace gleaner::testing

extern "C" {

int __real_getcpu(unsigned* cpu, unsigned* node);
int __wrap_getcpu(unsigned* cpu, unsigned* node);
int __real_madvise(void* p, size_t bytes, int advice);
int __wrap_madvise(void* p, size_t bytes, int advice);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

int __wrap_getcpu(unsigned* cpu, unsigned* node) {
  if (gleaner::testing::g_node_count == 0) return __real_getcpu(cpu, node);
  *cpu = *node = static_cast<unsigned>(gleaner::testing::g_current_node);
  return 0;
}

int __wrap_madvise(void* p, size_t bytes, int advice) {
  if (advice == MADV_DONTNEED && gleaner::testing::g_node_count != 0) {
    const gleaner::Addr begin = gleaner::AddressOf(p);
    for (gleaner::Addr page = begin; page < begin + bytes; page += gleaner::platform::OsPageBytes())
      gleaner::testing::g_node_of_os_page.erase(page);
  }
  return __real_madvise(p, bytes, advice);
}

// Callers pass as many arguments as the call has; the sanitizer takes the others for what is
// behind.
GLEANER_NO_SANITIZE long __wrap_syscall(long number, ...) {
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  if (gleaner::testing::g_node_count != 0) {
    switch (number) {
      case SYS_get_mempolicy:
        if ((a[4] & MPOL_F_MEMS_ALLOWED) == 0) break;
        *reinterpret_cast<unsigned long*>(a[1]) = (1UL << gleaner::testing::g_node_count) - 1;
        return 0;
      case SYS_mbind:
        return 0;
      case SYS_move_pages:
        if (a[3] != 0) break;
        for (long i = 0; i < a[1]; ++i) {
          const gleaner::Addr page = reinterpret_cast<gleaner::Addr*>(a[2])[i];
          const int node = gleaner::testing::NodeOfOsPage(page);
          reinterpret_cast<int*>(a[4])[i] = node < 0 ? -ENOENT : node;
        }
        return 0;
      default:
        break;
    }
  }
  return __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

}  // extern "C"
