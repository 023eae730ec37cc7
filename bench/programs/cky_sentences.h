// Random sentences of a grammar, and what a parser finds in a sentence: nothing here is in
// collected memory.
#ifndef GLEANER_BENCH_CKY_SENTENCES_H_
#define GLEANER_BENCH_CKY_SENTENCES_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench_util.h"
#include "cky_grammar.h"

namespace cky {

using Sentence = std::vector<Word>;

// Numbers of parses grow exponentially with the length; they are counted modulo this prime.
inline constexpr uint64_t kPrime = (UINT64_C(1) << 61) - 1;

inline uint64_t AddModulo(uint64_t a, uint64_t b) {
  const uint64_t sum = a + b;
  return sum >= kPrime ? sum - kPrime : sum;
}

inline uint64_t MultiplyModulo(uint64_t a, uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const Wide product = static_cast<Wide>(a) * b;
  return AddModulo(static_cast<uint64_t>(product) & kPrime, static_cast<uint64_t>(product >> 61));
}

// What the table of a sentence holds.
struct Findings {
  uint64_t items = 0;        // Pairs of a span and a symbol that derives it.
  uint64_t derivations = 0;  // Ways to make an item of its parts, all items together.
  uint64_t trees = 0;        // Parse trees of the start symbol over all words, modulo kPrime.
};

// Draws derivations of a given length at random, each with a probability in proportion to the
// product of the weights of its rules.
class SentenceSampler {
 public:
  SentenceSampler(const Grammar& grammar, size_t max_words);

  // Lengths from min_words to max_words are equally likely, where the grammar has sentences of
  // that length. Fails if it has none of any of them.
  Sentence Draw(size_t min_words, bench::Rng* rng) const;

 private:
  // The sum of the weights of all derivations of `length` words from the symbol.
  long double& Mass(size_t length, Symbol symbol) { return masses_[length * symbols_ + symbol]; }
  long double Mass(size_t length, Symbol symbol) const {
    return masses_[length * symbols_ + symbol];
  }
  void Derive(Symbol symbol, size_t length, bench::Rng* rng, Sentence* sentence) const;

  const Grammar& grammar_;
  const size_t symbols_;
  const size_t max_words_;
  std::vector<long double> masses_;
  // Rules by their parent.
  std::vector<std::vector<BinaryRule>> binary_;
  std::vector<std::vector<UnaryRule>> unary_;
  std::vector<std::vector<LexicalRule>> lexical_;
};

}  // namespace cky

#endif  // GLEANER_BENCH_CKY_SENTENCES_H_
