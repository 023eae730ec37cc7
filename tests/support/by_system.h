// Ways in which the system writes bytes into memory of the program.
#pragma once

#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <initializer_list>

#include "tests/support/ring.h"

namespace gleaner::testing {

struct Way {
  const char* name;
  bool by_file;  // else by a socket
  ssize_t (*read)(int from, void* to, size_t bytes);
};

inline constexpr Way kWays[] = {
    {"read", false, read},
    {"readv", false,
     [](int from, void* to, size_t bytes) {
       const iovec part = {to, bytes};
       return readv(from, &part, 1);
     }},
    {"pread", true, [](int from, void* to, size_t bytes) { return pread(from, to, bytes, 0); }},
    {"preadv", true,
     [](int from, void* to, size_t bytes) {
       const iovec part = {to, bytes};
       return preadv(from, &part, 1, 0);
     }},
    {"recv", false, [](int from, void* to, size_t bytes) { return recv(from, to, bytes, 0); }},
    {"recvfrom", false,
     [](int from, void* to, size_t bytes) {
       return recvfrom(from, to, bytes, 0, nullptr, nullptr);
     }},
    {"recvmsg", false,
     [](int from, void* to, size_t bytes) {
       iovec part = {to, bytes};
       msghdr message = {};
       message.msg_iov = &part;
       message.msg_iovlen = 1;
       return recvmsg(from, &message, 0);
     }},
    {"fread", true,
     [](int from, void* to, size_t bytes) {
       FILE* stream = fdopen(dup(from), "r");
       setvbuf(stream, nullptr, _IONBF, 0);
       rewind(stream);
       const size_t got = fread(to, 1, bytes, stream);
       fclose(stream);
       return static_cast<ssize_t>(got);
     }},
};

inline constexpr Way kRing = {"a ring", false, [](int from, void* to, size_t bytes) -> ssize_t {
                                return ReadByRing(from, to, static_cast<unsigned>(bytes), 0);
                              }};

// Moves the bytes that way; nobody else has them meanwhile. False if the system refuses.
inline bool MoveBySystem(const Way& way, void* from, void* to, size_t bytes) {
  int ends[2];
  // Datagrams are lost if the buffer is refused.
  if (socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) != 0) return false;
  const int file = memfd_create("gleaner", 0);
  const auto all = static_cast<ssize_t>(bytes);
  bool moved = write(way.by_file ? file : ends[1], from, bytes) == all;
  memset(from, 0, bytes);
  moved = moved && way.read(way.by_file ? file : ends[0], to, bytes) == all;
  for (const int each : {ends[0], ends[1], file}) close(each);
  return moved;
}

}  // namespace gleaner::testing
