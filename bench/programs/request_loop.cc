// A server's loop: requests arrive at a given rate, whether or not earlier ones are done, and each
// thread serves its own, in order. Latency counts from the instant at which a request was due, so a
// pause is noticed by all that should have been served meanwhile (no coordinated omission).
//
// A thread's sessions are a table of lists of records, of --megabytes in all. A request drops the
// older half of one session's records and appends as many new ones, building and reading a tree of
// short-lived nodes in between; so both old and new objects are written to.
#define GC_THREADS
#include <time.h>

#include <cmath>
#include <cstdint>

#include "bench_util.h"
#include "gc.h"
#include "gc_run.h"
#include "latency_histogram.h"

namespace {

constexpr uint64_t kRecords = 16;  // of a session
constexpr uint64_t kDataWords = 12;
constexpr int kTreeDepth = 5;
constexpr uint64_t kSpinNs = 60'000;  // a sleep may end so much later than it should

struct Record {
  Record* next;
  uint64_t id;
  uint64_t* data;
};

struct Node {
  Node* left;
  Node* right;
  uint64_t value;
};

struct Session {
  Record* oldest;
  Record* newest;
  uint64_t served;
};

// Owner thread only. In static data, so that the sessions are rooted.
struct alignas(128) Server {
  Session** sessions;
  uint64_t count;
  uint64_t checksum;
};
Server g_servers[bench::kMaxThreads];

constexpr uint64_t kBytesPerSession =
    sizeof(Session) + 8 + kRecords * (32 + 8 * kDataWords);  // a record takes 32

Record* NewRecord(uint64_t id) {
  auto* record = static_cast<Record*>(GC_malloc(sizeof(Record)));
  record->data = static_cast<uint64_t*>(GC_malloc_atomic(kDataWords * sizeof(uint64_t)));
  for (uint64_t i = 0; i < kDataWords; ++i) record->data[i] = bench::Mix64(id + i);
  record->id = id;
  return record;
}

void Append(Session* session, Record* record) {
  (session->newest != nullptr ? session->newest->next : session->oldest) = record;
  session->newest = record;
}

Node* BuildTree(int depth, uint64_t seed) {
  auto* node = static_cast<Node*>(GC_malloc(sizeof(Node)));
  node->value = bench::Mix64(seed);
  if (depth > 0) {
    node->left = BuildTree(depth - 1, 2 * seed);
    node->right = BuildTree(depth - 1, 2 * seed + 1);
  }
  return node;
}

uint64_t SumTree(const Node* node) {
  return node == nullptr ? 0 : node->value + SumTree(node->left) + SumTree(node->right);
}

void Fill(Server* server, uint64_t sessions) {
  server->count = sessions;
  server->sessions = static_cast<Session**>(GC_malloc(sessions * sizeof(Session*)));
  for (uint64_t s = 0; s < sessions; ++s) {
    auto* session = static_cast<Session*>(GC_malloc(sizeof(Session)));
    server->sessions[s] = session;
    for (uint64_t i = 0; i < kRecords; ++i) Append(session, NewRecord(s + i));
  }
}

uint64_t Serve(Session* session, uint64_t request) {
  for (uint64_t i = 0; i < kRecords / 2; ++i) session->oldest = session->oldest->next;
  uint64_t sum = SumTree(BuildTree(kTreeDepth, request));
  for (uint64_t i = 0; i < kRecords / 2; ++i) Append(session, NewRecord(request + i));
  uint64_t records = 0;
  for (const Record* record = session->oldest; record != nullptr; record = record->next) {
    if (record->data[1] != bench::Mix64(record->id + 1)) bench::Fail("a record is damaged");
    sum += record->data[0];
    ++records;
  }
  if (records != kRecords) bench::Fail("a session has %lu records", records);
  ++session->served;
  return sum;
}

void WaitUntil(uint64_t due_ns) {
  const uint64_t now = bench::NowNs();
  if (now + kSpinNs < due_ns) {
    const uint64_t wake = due_ns - kSpinNs;
    const timespec until{static_cast<time_t>(wake / 1'000'000'000),
                         static_cast<long>(wake % 1'000'000'000)};
    // An early return, by a signal, is made good by the loop.
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr);
  }
  while (bench::NowNs() < due_ns) {
  }
}

void Run(Server* server, uint64_t seed, uint64_t requests, double rate,
         bench::LatencyHistogram* latencies) {
  bench::Rng rng(seed);
  const uint64_t began_ns = bench::NowNs();
  double due = 0;  // seconds since the beginning
  for (uint64_t i = 0; i < requests; ++i) {
    // Poisson: the gaps are exponential.
    due -= std::log(1 - rng.Unit()) / rate;
    const uint64_t due_ns = began_ns + static_cast<uint64_t>(due * 1e9);
    WaitUntil(due_ns);
    server->checksum += Serve(server->sessions[rng.Below(server->count)], rng.Next());
    latencies->Record(bench::NowNs() - due_ns);
  }
}

}  // namespace

int main(int argc, char** argv) {
  uint64_t seconds, rate, megabytes;
  bench::RandomWork work;
  bench::Options options("request_loop", "latency of requests that arrive at a given rate");
  options.Number("seconds", &seconds, 20, 1, 1, 86'400, "how long requests keep arriving");
  options.Number("rate", &rate, 20'000, 2'000, 1, 10'000'000, "requests a second for each thread");
  options.Number("megabytes", &megabytes, 400, 8, 1, 1 << 20, "live data of all threads");
  options.SeedAndScale(&work);
  options.Parse(argc, argv);
  const int threads = options.threads();
  const uint64_t sessions =
      megabytes * 1'000'000 / kBytesPerSession / static_cast<uint64_t>(threads);
  if (sessions == 0)
    bench::Fail("--megabytes %lu is too little for %d threads", megabytes, threads);

  bench::InitGc(options);
  std::vector<bench::LatencyHistogram> latencies(static_cast<size_t>(threads));
  bench::RunThreads(threads, [&](int t) { Fill(&g_servers[t], sessions); });
  const bench::Measurement measurement = bench::RunThreads(threads, [&](int t) {
    const auto thread = static_cast<size_t>(t);
    Run(&g_servers[t], work.SeedOffset() + 1 + thread, work.Scaled(seconds * rate),
        static_cast<double>(rate), &latencies[thread]);
  });

  uint64_t checksum = 0;
  for (int t = 0; t < threads; ++t) checksum += g_servers[t].checksum;
  for (int t = 1; t < threads; ++t) latencies[0].Add(latencies[static_cast<size_t>(t)]);
  bench::ResultLine result("request_loop");
  result.Count("threads", static_cast<uint64_t>(threads));
  result.Count("requests", latencies[0].count());
  latencies[0].AddTo(&result, "request");
  result.Hex("checksum", checksum);
  bench::AddGcResult(measurement, &result);
  result.Print();
}
