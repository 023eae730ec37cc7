// Documents like JSON. An operation parses a text into nodes, maps and filters the document into
// new nodes, and writes both as text again. Most documents die at once; some are kept in a window
// of fixed size. Texts are generated first, which is not measured, with blanks and without: the
// latter is what writing must give, byte for byte. The map is its own inverse, so that a document
// that leaves the window can be compared with its text as well.
#define GC_THREADS
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"
#include "json_text.h"

namespace {

using namespace bench::json;

constexpr int kMaxDepth = 20;
constexpr uint64_t kMinNodes = 32;

struct Counts {
  uint64_t of[kKinds] = {};
  uint64_t Total() const;
};

struct Source {
  Buffer blanks;
  Buffer canonical;
  Counts counts;
};

struct Kept {
  Node* mapped;
  const Source* source;
};

// Owner thread only. In static data, so that the arrays are rooted.
struct alignas(128) Worker {
  Source* sources;
  uint64_t source_count;
  Kept* window;
  uint64_t window_size;
  uint64_t nodes;
  uint64_t checksum;
};
Worker g_workers[bench::kMaxThreads];

uint64_t Counts::Total() const {
  uint64_t total = 0;
  for (const uint64_t count : of) total += count;
  return total;
}

// Makes texts. A text has about as many nodes as its budget.
class Generator {
 public:
  Generator(bench::Rng* rng, Source* source) : rng_(rng), source_(source) {}

  void Value(uint64_t budget, int depth) {
    if (budget > 1 && depth < kMaxDepth) {
      Container(budget - 1, depth + 1);
    } else {
      Scalar();
    }
  }

 private:
  void Blank() {
    if (rng_->Below(4) == 0)
      Append(&source_->blanks, std::string_view("\n    ", 1 + rng_->Below(4)));
  }

  void Emit(std::string_view token) {
    Blank();
    Append(&source_->blanks, token);
    Append(&source_->canonical, token);
  }

  void Container(uint64_t budget, int depth) {
    const Kind kind = rng_->Below(2) == 0 ? kArray : kObject;
    ++source_->counts.of[kind];
    Emit(kind == kArray ? "[" : "{");
    const uint64_t max = std::min<uint64_t>(budget, budget > 200 ? 40 : 12);
    const uint64_t length = budget > 8 ? 1 + rng_->Below(max) : rng_->Below(max + 1);
    for (uint64_t i = 0; i < length; ++i) {
      if (i != 0) Emit(",");
      if (kind == kObject) {
        String();
        Emit(":");
      }
      Value(rng_->Below(2 * budget / length + 1), depth);
    }
    Emit(kind == kArray ? "]" : "}");
  }

  void Scalar() {
    const uint64_t random = rng_->Below(20);
    const Kind kind = random < kNumber ? static_cast<Kind>(random)
                      : random < 10    ? kNumber
                                       : kString;
    ++source_->counts.of[kind];
    if (kind < kNumber) {
      Emit(kLiterals[kind]);
    } else if (kind == kString) {
      String();
    } else {
      const auto integer = static_cast<double>(rng_->Below(2'000'000)) - 1e6;
      Buffer text;
      AppendNumber(&text, random % 2 == 0 ? integer : integer * rng_->Unit());
      Emit(text.View());
    }
  }

  void String() {
    static constexpr std::string_view kSigns[] = {"\"", "\\", "\n", "\x01", "\u00e9", "\u20ac"};
    char characters[256];
    const uint64_t length = rng_->Below(10) == 0 ? rng_->Below(240) : 1 + rng_->Below(20);
    uint64_t end = 0;
    while (end < length) {
      const uint64_t random = rng_->Next();
      if (random % 32 < std::size(kSigns)) {
        end += kSigns[random % 32].copy(characters + end, 3);
      } else {
        characters[end++] = "abcdefghijklmnopABCDEFGHIJKLMNOP"[random >> 59];
      }
    }
    Buffer text;
    AppendString(&text, {characters, end});
    Emit(text.View());
  }

  bench::Rng* rng_;
  Source* source_;
};

// The map, which is its own inverse: other numbers, other letters, and the opposite order. Nulls
// and names are shared.
Node* Map(Node* node) {
  if (node->kind == kNull) return node;
  if (node->kind < kNumber) return NewNode(node->kind == kTrue ? kFalse : kTrue);
  Node* mapped = NewNode(node->kind, node->length);
  const uint32_t length = node->length;
  if (node->kind == kNumber) {
    mapped->number = -node->number;
  } else if (node->kind == kString) {
    auto* characters = static_cast<char*>(GC_malloc_atomic(length + 1));
    for (uint32_t i = 0; i < length; ++i) {
      const char c = node->characters[i];
      const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      characters[i] = letter ? static_cast<char>(c ^ 0x20) : c;
    }
    mapped->characters = characters;
  } else if (node->kind == kArray) {
    mapped->items = static_cast<Node**>(GC_malloc(length * sizeof(Node*)));
    for (uint32_t i = 0; i < length; ++i) mapped->items[i] = Map(node->items[length - 1 - i]);
  } else {
    mapped->members = static_cast<Member*>(GC_malloc(length * sizeof(Member)));
    for (uint32_t i = 0; i < length; ++i) {
      const Member& member = node->members[length - 1 - i];
      mapped->members[i] = {member.name, member.name_length, Map(member.value)};
    }
  }
  return mapped;
}

// The document without nulls. Scalars and names are shared.
Node* Filter(Node* node) {
  if (node->kind < kArray) return node;
  Node* filtered = NewNode(node->kind);
  if (node->kind == kArray) {
    filtered->items = static_cast<Node**>(GC_malloc(node->length * sizeof(Node*)));
    for (uint32_t i = 0; i < node->length; ++i) {
      if (node->items[i]->kind == kNull) continue;
      filtered->items[filtered->length++] = Filter(node->items[i]);
    }
  } else {
    filtered->members = static_cast<Member*>(GC_malloc(node->length * sizeof(Member)));
    for (uint32_t i = 0; i < node->length; ++i) {
      const Member& member = node->members[i];
      if (member.value->kind == kNull) continue;
      Node* value = Filter(member.value);
      filtered->members[filtered->length++] = {member.name, member.name_length, value};
    }
  }
  return filtered;
}

void Count(const Node* node, Counts* counts) {
  ++counts->of[node->kind];
  const bool array = node->kind == kArray;
  for (uint32_t i = 0; node->kind >= kArray && i < node->length; ++i) {
    Count(array ? node->items[i] : node->members[i].value, counts);
  }
}

void CheckCounts(const Node* node, const Counts& expected) {
  Counts counts;
  Count(node, &counts);
  for (uint32_t kind = 0; kind < kKinds; ++kind) {
    if (counts.of[kind] == expected.of[kind]) continue;
    bench::Fail("a document has %lu nodes of kind %u, not %lu", counts.of[kind], kind,
                expected.of[kind]);
  }
}

void CheckText(const Node* node, const Buffer& expected) {
  Buffer text;
  AppendDocument(&text, node);
  const size_t length = std::min(text.length, expected.length);
  const char* end = std::mismatch(text.data, text.data + length, expected.data).first;
  if (text.length == expected.length && end == text.data + length) return;
  bench::Fail("what is written differs from what was read at offset %td of %zu", end - text.data,
              expected.length);
}

uint64_t Hash(std::string_view text) {
  uint64_t hash = text.size();
  for (; text.size() >= 8; text.remove_prefix(8)) {
    uint64_t word;
    std::memcpy(&word, text.data(), 8);
    hash = bench::Mix64(hash ^ word);
  }
  for (const char c : text) hash = bench::Mix64(hash ^ static_cast<unsigned char>(c));
  return hash;
}

// Lengths are spread evenly over powers of two.
void Generate(Worker* worker, uint64_t seed, uint64_t texts, uint64_t max_nodes, uint64_t window) {
  worker->sources = static_cast<Source*>(GC_malloc(texts * sizeof(Source)));
  worker->source_count = texts;
  worker->window = static_cast<Kept*>(GC_malloc(window * sizeof(Kept)));
  worker->window_size = window;
  bench::Rng rng(seed);
  const double octaves = std::log2(static_cast<double>(max_nodes) / kMinNodes);
  for (uint64_t i = 0; i < texts; ++i) {
    const double nodes = kMinNodes * std::exp2(octaves * rng.Unit());
    Generator(&rng, &worker->sources[i]).Value(static_cast<uint64_t>(nodes), 0);
  }
}

void CheckKept(const Kept& kept) {
  if (kept.mapped != nullptr) CheckText(Map(kept.mapped), kept.source->canonical);
}

void Process(Worker* worker, bench::Rng* rng, bool keep) {
  const Source* source = &worker->sources[rng->Below(worker->source_count)];
  Node* document = Parse(source->blanks.View());
  CheckCounts(document, source->counts);
  CheckText(document, source->canonical);

  Node* mapped = Map(document);
  Node* filtered = Filter(mapped);
  Counts counts = source->counts;
  counts.of[kNull] = document->kind == kNull;
  std::swap(counts.of[kFalse], counts.of[kTrue]);
  CheckCounts(filtered, counts);
  Buffer text;
  AppendDocument(&text, filtered);
  worker->checksum += Hash(text.View());
  worker->nodes += source->counts.Total();

  if (!keep) return;
  Kept* kept = &worker->window[rng->Below(worker->window_size)];
  CheckKept(*kept);
  *kept = {mapped, source};
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t operations, texts, max_nodes, window, keep_every;
  bench::RandomWork work;
  bench::Options options("json_documents", "documents like JSON are parsed, mapped and written");
  options.Number("operations", &operations, 3'000, 100, 1, UINT64_C(1) << 40,
                 "documents, by each thread");
  options.Number("texts", &texts, 64, 16, 1, 1 << 20, "different texts of each thread");
  options.Number("nodes", &max_nodes, 8'192, 1'024, kMinNodes, 1 << 24, "of the largest documents");
  options.Number("window", &window, 600, 20, 1, 1 << 24, "documents kept, over all threads");
  options.Number("keep-every", &keep_every, 2, 2, 1, UINT64_MAX, "documents, of which one is kept");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  operations = work.Scaled(operations);
  const auto threads = static_cast<uint64_t>(options.threads());

  bench::InitGc(options);
  bench::RunThreads(options.threads(), [&](int t) {
    Generate(&g_workers[t], work.SeedOf(t), texts, max_nodes, (window + threads - 1) / threads);
  });
  const bench::Measurement measurement = bench::RunThreads(options.threads(), [&](int t) {
    bench::Rng rng(~work.SeedOf(t));
    for (uint64_t i = 0; i < operations; ++i) Process(&g_workers[t], &rng, i % keep_every == 0);
  });

  uint64_t nodes = 0;
  uint64_t checksum = 0;
  for (uint64_t t = 0; t < threads; ++t) {
    const Worker& worker = g_workers[t];
    for (uint64_t i = 0; i < worker.window_size; ++i) CheckKept(worker.window[i]);
    nodes += worker.nodes;
    checksum += worker.checksum;
  }
  bench::ResultLine result("json_documents");
  result.Real("nodes_per_second", static_cast<double>(nodes) / measurement.seconds);
  bench::PrintRun(options, measurement, static_cast<double>(operations * threads), checksum,
                  &result);
}
