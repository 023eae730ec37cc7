// What a system call is about to write into: found before the call, and pinned while it runs
// (protection_tracking.h). A program may pass any address: lengths, vectors and headers that cannot
// be read are left to the call, which refuses them.
//
// A thread that is cancelled in the call, or leaves it by a jump out of a handler, leaves its
// buffers pinned: they stay writable, and dirty.
#pragma once

#include "platform/protection_tracking.h"

struct iovec;
struct mmsghdr;
struct msghdr;

namespace gleaner::platform {

// Copies what the program has passed to a call. False if it cannot be read. errno is kept.
bool CopyFromProgram(void* to, const void* from, size_t bytes);

// errno is kept.
class CallBuffers {
 public:
  CallBuffers() = default;
  ~CallBuffers();
  CallBuffers(const CallBuffers&) = delete;
  CallBuffers& operator=(const CallBuffers&) = delete;

  // Any memory, null included.
  void Add(const volatile void* p, size_t bytes);
  // A buffer, its length, and the length's own place.
  void AddSized(const volatile void* p, const uint32_t* bytes);
  void AddParts(const iovec* parts, size_t count);
  void AddMessage(const msghdr* message);
  void AddMessages(const mmsghdr* messages, size_t count);

  // Once, after all of them.
  void Pin();

 private:
  // A call with more parts than these in different places pins some of what lies between, too.
  static constexpr size_t kMax = 16;

  size_t first_[kMax], end_[kMax];  // granules; the first count_
  size_t count_ = 0;
  bool pinned_ = false;
};

}  // namespace gleaner::platform
