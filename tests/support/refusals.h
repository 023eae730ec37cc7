// Systems that refuse: what a process under test is not allowed, or has no room for. All of it is
// this process's own; the limits of the system stay as they are.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <malloc.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>

#include "platform/os/raw_call.h"

namespace gleaner::testing {

// Bounds a resource of the process for as long as it lives.
class Limit {
 public:
  Limit(__rlimit_resource resource, size_t bytes) : resource_(resource) {
    EXPECT_EQ(getrlimit(resource, &old_), 0);
    rlimit limit = old_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(resource, &limit), 0);
  }
  ~Limit() { EXPECT_EQ(setrlimit(resource_, &old_), 0); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  const __rlimit_resource resource_;
  rlimit old_;
};

// The system makes no more private memory usable (RLIMIT_DATA bounds what is writable).
class MemoryRefused : Limit {
 public:
  MemoryRefused() : Limit(RLIMIT_DATA, 4096) {}
};

// Makes a system call fail with that error from here on; with `argument`, only if its second
// argument, or the one with that index, is that. For the calling thread and those that it starts.
// The library does not notice, as if the filter had been there before the process.
inline void Refuse(uint32_t number, uint32_t argument = 0, uint32_t index = 1, int error = EPERM) {
  const uint16_t compare = argument == 0 ? BPF_JGE : BPF_JEQ;
  const auto offset =
      static_cast<uint32_t>(offsetof(seccomp_data, args) + index * sizeof(uint64_t));
  const sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset),
      BPF_JUMP(static_cast<uint16_t>(BPF_JMP | compare | BPF_K), argument, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter = {std::size(program), const_cast<sock_filter*>(program)};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(platform::RawCall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER,
                              static_cast<long>(reinterpret_cast<uintptr_t>(&filter)), 0, 0, 0),
            0);
}

// The same for all ways to a userfaultfd.
inline void RefuseUserfaultfd() {
  Refuse(SYS_userfaultfd);
  Refuse(SYS_ioctl, static_cast<uint32_t>(_IO(0xAA, 0)));  // of /dev/userfaultfd
}

// The same for what mprotect needs: memory that may be read and not written.
inline void RefuseReadOnlyMemory() { Refuse(SYS_mprotect, PROT_READ, 2); }

// Shows this process, and no other, an empty /proc. False if it has not the right.
inline bool HideProc() {
  return unshare(CLONE_NEWNS) == 0 &&
         mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
         mount("none", "/proc", "tmpfs", 0, nullptr) == 0;
}

// Gives up root's rights, if it has them. The process's own files in /proc stay its own, as they
// are of one that an ordinary user has started.
inline void BecomeAnOrdinaryUser() {
  if (getuid() != 0) return;
  ASSERT_EQ(setuid(65534), 0);
  ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0), 0);
}

inline size_t MappingsOfProcess() {
  std::ifstream maps("/proc/self/maps");
  size_t lines = 0;
  for (std::string line; std::getline(maps, line);) ++lines;
  return lines;
}

// Leaves the process room for `left` more mappings.
inline void UseUpMappings(size_t left) {
  constexpr size_t kPageBytes = 4096;
  // malloc must do without new ones.
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
  void* volatile spare = malloc(16 << 20);
  free(spare);
  constexpr size_t kBytes = size_t{1} << 30;
  void* memory =
      mmap(nullptr, kBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  char* p = static_cast<char*>(memory);
  // Every other page of another protection: two mappings for each.
  size_t i = 0;
  for (; i + 2 * kPageBytes < kBytes; i += 2 * kPageBytes) {
    if (mprotect(p + i, kPageBytes, PROT_READ | PROT_WRITE) != 0) break;
  }
  ASSERT_LT(i + 2 * kPageBytes, kBytes);
  for (size_t back = 0; back < left; back += 2) {
    i -= 2 * kPageBytes;
    ASSERT_EQ(mprotect(p + i, kPageBytes, PROT_NONE), 0);
  }
}

// Shows this process, and no other, a limit on mappings. False if it has not the right.
inline bool ShowMapCount(const char* limit) {
  char path[] = "/tmp/gleaner_test_XXXXXX";
  const int file = mkstemp(path);
  if (file < 0) return false;
  const auto length = static_cast<ssize_t>(strlen(limit));
  const bool shown = write(file, limit, strlen(limit)) == length && unshare(CLONE_NEWNS) == 0 &&
                     mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0 &&
                     mount(path, "/proc/sys/vm/max_map_count", nullptr, MS_BIND, nullptr) == 0;
  close(file);
  unlink(path);
  return shown;
}

// A memory cgroup of our own, of either version, for as long as it lives.
class MemoryGroup {
 public:
  explicit MemoryGroup(size_t bytes) {
    const std::string name = "/gleaner_test_" + std::to_string(getpid());
    const std::string version1 = "/sys/fs/cgroup/memory" + name;
    const std::string version2 = "/sys/fs/cgroup" + name;
    made_ = Make(version1, "/memory.limit_in_bytes", bytes) || Make(version2, "/memory.max", bytes);
  }
  ~MemoryGroup() {
    if (made_) rmdir(path_.c_str());
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;

  bool made() const { return made_; }  // false: not to be had here
  // Puts the calling process into it.
  void Enter() const {
    std::ofstream processes(path_ + "/cgroup.procs");
    processes << getpid() << std::flush;
    ASSERT_TRUE(processes.good()) << path_;
  }

 private:
  bool Make(const std::string& path, const char* limit, size_t bytes) {
    if (mkdir(path.c_str(), 0700) != 0) return false;
    path_ = path;
    std::ofstream file(path + limit);
    file << bytes << std::flush;
    if (file.good()) return true;
    rmdir(path.c_str());
    return false;
  }

  std::string path_;
  bool made_ = false;
};

}  // namespace gleaner::testing
