// Several threads change a random object graph; a shadow copy in malloc memory knows what it should
// look like.
//
// The graph is cut into domains. A domain has some roots (in static data, on a thread's stack, in a
// thread's TLS, in an uncollectable object or in memory given to GC_add_roots) and some hundred
// objects, and any thread may work on any domain, under its lock. Threads end and are replaced, and
// the process forks, all the time. What is checked:
//   - memory that must be zero is zero when it is handed out;
//   - all that the shadow reaches is there: header, references, every byte of the contents;
//   - no finalizer runs, and no disappearing link is cleared, for an object that the shadow
//   reaches;
//   - a child of fork sees the same graph, and can allocate and collect;
//   - arguments and results of threads survive the way;
//   - in the end, finalizers of nearly all objects that were dropped have run, unless calls of the
//   library fail (tests/failures runs it so): some are not registered then, some not collected.
//
// All stores of references use the barrier, for the runs in which the collector sees no others.
//
// The shadow keeps addresses as complements, and lies in malloc memory, which is not scanned: the
// graph lives by its own references alone.
//
// usage: graph_torture [--seed N] [--seconds N] [--threads N] [--nodes N]
#ifndef GC_THREADS
#define GC_THREADS
#endif
#include <gc.h>
#include <gleaner.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "torture.h"

namespace {

using namespace torture;

constexpr size_t kRoots = 8;
constexpr size_t kMaxReferences = 6;
constexpr size_t kMaxThreads = 48;
constexpr size_t kHeaderWords = 2;
constexpr size_t kMaxObjectBytes = 100 * 1024;
constexpr size_t kDomainBytes = 2 << 20;  // a domain is thinned out when it holds more
constexpr uintptr_t kMagic = 0x8badf00d00000000u;
constexpr uintptr_t kNoPointer = uintptr_t{1}
                                 << 63;  // set in words that must not look like addresses

bool g_generational = false;
bool g_interior = true;
std::atomic<bool> g_stop{false};

// --- Shadow ---

enum class Kind : uint8_t { kNormal, kAtomic, kUncollectable, kAtomicUncollectable };
bool IsAtomic(Kind kind) { return kind == Kind::kAtomic || kind == Kind::kAtomicUncollectable; }
bool IsUncollectable(Kind kind) { return kind >= Kind::kUncollectable; }

struct Reference {
  uint32_t target = 0;  // node, 0 for none
  uint32_t displacement = 0;
};

struct Node {
  uintptr_t hidden = 0;  // complement of the address
  uintptr_t hidden_decoy = 0;
  uint64_t id = 0;
  size_t bytes = 0;
  uint32_t generation =
      0;  // raised when the node is given up, so that late finalizers are told apart
  uint32_t visited = 0;
  Kind kind = Kind::kNormal;
  bool in_use = false;
  bool first_page_only = false;
  bool has_finalizer = false;
  bool has_link = false;
  bool has_long_link = false;
  bool has_decoy = false;
  Reference references[kMaxReferences];
  void* link = nullptr;  // hidden, cleared by the collector
  void* long_link = nullptr;

  char* address() const { return reinterpret_cast<char*>(~hidden); }
  size_t words() const { return bytes / sizeof(uintptr_t); }
  // Objects of less than the header are contents only.
  bool has_header() const { return words() >= kHeaderWords + kMaxReferences; }
  bool has_references() const { return has_header() && !IsAtomic(kind); }
};

enum class Where : uint8_t { kStatic, kAddedRoots, kUncollectable, kStack, kTls };

struct Domain {
  pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  size_t index = 0;
  Where where = Where::kStatic;
  void* volatile* roots =
      nullptr;  // null: the domain is not to be touched (a child's dead threads)
  uintptr_t hidden_root_object = 0;
  pthread_t owner = {};  // kStack and kTls with a thread
  bool owned = false;
  Reference shadow_roots[kRoots];
  std::vector<Node> nodes;  // [0] is not used
  std::vector<uint32_t> free_nodes;
  std::vector<uint32_t> work;
  uint32_t visit = 0;
  size_t bytes = 0;
  size_t uncollectable = 0;
};

constexpr size_t kDomainsPerThread = 5;
std::vector<Domain>* g_domains;
std::atomic<uint64_t> g_next_id{1};
std::atomic<uint64_t> g_operations{0};
std::atomic<uint64_t> g_finalizers_registered{0};
std::atomic<uint64_t> g_finalizers_taken_back{0};
std::atomic<uint64_t> g_finalizers_run{0};
std::atomic<uint64_t> g_links_cleared{0};
std::atomic<uint64_t> g_forks{0};
std::atomic<uint64_t> g_threads_ended{0};

// Roots. The static ones also keep the graph of a stack or TLS domain between two owners.
void* volatile g_static_roots[kMaxThreads * kDomainsPerThread][kRoots];
thread_local void* volatile t_roots[kRoots];

class Locked {
 public:
  explicit Locked(Domain& domain) : domain_(domain) { pthread_mutex_lock(&domain_.lock); }
  ~Locked() { pthread_mutex_unlock(&domain_.lock); }
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;

 private:
  Domain& domain_;
};

// A reference on the stack: what the graph does not reach for a moment must not go, since other
// threads collect.
class Hold {
 public:
  explicit Hold(void* object = nullptr) : object_(object) {}
  ~Hold() { asm volatile("" : : "r"(&object_) : "memory"); }
  Hold(const Hold&) = delete;
  Hold& operator=(const Hold&) = delete;
  void Set(void* object) { object_ = object; }

 private:
  void* volatile object_;
};

// Roots outside the heap also keep what they point one past the end of.
bool RootsAreOutsideHeap(const Domain& domain) { return domain.where != Where::kUncollectable; }

// --- Contents ---

uintptr_t Pattern(uint64_t id, size_t i) { return Mix(id * 0x10001 + i) | kNoPointer; }

void Write(const Node& node) {
  auto* words = reinterpret_cast<uintptr_t*>(node.address());
  size_t i = 0;
  if (node.has_header()) {
    words[i++] = kMagic ^ node.id;
    words[i++] = Mix(node.bytes) | kNoPointer;
    for (size_t r = 0; r < kMaxReferences; ++r, ++i) words[i] = 0;
  }
  for (; i < node.words(); ++i) words[i] = Pattern(node.id, i);
  for (size_t b = i * sizeof(uintptr_t); b < node.bytes; ++b) {
    node.address()[b] = static_cast<char>(Pattern(node.id, b));
  }
  if (node.has_decoy) words[kHeaderWords] = ~node.hidden_decoy;
}

uintptr_t AddressFor(const Domain& domain, const Reference& reference) {
  if (reference.target == 0) return 0;
  return ~domain.nodes[reference.target].hidden + reference.displacement;
}

void Verify(const Domain& domain, const Node& node) {
  const auto* words = reinterpret_cast<const uintptr_t*>(node.address());
  size_t i = 0;
  const auto expect = [&](uintptr_t wanted, const char* what) {
    if (words[i] != wanted) {
      Fail("domain %zu: %s of object %lu at %p (%zu bytes, kind %d) is 0x%lx, not 0x%lx: word %zu",
           domain.index, what, static_cast<unsigned long>(node.id),
           static_cast<const void*>(node.address()), node.bytes, static_cast<int>(node.kind),
           words[i], wanted, i);
    }
    ++i;
  };
  if (node.has_header()) {
    expect(kMagic ^ node.id, "header");
    expect(Mix(node.bytes) | kNoPointer, "size");
    for (size_t r = 0; r < kMaxReferences; ++r) {
      expect(r == 0 && node.has_decoy ? ~node.hidden_decoy : AddressFor(domain, node.references[r]),
             "reference");
    }
  }
  while (i < node.words()) expect(Pattern(node.id, i), "contents");
  for (size_t b = i * sizeof(uintptr_t); b < node.bytes; ++b) {
    if (node.address()[b] != static_cast<char>(Pattern(node.id, b))) {
      Fail("domain %zu: byte %zu of object %lu (%zu bytes) is wrong", domain.index, b,
           static_cast<unsigned long>(node.id), node.bytes);
    }
  }
  void* base = GC_base(node.address() + node.bytes / 2);
  if (base != node.address()) {
    Fail("domain %zu: object %lu at %p (%zu bytes, kind %d) has the base %p, asked again %p",
         domain.index, static_cast<unsigned long>(node.id),
         static_cast<const void*>(node.address()), node.bytes, static_cast<int>(node.kind), base,
         GC_base(node.address()));
  }
  if (node.has_link && reinterpret_cast<uintptr_t>(node.link) != node.hidden) {
    Fail("domain %zu: the link to object %lu was cleared, but the object is reachable",
         domain.index, static_cast<unsigned long>(node.id));
  }
  if (node.has_long_link && reinterpret_cast<uintptr_t>(node.long_link) != node.hidden) {
    Fail("domain %zu: the long link to object %lu was cleared, but the object is reachable",
         domain.index, static_cast<unsigned long>(node.id));
  }
}

// --- Nodes ---

void TakeBackRegistrations(Node& node, bool finalizer_too) {
  if (node.has_link) {
    if (GC_unregister_disappearing_link(&node.link) == 0) g_links_cleared.fetch_add(1);
  }
  if (node.has_long_link) GC_unregister_long_link(&node.long_link);
  node.has_link = node.has_long_link = false;
  if (finalizer_too && node.has_finalizer) {
    GC_register_finalizer(node.address(), nullptr, nullptr, nullptr, nullptr);
    g_finalizers_taken_back.fetch_add(1);
    node.has_finalizer = false;
  }
}

void GiveUp(Domain& domain, uint32_t index) {
  Node& node = domain.nodes[index];
  TakeBackRegistrations(node, false);
  domain.bytes -= node.bytes;
  if (IsUncollectable(node.kind)) --domain.uncollectable;
  const uint32_t generation = node.generation + 1;
  node = Node{};
  node.generation = generation;
  domain.free_nodes.push_back(index);
}

// Visits what the shadow reaches, compares it with the heap if `verify`, and gives up the rest.
void Traverse(Domain& domain, bool verify) {
  if (++domain.visit == 0) ++domain.visit;
  domain.work.clear();
  const auto push = [&domain](uint32_t index) {
    if (index == 0 || domain.nodes[index].visited == domain.visit) return;
    domain.nodes[index].visited = domain.visit;
    domain.work.push_back(index);
  };
  for (size_t r = 0; r < kRoots; ++r) {
    if (verify && reinterpret_cast<uintptr_t>(domain.roots[r]) !=
                      AddressFor(domain, domain.shadow_roots[r])) {
      Fail("domain %zu: root %zu is %p", domain.index, r, domain.roots[r]);
    }
    push(domain.shadow_roots[r].target);
  }
  for (uint32_t i = 1; i < domain.nodes.size(); ++i) {
    if (domain.nodes[i].in_use && IsUncollectable(domain.nodes[i].kind)) push(i);
  }
  while (!domain.work.empty()) {
    const Node& node = domain.nodes[domain.work.back()];
    domain.work.pop_back();
    if (verify) Verify(domain, node);
    for (const Reference& reference : node.references) push(reference.target);
  }
  for (uint32_t i = 1; i < domain.nodes.size(); ++i) {
    if (domain.nodes[i].in_use && domain.nodes[i].visited != domain.visit) GiveUp(domain, i);
  }
}

// A node that can be reached now; 0 if the walk ended early. Only such nodes may be touched.
uint32_t RandomNode(const Domain& domain, Random& random) {
  uint32_t at = domain.shadow_roots[random.Below(kRoots)].target;
  for (size_t steps = random.Below(12); steps != 0 && at != 0; --steps) {
    const uint32_t next = domain.nodes[at].references[random.Below(kMaxReferences)].target;
    if (next != 0) at = next;
  }
  return at;
}

void** ReferenceWord(const Node& node, size_t r) {
  return reinterpret_cast<void**>(node.address()) + kHeaderWords + r;
}

void SetRoot(Domain& domain, size_t r, Reference reference) {
  domain.shadow_roots[r] = reference;
  GLEANER_STORE(&domain.roots[r], reinterpret_cast<void*>(AddressFor(domain, reference)));
}
void SetReference(Domain& domain, Node& node, size_t r, Reference reference) {
  node.references[r] = reference;
  GLEANER_STORE(ReferenceWord(node, r), reinterpret_cast<void*>(AddressFor(domain, reference)));
}

// How far into the object a new reference to it may point.
uint32_t RandomDisplacement(const Domain& domain, const Node& node, bool from_root,
                            Random& random) {
  if (!random.OneIn(3)) return 0;
  const bool outside = from_root && RootsAreOutsideHeap(domain);
  // One past the end counts in a root, for objects of which every byte does.
  if (outside && g_interior && !node.first_page_only && random.OneIn(4)) {
    return static_cast<uint32_t>(GC_size(node.address()));
  }
  if (node.bytes == 0) return 0;
  if (!g_interior) return node.bytes > 8 && random.OneIn(2) ? 8 : 0;  // registered
  const size_t limit = node.first_page_only && node.bytes > 512 ? 512 : node.bytes;
  return static_cast<uint32_t>(random.Below(limit));
}

void Finalizer(void* object, void* data);

size_t RandomSize(Random& random) {
  const size_t dice = random.Below(1000);
  if (dice < 20) return 0;
  if (dice < 550) return random.Below(129);
  if (dice < 850) return random.Below(2049);
  if (dice < 960) return random.Below(8200);
  if (dice < 990) return random.Below(20000);
  return random.Below(kMaxObjectBytes + 1);
}

void CheckZero(const char* p, size_t bytes, const char* call) {
  for (size_t i = 0; i < bytes; ++i) {
    if (p[i] != 0)
      Fail("%s(%zu) at %p: byte %zu is %d", call, bytes, static_cast<const void*>(p), i, p[i]);
  }
}

// An object with its contents written. Nothing refers to it but `hold`.
uint32_t Allocate(Domain& domain, Random& random, Hold* hold) {
  const size_t bytes = RandomSize(random);
  const size_t dice = random.Below(100);
  Node fresh;
  fresh.bytes = bytes;
  void* p;
  if (dice < 50) {
    p = GC_MALLOC(bytes);
  } else if (dice < 75) {
    p = GC_MALLOC_ATOMIC(bytes);
    fresh.kind = Kind::kAtomic;
  } else if (dice < 79) {
    p = GC_malloc_uncollectable(bytes);
    fresh.kind = Kind::kUncollectable;
  } else if (dice < 82) {
    p = GC_malloc_atomic_uncollectable(bytes);
    fresh.kind = Kind::kAtomicUncollectable;
  } else if (dice < 86) {
    p = GC_malloc_ignore_off_page(bytes);
    fresh.first_page_only = true;
  } else if (dice < 90) {
    p = GC_malloc_atomic_ignore_off_page(bytes);
    fresh.kind = Kind::kAtomic;
    fresh.first_page_only = true;
  } else {
    const size_t alignment = size_t{1} << random.Below(17);
    p = GC_memalign(alignment, bytes);
    if (reinterpret_cast<uintptr_t>(p) % alignment != 0)
      Fail("GC_memalign(%zu, %zu): %p", alignment, bytes, p);
  }
  hold->Set(p);
  if (p == nullptr) Fail("no memory for %zu bytes", bytes);
  if (reinterpret_cast<uintptr_t>(p) % 16 != 0) Fail("%zu bytes at %p", bytes, p);
  const size_t usable = GC_size(p);
  if (usable < bytes) Fail("%zu bytes asked for, %zu at %p", bytes, usable, p);
  if (!IsAtomic(fresh.kind)) CheckZero(static_cast<char*>(p), usable, "allocation");
  fresh.hidden = ~reinterpret_cast<uintptr_t>(p);
  fresh.id = g_next_id.fetch_add(1);
  fresh.in_use = true;
  if (IsAtomic(fresh.kind) && fresh.has_header()) {
    // Looks like a pointer, but is none: the collector must not follow it.
    const uint32_t other = RandomNode(domain, random);
    fresh.has_decoy = other != 0;
    if (other != 0) fresh.hidden_decoy = domain.nodes[other].hidden;
  }
  uint32_t index;
  if (domain.free_nodes.empty()) {
    index = static_cast<uint32_t>(domain.nodes.size());
    domain.nodes.push_back({});
  } else {
    index = domain.free_nodes.back();
    domain.free_nodes.pop_back();
  }
  fresh.generation = domain.nodes[index].generation;
  domain.nodes[index] = fresh;
  domain.bytes += bytes;
  if (IsUncollectable(fresh.kind)) ++domain.uncollectable;
  Write(fresh);
  return index;
}

void Link(Domain& domain, uint32_t target, Random& random) {
  const uint32_t holder = random.OneIn(4) ? 0 : RandomNode(domain, random);
  if (holder != 0 && domain.nodes[holder].has_references()) {
    Node& node = domain.nodes[holder];
    SetReference(domain, node, random.Below(kMaxReferences),
                 {target, RandomDisplacement(domain, domain.nodes[target], false, random)});
    return;
  }
  SetRoot(domain, random.Below(kRoots),
          {target, RandomDisplacement(domain, domain.nodes[target], true, random)});
}

// All references to `from` lead to `to` (0: nowhere), at the same displacement if that is still
// inside.
void Redirect(Domain& domain, uint32_t from, uint32_t to) {
  Traverse(domain, false);  // what is not reachable must not be touched
  const auto moved = [&](Reference reference) {
    if (to == 0) return Reference{};
    return Reference{to,
                     reference.displacement < domain.nodes[to].bytes ? reference.displacement : 0};
  };
  for (size_t r = 0; r < kRoots; ++r) {
    if (domain.shadow_roots[r].target == from) SetRoot(domain, r, moved(domain.shadow_roots[r]));
  }
  for (Node& node : domain.nodes) {
    if (!node.in_use) continue;
    for (size_t r = 0; r < kMaxReferences; ++r) {
      if (node.references[r].target == from)
        SetReference(domain, node, r, moved(node.references[r]));
    }
  }
}

void FreeNode(Domain& domain, uint32_t index) {
  Hold hold(domain.nodes[index].address());
  Redirect(domain, index, 0);
  Node& node = domain.nodes[index];
  if (!node.in_use) return;
  Verify(domain, node);
  TakeBackRegistrations(node, true);
  GC_free(node.address());
  GiveUp(domain, index);
}

void Reallocate(Domain& domain, uint32_t index, Random& random) {
  TakeBackRegistrations(domain.nodes[index], true);
  Node old = domain.nodes[index];
  Verify(domain, old);
  const size_t bytes = 1 + RandomSize(random);
  const size_t usable = GC_size(old.address());
  auto* p = static_cast<char*>(GC_realloc(old.address(), bytes));
  if (p == nullptr) Fail("GC_realloc to %zu bytes failed", bytes);
  Hold hold(p);
  const size_t kept = bytes < old.bytes ? bytes : old.bytes;
  // The part that was kept, seen through a node of that length.
  const auto* before = reinterpret_cast<const unsigned char*>(p);
  size_t from = 0;
  if (old.has_header()) from = (kHeaderWords + kMaxReferences) * sizeof(uintptr_t);
  for (size_t b = from; b < kept; ++b) {
    const size_t word = b / sizeof(uintptr_t);
    unsigned char wanted;
    if (word < old.words()) {
      const uintptr_t pattern = Pattern(old.id, word);
      wanted = reinterpret_cast<const unsigned char*>(&pattern)[b % sizeof(uintptr_t)];
    } else {
      wanted = static_cast<unsigned char>(Pattern(old.id, b));
    }
    if (before[b] != wanted) {
      Fail("GC_realloc(%p, %zu) from %zu bytes to %p: byte %zu is lost",
           static_cast<void*>(old.address()), bytes, old.bytes, static_cast<void*>(p), b);
    }
  }
  if (!IsAtomic(old.kind) && bytes > usable)
    CheckZero(p + usable, GC_size(p) - usable, "GC_realloc");
  Node& node = domain.nodes[index];
  domain.bytes += bytes;
  domain.bytes -= old.bytes;
  node.hidden = ~reinterpret_cast<uintptr_t>(p);
  node.bytes = bytes;
  node.id = g_next_id.fetch_add(1);
  node.has_decoy = node.has_decoy && node.has_header();
  Reference references[kMaxReferences];
  void* kept_alive[kMaxReferences];  // while the words are rewritten
  for (size_t r = 0; r < kMaxReferences; ++r) {
    references[r] = node.references[r];
    kept_alive[r] = reinterpret_cast<void*>(AddressFor(domain, references[r]));
  }
  for (Reference& reference : node.references) reference = {};
  Write(node);
  if (node.has_references()) {
    for (size_t r = 0; r < kMaxReferences; ++r) {
      Reference reference = references[r];
      if (reference.target != 0 && reference.displacement >= domain.nodes[reference.target].bytes) {
        reference.displacement = 0;
      }
      SetReference(domain, node, r, reference);
    }
  }
  Redirect(domain, index, index);
  asm volatile("" : : "r"(kept_alive) : "memory");
}

void Register(Domain& domain, uint32_t index, Random& random) {
  Node& node = domain.nodes[index];
  if (random.OneIn(2)) {
    if (node.has_finalizer) return;
    const uintptr_t data = uintptr_t{node.generation} << 32 | domain.index << 24 | index;
    void* tag = reinterpret_cast<void*>(data | kNoPointer);
    // Cycles of the other orders are never finalized, so half of the seeds do without.
    const size_t order = g_seed % 2 == 0 ? random.Below(4) : 0;
    if (order == 1) {
      GC_register_finalizer(node.address(), Finalizer, tag, nullptr, nullptr);
    } else if (order == 2) {
      GC_register_finalizer_ignore_self(node.address(), Finalizer, tag, nullptr, nullptr);
    } else if (order == 3) {
      GC_register_finalizer_unreachable(node.address(), Finalizer, tag, nullptr, nullptr);
    } else {
      GC_register_finalizer_no_order(node.address(), Finalizer, tag, nullptr, nullptr);
    }
    node.has_finalizer = true;
    g_finalizers_registered.fetch_add(1);
  } else if (random.OneIn(2)) {
    // The vector of nodes never moves: see main.
    if (node.has_link) return;
    node.link = reinterpret_cast<void*>(node.hidden);
    if (GC_general_register_disappearing_link(&node.link, node.address()) != GC_SUCCESS)
      Fail("no new link");
    node.has_link = true;
  } else {
    if (node.has_long_link) return;
    node.long_link = reinterpret_cast<void*>(node.hidden);
    if (GC_register_long_link(&node.long_link, node.address()) != GC_SUCCESS)
      Fail("no new long link");
    node.has_long_link = true;
  }
}

// Runs outside the domains' locks (finalize_on_demand).
void Finalizer(void* object, void* tag) {
  const uintptr_t data = reinterpret_cast<uintptr_t>(tag) & ~kNoPointer;
  Domain& domain = (*g_domains)[data >> 24 & 0xff];
  const auto index = static_cast<uint32_t>(data & 0xffffff);
  g_finalizers_run.fetch_add(1);
  Locked locked(domain);
  if (domain.roots == nullptr) return;
  const uint32_t generation = static_cast<uint32_t>(data >> 32);
  Traverse(domain, false);
  const Node& node = domain.nodes[index];
  if (node.in_use && (node.generation & 0x7fffffff) == (generation & 0x7fffffff)) {
    Fail("domain %zu: finalizer of object %lu at %p runs, but the object is reachable",
         domain.index, static_cast<unsigned long>(node.id), object);
  }
}

// Too full: cut off what hangs at some of the roots.
void ThinOut(Domain& domain, Random& random) {
  for (size_t i = 0; i < kRoots / 2; ++i) SetRoot(domain, random.Below(kRoots), {});
  for (uint32_t i = 1; i < domain.nodes.size() && domain.uncollectable > 8; ++i) {
    if (domain.nodes[i].in_use && IsUncollectable(domain.nodes[i].kind)) FreeNode(domain, i);
  }
  Traverse(domain, false);
}

void Operate(Domain& domain, Random& random) {
  if (domain.nodes.size() - 1 - domain.free_nodes.size() >= g_nodes ||
      domain.bytes > kDomainBytes) {
    ThinOut(domain, random);
    // Uncollectable objects and what hangs from them may fill it by themselves.
    for (uint32_t i = 1; i < domain.nodes.size() && domain.free_nodes.size() < g_nodes / 4; ++i) {
      if (domain.nodes[i].in_use) FreeNode(domain, i);
    }
  }
  const size_t dice = random.Below(100);
  if (dice < 60) {
    Hold hold;
    Link(domain, Allocate(domain, random, &hold), random);
    return;
  }
  const uint32_t index = RandomNode(domain, random);
  if (index == 0) return;
  Node& node = domain.nodes[index];
  if (dice < 72) {
    Link(domain, index, random);
  } else if (dice < 80) {
    if (node.has_references()) SetReference(domain, node, random.Below(kMaxReferences), {});
  } else if (dice < 85) {
    SetRoot(domain, random.Below(kRoots), {});
  } else if (dice < 90) {
    FreeNode(domain, index);
  } else if (dice < 94) {
    Reallocate(domain, index, random);
  } else {
    Register(domain, index, random);
  }
}

// --- Threads ---

Domain& RandomDomain(Random& random, size_t self) {
  const size_t domains = g_domains->size();
  return (*g_domains)[random.OneIn(2) ? self * kDomainsPerThread + random.Below(kDomainsPerThread)
                                      : random.Below(domains)];
}

void WorkOn(Domain& domain, size_t operations, Random& random) {
  Locked locked(domain);
  if (domain.roots == nullptr) return;
  for (size_t i = 0; i < operations; ++i) Operate(domain, random);
  if (random.OneIn(6)) Traverse(domain, true);
}

void LockAll() {
  for (Domain& domain : *g_domains) pthread_mutex_lock(&domain.lock);
}
void UnlockAll() {
  for (Domain& domain : *g_domains) pthread_mutex_unlock(&domain.lock);
}

void InChild(size_t self, Random& random) {
  alarm(400);
  g_process = "child, before collecting";
  // Nothing was collected since: even the graphs of threads that are gone are intact.
  for (Domain& domain : *g_domains) Traverse(domain, true);
  for (Domain& domain : *g_domains) {
    if (!domain.owned || pthread_equal(domain.owner, pthread_self())) continue;
    for (uint32_t i = 1; i < domain.nodes.size(); ++i) {
      if (domain.nodes[i].in_use) GiveUp(domain, i);
    }
    domain.roots = nullptr;
  }
  UnlockAll();
  g_process = "child, after collecting";
  GC_gcollect();
  GC_invoke_finalizers();
  for (size_t i = 0; i < 8; ++i) WorkOn(RandomDomain(random, self), 10, random);
  GC_gcollect();
  GC_invoke_finalizers();
  for (Domain& domain : *g_domains) {
    Locked locked(domain);
    if (domain.roots != nullptr) Traverse(domain, true);
  }
  _exit(0);
}

void Fork(size_t self, Random& random) {
  LockAll();
  fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) InChild(self, random);
  UnlockAll();
  if (child < 0) Fail("fork failed");
  int status = 0;
  if (waitpid(child, &status, 0) != child) Fail("no child %d", static_cast<int>(child));
  if (status != 0) Fail("child %d ended with status 0x%x", static_cast<int>(child), status);
  g_forks.fetch_add(1);
}

void CollectNowAndThen(Random& random) {
  // A collection that is asked for gives up the one that goes on concurrently.
  const bool concurrent = GC_is_incremental_mode() != 0;
  if (random.OneIn(concurrent ? 1000 : 60)) GC_gcollect();
  // Of the whole heap: minor ones come by allocation alone.
  if (concurrent && random.OneIn(g_generational ? 1000 : 30)) GC_start_incremental_collection();
  if (concurrent && random.OneIn(3)) GC_collect_a_little();
}

// What goes to a thread and comes back from it.
struct Parcel {
  uintptr_t magic;
  size_t thread;
  uint64_t seed;
};

Parcel* NewParcel(size_t thread, uint64_t seed) {
  auto* parcel = static_cast<Parcel*>(GC_MALLOC(sizeof(Parcel)));
  *parcel = {kMagic, thread, seed};
  return parcel;
}

// The domain's roots go to the calling thread's stack or TLS, or back to static data.
void MoveRoots(Domain& domain, void* volatile* to, bool owned) {
  Locked locked(domain);
  for (size_t r = 0; r < kRoots; ++r) to[r] = domain.roots[r];
  for (size_t r = 0; r < kRoots; ++r) domain.roots[r] = nullptr;
  domain.roots = to;
  domain.owner = pthread_self();
  domain.owned = owned;
}

void* Work(void* argument) {
  auto* parcel = static_cast<Parcel*>(argument);
  if (parcel->magic != kMagic) Fail("the argument of a thread was lost");
  const size_t self = parcel->thread;
  Random random(parcel->seed);
  void* volatile stack_roots[kRoots] = {};
  Domain& of_stack = (*g_domains)[self * kDomainsPerThread + static_cast<size_t>(Where::kStack)];
  Domain& of_tls = (*g_domains)[self * kDomainsPerThread + static_cast<size_t>(Where::kTls)];
  MoveRoots(of_stack, stack_roots, true);
  MoveRoots(of_tls, t_roots, true);
  size_t rounds = 20 + random.Below(200);
  while (!g_stop.load() && --rounds != 0) {
    WorkOn(RandomDomain(random, self), 1 + random.Below(40), random);
    g_operations.fetch_add(1);
    if (random.OneIn(4)) GC_invoke_finalizers();
    CollectNowAndThen(random);
    if (kForks && random.OneIn(150)) Fork(self, random);
  }
  MoveRoots(of_stack, g_static_roots[of_stack.index], false);
  MoveRoots(of_tls, g_static_roots[of_tls.index], false);
  return NewParcel(self, random.Next());
}

void Start(pthread_t* thread, size_t self, uint64_t seed) {
  const int error = pthread_create(thread, nullptr, Work, NewParcel(self, seed));
  if (error != 0) Fail("pthread_create: %d", error);
}

void Join(pthread_t thread, size_t self) {
  void* result = nullptr;
  const int error = pthread_join(thread, &result);
  if (error != 0) Fail("pthread_join: %d", error);
  const auto* parcel = static_cast<Parcel*>(result);
  if (parcel->magic != kMagic || parcel->thread != self) Fail("the result of a thread was lost");
  g_threads_ended.fetch_add(1);
}

void* Nap(void*) {
  usleep(2000);
  return nullptr;
}

void MakeDomains() {
  g_domains = new std::vector<Domain>(g_threads * kDomainsPerThread);
  for (size_t i = 0; i < g_domains->size(); ++i) {
    Domain& domain = (*g_domains)[i];
    domain.index = i;
    domain.where = static_cast<Where>(i % kDomainsPerThread);
    domain.roots = g_static_roots[i];
    domain.nodes.reserve(g_nodes + 64);  // links lie in nodes, which therefore never move
    domain.nodes.push_back({});
    if (domain.where == Where::kAddedRoots) {
      auto* memory = static_cast<void**>(calloc(kRoots, sizeof(void*)));
      GC_add_roots(memory, memory + kRoots);
      domain.roots = memory;
    } else if (domain.where == Where::kUncollectable) {
      domain.roots = static_cast<void* volatile*>(GC_malloc_uncollectable(kRoots * sizeof(void*)));
    }
  }
}

// Nothing is reachable any more: nearly all finalizers must run. Conservatively kept: one in ten,
// and some for the stacks of the threads that are still there.
void CheckFinalizersRun() {
  for (Domain& domain : *g_domains) {
    Locked locked(domain);
    for (size_t r = 0; r < kRoots; ++r) SetRoot(domain, r, {});
    for (uint32_t i = 1; i < domain.nodes.size(); ++i) {
      Node& node = domain.nodes[i];
      if (!node.in_use) continue;
      if (IsUncollectable(node.kind)) FreeNode(domain, i);
    }
    Traverse(domain, true);
  }
  for (int i = 0; i < 4; ++i) {
    GC_gcollect();
    GC_invoke_finalizers();
  }
  const uint64_t expected = g_finalizers_registered.load() - g_finalizers_taken_back.load();
  const uint64_t run = g_finalizers_run.load();
  if (run > expected) Fail("%lu finalizers ran, %lu were registered", run, expected);
  if (CallsFail()) return;
  if (g_seed % 2 != 0 && run + 20 < expected - expected / 10) {
    Fail("only %lu of %lu finalizers ran", run, expected);
  }
}

__attribute__((noinline)) void Torture() {
  pthread_t threads[kMaxThreads];
  Random random(g_seed);
  for (size_t i = 0; i < g_threads; ++i) Start(&threads[i], i, random.Next());
  for (const Period period; !period.IsOver();) {
    GC_do_blocking(Nap, nullptr);
    const size_t self = random.Below(g_threads);
    WorkOn((*g_domains)[random.Below(g_domains->size())], 10, random);
    if (random.OneIn(4)) {
      Join(threads[self], self);
      Start(&threads[self], self, random.Next());
    }
    CollectNowAndThen(random);
  }
  g_stop.store(true);
  for (size_t i = 0; i < g_threads; ++i) Join(threads[i], i);
}

}  // namespace

int main(int argc, char** argv) {
  if (!ReadOptions(argc, argv, "graph_torture", kMaxThreads)) return 2;
  GC_set_handle_fork(1);
  GC_INIT();
  GC_set_finalize_on_demand(1);
  GC_set_warn_proc(GC_ignore_warn_proc);  // cycles of finalizable objects are meant
  GC_register_displacement(8);
  g_interior = GC_get_all_interior_pointers() != 0;
  gleaner_modes modes;
  gleaner_get_modes(&modes, sizeof modes);
  g_generational = modes.generational != 0;
  MakeDomains();
  Torture();
  CheckFinalizersRun();
  CheckModes();
  printf(
      "%lu rounds, %lu objects, %lu collections, %lu forks, %lu threads, finalizers: %lu of %lu, "
      "%lu links "
      "cleared, heap %zu KiB\n",
      g_operations.load(), g_next_id.load(), static_cast<unsigned long>(GC_get_gc_no()),
      g_forks.load(), g_threads_ended.load(), g_finalizers_run.load(),
      g_finalizers_registered.load() - g_finalizers_taken_back.load(), g_links_cleared.load(),
      GC_get_heap_size() / 1024);
  return 0;
}
