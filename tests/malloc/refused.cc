// Memory that the system refuses, at the start and in the middle of anything: null and ENOMEM, what
// is allocated stays as it is, and what is freed can be had again.
// usage: refused data | refused lowered | refused locked | refused BYTES (under a limit on address
// space that the caller has set)
#include <sys/mman.h>
#include <sys/resource.h>

#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "check.h"

namespace {

struct Block {
  void* p;
  size_t bytes;
};

// Allocates until nothing more is to be had; the blocks of one size.
std::vector<Block> Exhaust(size_t bytes, size_t max, std::vector<Block> blocks) {
  size_t all = 0;
  for (;;) {
    CHECK(all <= max);
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
    CHECK(realloc(blocks[0].p, max) == nullptr && errno == ENOMEM);
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

void Rounds(size_t max) {
  std::vector<Block> room = Room(max / 256);
  size_t first[3] = {};
  for (int round = 0; round < 3; ++round) {
    size_t which = 0;
    for (const size_t bytes : {size_t{300}, size_t{8000}, size_t{300'000}}) {
      room.clear();
      room = Exhaust(bytes, max, std::move(room));
      const size_t count = room.size();
      CheckAndRelease(room);
      CHECK(count * bytes > max / 16);
      // Nothing has been lost since the first round: other sizes had all of it meanwhile.
      if (round == 0) first[which] = count;
      CHECK(count + count / 10 >= first[which]);
      ++which;
    }
  }
}

// All memory is locked, which an ordinary user may not do: then it is not, and no less holds.
void Locked() {
  std::thread([] { free(malloc(100)); }).join();
  const bool locked = mlockall(MCL_CURRENT | MCL_FUTURE) == 0;
  printf("memory is %slocked\n", locked ? "" : "not ");
  for (int round = 0; round < 20; ++round) {
    for (const size_t bytes : {size_t{1000}, size_t{100'000}, size_t{40'000'000}}) {
      auto* block = static_cast<char*>(calloc(1, bytes));
      CHECK(block != nullptr);
      for (size_t i = 0; i < bytes; i += 100) CHECK(block[i] == 0);
      fill(block, bytes, 1);
      block = static_cast<char*>(realloc(block, bytes * 2));
      CHECK(block != nullptr && holds(block, bytes, 1));
      free(block);
    }
    std::thread([] { free(malloc(100'000)); }).join();
  }
}

}  // namespace

int main(int argc, char** argv) {
  require_gleaner();
  CHECK(argc == 2);
  if (strcmp(argv[1], "locked") == 0) return Locked(), 0;
  size_t max = strtoul(argv[1], nullptr, 10);
  if (strcmp(argv[1], "data") == 0) {
    // A limit that comes in the middle: private writable memory.
    std::thread([] { free(malloc(100)); }).join();
    max = size_t{128} << 20;
    const rlimit limit = {max, max};
    CHECK(setrlimit(RLIMIT_DATA, &limit) == 0);
  }
  if (strcmp(argv[1], "lowered") == 0) {
    // A limit on address space that comes in the middle.
    std::thread([] { free(malloc(100)); }).join();
    max = size_t{700} << 20;
    const rlimit limit = {max, RLIM_INFINITY};
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
    constexpr size_t kBytes = size_t{50} << 20;
    void* p = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(p != MAP_FAILED && munmap(p, kBytes) == 0);
    std::thread([] { free(malloc(size_t{100} << 20)); }).join();
  }
  Rounds(max);
}
