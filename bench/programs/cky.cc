// CKY, the context-free parser of Endo's thesis: it finds all parses of all substrings of 200
// sentences, which are drawn at random from a grammar of English (cky_english.h).
// Threads take one sentence after another. The run fails if a tree of a forest breaks a rule.
#include <atomic>
#include <cstdint>
#include <vector>

#include "bench_util.h"
#include "cky_grammar.h"
#include "cky_parser.h"
#include "cky_sentences.h"
#include "gc_run.h"

namespace {

struct Parameters {
  bench::RandomWork work;
  uint64_t sentences;
  uint64_t min_words;
  uint64_t max_words;
};

// Nothing here is collected.
struct Work {
  std::vector<cky::Sentence> sentences;
  std::vector<cky::Findings> found;  // By sentence.
  std::atomic<uint64_t> next;
};

void DrawSentences(const Parameters& parameters, const cky::Grammar& grammar, Work* work) {
  const cky::SentenceSampler sampler(grammar, parameters.max_words);
  bench::Rng rng(parameters.work.seed);
  for (uint64_t i = 0; i < parameters.sentences; ++i) {
    work->sentences.push_back(sampler.Draw(parameters.min_words, &rng));
  }
  work->found.resize(parameters.sentences);
}

void ParseSentences(const cky::Grammar& grammar, uint64_t seed, Work* work) {
  cky::Parser parser(grammar);
  for (uint64_t i; (i = work->next++) < work->sentences.size();) {
    bench::Rng rng(seed + i);
    work->found[i] = parser.Parse(work->sentences[i], &rng);
  }
}

cky::Findings TotalOf(const Work& work, uint64_t* checksum) {
  cky::Findings total;
  for (const cky::Findings& found : work.found) {
    total.items += found.items;
    total.derivations += found.derivations;
    total.trees = cky::AddModulo(total.trees, found.trees);
    for (uint64_t value : {found.items, found.derivations, found.trees}) {
      *checksum = bench::Mix64(*checksum ^ value);
    }
  }
  return total;
}

Parameters ParseOptions(bench::Options* options, int argc, char** argv) {
  Parameters parameters;
  options->Number("sentences", &parameters.sentences, 200, 12, 1, 1'000'000, "sentences");
  options->Number("min-words", &parameters.min_words, 36, 10, 1, 500, "words of the shortest");
  options->Number("max-words", &parameters.max_words, 100, 30, 1, 500, "words of the longest");
  options->SeedAndScale(&parameters.work);
  options->Parse(argc, argv);
  if (parameters.min_words > parameters.max_words) {
    bench::Fail("--min-words %lu is more than --max-words %lu", parameters.min_words,
                parameters.max_words);
  }
  parameters.sentences = parameters.work.Scaled(parameters.sentences);
  if (parameters.sentences > 1'000'000'000) {
    bench::Fail("--sentences times --scale is more than 1e9");
  }
  return parameters;
}

}  // namespace

int main(int argc, char** argv) {
  bench::Options options("cky", "all parses of sentences, bottom-up, with a collected table");
  const Parameters parameters = ParseOptions(&options, argc, argv);
  const cky::Grammar grammar;

  Work work;
  DrawSentences(parameters, grammar, &work);
  bench::InitGc(options);
  work.next = 0;
  const bench::Measurement measurement = bench::RunThreads(
      options.threads(), [&](int) { ParseSentences(grammar, parameters.work.seed, &work); });

  uint64_t words = 0;
  for (const cky::Sentence& sentence : work.sentences) words += sentence.size();
  uint64_t checksum = 0;
  const cky::Findings total = TotalOf(work, &checksum);
  bench::ResultLine result("cky");
  result.Count("threads", static_cast<uint64_t>(options.threads()));
  result.Count("rules", grammar.rules());
  result.Count("sentences", parameters.sentences);
  result.Count("words", words);
  result.Count("items", total.items);
  result.Count("derivations", total.derivations);
  result.Count("trees_modulo", total.trees);
  result.Real("derivations_per_second",
              static_cast<double>(total.derivations) / measurement.seconds);
  result.Hex("checksum", checksum);
  bench::AddGcResult(measurement, &result);
  result.Print();
}
