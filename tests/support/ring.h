// io_uring by its raw system calls.
#pragma once

#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace gleaner::testing {

// Reads that many bytes from a file into p by io_uring; `flags` are those of the request. Returns
// how many were read; negative: an error number, as of the system.
inline int ReadByRing(int file, void* p, unsigned bytes, unsigned flags) {
  io_uring_params params = {};
  const int ring = static_cast<int>(syscall(SYS_io_uring_setup, 1, &params));
  if (ring < 0) return -errno;
  const auto map = [&](off_t what, size_t bytes) {
    return static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, ring, what));
  };
  const size_t submission_bytes = params.sq_off.array + params.sq_entries * sizeof(uint32_t);
  const size_t completion_bytes = params.cq_off.cqes + params.cq_entries * sizeof(io_uring_cqe);
  char* submission = map(IORING_OFF_SQ_RING, submission_bytes);
  char* completion = map(IORING_OFF_CQ_RING, completion_bytes);
  char* entries = map(IORING_OFF_SQES, sizeof(io_uring_sqe));
  int result = -ENOMEM;
  if (submission != MAP_FAILED && completion != MAP_FAILED && entries != MAP_FAILED) {
    auto* entry = reinterpret_cast<io_uring_sqe*>(entries);
    entry->opcode = IORING_OP_READ;
    entry->flags = static_cast<uint8_t>(flags);
    entry->fd = file;
    entry->addr = reinterpret_cast<uintptr_t>(p);
    entry->len = bytes;
    *reinterpret_cast<uint32_t*>(submission + params.sq_off.array) = 0;
    reinterpret_cast<std::atomic<uint32_t>*>(submission + params.sq_off.tail)->store(1);
    if (syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, nullptr, 0) == 1) {
      result = reinterpret_cast<io_uring_cqe*>(completion + params.cq_off.cqes)->res;
    }
  }
  if (submission != MAP_FAILED) munmap(submission, submission_bytes);
  if (completion != MAP_FAILED) munmap(completion, completion_bytes);
  if (entries != MAP_FAILED) munmap(entries, sizeof(io_uring_sqe));
  close(ring);
  return result;
}

// Whether the system has it, and allows it.
inline bool HasRing() {
  char byte = 0;
  const int file = open("/proc/self/exe", O_RDONLY);
  const int got = ReadByRing(file, &byte, 1, 0);
  close(file);
  return got == 1;
}

}  // namespace gleaner::testing
