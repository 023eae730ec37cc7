// The grammar of the CKY program: the table of cky_english.h in the normal form that the parser
// needs.
//
// Normal form: a rule has two symbols, one symbol, or one word on its right-hand side. A longer
// rule A -> B C D becomes A -> B <C D> and <C D> -> C D, where all rules that end in C D share the
// symbol <C D>. A word of a rule is a symbol that has that word alone. Neither changes the number
// of parses. Unary rules stay as they are, and no cycle consists of them alone, so a sentence has
// finitely many parses.
//
// Symbols are numbered so that the child of a unary rule is less than its parent.
// Thread-safety: a Grammar does not change once it is made.
#ifndef GLEANER_BENCH_CKY_GRAMMAR_H_
#define GLEANER_BENCH_CKY_GRAMMAR_H_

#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace cky {

using Symbol = uint16_t;
using Word = uint32_t;

inline constexpr size_t kMaxSymbols = 512;
inline constexpr size_t kMaxRuleLength = 16;  // Symbols on a right-hand side of the table.

// Symbols as bits.
class SymbolSet {
 public:
  bool Has(Symbol symbol) const { return (bits_[symbol / 64] >> (symbol % 64) & 1) != 0; }
  void Add(Symbol symbol) { bits_[symbol / 64] |= UINT64_C(1) << (symbol % 64); }
  void AddAll(const SymbolSet& other) {
    for (size_t i = 0; i < kParts; ++i) bits_[i] |= other.bits_[i];
  }
  bool Intersects(const SymbolSet& other) const {
    uint64_t common = 0;
    for (size_t i = 0; i < kParts; ++i) common |= bits_[i] & other.bits_[i];
    return common != 0;
  }

 private:
  static constexpr size_t kParts = kMaxSymbols / 64;
  uint64_t bits_[kParts] = {};
};

struct BinaryRule {
  Symbol parent, left, right;
  double weight;
};

struct UnaryRule {
  Symbol parent, child;
  double weight;
};

struct LexicalRule {
  Symbol parent;
  Word word;
  double weight;
};

class Grammar {
 public:
  Grammar();

  size_t symbols() const { return names_.size(); }
  // How many rules the table has, a word of a list being one.
  size_t rules() const { return rules_.size() + lexical_.size(); }
  Symbol start() const { return start_; }

  const std::string& NameOf(Symbol symbol) const { return names_[symbol]; }
  // True for <C D>, which no rule of the table names.
  bool IsSuffix(Symbol symbol) const { return suffixes_.Has(symbol); }

  const std::vector<BinaryRule>& binary() const { return binary_; }
  const std::vector<UnaryRule>& unary() const { return unary_; }
  const std::vector<LexicalRule>& lexical() const { return lexical_; }

  // Rules by what is on their right-hand sides; those of a left symbol ascend by the right one.
  const std::vector<BinaryRule>& WithLeft(Symbol left) const { return by_left_[left]; }
  const std::vector<UnaryRule>& WithChild(Symbol child) const { return by_child_[child]; }
  const std::vector<LexicalRule>& WithWord(Word word) const { return by_word_[word]; }
  // The symbols that a rule has to the right of `left`.
  const SymbolSet& PartnersOf(Symbol left) const { return partners_[left]; }

  // Whether the table has the rule parent -> children[0] ... children[count - 1].
  bool HasRule(Symbol parent, const Symbol* children, size_t count) const;
  bool HasLexicalRule(Symbol parent, Word word) const;

 private:
  friend class Normaliser;

  void Index();

  std::vector<std::string> names_;
  SymbolSet suffixes_;
  Symbol start_ = 0;
  std::set<std::vector<Symbol>> rules_;  // As in the table: the parent, then the children.
  std::vector<BinaryRule> binary_;
  std::vector<UnaryRule> unary_;
  std::vector<LexicalRule> lexical_;
  std::vector<std::vector<BinaryRule>> by_left_;
  std::vector<std::vector<UnaryRule>> by_child_;
  std::vector<std::vector<LexicalRule>> by_word_;
  std::vector<SymbolSet> partners_;
};

}  // namespace cky

#endif  // GLEANER_BENCH_CKY_GRAMMAR_H_
