#include "platform/mprotect/call_buffers.h"

#include <limits.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <iterator>

#include "platform/os/readable.h"

namespace gleaner::platform {

namespace {

using Regions = ProtectionTracking::Pinned;

// The number of regions between the two.
size_t Gap(Regions one, Regions other) {
  if (one.end < other.first) return other.first - one.end;
  return other.end < one.first ? one.first - other.end : 0;
}

}  // namespace

bool CopyFromProgram(void* to, const void* from, size_t bytes) {
  const int saved = errno;
  const size_t copied = CopyIfMapped(to, AddressOf(from), bytes);
  errno = saved;
  return copied == bytes;
}

CallBuffers::~CallBuffers() {
  if (!pinned_) return;
  for (size_t i = 0; i < count_; ++i) ProtectionTracking::UnpinAfterCall({first_[i], end_[i]});
}

void CallBuffers::Add(const volatile void* p, size_t bytes) {
  const Addr begin = AddressOf(p);
  const Regions added =
      ProtectionTracking::RegionsForCall(begin, begin + bytes < begin ? ~Addr{0} : begin + bytes);
  if (added.first == added.end) return;
  size_t nearest = 0;
  size_t gap = SIZE_MAX;
  for (size_t i = 0; i < count_; ++i) {
    const size_t between = Gap({first_[i], end_[i]}, added);
    if (between < gap) {
      nearest = i;
      gap = between;
    }
  }
  if (count_ < kMax && gap != 0) {
    first_[count_] = added.first;
    end_[count_++] = added.end;
    return;
  }
  if (added.first < first_[nearest]) first_[nearest] = added.first;
  if (added.end > end_[nearest]) end_[nearest] = added.end;
}

void CallBuffers::AddSized(const volatile void* p, const uint32_t* bytes) {
  uint32_t length;
  if (bytes == nullptr || !CopyFromProgram(&length, bytes, sizeof length)) return;
  Add(bytes, sizeof *bytes);
  if (p != nullptr) Add(p, length);
}

void CallBuffers::AddParts(const iovec* parts, size_t count) {
  if (count > IOV_MAX) return;  // the call is refused
  iovec some[32];
  for (size_t n; count != 0; parts += n, count -= n) {
    n = count < std::size(some) ? count : std::size(some);
    if (!CopyFromProgram(some, parts, n * sizeof some[0])) return;
    for (size_t i = 0; i < n; ++i) Add(some[i].iov_base, some[i].iov_len);
  }
}

void CallBuffers::AddMessage(const msghdr* message) {
  msghdr header;
  if (message == nullptr || !CopyFromProgram(&header, message, sizeof header)) return;
  Add(message, sizeof *message);
  Add(header.msg_name, header.msg_namelen);
  Add(header.msg_control, header.msg_controllen);
  AddParts(header.msg_iov, header.msg_iovlen);
}

void CallBuffers::AddMessages(const mmsghdr* messages, size_t count) {
  if (count > IOV_MAX) count = IOV_MAX;  // the system receives no more at once
  for (size_t i = 0; i < count; ++i) {
    AddMessage(&messages[i].msg_hdr);
    Add(&messages[i].msg_len, sizeof messages[i].msg_len);
  }
}

void CallBuffers::Pin() {
  pinned_ = true;
  if (count_ == 0) return;
  const int saved = errno;
  for (size_t i = 0; i < count_; ++i) ProtectionTracking::PinForCall({first_[i], end_[i]});
  errno = saved;
}

}  // namespace gleaner::platform
