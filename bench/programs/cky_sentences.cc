// Sampling by the inside weights of each symbol and length; see cky_sentences.h.
#include "cky_sentences.h"

#include <cmath>

namespace cky {

SentenceSampler::SentenceSampler(const Grammar& grammar, size_t max_words)
    : grammar_(grammar),
      symbols_(grammar.symbols()),
      max_words_(max_words),
      masses_((max_words + 1) * symbols_),
      binary_(symbols_),
      unary_(symbols_),
      lexical_(symbols_) {
  for (const BinaryRule& rule : grammar.binary()) binary_[rule.parent].push_back(rule);
  for (const UnaryRule& rule : grammar.unary()) unary_[rule.parent].push_back(rule);
  for (const LexicalRule& rule : grammar.lexical()) lexical_[rule.parent].push_back(rule);
  for (const LexicalRule& rule : grammar.lexical()) Mass(1, rule.parent) += rule.weight;
  for (size_t length = 1; length <= max_words; ++length) {
    for (const BinaryRule& rule : grammar.binary()) {
      long double sum = 0;
      for (size_t left = 1; left < length; ++left) {
        sum += Mass(left, rule.left) * Mass(length - left, rule.right);
      }
      Mass(length, rule.parent) += rule.weight * sum;
    }
    for (Symbol child = 0; child < symbols_; ++child) {
      for (const UnaryRule& rule : grammar.WithChild(child)) {
        Mass(length, rule.parent) += rule.weight * Mass(length, child);
      }
    }
  }
  for (const long double mass : masses_) {
    if (!std::isfinite(mass)) {
      bench::Fail("the weights of derivations of %zu words overflow", max_words);
    }
  }
}

Sentence SentenceSampler::Draw(size_t min_words, bench::Rng* rng) const {
  std::vector<size_t> lengths;
  for (size_t length = min_words; length <= max_words_; ++length) {
    if (Mass(length, grammar_.start()) > 0) lengths.push_back(length);
  }
  if (lengths.empty()) {
    bench::Fail("the grammar has no sentence of %zu to %zu words", min_words, max_words_);
  }
  Sentence sentence;
  Derive(grammar_.start(), lengths[rng->Below(lengths.size())], rng, &sentence);
  return sentence;
}

// Subtracts the mass of one choice after another from a random part of the symbol's mass. Where
// rounding leaves more than all choices, it draws again.
void SentenceSampler::Derive(Symbol symbol, size_t length, bench::Rng* rng,
                             Sentence* sentence) const {
  long double rest = Mass(length, symbol) * rng->Unit();
  const auto takes = [&rest](long double mass) {
    rest -= mass;
    return rest < 0;
  };
  if (length == 1) {
    for (const LexicalRule& rule : lexical_[symbol]) {
      if (takes(rule.weight)) return sentence->push_back(rule.word);
    }
  }
  for (const UnaryRule& rule : unary_[symbol]) {
    if (takes(rule.weight * Mass(length, rule.child))) {
      return Derive(rule.child, length, rng, sentence);
    }
  }
  for (const BinaryRule& rule : binary_[symbol]) {
    for (size_t left = 1; left < length; ++left) {
      if (takes(rule.weight * Mass(left, rule.left) * Mass(length - left, rule.right))) {
        Derive(rule.left, left, rng, sentence);
        return Derive(rule.right, length - left, rng, sentence);
      }
    }
  }
  Derive(symbol, length, rng, sentence);
}

}  // namespace cky
