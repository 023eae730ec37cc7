// The buffers that a system call is about to write into: found before the call, and pinned while it
// runs (protection_tracking.h). A program may pass any address: lengths, vectors and headers that
// cannot be read are left to the call, which refuses them.
//
// If a thread is cancelled in the call, or a handler jumps out of it, the buffers stay pinned:
// writable and dirty.
#pragma once

#include "platform/mprotect/protection_tracking.h"

struct iovec;
struct mmsghdr;
struct msghdr;

namespace gleaner::platform {

// Copies an argument that the program has passed to a call. False if it cannot be read. Keeps
// errno.
bool CopyFromProgram(void* to, const void* from, size_t bytes);

// The buffers of one call, which the destructor unpins: the Add functions first, then Pin once. One
// thread. Keeps errno.
class CallBuffers {
 public:
  CallBuffers() = default;
  ~CallBuffers();
  CallBuffers(const CallBuffers&) = delete;
  CallBuffers& operator=(const CallBuffers&) = delete;

  // Adds any memory, null included.
  void Add(const volatile void* p, size_t bytes);
  // Adds a buffer of *bytes bytes, and the place of the length itself.
  void AddSized(const volatile void* p, const uint32_t* bytes);
  void AddParts(const iovec* parts, size_t count);
  void AddMessage(const msghdr* message);
  void AddMessages(const mmsghdr* messages, size_t count);

  // Pins the buffers. Once, after all Add calls.
  void Pin();

 private:
  // A call with more separate parts than this pins some of the memory between them, too.
  static constexpr size_t kMax = 16;

  size_t first_[kMax], end_[kMax];  // regions [first, end); the first count_ are in use
  size_t count_ = 0;
  bool pinned_ = false;
};

}  // namespace gleaner::platform
