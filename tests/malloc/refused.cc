// Memory that the system refuses, at the start and in the middle of anything: null and ENOMEM, what
// is allocated stays as it is, and what is freed can be had again.
// usage: refused data | refused BYTES (under a limit on address space that the caller has set)
#include <sys/resource.h>

#include <cerrno>
#include <thread>
#include <vector>

#include "check.h"

namespace {

struct Block {
  void* p;
  size_t bytes;
};

// Allocates until nothing more is to be had; the blocks of one size.
std::vector<Block> Exhaust(size_t bytes, size_t most, std::vector<Block> blocks) {
  size_t all = 0;
  for (;;) {
    CHECK(all <= most);
    errno = 0;
    void* p = malloc(bytes);
    if (p == nullptr) break;
    fill(p, bytes < 4096 ? bytes : 4096, static_cast<unsigned>(blocks.size()));
    CHECK(blocks.size() < blocks.capacity());
    blocks.push_back({p, bytes});
    all += bytes;
  }
  CHECK(errno == ENOMEM);
  errno = 0;
  CHECK(calloc(1, bytes) == nullptr && errno == ENOMEM);
  errno = 0;
  CHECK(aligned_alloc(4096, bytes < 4096 ? 8192 : bytes) == nullptr && errno == ENOMEM);
  if (!blocks.empty()) {
    errno = 0;
    CHECK(realloc(blocks[0].p, most) == nullptr && errno == ENOMEM);
  }
  return blocks;
}

void CheckAndRelease(const std::vector<Block>& blocks) {
  for (size_t i = 0; i < blocks.size(); ++i) {
    CHECK(holds(blocks[i].p, blocks[i].bytes < 4096 ? blocks[i].bytes : 4096,
                static_cast<unsigned>(i)));
    free(blocks[i].p);
  }
}

std::vector<Block> Room(size_t blocks) {
  std::vector<Block> room;
  room.reserve(blocks);
  return room;
}

void Rounds(size_t most) {
  std::vector<Block> room = Room(most / 256);
  size_t first[3] = {};
  for (int round = 0; round < 3; ++round) {
    size_t which = 0;
    for (const size_t bytes : {size_t{300}, size_t{8000}, size_t{300'000}}) {
      room.clear();
      room = Exhaust(bytes, most, std::move(room));
      const size_t count = room.size();
      CheckAndRelease(room);
      CHECK(count * bytes > most / 16);
      // Nothing has been lost since the first round: other sizes had all of it meanwhile.
      if (round == 0) first[which] = count;
      CHECK(count + count / 10 >= first[which]);
      ++which;
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  require_gleaner();
  CHECK(argc == 2);
  size_t most = strtoul(argv[1], nullptr, 10);
  if (strcmp(argv[1], "data") == 0) {
    // A limit that comes in the middle: private writable memory.
    std::thread([] { free(malloc(100)); }).join();
    most = size_t{128} << 20;
    const rlimit limit = {most, most};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
  }
  Rounds(most);
}
