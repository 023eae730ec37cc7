#include "platform/nodes/node_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace gleaner::platform {
namespace {

ssize_t ReadSome(int fd, char* buffer, size_t bytes) {
  ssize_t n;
  do {
    n = read(fd, buffer, bytes);
  } while (n < 0 && errno == EINTR);
  return n;
}

bool MachineHasSeveralNodes() {
  char online[64] = "";
  const int fd = open("/sys/devices/system/node/online", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const ssize_t n = ReadSome(fd, online, sizeof online - 1);
  close(fd);
  return n > 0 && (strchr(online, ',') != nullptr || strchr(online, '-') != nullptr);
}

// Takes the words of lines "address policy [key=value]... N0=pages... kernelpagesize_kB=4". The
// size of pages comes last.
class WordTaker {
 public:
  WordTaker(Addr begin, size_t bytes, NodeMemory* nodes)
      : begin_(begin), bytes_(bytes), nodes_(nodes) {}

  void Take(char c) {
    if (c != ' ' && c != '\n') {
      if (length_ < sizeof word_ - 1) word_[length_++] = c;
      return;
    }
    word_[length_] = 0;
    TakeWord();
    length_ = 0;
    is_first_ = c == '\n';
  }

 private:
  void TakeWord() {
    char* end;
    if (is_first_) {
      address_ = strtoull(word_, nullptr, 16);
      is_file_ = false;
      memset(pages_, 0, sizeof pages_);
    } else if (strncmp(word_, "file=", 5) == 0) {
      is_file_ = true;
    } else if (word_[0] == 'N' && word_[1] >= '0' && word_[1] <= '9') {
      const unsigned long long node = strtoull(word_ + 1, &end, 10);
      if (*end != '=') return;
      pages_[node < kMaxMemoryNodes ? node : kMaxMemoryNodes - 1] += strtoull(end + 1, nullptr, 10);
    } else if (strncmp(word_, "kernelpagesize_kB=", 18) == 0) {
      Count(strtoull(word_ + 18, nullptr, 10) * kKiB);
    }
  }

  void Count(uint64_t page_bytes) {
    for (int node = 0; node < kMaxMemoryNodes; ++node) {
      NodeMemory& memory = nodes_[node];
      uint64_t& sum = is_file_                     ? memory.file_bytes
                      : address_ - begin_ < bytes_ ? memory.heap_bytes
                                                   : memory.other_bytes;
      sum += pages_[node] * page_bytes;
    }
  }

  const Addr begin_;
  const size_t bytes_;
  NodeMemory* const nodes_;
  char word_[64];  // the beginning of the word; longer ones are paths
  size_t length_ = 0;
  bool is_first_ = true;
  Addr address_ = 0;
  bool is_file_ = false;
  uint64_t pages_[kMaxMemoryNodes];
};

}  // namespace

bool ReadNodeMemory(Addr begin, size_t bytes, NodeMemory* nodes) {
  if (!MachineHasSeveralNodes()) return false;
  const int fd = open("/proc/self/numa_maps", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  WordTaker taker(begin, bytes, nodes);
  char buffer[1024];
  ssize_t n;
  while ((n = ReadSome(fd, buffer, sizeof buffer)) > 0) {
    for (ssize_t i = 0; i < n; ++i) taker.Take(buffer[i]);
  }
  close(fd);
  return n == 0;
}

}  // namespace gleaner::platform
