// An immutable map, as functional languages have it: a hash array mapped trie (Bagwell 2001) whose
// updates copy the path from the root to the leaf and share the rest. Half of the operations look a
// key up, the others delete, replace or insert. Versions go into a ring in which some grow old, and
// the newest is published, so that other threads look keys up in it.
// A node's form depends on its contents alone (Steindorfer and Vinju 2015): a subtree of one leaf
// is that leaf. The sum over the contents, which each version keeps, so checks a version at any
// age.
#define GC_THREADS
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

constexpr int kBits = 5;
constexpr uint64_t kForeignEvery = 16;  // Operations between two look-ups in another thread's map.

// A value is Mix64(key), its low half changed by the number of the update. Has no pointers.
struct Leaf {
  uint64_t key;
  uint64_t value;
};

// Bit i of `leaves` or `children` is set if the hash's next five bits are i for what is in a slot.
struct Node {
  uint32_t leaves;
  uint32_t children;
  void* slots[1];  // Leaves, then children, in the order of their bits.
};

struct Version {
  Node* root;
  uint64_t size;
  uint64_t sum;  // Of Digest over the leaves.
};

// In static data, so that versions are rooted.
struct alignas(128) Owner {
  // Owner thread only.
  Version now;
  Version* ring;
  uint64_t left;  // Versions that have left the ring.
  uint64_t found;
  // Read by all threads.
  std::atomic<Node*> published;
};
Owner g_owners[bench::kMaxThreads];

struct Parameters {
  uint64_t keys;  // Of each thread: 0 ... keys - 1.
  uint64_t operations;
  uint64_t versions;
  uint64_t version_every;
  uint64_t walk_every;
};

uint64_t Digest(const Leaf* leaf) { return bench::Mix64(leaf->key ^ bench::Mix64(~leaf->value)); }

uint32_t BitOf(uint64_t hash, int shift) { return uint32_t{1} << (hash >> shift & 31); }

int Below(uint32_t bits, uint32_t bit) { return std::popcount(bits & (bit - 1)); }

Leaf* LeafAt(const Node* node, uint32_t bit) {
  return static_cast<Leaf*>(node->slots[Below(node->leaves, bit)]);
}

void SetLeaf(Node* node, uint32_t bit, Leaf* leaf) { node->slots[Below(node->leaves, bit)] = leaf; }

Node* ChildAt(const Node* node, uint32_t bit) {
  const int leaves = std::popcount(node->leaves);
  return static_cast<Node*>(node->slots[leaves + Below(node->children, bit)]);
}

void SetChild(Node* node, uint32_t bit, Node* child) {
  node->slots[std::popcount(node->leaves) + Below(node->children, bit)] = child;
}

void Verify(const Leaf* leaf, uint64_t key) {
  if (leaf->key != key || (leaf->value ^ bench::Mix64(key)) >> 32 != 0) {
    bench::Fail("the leaf of key %lu is damaged", key);
  }
}

// Copies the slots whose bits are in both.
void CopySlots(void* const* from, uint32_t from_bits, void** to, uint32_t to_bits) {
  if (from_bits == to_bits) {
    std::memcpy(to, from, sizeof(void*) * static_cast<size_t>(std::popcount(to_bits)));
    return;
  }
  for (uint32_t rest = from_bits | to_bits; rest != 0; rest &= rest - 1) {
    const uint32_t bit = rest & -rest;
    if ((from_bits & to_bits & bit) != 0) *to = *from;
    if ((from_bits & bit) != 0) ++from;
    if ((to_bits & bit) != 0) ++to;
  }
}

// A node with these bits and what `from` has at them.
Node* CopyOf(const Node* from, uint32_t leaves, uint32_t children) {
  const int slots = std::popcount(leaves) + std::popcount(children);
  auto* node =
      static_cast<Node*>(GC_malloc(sizeof(uint64_t) + sizeof(void*) * static_cast<size_t>(slots)));
  node->leaves = leaves;
  node->children = children;
  if (from == nullptr) return node;
  CopySlots(from->slots, from->leaves, node->slots, leaves);
  CopySlots(from->slots + std::popcount(from->leaves), from->children,
            node->slots + std::popcount(leaves), children);
  return node;
}

Node* CopyWithChild(const Node* from, uint32_t bit, Node* child) {
  Node* node = CopyOf(from, from->leaves & ~bit, from->children | bit);
  SetChild(node, bit, child);
  return node;
}

Node* CopyWithLeaf(const Node* from, uint32_t bit, Leaf* leaf) {
  Node* node = CopyOf(from, from->leaves | bit, from->children & ~bit);
  SetLeaf(node, bit, leaf);
  return node;
}

Leaf* Find(const Node* node, uint64_t key) {
  const uint64_t hash = bench::Mix64(key);
  for (int shift = 0;; shift += kBits) {
    const uint32_t bit = BitOf(hash, shift);
    if ((node->leaves & bit) != 0) {
      Leaf* leaf = LeafAt(node, bit);
      return leaf->key == key ? leaf : nullptr;
    }
    if ((node->children & bit) == 0) return nullptr;
    node = ChildAt(node, bit);
  }
}

// Mix64 is a bijection, so two keys part before the hash ends.
Node* Insert(const Node* node, uint64_t hash, int shift, Leaf* leaf) {
  const uint32_t bit = BitOf(hash, shift);
  if ((node->children & bit) != 0) {
    return CopyWithChild(node, bit, Insert(ChildAt(node, bit), hash, shift + kBits, leaf));
  }
  if ((node->leaves & bit) == 0) return CopyWithLeaf(node, bit, leaf);
  Leaf* old = LeafAt(node, bit);
  if (old->key == leaf->key) return CopyWithLeaf(node, bit, leaf);
  const int next = shift + kBits;
  const uint32_t old_bit = BitOf(bench::Mix64(old->key), next);
  Node* child = CopyOf(nullptr, old_bit, 0);
  SetLeaf(child, old_bit, old);
  return CopyWithChild(node, bit, Insert(child, hash, next, leaf));
}

// The key is there.
Node* Remove(const Node* node, uint64_t hash, int shift) {
  const uint32_t bit = BitOf(hash, shift);
  if ((node->leaves & bit) != 0) return CopyOf(node, node->leaves & ~bit, node->children);
  Node* child = Remove(ChildAt(node, bit), hash, shift + kBits);
  if (child->children == 0 && std::popcount(child->leaves) == 1) {
    return CopyWithLeaf(node, bit, LeafAt(child, child->leaves));
  }
  return CopyWithChild(node, bit, child);
}

// Adds the leaves to the version's size and sum; each must be where its hash says.
void Walk(const Node* node, uint64_t prefix, int shift, Version* seen) {
  for (uint32_t rest = node->leaves; rest != 0; rest &= rest - 1) {
    const Leaf* leaf = LeafAt(node, rest & -rest);
    Verify(leaf, leaf->key);
    const uint64_t place = prefix | static_cast<uint64_t>(std::countr_zero(rest)) << shift;
    const uint64_t mask = shift + kBits < 64 ? (uint64_t{1} << (shift + kBits)) - 1 : UINT64_MAX;
    if ((bench::Mix64(leaf->key) & mask) != place) {
      bench::Fail("the leaf of key %lu is at a wrong place", leaf->key);
    }
    ++seen->size;
    seen->sum += Digest(leaf);
  }
  for (uint32_t rest = node->children; rest != 0; rest &= rest - 1) {
    const uint64_t digit = static_cast<uint64_t>(std::countr_zero(rest));
    Walk(ChildAt(node, rest & -rest), prefix | digit << shift, shift + kBits, seen);
  }
}

void CheckVersion(const Version& version) {
  Version seen{version.root, 0, 0};
  Walk(version.root, 0, 0, &seen);
  if (seen.size != version.size || seen.sum != version.sum) {
    bench::Fail("a version has %lu leaves of sum %lx, not %lu of %lx", seen.size, seen.sum,
                version.size, version.sum);
  }
}

void Put(Owner* owner, uint64_t key, const Leaf* old, uint64_t number) {
  auto* leaf = static_cast<Leaf*>(GC_malloc_atomic(sizeof(Leaf)));
  leaf->key = key;
  leaf->value = bench::Mix64(key) ^ (number & UINT32_MAX);
  Version& now = owner->now;
  now.root = Insert(now.root, bench::Mix64(key), 0, leaf);
  now.size += old == nullptr;
  now.sum += Digest(leaf) - (old == nullptr ? 0 : Digest(old));
}

void Delete(Owner* owner, const Leaf* old) {
  Version& now = owner->now;
  now.root = Remove(now.root, bench::Mix64(old->key), 0);
  --now.size;
  now.sum -= Digest(old);
}

void Operate(Owner* owner, uint64_t key, uint64_t random, uint64_t number) {
  const Leaf* leaf = Find(owner->now.root, key);
  if (leaf != nullptr) {
    Verify(leaf, key);
    ++owner->found;
  }
  if (random % 2 == 0) return;
  if (leaf != nullptr && random % 4 == 1) {
    Delete(owner, leaf);
  } else {
    Put(owner, key, leaf, number);
  }
}

// The version takes the place of a random one, so that some live long.
void KeepVersion(Owner* owner, const Parameters& parameters, bench::Rng* rng) {
  const uint64_t slot = rng->Below(parameters.versions);
  const Version& old = owner->ring[slot];
  if (old.root != nullptr && ++owner->left % parameters.walk_every == 0) CheckVersion(old);
  owner->ring[slot] = owner->now;
  owner->published = owner->now.root;
}

void LookIntoOther(int thread, int threads, uint64_t key, uint64_t random) {
  const int other = static_cast<int>(random % static_cast<uint64_t>(threads));
  const Node* root = g_owners[other].published;
  if (other == thread || root == nullptr) return;
  const Leaf* leaf = Find(root, key);
  if (leaf != nullptr) Verify(leaf, key);
}

void Build(Owner* owner, const Parameters& parameters, uint64_t seed) {
  owner->ring = static_cast<Version*>(GC_malloc(parameters.versions * sizeof(Version)));
  owner->now.root = CopyOf(nullptr, 0, 0);
  // Where operations keep the number of keys: two of three.
  bench::Rng rng(seed);
  for (uint64_t key = 0; key < parameters.keys; ++key) {
    if (rng.Below(3) != 0) Put(owner, key, nullptr, 0);
  }
}

void Run(int thread, int threads, const Parameters& parameters, uint64_t seed) {
  Owner* owner = &g_owners[thread];
  bench::Rng rng(seed);
  for (uint64_t i = 1; i <= parameters.operations; ++i) {
    const uint64_t key = rng.Below(parameters.keys);
    const uint64_t random = rng.Next();
    Operate(owner, key, random, i);
    if (threads > 1 && i % kForeignEvery == 0) LookIntoOther(thread, threads, key, random >> 32);
    if (i % parameters.version_every == 0) KeepVersion(owner, parameters, &rng);
    bench::RecordProgress();
  }
}

uint64_t Finish(const Owner& owner, const Parameters& parameters) {
  CheckVersion(owner.now);
  uint64_t checksum = bench::Mix64(owner.found) + owner.now.sum;
  for (uint64_t i = 0; i < parameters.versions; ++i) {
    if (owner.ring[i].root == nullptr) continue;
    CheckVersion(owner.ring[i]);
    checksum = bench::Mix64(checksum ^ owner.ring[i].sum);
  }
  return checksum;
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t keys, operations, versions, version_every, walk_every;
  bench::RandomWork work;
  bench::Options options("persistent_map", "an immutable map and its old versions");
  options.Number("operations", &operations, 3'000'000, 40'000, 1, UINT64_C(1) << 40,
                 "look-ups and updates, by each thread");
  options.Number("keys", &keys, 400'000, 4'000, 1, UINT64_C(1) << 32,
                 "keys over all threads, two of three of them present");
  options.Number("versions", &versions, 16, 8, 1, 1 << 20, "old versions that each thread keeps");
  options.Number("version-every", &version_every, 20'000, 500, 1, UINT64_MAX,
                 "operations between two versions that are kept");
  options.Number("walk-every", &walk_every, 16, 1, 1, UINT64_MAX,
                 "versions that leave, of which one is walked");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  const int threads = options.threads();
  const Parameters parameters{(keys - 1) / static_cast<uint64_t>(threads) + 1,
                              work.Scaled(operations), versions, version_every, walk_every};

  bench::InitGc(options);
  bench::RunThreads(threads, [&](int t) { Build(&g_owners[t], parameters, work.SeedOf(t)); });
  const bench::Measurement measurement =
      bench::RunThreads(threads, [&](int t) { Run(t, threads, parameters, ~work.SeedOf(t)); });

  uint64_t checksum = 0;
  for (int t = 0; t < threads; ++t) checksum += Finish(g_owners[t], parameters);
  const double total = static_cast<double>(parameters.operations) * threads;
  bench::ResultLine result("persistent_map");
  bench::PrintRun(options, measurement, total, checksum, &result);
}
