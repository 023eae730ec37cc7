// Threads need memory one after the other: in each round one of them builds a list, checks it and
// drops it, and the heap is collected; the others wait. What a thread has freed can serve the next
// one only if free pages move between threads, which is what the policies differ in (Endo's thesis:
// the worst case of AL is the need times the number of threads).
#define GC_THREADS
#include <cstdint>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"

namespace {

struct Item {
  Item* next;
  uint64_t value;
  uint64_t unused[6];
};

struct Parameters {
  uint64_t items;
  uint64_t rounds;
  uint64_t threads;
  bench::RandomWork work;
};

// Static, so that it is rooted. The thread whose round it is writes it, between two barriers.
Item* g_list;
uint64_t g_checksum;

uint64_t ValueOf(uint64_t seed, uint64_t number) { return bench::Mix64(seed + number); }

void Build(uint64_t items, uint64_t seed) {
  for (uint64_t i = 0; i < items; ++i) {
    bench::RecordProgress();
    auto* item = static_cast<Item*>(GC_malloc(sizeof(Item)));
    if (item == nullptr) bench::Fail("no memory for %lu items", items);
    item->next = g_list;
    item->value = ValueOf(seed, i);
    g_list = item;
  }
}

// The youngest item is the first of the list.
void Check(uint64_t items, uint64_t seed) {
  uint64_t left = items;
  for (const Item* item = g_list; item != nullptr; item = item->next) {
    if (left == 0 || item->value != ValueOf(seed, --left)) bench::Fail("an item is damaged");
    g_checksum += item->value;
  }
  if (left != 0) bench::Fail("%lu of %lu items are missing", left, items);
}

void Run(const Parameters& parameters, uint64_t thread) {
  for (uint64_t round = 0; round < parameters.rounds; ++round) {
    if (round % parameters.threads == thread) {
      const uint64_t seed = bench::Mix64(parameters.work.seed) + bench::Mix64(round + 1);
      Build(parameters.items, seed);
      Check(parameters.items, seed);
      g_list = nullptr;
      bench::ClearDeadStack();
      GC_gcollect();
    }
    bench::WaitForAll();
  }
}

}  // namespace

int main(int argc, char** argv) {
  Parameters parameters;
  uint64_t megabytes;
  bench::Options options("relay", "threads need memory one after the other");
  options.Number("megabytes", &megabytes, 40, 1, 1, 1 << 20, "of the list of each round");
  options.Number("rounds", &parameters.rounds, 32, 4, 1, UINT64_C(1) << 32,
                 "lists, by all threads");
  options.SeedAndScale(&parameters.work);
  options.Parse(argc, argv);
  parameters.items = megabytes * 1'000'000 / sizeof(Item);
  parameters.rounds = parameters.work.Scaled(parameters.rounds);
  parameters.threads = static_cast<uint64_t>(options.threads());

  bench::InitGc(options);
  const bench::Measurement measurement = bench::RunThreads(
      options.threads(), [&](int t) { Run(parameters, static_cast<uint64_t>(t)); });

  bench::ResultLine result("relay");
  bench::PrintRun(options, measurement, static_cast<double>(parameters.items * parameters.rounds),
                  g_checksum, &result);
}
