// Sampling by the inside weights of each symbol and length, and the table of parses without
// collected memory; see cky_sentences.h.
#include "cky_sentences.h"

#include <cmath>

namespace cky {
namespace {

// One symbol of a span and its number of trees.
struct Entry {
  Symbol symbol;
  uint64_t trees;
};

// The symbols of a span that begins where the current row does.
struct DenseCell {
  SymbolSet present;
  std::vector<uint64_t> trees;
};

// Rows of spans with the same beginning, from the last word to the first one. The parser goes by
// growing end and by the left part of a rule; this goes by falling beginning and by the right part.
class Counter {
 public:
  Counter(const Grammar& grammar, const Sentence& sentence)
      : grammar_(grammar), sentence_(sentence), rows_(sentence.size()) {}

  Findings Run() {
    const size_t words = sentence_.size();
    for (size_t begin = words; begin-- > 0;) FillRow(begin);
    findings_.trees = row_[words].trees[grammar_.start()];
    return findings_;
  }

 private:
  void FillRow(size_t begin) {
    const size_t words = sentence_.size();
    row_.assign(words + 1, DenseCell{{}, std::vector<uint64_t>(grammar_.symbols())});
    rows_[begin].resize(words + 1);
    for (size_t end = begin + 1; end <= words; ++end) FillSpan(begin, end);
  }

  void FillSpan(size_t begin, size_t end) {
    DenseCell& cell = row_[end];
    if (end == begin + 1) {
      for (const LexicalRule& rule : grammar_.WithWord(sentence_[begin]))
        Add(&cell, rule.parent, 1);
    }
    for (size_t middle = begin + 1; middle < end; ++middle) {
      const DenseCell& left = row_[middle];
      for (const Entry& right : rows_[middle][end]) {
        for (const BinaryRule& rule : grammar_.WithRight(right.symbol)) {
          if (!left.present.Has(rule.left)) continue;
          Add(&cell, rule.parent, MultiplyModulo(left.trees[rule.left], right.trees));
        }
      }
    }
    for (Symbol s = 0; s < grammar_.symbols(); ++s) {
      if (!cell.present.Has(s)) continue;
      for (const UnaryRule& rule : grammar_.WithChild(s)) Add(&cell, rule.parent, cell.trees[s]);
      rows_[begin][end].push_back({s, cell.trees[s]});
      ++findings_.items;
    }
  }

  void Add(DenseCell* cell, Symbol symbol, uint64_t trees) {
    cell->present.Add(symbol);
    cell->trees[symbol] = AddModulo(cell->trees[symbol], trees);
    ++findings_.derivations;
  }

  const Grammar& grammar_;
  const Sentence& sentence_;
  std::vector<DenseCell> row_;                         // By the end of the span.
  std::vector<std::vector<std::vector<Entry>>> rows_;  // By beginning and end.
  Findings findings_;
};

}  // namespace

Findings FindingsOf(const Grammar& grammar, const Sentence& sentence) {
  return Counter(grammar, sentence).Run();
}

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
