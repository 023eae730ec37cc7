// A minimiser of two-level logic in the manner of the program espresso: cubes are small bit sets,
// each a block of its own, in covers that grow by realloc. A random function is reduced again and
// again: primes by consensus of pairs, a cover chosen greedily, every set freed.
#include <cstdlib>
#include <cstring>

#include "copies.h"

namespace {

// A product of literals: variable v is fixed if bit v of `care` is set, to bit v of `value`.
struct Cube {
  uint32_t words;  // of each half
  uint32_t merged;
  uint64_t bits[];
  uint64_t* value() { return bits; }
  uint64_t* care() { return bits + words; }
};

void* Must(void* p) {
  if (p == nullptr) bench::Fail("no memory");
  return p;
}

Cube* NewCube(uint32_t words) {
  auto* cube =
      static_cast<Cube*>(Must(std::calloc(1, sizeof(Cube) + words * 2 * sizeof(uint64_t))));
  cube->words = words;
  return cube;
}

Cube* CopyOf(const Cube* cube) {
  const size_t bytes = sizeof(Cube) + cube->words * 2 * sizeof(uint64_t);
  return static_cast<Cube*>(memcpy(Must(std::malloc(bytes)), cube, bytes));
}

struct Cover {
  Cube** cubes = nullptr;
  size_t count = 0, room = 0;
  void Add(Cube* cube) {
    if (count == room) {
      room = room == 0 ? 4 : room * 2;
      cubes = static_cast<Cube**>(Must(std::realloc(cubes, room * sizeof(Cube*))));
    }
    cubes[count++] = cube;
  }
  void Free() {
    for (size_t i = 0; i < count; ++i) std::free(cubes[i]);
    std::free(cubes);
    *this = {};
  }
};

// A set of cubes by value, chained: one node a cube.
class CubeSet {
 public:
  explicit CubeSet(size_t buckets) : bucket_count_(buckets) {
    buckets_ = static_cast<Node**>(Must(std::calloc(buckets, sizeof(Node*))));
  }
  ~CubeSet() {
    for (size_t i = 0; i < bucket_count_; ++i) {
      for (Node* node = buckets_[i]; node != nullptr;) {
        Node* next = node->next;
        std::free(node);
        node = next;
      }
    }
    std::free(buckets_);
  }
  CubeSet(const CubeSet&) = delete;
  CubeSet& operator=(const CubeSet&) = delete;
  // Null if it is not there.
  Cube* Find(const Cube* cube) const {
    for (Node* node = buckets_[Hash(cube)]; node != nullptr; node = node->next) {
      if (memcmp(node->cube->bits, cube->bits, cube->words * 2 * sizeof(uint64_t)) == 0) {
        return node->cube;
      }
    }
    return nullptr;
  }
  void Add(Cube* cube) {
    Node*& bucket = buckets_[Hash(cube)];
    auto* node = static_cast<Node*>(Must(std::malloc(sizeof(Node))));
    *node = {bucket, cube};
    bucket = node;
  }

 private:
  struct Node {
    Node* next;
    Cube* cube;
  };
  size_t Hash(const Cube* cube) const {
    uint64_t hash = 0;
    for (uint32_t i = 0; i < cube->words * 2; ++i) hash = bench::Mix64(hash ^ cube->bits[i]);
    return hash % bucket_count_;
  }
  size_t bucket_count_;
  Node** buckets_;
};

// Merges cubes that differ in one literal until none do. Takes `cover`; returns the primes.
Cover Primes(Cover cover, uint32_t variables) {
  Cover primes;
  while (cover.count != 0) {
    CubeSet present(cover.count * 2 + 1);
    for (size_t i = 0; i < cover.count; ++i) present.Add(cover.cubes[i]);
    CubeSet merged(cover.count * 2 + 1);
    Cover next;
    for (size_t i = 0; i < cover.count; ++i) {
      Cube* cube = cover.cubes[i];
      for (uint32_t v = 0; v < variables; ++v) {
        const uint64_t bit = uint64_t{1} << v % 64;
        if ((cube->care()[v / 64] & bit) == 0) continue;
        Cube* other = CopyOf(cube);
        other->value()[v / 64] ^= bit;
        Cube* found = present.Find(other);
        if (found != nullptr) {
          cube->merged = found->merged = 1;
          other->merged = 0;
          other->value()[v / 64] &= ~bit;
          other->care()[v / 64] &= ~bit;
          if (merged.Find(other) == nullptr) {
            merged.Add(other);
            next.Add(other);
            continue;
          }
        }
        std::free(other);
      }
    }
    for (size_t i = 0; i < cover.count; ++i) {
      if (cover.cubes[i]->merged == 0) primes.Add(CopyOf(cover.cubes[i]));
    }
    cover.Free();
    cover = next;
  }
  return primes;
}

bool Covers(Cube* cube, const uint64_t* minterm) {
  for (uint32_t i = 0; i < cube->words; ++i) {
    if (((minterm[i] ^ cube->value()[i]) & cube->care()[i]) != 0) return false;
  }
  return true;
}

// How many of the primes are needed, chosen by how much they add.
size_t Choose(const Cover& primes, const Cover& minterms) {
  struct Row {
    uint32_t* of;  // the minterms a prime covers
    size_t count;
  };
  auto* rows = static_cast<Row*>(Must(std::calloc(primes.count + 1, sizeof(Row))));
  for (size_t p = 0; p < primes.count; ++p) {
    size_t room = 0;
    for (size_t m = 0; m < minterms.count; ++m) {
      if (!Covers(primes.cubes[p], minterms.cubes[m]->value())) continue;
      if (rows[p].count == room) {
        room = room == 0 ? 2 : room * 2;
        rows[p].of =
            static_cast<uint32_t*>(Must(std::realloc(rows[p].of, room * sizeof(uint32_t))));
      }
      rows[p].of[rows[p].count++] = static_cast<uint32_t>(m);
    }
  }
  auto* covered = static_cast<char*>(Must(std::calloc(minterms.count + 1, 1)));
  size_t chosen = 0;
  for (size_t left = minterms.count; left != 0; ++chosen) {
    size_t best = 0, best_gain = 0;
    for (size_t p = 0; p < primes.count; ++p) {
      if (rows[p].count <= best_gain) continue;
      size_t gain = 0;
      for (size_t i = 0; i < rows[p].count; ++i) gain += covered[rows[p].of[i]] == 0;
      if (gain > best_gain) {
        best_gain = gain;
        best = p;
      }
    }
    for (size_t i = 0; i < rows[best].count; ++i) covered[rows[best].of[i]] = 1;
    left -= best_gain;
  }
  for (size_t p = 0; p < primes.count; ++p) std::free(rows[p].of);
  std::free(rows);
  std::free(covered);
  return chosen;
}

uint64_t Minimise(uint32_t variables, uint64_t seed) {
  bench::Rng random(seed);
  const uint32_t words = (variables + 63) / 64;
  Cover minterms, start;
  for (uint64_t m = 0; m < uint64_t{1} << variables; ++m) {
    if (random.Below(5) >= 3) continue;
    Cube* cube = NewCube(words);
    cube->value()[0] = m;
    cube->care()[0] = (uint64_t{1} << variables) - 1;
    minterms.Add(cube);
    start.Add(CopyOf(cube));
  }
  Cover primes = Primes(start, variables);
  const uint64_t result = primes.count * 1'000'003 + Choose(primes, minterms);
  primes.Free();
  minterms.Free();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t variables, functions;
  bench::Options options("espresso", "two-level logic, every set a block of its own");
  options.Number("variables", &variables, 9, 6, 2, 16, "of each function");
  options.Number("functions", &functions, 700, 5, 1, 1 << 20, "how many");
  options.Parse(argc, argv);
  uint64_t checksum;
  const double seconds = bench::RunCopies(options.threads(), &checksum, [&] {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < functions; ++i) {
      sum = bench::Mix64(sum ^ Minimise(static_cast<uint32_t>(variables), i));
    }
    return sum;
  });
  bench::ResultLine result("espresso");
  result.Count("threads", static_cast<uint64_t>(options.threads()));
  result.Real("seconds", seconds);
  result.Hex("checksum", checksum);
  result.Print();
}
