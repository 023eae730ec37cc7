// Indexes of the normal form and questions about it; see cky_grammar.h. The reader of the file is
// in cky_reader.cc.
#include "cky_grammar.h"

#include <algorithm>
#include <cstdio>

namespace cky {

void Grammar::Index() {
  by_left_.resize(symbols());
  by_right_.resize(symbols());
  by_child_.resize(symbols());
  by_word_.resize(words());
  partners_.resize(symbols());
  for (const BinaryRule& rule : binary_) {
    by_left_[rule.left].push_back(rule);
    by_right_[rule.right].push_back(rule);
    partners_[rule.left].Add(rule.right);
  }
  for (std::vector<BinaryRule>& rules : by_left_) {
    std::sort(rules.begin(), rules.end(), [](const BinaryRule& a, const BinaryRule& b) {
      return a.right != b.right ? a.right < b.right : a.parent < b.parent;
    });
  }
  for (const UnaryRule& rule : unary_) by_child_[rule.child].push_back(rule);
  for (const LexicalRule& rule : lexical_) by_word_[rule.word].push_back(rule);
}

bool Grammar::HasRule(Symbol parent, const Symbol* children, size_t count) const {
  std::vector<Symbol> rule{parent};
  rule.insert(rule.end(), children, children + count);
  return rules_.contains(rule);
}

bool Grammar::HasLexicalRule(Symbol parent, Word word) const {
  const std::vector<LexicalRule>& rules = by_word_[word];
  return std::any_of(rules.begin(), rules.end(),
                     [&](const LexicalRule& rule) { return rule.parent == parent; });
}

size_t Grammar::ReportUseless() const {
  SymbolSet productive, reachable;
  for (const LexicalRule& rule : lexical_) productive.Add(rule.parent);
  reachable.Add(start_);
  // Each round but the last one adds a symbol to one of the sets.
  for (size_t round = 0; round < 2 * symbols(); ++round) {
    for (const UnaryRule& rule : unary_) {
      if (productive.Has(rule.child)) productive.Add(rule.parent);
      if (reachable.Has(rule.parent)) reachable.Add(rule.child);
    }
    for (const BinaryRule& rule : binary_) {
      if (productive.Has(rule.left) && productive.Has(rule.right)) productive.Add(rule.parent);
      if (!reachable.Has(rule.parent)) continue;
      reachable.Add(rule.left);
      reachable.Add(rule.right);
    }
  }
  size_t useless = 0;
  for (Symbol s = 0; s < symbols(); ++s) {
    if (IsSuffix(s) || (productive.Has(s) && reachable.Has(s))) continue;
    ++useless;
    std::fprintf(
        stderr, "%s %s\n", names_[s].c_str(),
        productive.Has(s) ? "is in no rule that starts from the first symbol" : "derives no words");
  }
  return useless;
}

}  // namespace cky
